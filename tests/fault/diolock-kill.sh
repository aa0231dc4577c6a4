#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# SIGKILL to one of several jobs at a random moment: the others go on within a second, whatever it
# held, waited for or had in flight. KP_ROUNDS rounds of every variant (1; make test-long: 100), on
# the null device, and on a real file with everything that a variant treats apart: written,
# unwritten and missing blocks, appends, unaligned writes and discards, asynchronous.
# A job is killed only after each has done I/O: fio itself hangs when one dies before it has started.
# time limit: 6000
# shellcheck disable=SC2046 # process numbers are lists of words
. "$KP_TOP/tests/lib.sh"
need_engine diolock
need_command jq
[ -z "$KP_SANITIZE" ] || skip "a killed job under a sanitizer says so itself"
diolock=$(engine diolock)
rows=$(variants diolock)
rounds=${KP_ROUNDS:-1}
recovered=0 untold=0

# The real file: on a disk in memory where we may make one, since the limit of a second is for the
# lock, and a disk that others use too may need longer for a synced write.
real=$KP_TMP limit_ms=5000
if [ "$(id -u)" = 0 ] && command -v mkfs.ext4 >/dev/null && [ -d /dev/shm ] &&
	truncate -s 1g /dev/shm/kpolicy.$$; then
	at_exit "rm -f /dev/shm/kpolicy.$$"
	mkdir "$KP_TMP/mnt"
	if mkfs.ext4 -q /dev/shm/kpolicy.$$ && mount -o loop /dev/shm/kpolicy.$$ "$KP_TMP/mnt" 2>/dev/null; then
		at_exit "umount '$KP_TMP/mnt'"
		real=$KP_TMP/mnt limit_ms=1000
	fi
fi
dd if=/dev/zero of="$real/probe" bs=512 count=1 oflag=direct 2>/dev/null || {
	real=''
	say "no direct I/O by 512 bytes on $KP_TMP: the null device only"
}

# busy PID: has it done I/O? One that has not started takes no 20 ms of a CPU, and seldom sleeps.
busy() {
	read -r ran _ slices 2>/dev/null <"/proc/$1/schedstat" &&
		{ [ "$ran" -gt 20000000 ] || [ "$slices" -gt 100 ]; }
}

# children PID: the jobs of a fio.
children() { cat "/proc/$1/task/"*/children 2>/dev/null; }

