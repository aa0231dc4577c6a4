#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Live: of 40 comparisons of equal settings at most 4 are wrong and at most 20 % undecided; a known
# 10 % (the null device's latency) is found in at least 36 of 40.
# time limit: 7200
. tests/lib.sh
. tests/kpolicy.sh
need_command jq

cd "$KP_TMP"
reader job.fio
many() { # LATENCY
	faster=0 slower=0 none=0 undecided=0
	for _ in $(seq 40); do
		kpolicy_run 0 compare job.fio "$(latency 1000000)" "$(latency "$1")" --rounds 12 --quiet \
			--runtime 500ms --format json
		case $(verdict) in
		faster) faster=$((faster + 1)) ;;
		slower) slower=$((slower + 1)) ;;
		"no difference") none=$((none + 1)) ;;
		*) undecided=$((undecided + 1)) ;;
		esac
	done
	say "1000000 ns against $1 ns: $faster faster, $slower slower, $none no difference," \
		"$undecided undecided"
}
many 1000000
[ $((faster + slower)) -le 4 ] || fail "more than 4 of 40 equal ones are wrong"
[ $undecided -le 8 ] || fail "more than 20 % of the equal ones are undecided"
many 1100000
[ $slower -ge 36 ] || fail "10 % was found in $slower of 40"
