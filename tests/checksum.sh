# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# shellcheck disable=SC2154 # KP_TMP
#
# What the tests of the checksum engine share: `. tests/checksum.sh` after tests/lib.sh.
need_engine checksum
need_command jq

# shellcheck disable=SC2034 # for the tests
csum_variants="always_async unsplit_inline threshold fast_inline inline async"

# csum ARG...: fio with the engine; counters in $KP_TMP/c.json
csum() { fio_ok --ioengine="$(engine checksum)" --counters=c.json "$@"; }

# said_nothing: no line of ours.
said_nothing() {
	! grep -q '^kpolicy:' "$KP_TMP/err" || { fio_said; fail "a line that is not expected"; }
}

# all_match FILE SUMS SECTORS: what is on the file agrees with the sums that were kept; at least
# SECTORS of it have one.
all_match() {
	csum --name=read --filename="$1" --rw=read --bs=64k --iodepth=8 --policy=inline --sums="$2"
	equal "mismatches in $1" "$(counter "$KP_TMP/c.json" csum_mismatches)" 0
	verified=$(counter "$KP_TMP/c.json" csums_verified)
	[ "$verified" -ge "$3" ] || fail "$1: only $verified sectors have a sum, wanted $3"
}

# overlap BACKEND POLICY THREAD SECONDS [ARG...]: 4 jobs, depth 64, sizes from 512 B, all on one
# small file: no I/O may fail, and at the end every sum matches.
overlap() {
	backend=$1 policy=$2 thread=$3 seconds=$4
	shift 4
	rm -f "$KP_TMP/o.sums"
	csum --name=over --filename=over.tmp --size=4m --rw=randrw --bsrange=512-128k \
		--blockalign=512 --norandommap --randrepeat=0 --iodepth=64 --numjobs=4 \
		--time_based --runtime="$seconds" --backend="$backend" --policy="$policy" \
		--thread="$thread" --raid_profile=raid0 --group_reporting --sums=o.sums "$@"
	said_nothing
	equal "mismatches, $backend $policy" "$(counter "$KP_TMP/c.json" csum_mismatches)" 0
	waits=$(counter "$KP_TMP/c.json" csum_range_wait_count)
	[ "$waits" -gt 0 ] || fail "$backend $policy: nothing overlapped"
	say "$backend $policy thread=$thread: $(counter "$KP_TMP/c.json" ios) I/Os, $waits waited"
	all_match over.tmp o.sums 1000
}

# kill_round BACKEND POLICY: one of 4 jobs is killed with I/O in flight; the others go on, and no
# sum is wrong afterwards.
kill_round() {
	rm -f "$KP_TMP/k.sums" "$KP_TMP/c.json"
	(cd "$KP_TMP" && exec $FIO --name=kill --ioengine="$(engine checksum)" --backend="$1" \
		--policy="$2" --filename=kill.tmp --size=4m --rw=randrw --bsrange=512-64k \
		--blockalign=512 --norandommap --randrepeat=0 --iodepth=32 --numjobs=4 \
		--time_based --runtime=2 --group_reporting --sums=k.sums --counters=c.json) \
		>"$KP_TMP/out" 2>"$KP_TMP/err" &
	fio=$!
	sleep 0.6
	sleep 0.$(($(od -An -N1 -tu1 /dev/urandom) % 7 + 1))
	victim=$(pgrep -P "$fio" | head -n 1)
	[ "$victim" ] || { wait "$fio"; fio_said; fail "no job to kill"; }
	before=$(date +%s)
	kill -9 "$victim"
	wait "$fio" || { fio_said; fail "$1 $2: fio failed after a job was killed"; }
	[ $(($(date +%s) - before)) -lt 10 ] || fail "$1 $2: the others waited"
	said_nothing
	equal "mismatches, $1 $2" "$(counter "$KP_TMP/c.json" csum_mismatches)" 0
	all_match kill.tmp k.sums 1
}
