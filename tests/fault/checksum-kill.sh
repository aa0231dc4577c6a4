# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# kill -9 of a job with I/O in flight: the others go on, no sum of finished writes is wrong. The
# 100 rounds are in tests/long/checksum-kill.sh.
. tests/lib.sh
. tests/checksum.sh
[ -z "$KP_SANITIZE" ] || skip "the preloading script is the parent of the jobs"

kill_round libaio async
kill_round io_uring inline
