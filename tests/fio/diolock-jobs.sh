#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Many jobs on one file, as threads and as processes: every I/O takes the lock, an exclusive lock
# stays exclusive, readers hold a shared one together, and data that the jobs write is theirs. The
# lock has a word for the first 49 jobs and further words for the others, see rwsem_steps.h.
#
# 1,024 processes take fio half a minute to start; only KP_LONG=1 (make test-long) has them.
# time limit: 900
. "$KP_TOP/tests/lib.sh"
need_engine diolock
need_command jq
diolock=$(engine diolock)
[ -z "$KP_SANITIZE" ] || skip "a thousand jobs do not fit under a sanitizer"

# many JOBS THREAD ARG...
many() {
	jobs=$1 thread=$2
	shift 2
	rm -f "$KP_TMP/c.json"
	fio_ok --name=m --ioengine="$diolock" --filename=model --backend=null --size=64m --bs=4k \
		--numjobs="$jobs" --thread="$thread" --group_reporting --counters=c.json "$@"
}
# now_ms: by a clock that nobody sets.
now_ms() {
	read -r up _ </proc/uptime
	echo $((${up%.*} * 1000 + 1${up#*.} * 10 - 1000))
}
sum() { counter "$KP_TMP/c.json" "$1"; }

for jobs in 64 256 1024; do
	for thread in 1 0; do
		[ "$jobs $thread" != "1024 0" ] || [ "${KP_LONG:-}" ] || continue
		what="$jobs jobs, thread=$thread"
		say "$what"
		many "$jobs" "$thread" --policy=ext4-4.9 --rw=randrw --io_size=32k
		equal "$what: I/Os" "$(sum ios)" $((jobs * 8))
		equal "$what: locks" "$(sum "read_locks + .total.write_locks")" $((jobs * 8))
		equal "$what: recovered" "$(sum "recovered_locks + .total.dead_jobs")" 0
		# One I/O of 1 ms at a time: no more of them than the run has milliseconds.
		start=$(now_ms)
		many "$jobs" "$thread" --policy=exclusive --rw=randwrite --time_based --runtime=1 \
			--null_completion_nsec=1000000
		took=$(($(now_ms) - start + 10))
		[ "$(sum write_wait_count)" -gt 0 ] || fail "$what: no job waited"
		[ "$(sum ios)" -le $took ] || fail "$what: $(sum ios) I/Os of 1 ms in $took ms"
	done
done

# Each reader holds the lock for the 200 ms that it waits for the device.
say "readers beyond the lock word hold the lock together"
many 64 1 --policy=ext4-4.9 --rw=randread --io_size=4k --null_completion_nsec=200000000
equal "reads that waited for the lock" "$(sum read_wait_count)" 0

# Each job has a part of the file of its own.
say "256 jobs verify what they wrote, with appends and unaligned writes among them"
fio_ok --name=v --ioengine="$diolock" --policy=ext4-5.6 --backend=psync --filename=v.tmp \
	--size=128k --offset_increment=128k --numjobs=256 --thread --rw=randwrite \
	--bsrange=4k-16k --verify=crc32c --fallocate=none --create_on_open=1 --group_reporting
