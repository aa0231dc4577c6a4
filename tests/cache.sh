# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2034,SC2086,SC2154 # used where this is sourced; options split
#
# What the tests of the buffered policies share: `. tests/cache.sh` after tests/lib.sh.

# Every variant of the two engines, ENGINE:POLICY.
cache_variants=$(variants writeback writeback:)
cache_variants="$cache_variants $(variants blocksize blocksize:)"

# Patterns of writes: options of both fio runs | options of the first run only.
cache_patterns='--rw=write --bs=64k --size=8m|
--rw=randwrite --bs=4k --size=4m|--fsync=100
--rw=write --bs=1000 --size=1000000|
--rw=randwrite --bs=512 --size=1m|--dirty_bytes=64k
--rw=randwrite --bsrange=512-9000 --bs_unaligned --size=4m|
--rw=randwrite --bs=4k --size=4m --numjobs=3 --offset_increment=4m|--dirty_bytes=128k
--rw=write --bs=3000 --size=3000000 --numjobs=2 --offset_increment=3000000|--cache_bytes=256k --dirty_bytes=128k
--rw=randwrite --bs=4k --size=1m|--sync=dsync --direct=1
--rw=randwrite --bs=8k --size=1m|--sync=1
--rw=write --bs=8k --size=4m|--backend=io_uring --iodepth=8 --fdatasync=50'

# The thread sanitizer fails when a program that has threads forks and the child starts threads.
cache_jobs=''
case $KP_SANITIZE in *thread*) cache_jobs=--thread ;; esac

# plan VARIANT N [OPTION...]: adds a job that writes by the Nth pattern, and a job that verifies it.
# fio seeds its random numbers by the order of jobs, so both runs have the same jobs in the same order.
writers='' verifiers='' planned=0
plan() {
	pattern=$(echo "$cache_patterns" | sed -n "$(($2 % 10 + 1))p")
	planned=$((planned + 1))
	name=--name=$1,$2
	job="--stonewall --filename=file$planned ${pattern%|*} --verify=crc32c --verify_state_save=0"
	writers="$writers $name --ioengine=$(engine "${1%:*}") --policy=${1#*:} $job ${pattern#*|}
		--do_verify=0 $cache_jobs"
	verifiers="$verifiers $name --ioengine=psync $job --verify_only --allow_file_create=0"
	shift 2
	writers="$writers $*"
}

# written_and_verified: one fio writes through our cache. Another verifies what is on the device with
# an engine of fio's own, and leaves its exit status in fio_status.
written_and_verified() {
	fio_ok $writers
	fio_run $verifiers
	writers='' verifiers='' planned=0
}
