#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# A job of fio that shares a page cache with others is killed: the run ends, and the data of the others
# verifies. tests/unit/test_cache_kill checks what the killed job had synced. time limit: 120
. tests/lib.sh
[ -z "$KP_SANITIZE" ] || skip 'a killed job and a sanitizer do not go together'
need_engine writeback blocksize
need_command pgrep

# wait_until SECONDS COMMAND...
wait_until() {
	tries=$(($1 * 50 * KP_SLOW))
	shift
	until "$@"; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || return 1
		sleep 0.02
	done
}

# Has every job written? Each has a region of 16 MiB of the file.
all_began() {
	for j in 0 1 2 3; do
		blocks=$(dd if="$KP_TMP/file" bs=4k skip=$((j * 4096)) count=16 2>/dev/null | tr -d '\0' | wc -c)
		[ "$blocks" -gt 0 ] || return 1
	done
}

# round ENGINE POLICY N: kills the Nth job
round() {
	rm -f "$KP_TMP/file"
	(
		cd "$KP_TMP"
		exec $FIO --name=kill --ioengine="$(engine "$1")" --policy="$2" --filename=file \
			--rw=write --bs=4k --size=16m --offset_increment=16m --numjobs=4 \
			--verify=crc32c --do_verify=0 --verify_state_save=0 --rate=16m --fsync=64 \
			--dirty_bytes=1m --cache_bytes=2m --fallocate=none
	) >"$KP_TMP/out" 2>"$KP_TMP/err" &
	pid=$!
	wait_until 20 all_began || fail "$1:$2: the jobs did not begin"
	# The jobs are fio's children; the oldest is the first job.
	victim=$(pgrep -P $pid | sort -n | sed -n "$(($3 + 1))p")
	[ "$victim" ] || fail "$1:$2: no job $3"
	kill -9 "$victim"
	wait_until 30 sh -c "! kill -0 $pid 2>/dev/null" || fail "$1:$2: fio goes on without job $3"
	wait $pid || true
	grep -q 'got signal=9' "$KP_TMP/err" "$KP_TMP/out" || { fio_said; fail "nothing was killed"; }
	bad=0
	for j in 0 1 2 3; do
		fio_run --name=kill --ioengine=psync --filename=file --rw=write --bs=4k --size=16m \
			--offset=$((j * 16))m --verify=crc32c --verify_only --verify_state_save=0
		[ $fio_status = 0 ] || bad=$((bad + 1))
	done
	# Of the killed one the rest was never written.
	[ $bad = 1 ] || { fio_said; fail "$1:$2: $bad regions do not verify, not one"; }
}

rounds=${KP_ROUNDS:-2}
i=0
while [ $i -lt "$rounds" ]; do
	case $((i % 4)) in
	0) round writeback strict $((i % 3)) ;;
	1) round blocksize logical $((i % 4)) ;;
	2) round writeback overrun $((i % 4)) ;;
	3) round blocksize coalesce $((i % 3)) ;;
	esac
	i=$((i + 1))
done
