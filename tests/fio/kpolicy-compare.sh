#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# kpolicy compare: equal is equal, 30 % is found, and the same result prints in every form.
# time limit: 240
. tests/lib.sh
. tests/kpolicy.sh
need_command jq gnuplot

cd "$KP_TMP"
reader job.fio
cp job.fio before.fio
sed s/psync/null/ job.fio >null.fio

for latency in 1000000 1300000; do
	kpolicy_run 0 compare job.fio "$(latency 1000000)" "$(latency $latency)" --rounds 12 \
		--format json --output "dir$latency"
	say "1 ms against $latency ns: $(verdict), $(jq -c '.verdicts[0] | [.ratio,.low,.high]' out)"
	case $latency in
	1000000) case $(verdict) in slower | faster) fail "equal is $(verdict)" ;; esac ;;
	*) equal "30 % more latency" "$(verdict)" slower ;;
	esac
done
cmp -s job.fio before.fio || fail "the job file was changed"

# The rounds: two controls in each, the order turned round, a warm-up before them.
runs=$(jq .rounds out)
equal "runs" "$(find dir1300000/runs -name '*.json' | wc -l)" $((runs * 3 + 2))
first() { jq .timestamp_ms "dir1300000/runs/$1"; }
[ "$(first r001.s0.json)" -lt "$(first r001.s2.json)" ] || fail "round 1 is turned round"
[ "$(first r002.s0.json)" -gt "$(first r002.s2.json)" ] || fail "round 2 is not turned round"

# What is kept.
for f in session.json environment.json result.json jobs/0.fio jobs/1.fio; do
	[ -s "dir1300000/$f" ] || fail "no $f"
done
jq -e '.kernel and .fio and .cpus' dir1300000/environment.json >/dev/null || fail "no environment"
[ -z "$(find dir1300000 -name '*.partial')" ] || fail "partial files are left"

# The ratio is that of the runs themselves, averaged by hand.
by_hand=$(find dir1300000/runs -name '*.json' ! -name 'r000*' | sort | xargs jq -s '
	def iops: .jobs[0].read.iops | log;
	map(iops) as $x | [range(0; length; 3)] |
	map($x[. + 1] - ($x[.] + $x[. + 2]) / 2) | sort | .[length / 2 | floor] | exp')
ratio=$(jq '.verdicts[0].ratio' out)
jq -en "($by_hand / $ratio | log | fabs) < 0.02" >/dev/null ||
	fail "ratio $ratio, the median by hand is $by_hand"

# The same result again, in every form.
cp out first.json
kpolicy_run 0 report dir1300000 --format json
cmp -s out first.json || fail "report does not repeat compare"
cmp -s out dir1300000/result.json || fail "result.json is another"
kpolicy_run 0 report dir1300000 --format csv
equal "csv fields" "$(head -n 1 out | tr ',' '\n' | wc -l)" 15
grep -q '^0,,,all,IOPS,1/s,.*,slower$' out || fail "no verdict in the csv"
kpolicy_run 0 report dir1300000 --format markdown
grep -q '| *slower |' out || fail "no verdict in markdown"
kpolicy_run 0 report dir1300000 --plot p.svg --html p.html
grep -q 'slower' out || fail "no verdict in the text"
grep -q '</svg>' p.svg || fail "no picture"
grep -q '</svg>' p.html || fail "no picture in the page"
grep -Eq "(src|href)=['\"][^#]" p.html && fail "the page needs other files"
kpolicy_run 0 report dir1300000 --plot p.png
[ "$(head -c 4 p.png | tail -c 3)" = PNG ] || fail "no PNG"

status=0
env PATH=/nowhere "$KPOLICY" report dir1300000 --plot q.svg >out 2>err || status=$?
equal "exit code without gnuplot" "$status" 2
grep -q 'slower' out || fail "no report without gnuplot"
grep -q 'install gnuplot-nox' err || fail "without gnuplot: $(cat err)"
[ ! -e q.svg ] || fail "an empty picture is left"

# Exit codes.
kpolicy_run 3 report dir1300000 --fail-if-slower 3
kpolicy_run 0 report dir1300000 --fail-if-slower 30
kpolicy_run 4 compare null.fio native native --runtime 100ms --rounds 900 --time 3s --quiet \
	--fail-if-undecided
none_left
