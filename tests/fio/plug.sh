#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The plug under whole runs: when a job has one, what it merges and what it must not, and that the
# data is where it belongs on every device.
# time limit: 60
. tests/lib.sh
need_engine split blocksize writeback
need_command jq

# run ARG...: counters in $KP_TMP/c.json
run() {
	fio_ok --name=a --ioengine="$(engine split)" --counters=c.json --size=8m --rw=write \
		--iodepth=32 --iodepth_batch=32 --iodepth_batch_complete_min=32 --max_sectors_kb=64 "$@"
}
count() { counter "$KP_TMP/c.json" "$1"; }

say "when there is a plug"
null="--backend=null --null_completion=async --bs=4k"
while read -r options requests; do
	# shellcheck disable=SC2086,SC2046
	run $null $(echo "$options" | tr , ' ')
	equal "requests with $options" "$(count requests)" "$requests"
	equal "bios with $options" "$(count bios)" 2048
	equal "merges with $options" "$(count back_merges)" $((2048 - requests))
done <<END
--policy=fast 2048
--policy=none 2048
--policy=fast,--plug=none 2048
--kernel=4.9,--plug=none 2048
--policy=fast,--plug=4.9 128
--policy=none,--plug=4.15 128
--policy=4.9,--plug=6.1 128
--kernel=4.9 128
--kernel=6.1 128
END

say "a front piece of a split bio is not merged from 4.9 on"
# 24 KiB at a time in requests of 20 that end on 16: 8 and 8 would fit together.
run --backend=null --null_completion=async --bs=24k --size=6m --max_sectors_kb=20 \
	--physical_block_size=16k --policy=6.1 --plug=6.1
equal "requests" "$(count requests)" "$(count bios)"
[ "$(count splits)" -gt 200 ] || fail "only $(count splits) splits"

say "the list is flushed when it is full"
run $null --policy=fast --plug=6.1 --rw=randwrite --randseed=1 --iodepth=64 --iodepth_batch=64 --iodepth_batch_complete_min=64 \
	--size=1g --io_size=16m
[ "$(count unplugs_by_count)" -gt 50 ] || fail "never full"
run $null --policy=fast --plug=4.15 --max_sectors_kb=128 --iodepth=256 --iodepth_batch=256 --iodepth_batch_complete_min=256
[ "$(count unplugs_by_size)" -gt 50 ] || fail "never 128 KiB"
run $null --policy=fast --plug=4.9 --max_sectors_kb=128 --iodepth=256 --iodepth_batch=256 --iodepth_batch_complete_min=256
equal "flushes by size in 4.9" "$(count unplugs_by_size)" 0

say "data survives"
for backend in libaio io_uring psync null; do
	plugs=6.1
	[ $backend != libaio ] || plugs=$(variants plug)
	for plug in $plugs; do
		case $backend in
		null) where="--null_memory_backed=1" ;;
		*) where="--filename=f" ;;
		esac
		# shellcheck disable=SC2086,SC2046
		run --backend=$backend $where --policy=5.4 --plug=$plug --verify=crc32c \
			--max_segments=12 --bsrange=4k-128k
		say "$backend $plug: $(count bios) bios in $(count requests) requests"
		# shellcheck disable=SC2086,SC2046
		run --backend=$backend $where --policy=5.4 --plug=$plug --verify=crc32c \
			--max_segments=12 --bs=4k --rw=randrw --size=1m --loops=4 \
			--iodepth=128 --iodepth_batch=128 --iodepth_batch_complete_min=128
		say "$backend $plug, random: $(count bios) bios in $(count requests) requests"
	done
done

say "large bios of a page cache are split, and a plug is there without being asked for"
while read -r name options; do
	# shellcheck disable=SC2086
	fio_ok --name=a --ioengine="$(engine "$name")" --counters=c.json --backend=null --size=8m \
		--rw=write --bs=64k --end_fsync=1 --max_sectors_kb=64 $options
	equal "$name $options: request sizes" "$(count 'request_sizes["65536"]')" 128
	equal "$name $options: requests" "$(count requests)" 128
done <<END
blocksize --policy=logical
blocksize --policy=merge_bh
blocksize --policy=folio
writeback --policy=overrun
writeback --policy=6.x
END
run_none="--backend=null --size=8m --rw=write --bs=64k --end_fsync=1 --plug=none"
# shellcheck disable=SC2086
fio_ok --name=a --ioengine="$(engine blocksize)" --counters=c.json $run_none --policy=logical
equal "requests of a bio-based driver" "$(count requests)" 16384

say "an unknown one is named"
fio_refused 'plug=5: .*4\.9, .*6\.16, none' --name=a --ioengine="$(engine split)" \
	--backend=null --size=1m --plug=5
