#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# 5,000 random jobs beside fio's own engines.
# time limit: 14400
export KP_SEED="${KP_SEED:-$(($(date +%s) % 1000000 * 1000))}" KP_RUNS="${KP_RUNS:-5000}"
exec "$KP_TOP/tests/fault/torture"
