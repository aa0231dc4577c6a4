#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# diolock under fio: data survives every variant and backend, counters say what happened, forked
# jobs and threads share one inode, and bad input is refused with one line.
# time limit: 240
. "$KP_TOP/tests/lib.sh"
need_engine diolock
need_command jq
diolock=$(engine diolock)
rows=$(variants diolock)

# Written, unaligned to the file system's block too, and read back.
verify() {
	fio_ok --name=v --ioengine="$diolock" --policy="$1" --backend="$2" --filename=v.tmp \
		--size=2m --rw=randwrite --bsrange=512-16k --blockalign=512 --iodepth="$3" \
		--verify=crc32c --fallocate=none --create_on_open=1 --group_reporting
	rm -f "$KP_TMP/v.tmp"
}
dd if=/dev/zero of="$KP_TMP/probe" bs=512 count=1 oflag=direct 2>/dev/null || {
	say "512-byte direct I/O does not work here: real files go by 4k"
	verify() {
		fio_ok --name=v --ioengine="$diolock" --policy="$1" --backend="$2" --filename=v.tmp \
			--size=2m --rw=randwrite --bsrange=4k-16k --iodepth="$3" --verify=crc32c \
			--fallocate=none --create_on_open=1 --group_reporting
		rm -f "$KP_TMP/v.tmp"
	}
}
for v in $rows none; do
	say "verify $v"
	verify "$v" libaio 16
	case $v in *nolock | ext4-5.6 | xfs-4.9) verify "$v" psync 1 ;; esac
done
verify ext4-4.9 io_uring 16
fio_ok --name=v --ioengine="$diolock" --policy=ext4-4.8 --backend=null --null_memory_backed=1 \
	--size=2m --rw=randwrite --bsrange=512-16k --blockalign=512 --iodepth=16 --verify=crc32c

say "what is written is known: holes and unwritten blocks are not overwrites"
count() {
	fio_ok --name=c --ioengine="$diolock" --policy="$1" --backend=psync --filename=c.tmp \
		--size=1m --rw=write --bs=4k --loops=1 --counters=c.json $2
	rm -f "$KP_TMP/c.tmp"
}
count ext4-5.6 --fallocate=native
equal "exclusive writes into unwritten blocks" "$(counter "$KP_TMP/c.json" write_locks)" 256
equal "of them tried shared first" "$(counter "$KP_TMP/c.json" retaken_exclusive)" 256
count ext4-6.12 --fallocate=native
equal "exclusive writes into unwritten blocks, 6.12" "$(counter "$KP_TMP/c.json" write_locks)" 0
count ext4-6.12 --fallocate=none
equal "exclusive writes into holes, 6.12" "$(counter "$KP_TMP/c.json" write_locks)" 256
count ext4-5.6 "--overwrite=1"
equal "exclusive overwrites" "$(counter "$KP_TMP/c.json" write_locks)" 0
count xfs-5.2 "--fallocate=none --create_on_open=1"
equal "exclusive appends, xfs" "$(counter "$KP_TMP/c.json" write_locks)" 0
count ext4-5.6 "--fallocate=none --create_on_open=1"
equal "exclusive appends, ext4" "$(counter "$KP_TMP/c.json" write_locks)" 256

say "jobs share the inode, as processes and as threads"
for thread in 0 1; do
	start=$(date +%s%N)
	fio_ok --name=s --ioengine="$diolock" --policy=exclusive --backend=null --filename=model \
		--size=1g --rw=randrw --bs=4k --numjobs=4 --thread=$thread --time_based --runtime=1 \
		--null_completion_nsec=100000 --counters=s.json
	[ "$(counter "$KP_TMP/s.json" write_wait_count)" -gt 0 ] || fail "thread=$thread: nobody waited"
	# one at a time: no more than an I/O in each 100 us that fio ran, where four at a time do four
	ran=$((($(date +%s%N) - start) / 100000))
	[ "$(counter "$KP_TMP/s.json" ios)" -le $ran ] || fail "thread=$thread: not exclusive"
done
[ ! -e "$KP_TMP/model" ] || fail "backend=null made a file"

say "files of their own do not meet"
fio_ok --name=s --ioengine="$diolock" --policy=exclusive --backend=null --size=1g --rw=randrw \
	--bs=4k --numjobs=4 --time_based --runtime=1 --null_completion_nsec=100000 --counters=s.json
equal "waits on four files" "$(counter "$KP_TMP/s.json" write_wait_count)" 0

say "an uncontended run reads no clock for waits"
fio_ok --name=u --ioengine="$diolock" --policy=ext4-4.9 --backend=null --filename=model --size=64m \
	--rw=randrw --bs=4k --counters=u.json
equal waits "$(counter "$KP_TMP/u.json" "read_wait_count + .total.write_wait_count")" 0
[ "$(counter "$KP_TMP/u.json" read_hold_count)" -gt 0 ] || fail "no hold was sampled"

say "kernel= picks row and rwsem"
fio_ok --name=k --ioengine="$diolock" --kernel=5.4 --backend=null --size=1m --rw=read --counters=k.json
equal policy "$(jq -r '.jobs[0].policy' "$KP_TMP/k.json")" ext4-4.9
fio_ok --name=k --ioengine="$diolock" --policy=xfs-5.2 --kernel=5.4 --backend=null --size=1m --rw=read

say "bad input"
fio_refused 'policy=ext4-4.7: .*ext4-4.8' --name=b --ioengine="$diolock" --policy=ext4-4.7 --size=1m \
	--backend=null
fio_refused 'kernel=5.4: that kernel' --name=b --ioengine="$diolock" --policy=ext4-5.6 --kernel=5.4 --size=1m \
	--backend=null
fio_refused 'rwsem=5.4: unknown, give one of: 4.9' --name=b --ioengine="$diolock" --rwsem=5.4 \
	--size=1m --backend=null
fio_refused 'rwsem=5.3: policy=none takes no lock' --name=b --ioengine="$diolock" --policy=none \
	--rwsem=5.3 --size=1m --backend=null
fio_refused 'more than 1024 jobs use it' --name=b --ioengine="$diolock" --filename=model --size=1m \
	--backend=null --numjobs=1026 --time_based --runtime=$((20 * KP_SLOW)) --exitall_on_error=1 \
	--null_completion_nsec=1000000 --thread
fio_refused 'jobs with another policy' --ioengine="$diolock" --filename=model --size=1m --time_based \
	--runtime=1 --backend=null --null_completion_nsec=100000 --name=a --policy=ext4-4.8 \
	--startdelay=0.5 --name=b --policy=ext4-4.9
