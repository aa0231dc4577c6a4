# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2034,SC2086,SC2154 # used where this is sourced; options split
#
# What the tests of the buffered policies share: `. tests/cache.sh` after tests/lib.sh.

# Every variant of the two engines, ENGINE:POLICY.
cache_variants='writeback:overrun writeback:v1 writeback:jan writeback:strict writeback:6.x
	blocksize:logical blocksize:coalesce blocksize:merge_bh blocksize:folio'

# How they are written to: what both fio runs get | what only the first gets.
cache_patterns='--rw=write --bs=64k --size=8m|
--rw=randwrite --bs=4k --size=4m|--fsync=100
--rw=write --bs=1000 --size=1000000|
--rw=randwrite --bs=512 --size=1m|--dirty_bytes=64k
--rw=randwrite --bsrange=512-9000 --bs_unaligned --size=4m|
--rw=randwrite --bs=4k --size=4m --numjobs=3 --offset_increment=4m|--dirty_bytes=128k
--rw=write --bs=3000 --size=3000000 --numjobs=2 --offset_increment=3000000|--cache_bytes=256k --dirty_bytes=128k
--rw=randwrite --bs=4k --size=4m|--sync=dsync --direct=1
--rw=randwrite --bs=8k --size=4m|--sync=1
--rw=write --bs=8k --size=4m|--backend=io_uring --iodepth=8 --fdatasync=50'

# The thread sanitizer cannot live with threads made after the fork of a program that had some.
cache_jobs=''
case $KP_SANITIZE in *thread*) cache_jobs=--thread ;; esac

# written VARIANT COMMON FIRST: write a file through an engine. Leaves the counters in c.json.
written() {
	rm -f "$KP_TMP/file"
	fio_ok --name=job --ioengine="$(engine "${1%:*}")" --policy="${1#*:}" --filename=file $2 \
		--verify=crc32c --do_verify=0 --verify_state_save=0 --counters=c.json $3 $cache_jobs
}

# verified COMMON: is what lies on the device what was written? By another fio with its own engine.
verified() {
	fio_run --name=job --ioengine=psync --filename=file $1 --verify=crc32c --verify_only \
		--verify_state_save=0 --allow_file_create=0
	[ $fio_status = 0 ]
}

# cache_pattern N: sets common and first to the Nth pattern, from 0 on, round and round.
cache_pattern() {
	set -- $(($1 % $(echo "$cache_patterns" | wc -l) + 1))
	pattern=$(echo "$cache_patterns" | sed -n "$1p")
	common=${pattern%|*} first=${pattern#*|}
}
