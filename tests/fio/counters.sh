# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# counters=FILE: what it holds, for several jobs, forked and threads; and fio's own output, which
# has nothing of ours in it but the paragraph after the summary.
. tests/lib.sh
need_engine split
need_command jq

# shellcheck disable=SC2086
null="--ioengine=$(engine split) --backend=null --rw=read --bs=1m --size=4m --max_sectors_kb=16"
core="ios bytes bios requests splits vecs_copied"

# want FILTER VALUE: of $KP_TMP/c
want() { equal "$1" "$(jq -c "$1" "$KP_TMP/c")" "$2"; }

say "one job"
# shellcheck disable=SC2086
fio_ok $null --name=one --policy=clone --counters=c
for c in $core; do
	jq -e ".total.$c | type == \"number\"" "$KP_TMP/c" >/dev/null || fail "no number $c in the total"
	jq -e ".jobs[0].$c | type == \"number\"" "$KP_TMP/c" >/dev/null || fail "no number $c in the job"
done
want .fio "\"$KP_FIO_VERSION\""
want '.jobs | length' 1
want '.jobs[0] | [.name, .engine, .policy, .kernel, .backend]' '["one","split","clone","","null"]'
want .total.ios 4
want .total.bytes 4194304
want .total.splits 252
want .total.vecs_copied 33264
want .total.bios 256
want .total.requests 256
want '.total.bio_sizes' '{"16384":256}'
grep -q 'kpolicy split:clone' "$KP_TMP/out" || fail "no paragraph after the summary"
grep -q 'vecs_copied=33264' "$KP_TMP/out" || fail "no counters in it"

say "a policy that did not fire shows zero; bios equal ios without one"
# shellcheck disable=SC2086
fio_ok $null --name=one --policy=none --counters=c
want '.total | [.ios, .bios, .requests, .splits, .vecs_copied]' '[4,4,4,0,0]'
want '.jobs[0].policy' '"none"'

say "several jobs, numjobs, threads, a file for some of them"
cat >"$KP_TMP/jobs.fio" <<END
[global]
ioengine=$(engine split)
backend=null
rw=read
bs=64k
size=1m
max_sectors_kb=16
counters=c
[a]
policy=fast
numjobs=3
[b]
kernel=5.10.7
thread=1
numjobs=2
[other]
policy=build
counters=other
END
fio_ok jobs.fio
want '[.jobs[] | .name] | sort' '["a","a","a","b","b"]'
want '[.jobs[] | select(.name == "b") | [.policy, .kernel, .ios]]' \
	'[["5.4","5.10.7",16],["5.4","5.10.7",16]]'
want .total.ios 80
want .total.splits 240
equal "jobs in the other file" "$(jq -c '[.jobs[] | [.name, .policy, .ios, .splits]]' "$KP_TMP/other")" \
	'[["other","build",16,0]]'
rm "$KP_TMP/other"

say "workers of offload are their job"
fio_offload --name=off --ioengine="$(engine split)" --backend=libaio --policy=fast --rw=randwrite \
	--bs=64k --size=1m --iodepth=8 --max_sectors_kb=16 --filename=off.tmp --counters=c
if [ "$fio_status" = 0 ]; then
	want '[.jobs[] | [.name, .ios, .splits]]' '[["off",16,48]]'
fi

say "fio's JSON is untouched"
# shellcheck disable=SC2086
fio_ok $null --name=one --output-format=json --counters=c
jq -e '.jobs | length == 1' "$KP_TMP/out" >/dev/null || fail "stdout is not JSON"
! grep -q kpolicy "$KP_TMP/out" || fail "something of ours in it"
[ ! -s "$KP_TMP/err" ] || fail "something on stderr: $(cat "$KP_TMP/err")"
want .total.ios 4
for b in psync libaio io_uring; do
	fio_ok --name=one --ioengine="$(engine split)" --backend=$b --rw=write --size=1m --iodepth=4 \
		--filename=json.tmp --output-format=json
	jq -e '.jobs[0].error == 0' "$KP_TMP/out" >/dev/null || fail "stdout is not JSON on $b"
done

say "terse and minimal output have nothing of ours, --output has what belongs to it"
# shellcheck disable=SC2086
fio_ok $null --name=one --minimal
! grep -q kpolicy "$KP_TMP/out" || fail "something of ours in the terse output"
# shellcheck disable=SC2086
fio_ok $null --name=one --output=report
[ ! -s "$KP_TMP/out" ] || fail "something on stdout though --output is given"
grep -q 'kpolicy split:fast' "$KP_TMP/report" || fail "no paragraph in the report"
# shellcheck disable=SC2086
fio_ok $null --name=one --output=report --output-format=json
jq -e '.jobs | length == 1' "$KP_TMP/report" >/dev/null || fail "--output is not JSON"

say "written whole or not at all"
echo old >"$KP_TMP/c"
# shellcheck disable=SC2086
fio_run $null --name=one --counters=c --policy=nonsense
equal "the old file after a refused run" "$(cat "$KP_TMP/c")" old
# shellcheck disable=SC2086
fio_ok $null --name=one --counters=/dev/null
[ -c /dev/null ] || fail "/dev/null was replaced"

say "no planted link is followed, under the name with the number of the process or another"
echo precious >"$KP_TMP/victim"
# shellcheck disable=SC2086,SC2016
(cd "$KP_TMP" && sh -c 'ln -s victim "c.$$.tmp" && ln -s victim c.tmp && exec "$@"' plant \
	$FIO $null --name=one --counters=c) >"$KP_TMP/out" 2>"$KP_TMP/err" ||
	{ fio_said; fail "fio failed beside planted links"; }
equal "the file behind the links" "$(cat "$KP_TMP/victim")" precious
jq -e '.jobs | length == 1' "$KP_TMP/c" >/dev/null || fail "the counters were not written"
rm -f "$KP_TMP/c.tmp" "$KP_TMP"/c.[0-9]*.tmp

left=$(find "$KP_TMP" -name '*.tmp' ! -name json.tmp ! -name off.tmp)
[ -z "$left" ] || fail "left: $left"
