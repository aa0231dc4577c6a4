#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# kpolicy compare: equal is equal, 10 % is found, the ratio is that of the runs by hand, and the same
# result prints in every form. tests/long/kpolicy-aa.sh does it 40 times.
# time limit: 240
. tests/lib.sh
. tests/kpolicy.sh
need_command jq gnuplot

cd "$KP_TMP"
reader job.fio
cp job.fio before.fio

# judged LATENCY VERDICT: 4 ms against that, on the device of tests/fake-fio, whose figures are known.
FIO=$KP_TOP/tests/fake-fio
judged() {
	kpolicy_run 0 compare job.fio "$(latency 4000000)" "$(latency "$1")" --rounds 12 \
		--precision 5 --format json --output "dir$1" --quiet --fio "$FIO"
	say "4 ms against $1 ns: $(verdict), $(jq -c '.verdicts[0] | [.ratio,.low,.high]' out)"
	equal "4 ms against $1 ns" "$(verdict)" "$2"
}
judged 4000000 "no difference"
judged 4400000 slower
cmp -s job.fio before.fio || fail "the job file was changed"
dir=dir4400000
ratio=$(jq '.verdicts[0].ratio' out)
cp out first.json
verdict=$(verdict)

# The rounds: two controls in each, the order turned round, a warm-up before them.
runs=$(jq .rounds first.json)
equal "runs" "$(find $dir/runs -name '*.json' | wc -l)" $((runs * 3 + 2))
first() { jq .timestamp_ms "$dir/runs/$1"; }
[ "$(first r001.s0.json)" -lt "$(first r001.s2.json)" ] || fail "round 1 is turned round"
[ "$(first r002.s0.json)" -gt "$(first r002.s2.json)" ] || fail "round 2 is not turned round"

# What is kept.
for f in session.json environment.json result.json jobs/0.fio jobs/1.fio; do
	[ -s "$dir/$f" ] || fail "no $f"
done
jq -e '.kernel and .fio and .cpus and .engines.split' $dir/environment.json >/dev/null ||
	fail "no environment"
[ -z "$(find $dir -name '*.partial')" ] || fail "partial files are left"

# By hand: two job files, fio and nothing else, in turns.
for n in 4000000 4400000; do
	cat >"hand$n.fio" <<-END
	[reader]
	ioengine=external:$KP_TOP/engines/split.so
	policy=none
	backend=null
	null_completion_nsec=$n
	direct=1
	filename=kpolicy.file
	size=64m
	runtime=300ms
	time_based
	rw=randread
	bs=4k
	END
done
for i in 1 2 3 4 5; do
	for n in 4000000 4400000; do
		fio_ok --output-format=json --output="hand$n.$i" "hand$n.fio"
	done
done
by_hand=$(jq -n '[inputs.jobs[0].read.iops | log] |
	[range(0; length; 2) as $i | .[$i + 1] - .[$i]] | sort | .[length / 2 | floor] | exp' \
	hand4000000.1 hand4400000.1 hand4000000.2 hand4400000.2 hand4000000.3 hand4400000.3 \
	hand4000000.4 hand4400000.4 hand4000000.5 hand4400000.5)
say "ratio $ratio, by hand $by_hand"
jq -e --argjson hand "$by_hand" '.verdicts[0] | .low / 1.02 < $hand and $hand < .high * 1.02' first.json \
	>/dev/null || fail "ratio $ratio, by hand $by_hand"

# The same result again, in every form.
kpolicy_run 0 report $dir --format json
cmp -s out first.json || fail "report does not repeat compare"
cmp -s out $dir/result.json || fail "result.json is another"
kpolicy_run 0 report $dir --format csv
equal "csv fields" "$(head -n 1 out | tr ',' '\n' | wc -l)" 15
grep -q "^0,,,all,IOPS,1/s,.*,$verdict\$" out || fail "no verdict in the csv"
kpolicy_run 0 report $dir --format markdown
grep -q "| *$verdict |" out || fail "no verdict in markdown"
kpolicy_run 0 report $dir --plot p.svg --html p.html
grep -q "$verdict" out || fail "no verdict in the text"
grep -q '</svg>' p.svg || fail "no picture"
grep -q '</svg>' p.html || fail "no picture in the page"
grep -Eq "(src|href)=['\"][^#]" p.html && fail "the page needs other files"
kpolicy_run 0 report $dir --plot p.png
[ "$(head -c 4 p.png | tail -c 3)" = PNG ] || fail "no PNG"

status=0
env PATH=/nowhere "$KPOLICY" report $dir --plot q.svg >out 2>err || status=$?
equal "exit code without gnuplot" "$status" 2
grep -q "$verdict" out || fail "no report without gnuplot"
grep -q 'install gnuplot-nox' err || fail "without gnuplot: $(cat err)"
[ ! -e q.svg ] || fail "an empty picture is left"

# Exit codes; an undecided result is in kpolicy-stop.sh.
kpolicy_run 0 report $dir --fail-if-slower 30
none_left
kpolicy_run 3 report $dir --fail-if-slower 1
kpolicy_run 0 report $dir --fail-if-undecided
