#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Options of the buffered policies that cannot be, and counters that tell what a policy did.
. tests/lib.sh
need_engine writeback blocksize
case $KP_SANITIZE in *thread*) skip 'threads after a fork and the thread sanitizer do not go together' ;; esac

w="--name=j --ioengine=$(engine writeback) --backend=null --rw=write --size=4m --filename=f"
b="--name=j --ioengine=$(engine blocksize) --backend=null --rw=write --size=4m --filename=f"
# shellcheck disable=SC2086 # options are meant to split
{
	fio_refused 'mapped=some: .*auto' $w --mapped=some
	fio_refused 'dirty_bytes=4096: .*8192' $w --dirty_bytes=4096
	fio_refused 'cache_bytes=4096: .*262144' $w --cache_bytes=4096
	fio_refused 'policy=slow: .*overrun' $w --policy=slow
	fio_refused 'block_size=512: .*4096' $b --block_size=512 --logical_block_size=4096
	fio_refused 'block_size=3000: .*power of two' $b --block_size=3000
	# Jobs that disagree about what they share
	fio_refused 'dirty_bytes=[0-9]*: another job has [0-9]*' $w --rate=4m $w --dirty_bytes=1m
	fio_refused 'policy=strict: another job .*overrun|policy=overrun: another job .*strict' \
		$w --policy=overrun --rate=4m $w --policy=strict
	fio_refused 'in a page cache of its own' --name=a --ioengine="$(engine writeback)" --rw=write \
		--size=4m --filename=f --rate=4m --name=b --ioengine="$(engine blocksize)" --rw=write \
		--size=4m --filename=f --rate=4m --startdelay=0.2

	# Bios of a dirty page
	for p in logical:8192 coalesce:1024 merge_bh:1024 folio:4; do
		fio_ok $b --bs=64k --policy=${p%:*} --plug=none --counters=c.json
		equal "$p: bios" "$(counter "$KP_TMP/c.json" bios)" ${p#*:}
	done
	# 64 dirty pages that need mapping, one above background, and a budget of 4: the fault goes on
	# page by page, the others leave the rest to the end
	for p in overrun:61 strict:2 jan:2 v1:2 6.x:2; do
		fio_ok $w --size=256k --bs=256k --policy=${p%:*} --plug=none --counters=c.json \
			--nr_to_write=4 --dirty_bytes=512k --dirty_background_bytes=252k \
			--thinktime=300ms
		equal "$p: extents" "$(counter "$KP_TMP/c.json" extents)" ${p#*:}
	done
	# A file that has its blocks is overwritten alike; a new one is not
	fio_ok $w --size=1m --bs=1m --policy=overrun --mapped=all --nr_to_write=4 --counters=c.json
	equal 'single pages' "$(counter "$KP_TMP/c.json" single_page_extents)" 0
	# What is not synced is written at the end, by the last job
	fio_ok $w --numjobs=2 --rate=8m --counters=c.json
	equal 'late flush' "$(counter "$KP_TMP/c.json" late_flush_bytes)" 4194304
	# The second pass comes from the cache
	fio_ok $w --rw=read --bs=4k --loops=2 --invalidate=0 --counters=c.json
	equal hits "$(($(counter "$KP_TMP/c.json" cache_hits) + $(counter "$KP_TMP/c.json" cache_misses)))" 2048
	equal 'bytes read' "$(counter "$KP_TMP/c.json" cache_read_bytes)" 4194304
}
