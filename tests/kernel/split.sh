#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Where the running kernel cuts direct I/O, and where split does in the variant of that kernel, on
# the same loop device under the same limits: the same pieces of the same random I/Os. The kernel's
# are in its block_split events; ours in the bios that our writes and reads become, each small
# enough to be left alone.
#
# Up to 512 KiB and 128 segments only: beyond, the kernel's cuts depend on which pages happen to be
# adjacent in memory.
# time limit: 60
. tests/lib.sh
need_engine split
need_root

kernel=$(uname -r | sed 's/^\([0-9]*\.[0-9]*\).*/\1/')
split="--ioengine=$(engine split) --kernel=$kernel --plug=none"
# shellcheck disable=SC2086
fio_run --name=a $split --backend=null --size=1m --rw=read
[ $fio_status = 0 ] || skip "no variant for kernel $kernel: $(grep '^kpolicy:' "$KP_TMP/err")"

# pieces: the bios of a trace, "OP SECTOR SECTORS" each, cut at its splits.
pieces() {
	awk '
	function rest() { if (count) print op, start, count }
	$1 == "block_bio_queue:" { rest(); op = substr($3, 1, 1); start = $4; count = $6 }
	$1 == "block_split:" {
		if ($4 != start) { print "a split of another bio: " $0; exit }
		print op, start, $6 - start
		count -= $6 - start
		start = $6
	}
	END { rest() }'
}

ios=200 # of each job
cuts=0
# compare WHAT FIO_ARG...
compare() {
	what=$1
	shift
	job="--name=a --filename=$loop --direct=1 --iodepth=1 --randseed=11 --number_ios=$ios $*"
	trace_read >/dev/null
	# shellcheck disable=SC2086
	fio_ok $job --ioengine=libaio
	trace_read | pieces >"$KP_TMP/kernel"
	# shellcheck disable=SC2086
	fio_ok $job $split
	trace_read >"$KP_TMP/trace"
	! grep -q block_split "$KP_TMP/trace" || fail "$what: the kernel cut our bios again"
	pieces <"$KP_TMP/trace" >"$KP_TMP/ours"
	[ "$(wc -l <"$KP_TMP/kernel")" -ge $ios ] || fail "$what: nothing was traced"
	diff "$KP_TMP/kernel" "$KP_TMP/ours" >"$KP_TMP/diff" || {
		head -n 20 "$KP_TMP/diff"
		fail "$what: other pieces than the kernel's"
	}
	cuts=$((cuts + $(wc -l <"$KP_TMP/kernel") - ios))
	say "$what: $(wc -l <"$KP_TMP/kernel") pieces, the same"
}

truncate -s 64m "$KP_TMP/image"
for block in 512 4096; do
	loop_device "$KP_TMP/image" $block
	trace_events block_bio_queue block_split
	queue_limit nomerges 2
	say "logical block $(queue_limit logical_block_size), physical" \
		"$(queue_limit physical_block_size), $(queue_limit max_segments) segments"
	for kb in 16 20 33 127; do
		queue_limit max_sectors_kb $kb
		compare "max_sectors_kb=$kb" --rw=randrw --bsrange=$block-256k --blockalign=$block
	done
	queue_limit max_sectors_kb 512
	compare "max_sectors_kb=512" --rw=randrw --bsrange=$block-1m --blockalign=$block
	# A buffer that begins within a page has a segment more.
	queue_limit max_sectors_kb 64
	compare "unaligned buffers" --rw=randread --bsrange=$block-256k --blockalign=$block \
		--mem_align=512
	[ $cuts -gt 1500 ] || fail "only $cuts cuts"
	cuts=0
done
