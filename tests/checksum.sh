# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# shellcheck disable=SC2154 # KP_TMP
#
# What the tests of the checksum engine share: `. tests/checksum.sh` after tests/lib.sh.
need_engine checksum
need_command jq

# shellcheck disable=SC2034 # for the tests
csum_variants=$(variants checksum)

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

# busy PID: has it done I/O? One that has not started takes no 20 ms of a CPU.
busy() {
	read -r ran _ 2>/dev/null <"/proc/$1/schedstat" && [ "$ran" -gt 20000000 ]
}

# children PID: the jobs of a fio.
children() { cat "/proc/$1/task/"*/children 2>/dev/null; }

# all_busy FIO: wait until its 4 jobs are. fio itself hangs when one dies before it has started.
# shellcheck disable=SC2046 # process numbers are lists of words
all_busy() {
	tries=0
	while :; do
		ready=0
		for pid in $(children "$1"); do ! busy "$pid" || ready=$((ready + 1)); done
		[ $ready -lt 4 ] || return 0
		tries=$((tries + 1))
		[ $tries -lt $((500 * KP_SLOW)) ] || { kill -9 $(children "$1") "$1" 2>/dev/null; fail "the jobs do not start"; }
		sleep 0.01
	done
}

# survivors WHAT: three jobs of the run ran to its end, nothing failed, nothing took a second (longer
# on a machine that is busy).
survivors() {
	sed -n '/^{/,$p' "$KP_TMP/out" >"$KP_TMP/kill.json"
	grep -q 'got signal=9' "$KP_TMP/err" || fail "$1: nobody was killed"
	jq -e '[.jobs[] | select(.job_runtime >= 2000 and .read.total_ios > 0 and .write.total_ios > 0)]
		| length == 3' "$KP_TMP/kill.json" >/dev/null || fail "$1: not three survivors"
	jq -e '[.jobs[] | .error] | add == 0' "$KP_TMP/kill.json" >/dev/null || fail "$1: errors"
	slowest=$(jq '[.jobs[] | .read.lat_ns.max, .write.lat_ns.max] | max / 1e6 | floor' \
		"$KP_TMP/kill.json")
	[ "$slowest" -lt $((1000 * KP_SLOW)) ] || fail "$1: an I/O took $slowest ms"
}

# kill_round BACKEND POLICY: one of 4 jobs is killed with I/O in flight; the others go on within a
# second, no sum is wrong afterwards, and none is missing but those of what the dead was writing.
kill_round() {
	rm -f "$KP_TMP/k.sums" "$KP_TMP/c.json"
	csum --name=fill --filename=kill.tmp --size=4m --rw=write --bs=64k --sums=k.sums
	(cd "$KP_TMP" && exec $FIO --name=kill --ioengine="$(engine checksum)" --backend="$1" \
		--policy="$2" --filename=kill.tmp --size=4m --rw=randrw --bsrange=512-64k \
		--blockalign=512 --norandommap --randrepeat=0 --iodepth=32 --numjobs=4 \
		--time_based --runtime=2 --output-format=json --sums=k.sums --counters=c.json) \
		>"$KP_TMP/out" 2>"$KP_TMP/err" &
	fio=$!
	all_busy $fio
	sleep 0.$(($(od -An -N1 -tu1 /dev/urandom) % 7))
	# shellcheck disable=SC2046 # words
	set -- "$1" "$2" $(children $fio)
	kill -9 "$3"
	wait $fio || { fio_said; fail "$1 $2: fio failed after a job was killed"; }
	said_nothing
	survivors "$1 $2"
	equal "mismatches, $1 $2" "$(counter "$KP_TMP/c.json" csum_mismatches)" 0
	lost=$(counter "$KP_TMP/c.json" csums_lost)
	all_match kill.tmp k.sums $((1024 - lost))
	say "$1 $2: the slowest I/O took $slowest ms, $lost sums lost"
}
