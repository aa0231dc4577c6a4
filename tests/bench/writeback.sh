#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# shellcheck disable=SC2046,SC2086 # options are meant to split
#
# Seed 4: writeback overruns its budget. The null device takes 20 us for each bio (plug=none) and moves
# 400 MB/s at a depth of 128 requests. A dirty limit of 8 MiB keeps the writer of 8 KiB and the flusher
# in step. strict reaches at least 1.10 times overrun with a tenth of the bios. Overwrites do not
# differ. time limit: 300
. tests/lib.sh
need_engine writeback

common="--ioengine=$(engine writeback) --backend=null --plug=none --null_submit_nsec=20000
	--null_mbps=400 --dirty_bytes=8m --rw=write --bs=8k --size=256m --end_fsync=1
	--output-format=json --output=r.json --counters=c.json"

# speed POLICY ARG...: KiB/s of writes, and the number of bios
speed() {
	policy=$1
	shift
	fio_ok --name=j $common --policy=$policy "$@"
	echo "$(jq '.jobs[0].write.bw' "$KP_TMP/r.json") $(counter "$KP_TMP/c.json" bios)"
}

# middle POLICY ARG...: the median of five
middle() {
	for _ in 1 2 3 4 5; do speed "$@"; done | sort -n | sed -n 3p
}

rows=$(variants writeback)
for p in $rows; do
	set -- $(middle $p)
	say "new file: $p $(($1 / 1024)) MiB/s, $2 bios"
	case $p in
	overrun) bad=$1 bad_bios=$2 ;;
	strict) good=$1 good_bios=$2 ;;
	esac
done
ratio=$((good * 100 / bad))
say "strict over overrun: $ratio %, wanted at least 110 (the kernel: 111); bios 1/$((bad_bios / good_bios)), wanted 1/10"
[ $ratio -ge 110 ] || fail "strict is only $ratio % of overrun"
[ $bad_bios -ge $((10 * good_bios)) ] || fail "overrun has $bad_bios bios, strict $good_bios"

set -- $(middle overrun --mapped=all) $(middle strict --mapped=all)
say "overwrite: overrun $(($1 / 1024)) MiB/s, $2 bios; strict $(($3 / 1024)) MiB/s, $4 bios"
ratio=$(($3 * 100 / $1))
[ $ratio -ge 90 ] && [ $ratio -le 110 ] || fail "overwrites: strict is $ratio % of overrun"
