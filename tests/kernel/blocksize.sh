#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Buffered writes to a loop device in blocks of 512, 1024 and 4096 bytes: the bios and requests of
# the running kernel's writeback (block_bio_queue, block_rq_issue) and what the counters of the
# blocksize engine say for the same limits. With 128 segments: bios of 1, 2 and 8 sectors in
# requests of 64, 128 and 512 KiB. Our requests arrive in the kernel as a bio each, so that not
# only their sizes but every position is compared.
#
# The kernel's own requests are others where its flusher has to wait, for a tag or a CPU: on a busy
# machine they differ from one run to the next. What does not agree is asked again, and is a failure
# only if the kernel gave the same answer each time.
# time limit: 60
. tests/lib.sh
need_root
need_command blockdev jq

kernel=$(uname -r | sed 's/^\([0-9]*\.[0-9]*\).*/\1/')

# bios, requests: "R|W SECTOR SECTORS" of a trace, flushes left out.
bios() { awk '$1 == "block_bio_queue:" && $6 { print substr($3, 1, 1), $4, $6 }'; }
requests() { awk '$1 == "block_rq_issue:" && $8 { print substr($3, 1, 1), $6, $8 }'; }

# sizes: {"4096":2,...} of bios or requests, by the powers of two of our counters.
sizes() {
	awk '
	{ for (size = 512; size < $3 * 512; size *= 2); count[size]++ }
	END { for (size in count) printf "{\"%s\":%d}\n", size, count[size] }' "$1" | jq -Sc -s add
}

by_kernel() {
	trace_read >/dev/null
	# The size lives as long as somebody has the device open.
	exec 9<>"$loop"
	blockdev --setbsz "$block" "$loop" 2>"$KP_TMP/err" || skip "no block size $block: $(cat "$KP_TMP/err")"
	# shellcheck disable=SC2086
	fio_ok $job --ioengine=psync --direct=0
	exec 9>&-
	trace_read >"$KP_TMP/trace"
	bios <"$KP_TMP/trace" >"$KP_TMP/kernel.bios"
	requests <"$KP_TMP/trace" | sort >"$KP_TMP/kernel.requests"
	[ -s "$KP_TMP/kernel.requests" ] || fail "$what: nothing was traced"
}

by_us() {
	# shellcheck disable=SC2086
	fio_ok $job --ioengine="$(engine blocksize)" --kernel="$kernel" --block_size=$block \
		--counters=c.json
	trace_read | bios | sort >"$KP_TMP/our.requests"
}

# differs: what is not the same in the last two runs, or is not $wanted; nothing if all is.
differs() {
	[ ! "$wanted" ] || [ "$(sizes "$KP_TMP/kernel.requests")" = "$wanted" ] || {
		echo "sizes of the kernel's requests: $(sizes "$KP_TMP/kernel.requests"), wanted $wanted"
		return
	}
	[ "$ours" ] || return 0
	for kind in bio request; do
		counted=$(jq -Sc ".total.${kind}_sizes" "$KP_TMP/c.json")
		traced=$(sizes "$KP_TMP/kernel.${kind}s")
		[ "$counted" = "$traced" ] || echo "$kind sizes: $counted, the kernel's: $traced"
	done
	diff "$KP_TMP/kernel.requests" "$KP_TMP/our.requests" | head -n 20
}

# compare BLOCK MAX_SECTORS_KB SIZE FIO_ARG...: the kernel's 8 MiB go in requests of SIZE, which is 0
# where the comparison alone is to tell.
compare() {
	block=$1 kb=$2 wanted=''
	[ "$3" = 0 ] || wanted="{\"$3\":$((8388608 / $3))}"
	shift 3
	what="blocks of $block, max_sectors_kb=$kb, $*"
	job="--name=a --filename=$loop --randseed=5 --end_fsync=1 $*"
	queue_limit max_sectors_kb "$kb"
	for try in 1 2 3 4; do
		by_kernel
		[ ! "$ours" ] || by_us
		difference=$(differs)
		[ "$difference" ] || break
		cp "$KP_TMP/kernel.requests" "$KP_TMP/kernel.$try"
	done
	say "$what: bios $(sizes "$KP_TMP/kernel.bios") requests $(sizes "$KP_TMP/kernel.requests")"
	[ "$difference" ] || return 0
	for try in 2 3 4; do
		cmp -s "$KP_TMP/kernel.1" "$KP_TMP/kernel.$try" || {
			not_shown "$what: the kernel's requests differ from run to run"
			return 0
		}
	done
	fail "$what: $difference"
}

ours=''
case " $KP_ENGINES " in
*" blocksize "*)
	ours=1
	fio_run --name=a --ioengine="$(engine blocksize)" --kernel="$kernel" --backend=null --size=4k \
		--rw=write
	[ $fio_status = 0 ] || ours=''
	;;
esac

truncate -s 16m "$KP_TMP/image"
loop_device "$KP_TMP/image"
trace_events block_bio_queue block_rq_issue
segments=$(queue_limit max_segments)
largest=$(queue_limit max_hw_sectors_kb)

say "sequential"
for block in 512 1024 4096; do
	# Seen with 128 segments.
	compare $block "$largest" $((segments == 128 ? 128 * block : 0)) --rw=write --bs=64k --size=8m
done
compare 512 48 0 --rw=write --bs=64k --size=8m
compare 4096 48 0 --rw=write --bs=64k --size=8m

say "less than a page at random: only dirty blocks are written, and partly covered ones are read"
compare 512 "$largest" 0 --rw=randwrite --bs=512 --size=2m --io_size=128k
compare 1024 16 0 --rw=randwrite --bs=1536 --size=2m --io_size=768k
compare 4096 "$largest" 0 --rw=randwrite --bs=512 --size=2m --io_size=128k
[ "$ours" ] || skip "no engine blocksize, or not for kernel $kernel: the kernel alone was looked at"
