# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# tests/fio/checksum-overlap.sh for every device and way, forked and threads; then fio's verify over
# all variants on all devices.
# time limit: 1200
. tests/lib.sh
. tests/checksum.sh

for backend in libaio io_uring psync; do
	for policy in inline async unsplit_inline; do
		for thread in 0 1; do
			overlap $backend $policy $thread 10
		done
	done
done
for backend in libaio io_uring psync null; do
	for policy in $csum_variants; do
		for profile in single raid0 raid6; do
			csum --name=v --filename=v.tmp --size=16m --rw=randwrite \
				--bsrange=512-512k --blockalign=512 --verify=crc32c --verify_fatal=1 \
				--iodepth=32 --backend=$backend --policy="$policy" \
				--raid_profile=$profile --null_memory_backed=1
			said_nothing
		done
	done
done
