#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# What kpolicy prints, byte for byte, beside tests/golden/: the tables of the policies, the help, and
# every kind of table of a comparison whose figures are known (tests/fake-fio). `make golden` writes
# the files anew: look at the difference before you commit it.
# time limit: 240
. tests/lib.sh
. tests/kpolicy.sh
need_command jq diff

golden=$KP_TOP/tests/golden
cd "$KP_TMP"
mkdir golden keep
export FAKE_KEEP="$KP_TMP/keep"

# steady: what differs from one machine or fio to the next
steady() {
	sed "s|$KP_TMP|TMP|g; s|$KP_TOP|TOP|g; s|$KP_FIO_VERSION|fio-VERSION|g"
}

# said NAME ARG...: the output of kpolicy, which must succeed; stderr after it, if there is any.
said() {
	name=$1
	shift
	"$KPOLICY" "$@" >out 2>err || { cat err; fail "exit code $?: kpolicy $*"; }
	{ cat out; sed 's/^/stderr: /' err; } | steady >"golden/$name"
}

for command in '' compare sweep report list show reproduce seeds; do
	# shellcheck disable=SC2086 # nothing or a word
	said "help${command:+-$command}.txt" $command --help
done
said list.txt list
variants=$(sed -n 's/^\([a-z]*:[^ ][^ ]*\) .*/\1/p' golden/list.txt)
[ "$(echo "$variants" | wc -l)" -ge 30 ] || fail "list names only: $variants"
# A plug is an option, and no engine: show refuses it.
for variant in $variants split:none native; do
	"$KPOLICY" show "$variant" || [ "${variant%:*}" = plug ] || fail "kpolicy show $variant"
	echo
done >show 2>&1
steady <show >golden/show.txt

# Two groups, three jobs, two directions, and fixed work without a clock.
cat >job.fio <<-END
	; a comment
	[global]
	ioengine=psync
	direct=1
	size=64m
	bs=64k
	runtime=2s
	time_based
	[first]
	filename=a
	rw=randrw
	numjobs=2
	[second]
	filename=b
	rw=read
	iodepth=4
	[work]
	stonewall
	filename=a
	time_based=0
	runtime=0
	rw=write
	gtod_reduce=1
END
cat >seq.fio <<-END
	[seq]
	ioengine=libaio
	direct=1
	filename=a
	size=1g
	rw=read
	bs=1m
	runtime=2s
	time_based
END
said compare-show.diff compare --show job.fio split:clone
said compare-show-diolock.diff compare --show seq.fio diolock:kernel=5.2 --set bs=4k

# recorded DIR ARG...: a comparison; its CPU times are those of the fake, and its machine is this one.
recorded() {
	dir=$1
	shift
	"$KPOLICY" compare "$@" --output "$dir" --quiet --fio "$KP_TOP/tests/fake-fio" --rounds 6 \
		>out 2>err || { cat err; fail "exit code $?: kpolicy compare $*"; }
	for cpu in "$dir"/runs/*.cpu; do echo 0.25 >"$cpu"; done
	echo '{"kernel": "Linux", "fio": "fio", "cpu": "one", "cpus": 2}' >"$dir/environment.json"
}
export FAKE_SLOW='^clone$' FAKE_SLOWER=50
recorded one seq.fio split:clone split:fast --set backend=null
recorded three job.fio split:none split:clone split:fast --set backend=null --set max_sectors_kb=16
FAKE_NOISE=20 recorded noisy seq.fio split:build split:fast --set backend=null
for dir in one three noisy; do
	said compare-$dir.text report $dir
done
for format in markdown csv json; do
	said compare-one.$format report one --format $format
done
said compare-three.json report three --format json
"$KPOLICY" report one --html page.html >out
# The picture is gnuplot's.
steady <page.html | sed '/<svg/,/<\/svg>/d' >golden/compare-one.html

fake="--rounds 6 --quiet --fio $KP_TOP/tests/fake-fio"
# shellcheck disable=SC2086 # options
for format in text markdown csv json; do
	said sweep.$format sweep seq.fio "split:none,backend=null,null_completion_nsec=1000000" \
		"split:fast,backend=null,null_completion_nsec=0,null_mbps=40" \
		--over bs=8k:128k*4 --format $format $fake
	said seed5.$format reproduce 5 --format $format $fake
done
for seed in 1 2 3 4; do
	# shellcheck disable=SC2086
	said seed$seed.text seeds $seed $fake
done

if [ "${KP_GOLDEN:-}" = renew ]; then
	find "$golden" -maxdepth 1 -type f -delete
	cp golden/* "$golden"
	say "$(find golden -type f | wc -l) files in tests/golden are new"
	exit 0
fi
diff -u --exclude=kernel "$golden" golden >difference || {
	head -n 60 difference
	fail "what kpolicy prints has changed; where that is wanted: make golden"
}
say "$(find golden -type f | wc -l) outputs are as they were"
