#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# shellcheck disable=SC2086,SC3045 # options are meant to split; dash has ulimit -n
#
# Jobs of fio share a page cache: as threads, with more files than half of the descriptors, with reads
# beside writes, at the dirty limit. An engine of fio's own verifies what is on the device.
. tests/lib.sh
need_engine writeback blocksize
case $KP_SANITIZE in *thread*) skip 'threads after a fork and the thread sanitizer do not go together' ;; esac

verify='--verify=crc32c --verify_state_save=0'
both='writeback:6.x blocksize:logical'

for e in $both; do
	j="--ioengine=$(engine ${e%:*}) --policy=${e#*:}"
	# Threads of one process, on one file
	w="--name=t --filename=t --rw=randwrite --bs=4k --size=1m --numjobs=3 --offset_increment=1m $verify"
	fio_ok $w $j --thread --do_verify=0 --dirty_bytes=256k --fsync=100
	fio_run $w --ioengine=psync --verify_only
	[ $fio_status = 0 ] || { fio_said; fail "$e: threads: not what was written"; }
	# Reads between the writes, verified while it goes on
	fio_ok --name=m --filename=m --rw=randrw --bsrange=512-8k --bs_unaligned --size=2m $verify \
		--verify_backlog=64 $j --dirty_bytes=128k --cache_bytes=256k
done

# The job has 600 files open, and the flusher must open them, too.
n="--name=n --rw=write --bs=4k --nrfiles=600 --size=4800k --filename_format=n.\$filenum $verify"
(
	ulimit -n 800
	fio_ok $n --ioengine="$(engine writeback)" --do_verify=0 --dirty_bytes=1m --counters=c.json
)
fio_run $n --ioengine=psync --verify_only
[ $fio_status = 0 ] || { fio_said; fail "many files: not what was written"; }
equal 'pages of many files' "$(counter "$KP_TMP/c.json" writeback_pages)" 1200
equal 'bytes that failed' "$(counter "$KP_TMP/c.json" writeback_failed_bytes)" 0

# Writers wait at the dirty limit, and only there.
for l in 128k:1 64m:0; do
	fio_ok --name=l --ioengine="$(engine writeback)" --backend=null --null_submit_nsec=100000 \
		--rw=write --bs=64k --size=8m --filename=l --dirty_bytes=${l%:*} --counters=c.json
	waits=$(counter "$KP_TMP/c.json" dirty_wait_count)
	[ "$((waits > 0))" = ${l#*:} ] || fail "dirty_bytes=${l%:*}: $waits waits"
done
