#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# io_submit_mode=offload: the threads that made the pipelines are gone when they are taken down.
# tests/unit/test_cache_users does that without fio, whose offload mode stops at times.
# time limit: 300
. tests/lib.sh
need_engine writeback blocksize

for e in writeback:6.x writeback:overrun blocksize:logical; do
	fio_offload --name=o --filename=o --ioengine="$(engine ${e%:*})" --policy=${e#*:} --rw=rw \
		--bs=4k --size=2m --iodepth=4 --end_fsync=1
	case $fio_status in 0 | 124) ;; *) fio_said; fail "$e: offload: status $fio_status" ;; esac
done
