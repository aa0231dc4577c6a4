#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The first jobs of tests/fault/torture, as many as fit into a minute, which are the same each time.
# More, and others: KP_RUNS=5000 KP_SEED=N tests/fault/torture.
# time limit: 240
. "$KP_TOP/tests/lib.sh"
need_engine split diolock checksum blocksize writeback
need_command jq cksum seq
KP_SEED=${KP_SEED:-1} KP_SECONDS=${KP_SECONDS:-40} KP_JOBS=2 "$KP_TOP/tests/fault/torture"
