#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# A block device as the file: fio asks for its size before a job has its pipeline.
# time limit: 30
. tests/lib.sh
need_engine split
need_root

truncate -s 2m "$KP_TMP/image"
loop_device "$KP_TMP/image"
for backend in libaio io_uring psync; do
	for how in --thread=1 --thread=0; do
		# shellcheck disable=SC2154
		fio_ok --name=a --ioengine="$(engine split)" --backend=$backend $how \
			--filename="$loop" --rw=randwrite --bs=4k --iodepth=8 --verify=crc32c
		grep -q 'bytes=4194304' "$KP_TMP/out" || fail "$backend: not the whole device"
	done
done

say "a device that is not there"
fio_run --name=a --ioengine="$(engine split)" --filename=/dev/kpolicy-none --rw=read --bs=4k
[ $fio_status != 0 ] || fail "a missing device was read"
