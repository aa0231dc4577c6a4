#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The long form of tests/fio/diolock-jobs.sh, with 1,024 processes.
# time limit: 900
export KP_LONG=1
exec sh "$KP_TOP/tests/fio/diolock-jobs.sh"
