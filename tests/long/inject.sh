#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The long form of tests/fault/inject.sh: 10,000 faults in I/O calls, 12 rounds of the other kinds,
# 10,000 files, 500 jobs.
# time limit: 7200
export KP_FAULTS="${KP_FAULTS:-10000}" KP_ROUNDS="${KP_ROUNDS:-12}"
exec sh "$KP_TOP/tests/fault/inject.sh"
