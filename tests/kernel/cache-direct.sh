#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# shellcheck disable=SC2086 # options are meant to split
#
# What the running kernel sees of a buffered policy: direct writes only, nothing dirty in its own
# page cache, and a flush of the device between the last write and the return of fsync.
. tests/lib.sh
. tests/cache.sh
need_engine writeback blocksize
need_command truncate

truncate -s 64m "$KP_TMP/disk"
loop_device "$KP_TMP/disk"
trace_events block_bio_queue block_rq_complete
dirty=writeback_dirty_folio
[ -d "$tracing/events/writeback/$dirty" ] || dirty=writeback_dirty_page
for event in writeback/$dirty syscalls/sys_exit_fsync; do
	[ -d "$tracing/events/$event" ] || skip "no tracepoint $event here"
	echo 1 >"$tracing/events/$event/enable"
done
bdi=$(cat "/sys/block/${loop#/dev/}/dev")

# The sync at the end is the last that happens: a write behind it would be of a page that it left.
for e in $cache_variants; do
	echo >"$tracing/trace"
	fio_ok --name=j --ioengine="$(engine ${e%:*})" --policy=${e#*:} --filename="$loop" \
		--rw=randwrite --bs=4k --size=8m --end_fsync=1 --dirty_bytes=1m
	cp "$tracing/trace" "$KP_TMP/trace"
	grep -q 'block_bio_queue: .* W' "$KP_TMP/trace" || fail "$e: no write was seen"
	! grep "$dirty: bdi $bdi:" "$KP_TMP/trace" | head -n 3 | grep . ||
		fail "$e: a page of the kernel's cache became dirty"
	# Writes that are not direct come from the kernel's own flusher.
	! grep 'block_bio_queue: .* W' "$KP_TMP/trace" | grep '\[kworker' | head -n 3 | grep . ||
		fail "$e: the kernel's flusher wrote"
	awk '/block_(rq_complete|bio_queue): .* W[A-Z]* .* [+] [1-9]/ { write = NR }
		/block_rq_complete: [0-9,]* F/ { flush = NR }
		/ fio-.*fsync(\(| -> 0x0)/ { sync = NR; after = flush > write }
		END { exit !(sync && flush && write && after && write < sync) }' "$KP_TMP/trace" || {
		tail -n 5 "$KP_TMP/trace"
		fail "$e: no flush between the last write and the return of fsync"
	}
done
