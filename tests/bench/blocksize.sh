#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# shellcheck disable=SC2086 # options are meant to split
#
# Seed 1: a block device that starts with blocks of 512 bytes. The null device takes 10 us for each bio
# (plug=none: what a bio-based driver such as md sees). The dirty limit is 8 MiB, the depth 128 requests.
# For sequential buffered writes coalesce reaches at least 3.5 times logical, and a run of 256 MiB gives
# the ratio of a long one, since no job pays for the first touch of the cache's memory. For random
# writes of 512 bytes the small block wins. time limit: 300
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

# best POLICY ARG...: the best of three
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

# ratio_of SIZE: coalesce over logical in %, as jobs of one fio. Each job has a file of its own, and the
# cache still holds the pages of the job before.
ratio_of() {
	args=''
	for p in logical coalesce; do
		args="$args --name=$p --stonewall $common --policy=$p --rw=write --bs=1m --size=$1"
	done
	fio_ok $args
	jq '.jobs[1].write.bw * 100 / .jobs[0].write.bw | floor' "$KP_TMP/r.json"
}

long=$(ratio_of 1g)
for _ in 1 2 3; do ratio_of 256m; done | sort -n >"$KP_TMP/ratios"
short=$(sed -n 2p "$KP_TMP/ratios")
noise=$(($(sed -n 3p "$KP_TMP/ratios") - $(sed -n 1p "$KP_TMP/ratios")))
say "coalesce over logical: 256 MiB $short %, 1 GiB $long %, wanted equal within 10 % and the noise ($noise)"
distance=$((short > long ? short - long : long - short))
[ $distance -le $((long / 10 + noise)) ] || fail "256 MiB give $short %, 1 GiB $long %"

for p in logical coalesce; do
	bw=$(best $p --rw=randwrite --bs=512 --size=64m --io_size=4m --null_read_nsec=50000)
	say "random 512: $p $bw KiB/s, $(counter "$KP_TMP/c.json" blocks_read_for_write) blocks read first"
	case $p in logical) logical=$bw ;; coalesce) coalesce=$bw ;; esac
done
[ "$logical" -gt "$coalesce" ] || fail "random writes of 512 bytes: the small block does not win"
