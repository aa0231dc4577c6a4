#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# kpolicy sweep: points, curve and crossover; reproduce: the table of the engine that is there. The device
# is that of tests/fake-fio, so that it is known where the curves cross.
# time limit: 240
. tests/lib.sh
. tests/kpolicy.sh
need_command jq gnuplot

cd "$KP_TMP"
reader job.fio
fake=$KP_TOP/tests/fake-fio

# A device of 1 ms against one of 40 MB/s: 1 ms is 40 kB, that is where they cross.
slow="split:none,backend=null,null_completion_nsec=1000000"
narrow="split:none,backend=null,null_completion_nsec=0,null_mbps=40"
kpolicy_run 0 sweep job.fio "$slow" "$narrow" --over bs=8k:128k*16 --rounds 6 --fio "$fake" --quiet \
	--format json --plot curve.svg --output points
equal "points" "$(jq -c '[.points[].bs] | unique' out)" '[8192,131072]'
equal "verdicts" "$(jq -c '[.points[] | select(.verdict) | .verdict] | [first, last]' out)" \
	'["faster","slower"]'
jq -e '.crossovers | length == 1 and (.[0] | .at > 39000 and .at < 41000 and .low <= .at and .high >= .at)' \
	out >/dev/null || fail "the crossover is not at 40 kB: $(jq -c .crossovers out)"
grep -q '</svg>' curve.svg || fail "no curve"
kpolicy_run 0 report points/bs=128k
grep -q '6 rounds' out || fail "the points are not kept"

# An engine's option; and a job that is done at one point and runs out of time at the other. The
# second variant makes twice the requests and is slower at both, there is nothing to cross.
cat >work.fio <<-END
	[work]
	ioengine=psync
	direct=1
	filename=kpolicy.file
	size=512k
	rw=read
	bs=64k
	runtime=200ms
END
kpolicy_run 0 sweep work.fio "split:none,backend=null,max_sectors_kb=64" \
	"split:fast,backend=null,max_sectors_kb=32" --over null_submit_nsec=1000000,40000000 \
	--rounds 6 --fio "$fake" --quiet --format json
equal "figures" "$(jq -c '[.points[].figure] | unique' out)" '["IOPS"]'
equal "sides" "$(jq -c '[.points[] | select(.ratio) | .ratio < 0.8]' out)" '[true,true]'
equal "crossovers" "$(jq -c .crossovers out)" '[]'

kpolicy_run 0 reproduce 5 --rounds 6 --fio "$fake" --quiet --format json
equal "published" "$(jq -c '[.[].published | floor]' out)" '[12227,21011,18959]'
jq -e 'all(.ours > 0)' out >/dev/null || fail "not measured"
none_left
