#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# shellcheck disable=SC2086 # options are meant to split
#
# Seed 1: a block device that starts with blocks of 512 bytes. The null device takes 10 us for each
# bio (plug=none: what a bio-based driver such as md sees), dirty limit 8 MiB, depth 128 requests.
# Sequential buffered writes: coalesce at least 3.5 times logical. Random writes of 512 bytes: the
# small block wins. time limit: 300
. tests/lib.sh
need_engine blocksize

common="--ioengine=$(engine blocksize) --backend=null --plug=none --null_submit_nsec=10000
	--dirty_bytes=8m --end_fsync=1 --output-format=json --output=r.json --counters=c.json"

# speed POLICY ARG...: KiB/s of writes
speed() {
	policy=$1
	shift
	fio_ok --name=j $common --policy=$policy "$@"
	jq '.jobs[0].write.bw' "$KP_TMP/r.json"
}

# best POLICY ARG...: of three
best() {
	for _ in 1 2 3; do speed "$@"; done | sort -n | tail -n 1
}

rows=$(variants blocksize)
for p in $rows; do
	bw=$(best $p --rw=write --bs=1m --size=64m)
	say "sequential 1m: $p $((bw / 1024)) MiB/s, $(counter "$KP_TMP/c.json" bios) bios"
	case $p in logical) logical=$bw ;; coalesce) coalesce=$bw ;; esac
done
ratio=$((coalesce * 100 / logical))
say "coalesce over logical: $ratio %, wanted at least 350 (the kernel: 150 to 350)"
[ $ratio -ge 350 ] || fail "coalesce is only $ratio % of logical"

for p in logical coalesce; do
	bw=$(best $p --rw=randwrite --bs=512 --size=64m --io_size=4m --null_read_nsec=50000)
	say "random 512: $p $bw KiB/s, $(counter "$KP_TMP/c.json" blocks_read_for_write) blocks read first"
	case $p in logical) logical=$bw ;; coalesce) coalesce=$bw ;; esac
done
[ "$logical" -gt "$coalesce" ] || fail "random writes of 512 bytes: the small block does not win"
