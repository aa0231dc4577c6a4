#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# No deadlock between asynchronous jobs: depth 16, readers, unaligned overwrites, writes into
# unwritten blocks and holes, appends, trims, on one file. KP_MS of every variant (250; make
# test-long: 40000, ten minutes in all).
# time limit: 1500
. "$KP_TOP/tests/lib.sh"
need_engine diolock
need_command jq
diolock=$(engine diolock)
rows=$(variants diolock)
ms=${KP_MS:-250}
dd if=/dev/zero of="$KP_TMP/probe" bs=512 count=1 oflag=direct 2>/dev/null ||
	skip "no direct I/O by 512 bytes on $KP_TMP"

mixed() {
	# 2 MiB written, 2 MiB unwritten, 2 MiB hole
	rm -f "$KP_TMP/f"
	dd if=/dev/zero of="$KP_TMP/f" bs=1M count=2 conv=fsync 2>/dev/null
	fallocate -o 2m -l 2m "$KP_TMP/f" 2>/dev/null || truncate -s 4m "$KP_TMP/f"
	truncate -s 6m "$KP_TMP/f"
	start=$(date +%s)
	fio_ok --ioengine="$diolock" --policy="$1" --backend="$2" --filename=f --iodepth=16 \
		--create_on_open=1 --fallocate=none --time_based --runtime="${ms}ms" --iodepth_batch=4 \
		--output-format=json --output="$KP_TMP/o.json" \
		--name=read --rw=randread --bs=4k --size=2m \
		--name=unaligned --rw=randwrite --bs=512 --size=4m \
		--name=fill --rw=randwrite --bs=8k --offset=2m --size=4m \
		--name=append --rw=write --bs=12k --offset=6m --size=64m \
		--name=punch --rw=randtrim --bs=64k --offset=4m --size=2m --iodepth=1 --rate_iops=200
	took=$(($(date +%s) - start))
	jq -e '[.jobs[] | .read.total_ios + .write.total_ios + .trim.total_ios] | min > 0' \
		"$KP_TMP/o.json" >/dev/null || fail "$1 $2: a job did nothing"
	[ $took -le $((ms / 1000 + 8 * KP_SLOW)) ] || fail "$1 $2: took $took s"
}

for v in $rows; do
	mixed $v libaio
	say "$v: $(jq -r '[.jobs[] | "\(.jobname) \(.read.total_ios + .write.total_ios + .trim.total_ios)"] | join(", ")' "$KP_TMP/o.json")"
done
