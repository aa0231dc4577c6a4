#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# shellcheck disable=SC2086 # options are meant to split
#
# The cost of the page cache. Random reads of 4 KiB that hit it reach at least half of fio's mmap.
# Sequential buffered writes of 8 KiB, with end_fsync, reach at least fio's psync with direct=0 on the
# same file system. time limit: 300
. tests/lib.sh
need_engine writeback

json="--output-format=json --output=r.json"
e=$(engine writeback)

# middle FILTER COMMAND...: the median of five runs
middle() {
	filter=$1
	shift
	for _ in 1 2 3 4 5; do
		fio_ok "$@" $json
		jq "$filter|floor" "$KP_TMP/r.json"
	done | sort -n | sed -n 3p
}

fio_ok --name=lay --filename=r --rw=write --bs=1m --size=128m --end_fsync=1
reads() {
	middle '.jobs[1].read.iops' --name=first --ioengine="$1" --filename=r --rw=read --bs=128k \
		--size=128m --name=second --stonewall --ioengine="$1" --filename=r --rw=randread \
		--bs=4k --size=128m --invalidate=0 --loops=4
}
ours=$(reads "$e") theirs=$(reads mmap)
say "cached random reads of 4 KiB: $ours IOPS, mmap $theirs: $((ours * 100 / theirs)) %, wanted 50"
[ $((ours * 2)) -ge "$theirs" ] || fail "cached reads are only $((ours * 100 / theirs)) % of mmap"

writes() {
	middle '.jobs[0].write.bw' --name=w --ioengine="$1" --filename=w --rw=write --bs=8k --size=512m \
		--end_fsync=1 --unlink=1
}
ours=$(writes "$e") theirs=$(writes psync)
say "sequential writes of 8 KiB: $((ours / 1024)) MiB/s, psync $((theirs / 1024)) MiB/s"
[ "$ours" -ge "$theirs" ] || fail "writes are only $((ours * 100 / theirs)) % of psync"
