#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Buffered sequential writes to a loop device whose block size was set: the running kernel's bios
# and requests have the sizes that our counters tell for the same limits.
. tests/lib.sh
. tests/trace.sh
need_engine blocksize
need_command blockdev dd truncate

truncate -s 64m "$KP_TMP/disk"
loop_device "$KP_TMP/disk"
trace_device "$loop" block/block_bio_queue block/block_rq_issue

# ours HISTOGRAM: as trace_sizes prints it
ours() { jq -r ".total.$1 | to_entries[] | \"\(.key):\(.value)\"" "$KP_TMP/c.json" | sort -n | tr '\n' ' '; }

for size in 512 1024 4096; do
	# Held open: at the last close the block size is forgotten.
	exec 9<>"$loop"
	blockdev --setbsz $size "$loop"
	[ "$(blockdev --getbsz "$loop")" = $size ] || skip "this kernel does not set a block size of $size"
	trace_clear
	dd if=/dev/zero of="$loop" bs=1M count=4 conv=fsync,notrunc 2>"$KP_TMP/dd" || {
		cat "$KP_TMP/dd"
		fail "dd to the loop device"
	}
	exec 9>&-
	bios=$(trace_sizes block_bio_queue) requests=$(trace_sizes block_rq_issue)
	say "block size $size, kernel $(uname -r): bios $bios requests $requests"

	fio_ok --name=j --ioengine="$(engine blocksize)" --policy=logical --block_size=$size \
		--filename="$loop" --rw=write --bs=1m --size=4m --end_fsync=1 --counters=c.json
	equal "bios of block size $size" "$(ours bio_sizes)" "$bios"
	equal "requests of block size $size" "$(ours request_sizes)" "$requests"
done
