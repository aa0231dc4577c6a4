#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Every variant of checksum with every plug on every backend: a small verify run at iodepth 32, with
# batches and overlapping I/O, in which most I/Os wait for a range, a worker, or the plug. Each such
# wait must end as soon as what it waits for has happened. A wait that sleeps to the end of its 100 ms
# once per I/O takes a hundred times as long as the same job without the policy.
#
# How long that job takes is measured beside each backend, so that a busy machine is no failure.
# time limit: 900
. "$KP_TOP/tests/lib.sh"
need_engine checksum
checksum=$(engine checksum)
rows=$(variants checksum)
rows="$rows none"
plugs=$(variants plug)
plugs="$plugs none"

now_ms() {
	read -r up _ </proc/uptime
	echo $((${up%.*} * 1000 + 1${up#*.} * 10 - 1000))
}

# job BACKEND POLICY PLUG SIZE: a job of about SIZE KiB / 2 I/Os.
job() {
	memory=''
	[ "$1" != null ] || memory=--null_memory_backed=1
	# shellcheck disable=SC2086 # an option or none
	set -- --name=t --ioengine="$checksum" --eta=never --verify_fatal=1 --verify_state_save=0 \
		--backend="$1" --policy="$2" --plug="$3" --size="$4k" $memory --direct=1 --filename=f \
		--iodepth=32 --rw=randrw --verify=pattern --verify_pattern=0xabcd --bsrange=512-4k \
		--iodepth_batch=8 --iodepth_batch_complete_min=8 --iodepth_batch_complete_max=32 \
		--iodepth_low=16 --overwrite=1 --randseed=1048003379
	ends_in_time "$limit" "$@" || { fio_said; fail "not over in $limit s, $usual ms without the policy: $*"; }
	[ $fio_status = 0 ] || { fio_said; fail "fio exited with $fio_status: $*"; }
}

dd if=/dev/zero of="$KP_TMP/probe" bs=512 count=1 oflag=direct 2>/dev/null ||
	skip "no direct I/O by 512 bytes on $KP_TMP"
for backend in psync libaio io_uring null; do
	limit=120 usual='?'
	start=$(now_ms)
	job $backend none none 512
	usual=$(($(now_ms) - start))
	# At 100 ms an I/O, the 300 I/Os of a run take 30 s.
	limit=$((5 + usual * 5 / 1000))
	slowest=0
	for policy in $rows; do
		for plug in $plugs; do
			start=$(now_ms)
			job $backend "$policy" "$plug" 512
			took=$(($(now_ms) - start))
			[ $took -le $slowest ] || slowest=$took what="$policy, plug=$plug"
		done
	done
	say "$backend: $usual ms without the policy; slowest $slowest ms: $what"
done
