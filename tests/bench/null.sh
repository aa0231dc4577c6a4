# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# The null device keeps the times that it is asked for.
# time limit: 600
. tests/lib.sh
. tests/bench-lib.sh
need_engine split
[ -z "$KP_SANITIZE" ] || skip "a sanitizer is in the figures"

null="--ioengine=$(engine split) --policy=none --backend=null --name=bench --rw=randread --bs=4k
	--size=1g --norandommap --time_based --runtime=$KP_BENCH_SECONDS"

# p50 USEC ARG...: median over runs of the median latency, in ns
p50() {
	usec=$1
	shift
	i=0
	while [ $i -lt "$KP_BENCH_PAIRS" ]; do
		# shellcheck disable=SC2086
		value '.jobs[0].read.lat_ns.percentile."50.000000"' $null --lat_percentiles=1 \
			--percentile_list=50 --null_completion_nsec="${usec}000" "$@"
		i=$((i + 1))
	done | median
}

bench_head "latency p50, ns"
for how in sync async; do
	for depth in 1 4; do
		[ $how = async ] || [ $depth = 1 ] || continue
		for usec in 15 20 90; do
			ns=$(p50 $usec --null_completion=$how --iodepth=$depth)
			verdict "$usec us, $how, iodepth $depth" "$ns" "${usec}000 +- 5 %" \
				"$(holds "$ns >= ${usec}000 * 0.95 && $ns <= ${usec}000 * 1.05")"
		done
	done
done

say
bench_head "processor time while it waits, %"
for usec in 90 1000 10000; do
	# shellcheck disable=SC2086
	cpu=$(value '.jobs[0].usr_cpu + .jobs[0].sys_cpu' $null --null_completion_nsec="${usec}000")
	# 25 us of spinning and a sleep's overhead of 25 us
	most=$(calc "100 * 50 / $usec + 2")
	verdict "$usec us" "$cpu" "<= $most" "$(holds "$cpu <= $most")"
done

say
bench_head "shared by all jobs"
for jobs in 1 4; do
	# shellcheck disable=SC2086
	bw=$(value '[.jobs[].read.bw_bytes] | add / 1e6' $null --bs=64k --numjobs=$jobs --null_mbps=500 --iodepth=8)
	verdict "null_mbps=500, $jobs jobs, MB/s" "$bw" "500 +- 5 %" "$(holds "$bw > 475 && $bw < 525")"
	# shellcheck disable=SC2086
	iops=$(value '[.jobs[].read.iops] | add' $null --numjobs=$jobs --iodepth=16 --null_queue_depth=8 \
		--null_completion_nsec=1000000)
	verdict "depth 8 at 1 ms, $jobs jobs, I/O per s" "$iops" "8000 +- 5 %" \
		"$(holds "$iops > 7600 && $iops < 8400")"
	# shellcheck disable=SC2086
	iops=$(value '[.jobs[].read.iops] | add' $null --numjobs=$jobs --iodepth=16 --null_submit_nsec=50000)
	verdict "null_submit_nsec=50000, $jobs jobs" "$iops" "20000 +- 5 %" \
		"$(holds "$iops > 19000 && $iops < 21000")"
done
bench_end
