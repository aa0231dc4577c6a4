#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The long form of tests/fault/diolock-deadlock.sh: ten minutes.
# time limit: 1500
export KP_MS="${KP_MS:-40000}"
exec sh "$KP_TOP/tests/fault/diolock-deadlock.sh"
