#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# kpolicy compare: which figures, groups and warnings there are.
# time limit: 240
. tests/lib.sh
. tests/kpolicy.sh
need_command jq

cd "$KP_TMP"
null="backend=null,null_completion_nsec=100000"

# Two groups are judged apart, jobs matched by name and index, directions kept apart.
cat >groups.fio <<-END
	[global]
	ioengine=psync
	direct=1
	size=16m
	bs=64k
	runtime=300ms
	time_based
	[first]
	filename=a
	rw=randrw
	numjobs=2
	[second]
	stonewall
	filename=b
	rw=read
END
kpolicy_run 0 compare groups.fio "split:clone,max_sectors_kb=16,$null" \
	"split:fast,max_sectors_kb=16,$null" --rounds 6 --format json
equal "groups" "$(jq -c '[.verdicts[].group]' out)" '[0,1]'
equal "jobs" "$(jq -c '[.figures[] | select(.job and .figure == "p99" and .direction == "read")
	| [.job, .index]]' out)" '[["first",0],["first",1]]'
equal "directions" "$(jq -c '[.figures[] | select(.group == 1) | .direction] | unique' out)" \
	'["all","read"]'
equal "percentiles" "$(jq -c '[.figures[] | select(.group == 1) | .figure]' out)" \
	'["MB/s","mean","p50","p99","p99.9","CPU per I/O"]'
jq -e '.figures | all(.low == null or .low <= .ratio)' out >/dev/null || fail "odd intervals"
jq -e '.explanations | length == 1 and (.[0] | test("vecs copied per I/O 36.00 → 0"))' out >/dev/null ||
	fail "the copies are not explained: $(jq -c .explanations out)"
jq -e '.warnings | any(test("a run took 0"))' out >/dev/null || fail "short runs are not warned of"

# Fixed work is judged by time; latency that is switched off is not measured.
cat >work.fio <<-END
	[work]
	ioengine=psync
	direct=1
	filename=a
	size=4m
	rw=read
	bs=4k
	gtod_reduce=1
END
kpolicy_run 0 compare work.fio "split:none,backend=null,null_completion_nsec=300000" \
	"split:none,backend=null,null_completion_nsec=600000" --rounds 6 --format json
equal "figure" "$(jq -r '.verdicts[0].figure' out)" time
equal "twice the latency" "$(verdict)" slower
jq -e '.verdicts[0].ratio > 1.5' out >/dev/null || fail "time is not longer"
jq -e '[.figures[] | select(.figure == "p99")] | length == 1 and .[0].value == null' out >/dev/null ||
	fail "p99 was measured without a clock"

# Where a ratio means nothing.
reader job.fio
kpolicy_run 0 compare job.fio "$(latency 100000)" "split:fast,$null" --rounds 6 --format json \
	--set rate_iops=500 --runtime 300ms
jq -e '.warnings | any(test("rate_iops"))' out >/dev/null || fail "a rate limit is not warned of"
jq -e '.warnings | any(test("split:fast.*counters of its policy stayed at zero"))' out >/dev/null ||
	fail "idle counters are not warned of"
jq -e '.warnings | any(test("split:none.*stayed at zero")) | not' out >/dev/null ||
	fail "a policy that is off is warned of"
kpolicy_run 0 compare "native,iodepth=1" "native,iodepth=8" --rounds 6 --format json -- \
	fio --name=x --ioengine=libaio --direct=1 --filename=a --size=16m --rw=randread --bs=4k \
	--runtime=300ms --time_based=1
jq -e '.warnings | any(test("depth differs"))' out >/dev/null || fail "the depth is not warned of"

# Like with like.
kpolicy_run 2 compare job.fio native split:fast --set direct=0
grep -q 'page cache.*split:none' err || fail "buffered against direct: $(cat err)"
kpolicy_run 0 compare job.fio native "$(latency 100000)" --set direct=0 --force --rounds 6 \
	--runtime 300ms --format json
jq -e '.warnings | any(test("^not comparable"))' out >/dev/null || fail "not marked"
none_left
