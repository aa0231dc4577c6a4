# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# 100 rounds of tests/fault/checksum-kill.sh.
# time limit: 900
. tests/lib.sh
. tests/checksum.sh
[ -z "$KP_SANITIZE" ] || skip "the preloading script is the parent of the jobs"

round=0
while [ $round -lt 100 ]; do
	backend=$(echo libaio io_uring psync | cut -d' ' -f$((round % 3 + 1)))
	policy=$(echo async inline unsplit_inline async | cut -d' ' -f$((round / 3 % 4 + 1)))
	kill_round "$backend" "$policy"
	round=$((round + 1))
done
say "$round rounds"
