#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The long forms of the lock's unit tests: more interleavings, millions of operations, 20 kills at
# each step.
# time limit: 3600
. "$KP_TOP/tests/lib.sh"
export KP_LONG=1 KP_ROUNDS="${KP_ROUNDS:-1000000}"
for t in test_rwsem_interleavings test_rwsem; do
	[ -x "tests/unit/$t" ] || make -s "tests/unit/$t"
	"tests/unit/$t"
done
