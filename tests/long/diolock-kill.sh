#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The long form of tests/fault/diolock-kill.sh.
# time limit: 3000
export KP_ROUNDS="${KP_ROUNDS:-100}"
exec sh "$KP_TOP/tests/fault/diolock-kill.sh"
