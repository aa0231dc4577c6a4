#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# What kpolicy makes of a run in which something failed. I/Os after which the job goes on, as
# continue_on_error asks, are reported by variant; a job that a signal ended, of which fio's JSON
# shows nothing and its exit status neither, is a failed run.
. tests/lib.sh
. tests/kpolicy.sh
need_engine split writeback diolock
need_command jq

job() { # LINE...
	{
		echo '[j]'
		printf '%s\n' filename=kpolicy.file bs=4k "$@"
	} >"$KP_TMP/j.fio"
}

# Bad sectors for one variant alone
job rw=randread size=4m continue_on_error=all
kpolicy_run 0 compare j.fio split:none split:fast,null_badblocks=100-120 --set backend=null \
	--rounds 6 --format json
wanted='split:fast,null_badblocks=100-120: 24 I/Os failed in 6 runs and the jobs went on: Input/output error'
said=$(jq -r '.. | strings | select(contains("went on"))' "$KP_TMP/out")
equal "what is said" "$said" "$wanted"
# Without continue_on_error it is no run
job rw=randread size=4m
kpolicy_run 2 compare j.fio split:none split:fast,null_badblocks=100-120 --set backend=null --rounds 6
grep -q 'Input/output error' "$KP_TMP/err" || { cat "$KP_TMP/err"; fail "no word of the error"; }

# SIGXFSZ: the job writes beyond what the shell allows.
signalled() {
	rm -f "$KP_TMP/kpolicy.file"
	status=0
	(ulimit -f 1000 && cd "$KP_TMP" && exec "$KPOLICY" "$@" --rounds 6) >"$KP_TMP/out" 2>"$KP_TMP/err" || status=$?
	equal "exit status of kpolicy $*" $status 2
	grep -Eq 'signal[= ]25' "$KP_TMP/err" || { cat "$KP_TMP/err"; fail "no word of the signal: $*"; }
}
for lines in 'rw=write' 'rw=write thread=1' 'rw=randrw' 'rw=write continue_on_error=all'; do
	# shellcheck disable=SC2086 # words
	job size=4m fallocate=none $lines
	signalled compare j.fio split:clone split:fast
	signalled compare j.fio diolock:ext4-4.8 diolock:ext4-4.9,backend=psync
	[ "$lines" = rw=randrw ] || signalled compare j.fio writeback:strict writeback:6.x
done
