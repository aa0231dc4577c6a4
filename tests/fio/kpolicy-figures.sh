#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# kpolicy compare: which figures, groups and warnings there are.
# time limit: 240
. tests/lib.sh
. tests/kpolicy.sh
need_command jq

cd "$KP_TMP"
# Groups are judged apart, jobs matched by name and index, directions kept apart; fixed work is judged
# by time, and what is switched off is not measured.
cat >groups.fio <<-END
	[global]
	ioengine=psync
	direct=1
	size=16m
	bs=64k
	runtime=100ms
	time_based
	unified_rw_reporting=1
	[first]
	filename=a
	rw=randrw
	numjobs=2
	[second]
	stonewall
	filename=b
	rw=read
	[work]
	stonewall
	filename=a
	time_based=0
	runtime=0
	size=8m
	rw=read
	gtod_reduce=1
END
device="backend=null,max_sectors_kb=16"
kpolicy_run 0 compare groups.fio "split:clone,$device,null_completion_nsec=300000" \
	"split:fast,$device,null_completion_nsec=600000" --rounds 6 --format json
equal "groups" "$(jq -c '[.verdicts[].group]' out)" '[0,1,2]'
equal "figures" "$(jq -c '[.verdicts[].figure]' out)" '["IOPS","IOPS","time"]'
equal "jobs" "$(jq -c '[.figures[] | select(.job and .figure == "p99" and .direction == "read")
	| [.job, .index]]' out)" '[["first",0],["first",1]]'
equal "directions of two groups" "$(jq -c '[.figures[] | select(.group < 2) | [.group, .direction]] | unique' out)" \
	'[[0,"all"],[0,"read"],[0,"write"],[1,"read"]]'
equal "percentiles" "$(jq -c '[.figures[] | select(.group == 1) | .figure]' out)" \
	'["MB/s","mean","p50","p99","p99.9"]'
jq -e '.figures | all(.low == null or .low <= .ratio)' out >/dev/null || fail "odd intervals"
jq -e '.explanations | length == 1 and (.[0] | test("vecs copied per I/O [0-9.]+ → 0"))' out >/dev/null ||
	fail "the copies are not explained: $(jq -c .explanations out)"
jq -e '.warnings | any(test("a run took 0"))' out >/dev/null || fail "short runs are not warned of"
jq -e '.verdicts[2].ratio > 1.5' out >/dev/null || fail "time is not longer: $(jq -c '.verdicts[2]' out)"
jq -e '[.figures[] | select(.group == 2 and .figure == "p99")] | length == 1 and .[0].value == null' \
	out >/dev/null || fail "p99 was measured without a clock"

# Where a ratio means nothing, and CPU time, which is that of a whole run.
kpolicy_run 0 compare "native,iodepth=1" "native,iodepth=8" --rounds 6 --format json -- \
	fio --name=x --ioengine=libaio --direct=1 --filename=a --size=16m --rw=randread --bs=4k \
	--runtime=100ms --time_based=1
jq -e '.warnings | any(test("depth differs"))' out >/dev/null || fail "the depth is not warned of"
jq -e '[.figures[] | select(.figure == "CPU per I/O")] | length == 1 and .[0].value > 0' out \
	>/dev/null || fail "no CPU per I/O"

# Like with like, and what a rate limit and a policy that did nothing are worth.
reader job.fio
kpolicy_run 2 compare job.fio native split:fast --set direct=0
grep -q 'page cache.*split:none' err || fail "buffered against direct: $(cat err)"
kpolicy_run 0 compare job.fio native "$(latency 100000)" "split:fast,backend=null" --rounds 6 \
	--set direct=0 --force --set rate_iops=500 --runtime 100ms --format json
jq -e '.warnings | any(test("rate_iops"))' out >/dev/null || fail "a rate limit is not warned of"
jq -e '.warnings | any(test("split:fast.*counters of its policy stayed at zero"))' out >/dev/null ||
	fail "idle counters are not warned of"
jq -e '.warnings | any(test("split:none.*stayed at zero")) | not' out >/dev/null ||
	fail "a policy that is off is warned of"
jq -e '.warnings | any(test("^not comparable"))' out >/dev/null || fail "not marked"

# Storage and other jobs with one report for all: what is compared is told apart; and a name that is
# no UTF-8.
cat >mixed.fio <<-END
	[global]
	group_reporting
	runtime=100ms
	time_based
	[burn]
	ioengine=cpuio
	cpuload=1
	[$(printf 'read\344')]
	ioengine=psync
	filename=a
	size=1m
	rw=read
END
kpolicy_run 2 compare mixed.fio native native --time 0.1s --output mixed --quiet
grep -q 'before one round' err || fail "mixed group: $(cat err)"
equal "compared" "$(jq -c '[.jobs[] | [.name, .counted]]' mixed/session.json)" \
	'[["burn",false],["read?",true]]'
equal "jobs of a mixed group" "$(sed -n '/^{/,$p' mixed/runs/r000.s0.json | tr '\344' '?' | jq '.jobs | length')" 2
none_left