# now_ms: by a clock that nobody sets.
now_ms() {
	read -r up _ </proc/uptime
	echo $((${up%.*} * 1000 + 1${up#*.} * 10 - 1000))
}

# all_busy JOBS: wait until all jobs of $fio have done I/O.
all_busy() {
	until=$(($(now_ms) + 20000 * KP_SLOW))
	while [ "$(now_ms)" -lt $until ]; do
		ready=0
		for pid in $(children $fio); do ! busy "$pid" || ready=$((ready + 1)); done
		[ $ready -lt "$1" ] || return 0
		sleep 0.01
	done
	return 1
}

control='' # not empty: nobody is killed

# run_and_kill OUTPUT JOBS ARG...: a round. One job is killed once all have done I/O; more than a
# second later the run is ended. fio's JSON in OUTPUT, or a word in OUTPUT.why.
run_and_kill() {
	output=$1 jobs=$2
	shift 2
	rm -f "$KP_TMP/$output" "$KP_TMP/$output.why"
	(cd "$KP_TMP" && exec $FIO --ioengine="$diolock" --time_based --runtime=60 \
		--output-format=json --counters="$output.counters" "$@") >"$KP_TMP/$output.text" \
		2>"$KP_TMP/$output.err" &
	fio=$!
	if all_busy "$jobs"; then
		set -- $(children $fio)
		shift $(($(od -An -N1 -tu1 /dev/urandom) % jobs))
		[ -n "$control" ] || kill -9 "$1"
		sleep 1.5
		kill -INT $fio
	else
		echo "$ready of $jobs jobs did I/O in 20 s" >"$KP_TMP/$output.why"
	fi
	until=$(($(now_ms) + 10000 * KP_SLOW))
	while kill -0 $fio 2>/dev/null && [ "$(now_ms)" -lt $until ]; do sleep 0.1; done
	if kill -0 $fio 2>/dev/null; then
		[ -e "$KP_TMP/$output.why" ] || echo "fio does not end" >"$KP_TMP/$output.why"
		kill -9 $(children $fio) $fio 2>/dev/null
	fi
	wait $fio || [ $? -eq 128 ] || return 1
	sed -n '/^{/,$p' "$KP_TMP/$output.text" >"$KP_TMP/$output"
}

# one_null VARIANT OUTPUT DEPTH
one_null() {
	run_and_kill "$2" 4 --policy="$1" --name=k --numjobs=4 --filename="f.$2" --size=4m \
		--rw=randrw --bssplit=512/30:4k/50:32k/20 --blockalign=512 --iodepth="$3" \
		--backend=null --null_read_nsec=90000 --null_write_nsec=15000
}

# one_real VARIANT OUTPUT DEPTH: the first 2 MiB written, 2 MiB unwritten, 2 MiB hole.
one_real() {
	file=$real/f.$2
	rm -f "$file"
	dd if=/dev/zero of="$file" bs=1M count=2 2>/dev/null
	fallocate -o 2m -l 2m "$file" 2>/dev/null || truncate -s 4m "$file"
	truncate -s 6m "$file"
	run_and_kill "$2" 5 --policy="$1" --filename="$file" --iodepth="$3" --iodepth_batch=4 \
		--create_on_open=1 --fallocate=none --backend=libaio \
		--name=read --rw=randread --bs=4k --size=2m \
		--name=unaligned --rw=randwrite --bs=512 --size=4m \
		--name=fill --rw=randwrite --bs=8k --offset=2m --size=4m \
		--name=append --rw=write --bs=12k --offset=6m --size=64m \
		--name=punch --rw=randtrim --bs=64k --offset=4m --size=2m --iodepth=1 --rate_iops=500
}

# slowest OUTPUT: ms of the slowest I/O.
slowest() {
	jq '[.jobs[] | .read, .write, .trim | .lat_ns.max // 0] | max / 1e6 | floor' "$KP_TMP/$1"
}

# without_kill VARIANT OUTPUT: the same, of three runs at a time in which nobody is killed: what this
# machine takes by itself now.
without_kill() {
	control=1
	for i in 1 2 3; do "one_${2##*.}" "$1" "$2.$i" 16 & done
	wait
	control=''
	for i in 1 2 3; do slowest "$2.$i"; done | sort -n | tail -n 1
}

# judge VARIANT OUTPUT JOBS
judge() {
	what="$1, $2"
	grep -q 'got signal=9' "$KP_TMP/$2.err" || fail "$what: nobody was killed"
	jq -r '.jobs[] | "\(.jobname) \(.job_runtime) ms, \(.read.total_ios + .write.total_ios +
		.trim.total_ios) I/Os, error \(.error), slowest \([.read, .write, .trim |
		.lat_ns.max // 0] | max / 1e6 | floor) ms"' "$KP_TMP/$2" >"$KP_TMP/jobs"
	survivors=$(jq '[.jobs[] | select(.job_runtime >= 1500 and
		.read.total_ios + .write.total_ios + .trim.total_ios > 0)] | length' "$KP_TMP/$2")
	[ "$survivors" -eq $(($3 - 1)) ] || { cat "$KP_TMP/jobs"; fail "$what: $survivors survivors"; }
	jq -e '[.jobs[] | .error] | add == 0' "$KP_TMP/$2" >/dev/null ||
		{ cat "$KP_TMP/jobs"; fail "$what: errors"; }
	limit=1000
	[ "$3" -eq 4 ] || limit=$limit_ms
	if [ "$(slowest "$2")" -ge $limit ]; then
		cat "$KP_TMP/jobs"
		without=$(without_kill "$1" "$2")
		[ "$without" -lt $((limit / 4)) ] || {
			say "$what: $(slowest "$2") ms, but $without ms with nobody killed: a busy machine"
			untold=$((untold + 1))
			return
		}
		fail "$what: an I/O took $(slowest "$2") ms, with nobody killed $without ms; waits for
			the lock $(counter "$KP_TMP/$2.counters" "read_wait_max_ns") and $(counter \
			"$KP_TMP/$2.counters" "write_wait_max_ns") ns at most"
	fi
	rm -f "$real/f.$2"
	recovered=$((recovered + $(counter "$KP_TMP/$2.counters" "recovered_locks + .total.recovered_dio")))
}

# Three at a time, so that the rounds take less of it; each has a file of its own.
started=''
finish() {
	for s in $started; do
		wait "${s%%:*}" || {
			set -- $(echo "$s" | tr : ' ')
			fail "$2, $3: $(cat "$KP_TMP/$3.why" 2>/dev/null || cat "$KP_TMP/$3.err")"
		}
		judge $(echo "$s" | tr : ' ' | cut -d ' ' -f 2-)
	done
	started=''
}

# begun VARIANT KIND JOBS: the round just started in the background.
begun() {
	started="$started $!:$1:$1.$2:$3"
	[ "$(echo "$started" | wc -w)" -lt 3 ] || finish
}

round=0 nr=0
while [ $round -lt "$rounds" ]; do
	for v in $rows; do
		one_null "$v" "$v.null" $((round % 2 ? 16 : 1)) &
		begun "$v" null 4
		nr=$((nr + 1))
		# One round alone takes every third; three take all.
		[ "$real" ] || continue
		[ "$rounds" -ge 3 ] || [ $((nr % 3)) -eq $((round % 3)) ] || continue
		one_real "$v" "$v.real" 16 &
		begun "$v" real 5
	done
	finish
	round=$((round + 1))
done
say "$rounds rounds of every variant; recovered from the dead: $recovered places and I/Os"
[ $untold -eq 0 ] || say "in $untold of them this machine was too slow by itself to tell"
[ $untold -le $((rounds * 2)) ] || skip "too busy a machine: $untold runs do not tell"
[ $recovered -gt 0 ] || [ "$rounds" -lt 3 ] || fail "nothing was ever recovered"
