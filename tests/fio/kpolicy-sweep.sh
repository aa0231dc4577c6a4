#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# kpolicy sweep: points, curve and crossover; seeds: the table of the engine that is there.
# time limit: 240
. tests/lib.sh
. tests/kpolicy.sh
need_command jq gnuplot

cd "$KP_TMP"
reader job.fio

# A device of 1 ms against one of 40 MB/s: 1 ms is 40 kB, that is where they cross.
slow="split:none,backend=null,null_completion_nsec=1000000"
narrow="split:none,backend=null,null_completion_nsec=0,null_mbps=40"
kpolicy_run 0 sweep job.fio "$slow" "$narrow" --over bs=8k:128k*4 --rounds 6 --runtime 300ms --quiet \
	--format json --plot curve.svg --output points
equal "points" "$(jq -c '[.points[].bs] | unique' out)" '[8192,32768,131072]'
equal "verdicts" "$(jq -c '[.points[] | select(.verdict) | .verdict] | [first, last]' out)" \
	'["faster","slower"]'
jq -e '.crossovers | length == 1 and (.[0] | .at > 20000 and .at < 80000 and .low <= .at and .high >= .at)' \
	out >/dev/null || fail "the crossover is not at 40 kB: $(jq -c .crossovers out)"
grep -q '</svg>' curve.svg || fail "no curve"
kpolicy_run 0 report points/bs=32k
grep -q '6 rounds' out || fail "the points are not kept"

# Engine options too.
kpolicy_run 0 sweep job.fio "split:clone,backend=null" "split:fast,backend=null" \
	--over max_sectors_kb=4,64 --set bs=64k --rounds 6 --runtime 200ms --quiet
grep -q '^max_sectors_kb=64 ' out || { cat out; fail "no such point"; }

kpolicy_run 0 seeds 5 --rounds 6 --runtime 200ms --quiet --format json
equal "published" "$(jq -c '[.[].published | floor]' out)" '[12227,21011,18959]'
jq -e 'all(.ours > 0)' out >/dev/null || fail "not measured"
none_left
