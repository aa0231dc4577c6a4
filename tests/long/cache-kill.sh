#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Jobs that share a page cache are killed, 100 rounds at random, 100 of the flusher's owner, 100 of
# all at once, and 30 through fio. time limit: 1800
. tests/lib.sh
[ -z "$KP_SANITIZE" ] || skip 'a killed job and a sanitizer do not go together'

[ -x tests/unit/test_cache_kill ] || make tests/unit/test_cache_kill
KP_ROUNDS=100 CK_TIMEOUT_MULTIPLIER=8 tests/unit/test_cache_kill
KP_ROUNDS=30 . tests/fault/cache-kill.sh
