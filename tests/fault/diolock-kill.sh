#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# SIGKILL to one of several jobs at a random moment: the others go on within a second, whatever it
# held, waited for or had in flight. KP_ROUNDS rounds of every variant (1; make test-long: 100).
# A job is killed only after each has done I/O: fio itself hangs when one dies before it has started.
# time limit: 3000
# shellcheck disable=SC2046 # process numbers are lists of words
. "$KP_TOP/tests/lib.sh"
need_engine diolock
need_command jq
[ -z "$KP_SANITIZE" ] || skip "a killed job under a sanitizer says so itself"
diolock=$(engine diolock)
rounds=${KP_ROUNDS:-1}
recovered=0

# busy PID: has it done I/O? One that has not started takes no 20 ms of a CPU.
busy() {
	read -r ran _ 2>/dev/null <"/proc/$1/schedstat" && [ "$ran" -gt 20000000 ]
}

# children PID: the jobs of a fio.
children() { cat "/proc/$1/task/"*/children 2>/dev/null; }

# one_round VARIANT OUTPUT VICTIM ARG...: four jobs, one is killed; fio's JSON in OUTPUT.
one_round() {
	variant=$1 output=$2 victim=$3
	shift 3
	(cd "$KP_TMP" && exec $FIO --name=k --ioengine="$diolock" --policy="$variant" --numjobs=4 \
		--filename="f.$output" --size=4m --rw=randrw --bssplit=512/30:4k/50:32k/20 \
		--blockalign=512 --time_based --runtime=2 --output-format=json \
		--counters="$output.counters" "$@") >"$KP_TMP/$output.text" 2>"$KP_TMP/$output.err" &
	fio=$!
	tries=0
	while :; do
		ready=0
		for pid in $(children $fio); do ! busy "$pid" || ready=$((ready + 1)); done
		[ $ready -lt 4 ] || break
		tries=$((tries + 1))
		[ $tries -lt 200 ] || { kill -9 $(children $fio) $fio 2>/dev/null; return 1; }
		sleep 0.01
	done
	set -- $(children $fio)
	shift "$victim"
	kill -9 "$1"
	wait $fio || return 1
	sed -n '/^{/,$p' "$KP_TMP/$output.text" >"$KP_TMP/$output"
}

# judge VARIANT OUTPUT
judge() {
	grep -q 'got signal=9' "$KP_TMP/$2.err" || fail "$1: nobody was killed"
	jq -e '[.jobs[] | select(.job_runtime >= 2000 and .read.total_ios > 0)] | length == 3' \
		"$KP_TMP/$2" >/dev/null || fail "$1: not three survivors"
	jq -e '[.jobs[] | .error] | add == 0' "$KP_TMP/$2" >/dev/null || fail "$1: errors"
	jq -e '[.jobs[] | .read.lat_ns.max, .write.lat_ns.max] | max < 1000000000' "$KP_TMP/$2" \
		>/dev/null || fail "$1: an I/O took more than a second"
	recovered=$((recovered + $(counter "$KP_TMP/$2.counters" "recovered_locks + .total.recovered_dio")))
}

# Three at a time, so that the rounds take less of it; each has a file of its own.
round=0
while [ $round -lt "$rounds" ]; do
	started=''
	for v in ext4-4.8 ext4-4.8-nolock ext4-4.9 ext4-4.9-nolock ext4-5.5 ext4-5.5-nolock ext4-5.6 \
		ext4-6.12 xfs-4.9 xfs-5.2 xfs-6.12 btrfs-4.9 btrfs-5.10 btrfs-5.11 exclusive; do
		null="--backend=null --null_read_nsec=90000 --null_write_nsec=15000"
		case $((round % 2)) in
		0) depth=1 ;;
		*) depth=16 ;;
		esac
		# shellcheck disable=SC2086 # options
		one_round "$v" "$v.out" $(($(od -An -N1 -tu1 /dev/urandom) % 4)) --iodepth=$depth $null &
		started="$started $!:$v"
		set -- $started
		if [ $# -eq 5 ]; then
			for s; do
				wait "${s%%:*}" || fail "${s#*:}: the jobs do not start, or fio does not end"
				judge "${s#*:}" "${s#*:}.out"
			done
			started=''
		fi
	done
	round=$((round + 1))
done
say "$rounds rounds of every variant; recovered from the dead: $recovered places and I/Os"
[ $recovered -gt 0 ] || [ "$rounds" -lt 3 ] || fail "nothing was ever recovered"
