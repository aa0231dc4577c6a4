#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# shellcheck disable=SC2086,SC2046 # options and process numbers are lists of words
#
# Faults in running I/O, in what a run needs, and in the processes of a run, in every engine. Whatever
# happens, a run ends, what was written and not reported as failed is there, an error is one, and
# nothing is left: no process, no file. Prints a table by kind.
#
# KP_FAULTS faults in I/O calls (300; make test-long: 10000), KP_ROUNDS rounds of the other kinds (1;
# 12), KP_SEED for the draws (1).
# time limit: 180
. "${KP_TOP:?}/tests/lib.sh"
need_engine split diolock checksum blocksize writeback
need_command jq pgrep
[ -z "$KP_SANITIZE" ] || skip "the sanitizer's run time and ours both have to be preloaded first"
faults=${KP_FAULTS:-300} rounds=${KP_ROUNDS:-1} seed=${KP_SEED:-1}
limit=$((30 + 10 * ${KP_SLOW:-1})) # seconds for a run
KP_TMP=$(cd "$KP_TMP" && pwd)
cd "$KP_TMP"

printf '#include <libaio.h>\n#include <liburing.h>\nint main(void) { return 0; }\n' >probe.c
$KP_CC -o probe probe.c -luring -laio 2>/dev/null || skip "no headers of liburing and libaio"
$KP_CC -std=gnu11 -shared -fPIC -O2 -o inject.so "$KP_TOP/tests/fault/inject.c" -Wl,--no-as-needed \
	-luring -laio -ldl || fail "inject.c does not compile"

# ---- counting ----------------------------------------------------------------------------------

: >tally
tally() { echo "$*" >>tally; } # KIND FAULTS LOST HUNG LEFT RUNS

# draw N: a number below N.
draw() {
	seed=$(((seed * 16807 + 12345) % 2147483647))
	drawn=$((seed / 7 % $1))
}
pick() { # WORDS: sets picked
	draw $#
	shift $drawn
	picked=$1
}

variants=$("$KP_TOP/tools/kpolicy" list | sed -n 's/^\([a-z][a-z]*:[^ ][^ ]*\) .*/\1/p' | grep -v ^plug:)
set -f

# variant: draws one: sets e to fio's options for it, engine and policy.
variant() {
	pick split diolock checksum blocksize writeback
	engine=$picked
	pick $(echo "$variants" | grep "^$engine:")
	policy=${picked#*:}
	case $engine in blocksize | writeback) cached=1 ;; *) cached='' ;; esac
	e="--ioengine=external:$KP_TOP/engines/$engine.so --policy=$policy"
}

# processes of the run in the folder run/, whatever their parents are
ours() {
	for pid in $(pgrep -x fio; pgrep -x kpolicy); do
		case $(readlink "/proc/$pid/cwd" 2>/dev/null) in "$KP_TMP"/run*) echo "$pid" ;; esac
	done
}

# settle: after a run: is anything left? Sets left.
settle() {
	left=0
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		[ "$(ours)" ] || break
		sleep 0.3
	done
	for pid in $(ours); do
		say "left: $(tr '\0' ' ' <"/proc/$pid/cmdline")"
		kill -9 "$pid" || true
		left=$((left + 1))
	done
	set +f
	for f in run/* /dev/shm/kpolicy* /tmp/kpolicy-* /var/tmp/kpolicy-run*; do
		case $f in
		run/f* | run/out | run/err | run/json | run/status | run/*.state | *'*') ;;
		run/*) say "left: $f"; left=$((left + 1)) ;;
		esac
	done
	set -f
}

# fio_in KIND ARG...: runs fio in the folder run/. Sets status, and hung to 1 if it had to be killed.
fio_in() {
	kind=$1
	shift
	echo "$FIO $*" >"command"
	status=0 hung=0
	(cd run && exec timeout -s KILL $limit $FIO "$@" --eta=never --verify_state_save=0 \
		--output-format=json --output=json) >run/out 2>run/err </dev/null || status=$?
	[ $status != 137 ] || { hung=1; say "$kind: hung: $(cat command)"; }
	sed -n '/^{/,$p' run/json >json 2>/dev/null || : >json
}
errors_of() { jq "[.jobs[].$1] | add // 0" json 2>/dev/null || echo 0; }
signalled() { [ $status -gt 128 ] && [ $status != 137 ] || grep -q 'got signal=' run/err; }

# report KIND WHAT: a run that was not as it should be.
report() {
	say "$1: $2: $(cat command)"
	head -n 5 run/err | cut -c 1-200
}

fresh() { rm -rf run && mkdir run; }

# ---- faults in the calls that carry I/O ------------------------------------------------------------

injected() { od -An -v -tu8 -w8 counts | sed -n "$1p" | tr -d ' '; }

# calls KINDS: one run with faults of these kinds.
calls() {
	fresh
	variant
	pick libaio io_uring psync
	backend=$picked
	pick 1 4 16 64
	depth=$picked
	pick '' --thread=1
	threads=$picked
	pick 1 2
	jobs=$picked
	pick --bs=4k --bsrange=512-64k --bs=64k '--bssplit=512/30:4k/50:32k/20'
	sizes=$picked
	pick 15 40 100
	every=$picked
	job="--name=j --filename=f --size=2m --offset_increment=2m --numjobs=$jobs --rw=randwrite
		$sizes --iodepth=$depth $threads --verify=crc32c --randseed=$seed --create_serialize=1"
	extra=''
	[ "$engine" != split ] || extra='--max_sectors_kb=8 --max_segments=3'
	[ -z "$cached" ] || extra='--dirty_bytes=256k --cache_bytes=512k'
	[ "$1" != eio ] || if [ "$cached" ]; then
		# The error of a write is told by a sync, once; what was written is not there then.
		extra="$extra --fsync=64 --end_fsync=1 --do_verify=0 --continue_on_error=io"
	else
		extra="$extra --continue_on_error=io"
	fi
	rm -f counts
	export KP_INJECT_KINDS="$1" KP_INJECT_EVERY=$every KP_INJECT_SEED=$seed KP_INJECT_FILE="$KP_TMP/counts"

	fio_with_faults "$1" $e --backend=$backend $job $extra
	nr=$(($(injected 1) + $(injected 2) + $(injected 3) + $(injected 4)))
	lost=0
	if [ $hung = 0 ]; then
		if signalled; then
			report "$1" "a signal"
			lost=1
		elif [ "$1" != eio ]; then
			# None of these is an error to whoever asked for the I/O.
			[ $status = 0 ] && [ "$(errors_of error)" = 0 ] || { report "$1" "failed ($status)"; lost=1; }
			[ $lost = 1 ] || left_behind || { report "$1" "what was written is not there"; lost=1; }
		else
			told=$(errors_of total_err)
			! jq -e 'any(.jobs[]; .error == 84)' json >/dev/null || { report "$1" "data lost"; lost=1; }
			[ "$nr" = 0 ] || [ "$told" -gt 0 ] || [ $status != 0 ] || { report "$1" "$nr faults, no error"; lost=1; }
			# Writeback's error is told to each who has the file open.
			[ "$told" -le $((cached ? nr * jobs : nr)) ] || { report "$1" "$nr faults, $told errors"; lost=1; }
		fi
	fi
	settle
	if [ "$1" = eio ]; then
		tally "EIO" "$nr" $lost $hung $left 1
	else
		tally EINTR "$(injected 1)" $lost $hung $left 1
		tally EAGAIN "$(injected 2)" 0 0 0 0
		tally "short" "$(injected 3)" 0 0 0 0
	fi
	done_faults=$((done_faults + nr))
}
fio_with_faults() { LD_PRELOAD=$KP_TMP/inject.so fio_in "$@"; }

# What lies on the disk verifies, looked at by fio's own psync.
left_behind() {
	(cd run && exec timeout -s KILL $limit $FIO --ioengine=psync $job --verify_only=1 --allow_file_create=0 \
		--verify_state_save=0) >verified 2>&1
}

done_faults=0
while [ $done_faults -lt "$faults" ]; do
	calls "eintr eagain short"
	calls eio
done

# No room for another context or ring: as with fs.aio-max-nr or a limit on files.
r=0
while [ $r -lt $((rounds * 4)) ]; do
	fresh
	variant
	pick libaio io_uring
	pick_backend=$picked
	pick '' --thread=1
	rm -f counts
	export KP_INJECT_KINDS=setup KP_INJECT_EVERY=2
	KP_INJECT_SEED=$seed
	fio_with_faults setup $e --backend=$pick_backend --name=j --filename=f --size=1m --numjobs=4 $picked \
		--rw=randwrite --bs=4k --iodepth=8 --offset_increment=1m
	nr=$(injected 5) lost=0
	! signalled || { report "no context" "a signal"; lost=1; }
	if [ "$nr" -gt 0 ] && [ $hung = 0 ] && ! signalled && [ $pick_backend = libaio ]; then
		[ $status != 0 ] || { report "no context" "$nr refused, no error"; lost=1; }
		grep -q '^kpolicy:' run/err || { report "no context" "no line of ours"; lost=1; }
	fi
	settle
	tally "no-context" "$nr" $lost $hung $left 1
	r=$((r + 1))
done
unset KP_INJECT_KINDS KP_INJECT_EVERY KP_INJECT_SEED KP_INJECT_FILE

# ---- limits ---------------------------------------------------------------------------------------

# limited KIND ok|any LIMIT FIO-ARG...: under `ulimit LIMIT`: must succeed, or may fail with a line.
limited() {
	name=$1 must=$2 what=$3
	shift 3
	fresh
	echo "$what: $FIO $*" >"command"
	status=0 hung=0
	(ulimit $what && cd run && exec timeout -s KILL 120 $FIO "$@" --eta=never --output-format=json \
		--output=json) >run/out 2>run/err </dev/null || status=$?
	[ $status != 137 ] || { hung=1; report "$name" hung; }
	lost=0
	! signalled || { report "$name" "a signal"; lost=1; }
	[ $must = any ] || [ $status = 0 ] || { report "$name" "failed ($status)"; lost=1; }
	[ $status = 0 ] || [ $hung = 1 ] || grep -qE '^(kpolicy|fio):|Too many open files' run/err ||
		{ report "$name" "failed without a word"; lost=1; }
	settle
	tally "$name" 1 $lost $hung $left 1
}

# 500 jobs of 129 requests each are all that fs.aio-max-nr has by default: others need some too.
many_files=1000 many_jobs=48 many_device_jobs=48
[ "$rounds" -le 1 ] || { many_files=10000; many_jobs=500; many_device_jobs=256; }
# All engines in the long form, a buffered one and another in the short one.
limited_engines='split diolock checksum blocksize writeback'
[ "$rounds" -gt 1 ] || { pick split diolock checksum; limited_engines=$picked; pick blocksize writeback; limited_engines="$limited_engines $picked"; }
for engine in $limited_engines; do
	e="--ioengine=external:$KP_TOP/engines/$engine.so"
	small="--name=j --rw=randwrite --bs=4k --size=1m --iodepth=8 --filename=f --verify=crc32c --verify_state_save=0"
	limited memlock-0 ok '-l 0' $e --backend=io_uring $small
	limited memlock-0 ok '-l 0' $e --backend=libaio $small
	limited nofile-40 any '-n 40' $e --backend=libaio --name=j --rw=write --bs=4k --size=1m --nrfiles=64 --filename_format=f.\$filenum
	limited nofile-40 ok '-n 40' $e --backend=io_uring --name=j --rw=write --bs=4k --size=1m --nrfiles=64 --openfiles=8 --filename_format=f.\$filenum
	limited nofile-40 any '-n 40' $e --backend=psync $small --thread=1 --numjobs=30 --verify=none
	limited many-files ok '-c 0' $e --backend=libaio --name=j --rw=write --bs=4k --nrfiles=$many_files --filesize=4k --openfiles=100 --filename_format=f.\$filenum
	limited many-jobs ok '-c 0' $e --backend=psync --name=j --rw=randwrite --bs=4k --size=64k --offset_increment=64k --numjobs=$many_device_jobs --filename=f --group_reporting
	limited many-jobs ok '-c 0' $e --backend=null --name=j --rw=randrw --bs=4k --size=256k --numjobs=$many_jobs --thread=1 --filename=f --group_reporting
done

# ---- processes ------------------------------------------------------------------------------------

# start ARG...: fio in the background: jobs that take some seconds.
start() {
	echo "$FIO $*" >"command"
	(cd run && exec timeout -s KILL $limit $FIO "$@" --eta=never --output-format=json --output=json) \
		>run/out 2>run/err </dev/null &
	runner=$!
}

# fio_pid: the fio that start() made; jobs: its children.
fio_pid() { pgrep -P $runner -x fio | head -n 1; }
jobs_of() { cat "/proc/$1/task/"*/children 2>/dev/null; }
# running N: wait until that many jobs have done I/O.
running() {
	for _ in $(seq 300); do
		fio=$(fio_pid) ready=0
		[ -z "$fio" ] || for pid in $(jobs_of $fio); do
			read -r ran _ slices 2>/dev/null <"/proc/$pid/schedstat" || continue
			[ "$ran" -lt 10000000 ] && [ "$slices" -lt 50 ] || ready=$((ready + 1))
		done
		[ $ready -lt "$1" ] || return 0
		kill -0 $runner 2>/dev/null || return 1
		sleep 0.02
	done
	return 1
}
finish() { # sets status and hung
	status=0 hung=0
	wait $runner || status=$?
	[ $status != 137 ] || hung=1
}
moment() {
	draw 30
	sleep 0.$((drawn / 10))$((drawn % 10))
}

shared_job() { # four jobs on one file, with all that a lock or a cache has to do
	variant
	pick libaio io_uring
	job="$e --backend=$picked --name=j --filename=f --size=8m --rw=randrw --bs=4k --iodepth=8
		--numjobs=4 --time_based --runtime=3"
}

# A job that stands still, with whatever it holds, and goes on: all end well.
stopped() {
	fresh
	shared_job
	start $job
	lost=0 happened=0
	if running 4; then
		happened=1
		moment
		set -- $(jobs_of $fio)
		draw 4
		shift $drawn
		kill -STOP $1
		sleep 0.4
		kill -CONT $1
	fi
	finish
	[ $hung = 0 ] || report stopped hung
	[ $status = 0 ] || [ $hung = 1 ] || { report stopped "failed ($status)"; lost=1; }
	settle
	tally SIGSTOP $happened $lost $hung $left 1
}

# A job that is killed, also while it is stopped: the others go on and fio ends.
killed() {
	fresh
	shared_job
	start $job
	lost=0 happened=0
	if running 4; then
		happened=1
		moment
		set -- $(jobs_of $fio)
		draw 4
		shift $drawn
		pick yes no
		[ $picked = no ] || { kill -STOP $1; sleep 0.2; }
		kill -9 $1
	fi
	finish
	[ $hung = 0 ] || report killed hung
	sed -n '/^{/,$p' run/json >json
	jq -e '[.jobs[] | select(.error == 0 and .job_runtime >= 2900)] | length >= 3' json >/dev/null ||
		{ report killed "not three survivors"; lost=1; }
	settle
	tally "kill-job" $happened $lost $hung $left 1
}

# fio itself is killed. Its jobs run to their end, as they do with fio's own engines.
fio_killed() {
	fresh
	shared_job
	start $job
	happened=0
	if running 4; then
		happened=1
		moment
		kill -9 $fio
	fi
	wait $runner || true
	hung=0
	for _ in $(seq 100); do
		[ "$(ours)" ] || break
		sleep 0.1
	done
	[ -z "$(ours)" ] || { hung=1; report "fio killed" "its jobs do not end"; }
	settle
	tally "kill-fio" $happened 0 $hung $left 1
}

# kpolicy is killed: its fio ends with it.
kpolicy_killed() {
	fresh
	cat >run/f.fio <<-END
		[j]
		filename=f
		rw=randrw
		bs=4k
		size=4m
		numjobs=2
		time_based
		runtime=1
	END
	(cd run && TMPDIR=$KP_TMP/run exec "$KP_TOP/tools/kpolicy" compare f.fio split:clone split:fast --rounds 6 \
		--output f.result) >run/out 2>run/err </dev/null &
	pid=$!
	draw 20
	sleep $((1 + drawn / 10)).$((drawn % 10))
	kill -9 $pid
	wait $pid 2>/dev/null || true
	settle
	tally "kill-kpolicy" 1 0 0 $left 1
}

r=0
while [ $r -lt $((rounds * 2)) ]; do
	stopped
	killed
	fio_killed
	r=$((r + 1))
done
r=0
while [ $r -lt "$rounds" ]; do
	kpolicy_killed
	r=$((r + 1))
done

# ---- the device ------------------------------------------------------------------------------------

# full_disk: every I/O beyond what the file system holds fails, and no other.
full_disk() {
	fresh
	variant
	pick libaio io_uring psync
	set +f
	rm -f mnt/j.*
	set -f
	status=0
	lost=0
	echo "$e on a full file system" >"command"
	fio_in ENOSPC $e --backend=$picked --name=j --directory="$KP_TMP/mnt" --rw=write --bs=64k --size=40m \
		--iodepth=8 --fallocate=none --end_fsync=1
	! signalled || { report ENOSPC "a signal"; lost=1; }
	[ $status != 0 ] || { report ENOSPC "nothing failed"; lost=1; }
	# A sync that fails leaves no number, in fio's own engines neither.
	jq -e 'any(.jobs[]; .error == 28)' json >/dev/null || grep -q 'fsync failed' run/err || { report ENOSPC "not ENOSPC"; lost=1; }
	settle
	tally ENOSPC 1 $lost $hung $left 1
}

# gone: the loop device loses its file's blocks, and its name, while jobs run.
gone() {
	fresh
	shared_job
	truncate -s 16m disk
	inner=$(losetup --find --show --direct-io=on disk 2>/dev/null) || return 0
	start ${job%% --name*} --name=j --filename="$inner" --size=8m --rw=randrw --bs=4k --iodepth=8 \
		--numjobs=2 --time_based --runtime=3
	happened=0
	if running 2; then
		happened=1
		moment
		truncate -s 64k disk
		losetup -c "$inner" 2>/dev/null || true
		losetup -d "$inner" 2>/dev/null || true
	fi
	finish
	lost=0
	[ $hung = 0 ] || report gone hung
	grep -q 'got signal=' run/err && { report gone "a signal"; lost=1; }
	[ $happened = 0 ] || [ $status != 0 ] || { report gone "nothing failed"; lost=1; }
	losetup -d "$inner" 2>/dev/null || true
	settle
	tally "device-gone" $happened $lost $hung $left 1
}

if [ "$(id -u)" = 0 ] && command -v mkfs.ext4 >/dev/null; then
	truncate -s 24m image
	mkfs.ext4 -q image
	mkdir mnt
	if mount -o loop image mnt 2>/dev/null; then
		at_exit "umount '$KP_TMP/mnt'"
		r=0
		while [ $r -lt $((rounds * 2)) ]; do
			full_disk
			r=$((r + 1))
		done
	else
		say "no loop device: no full file system and no device that goes away"
	fi
	r=0
	while [ $r -lt $((rounds * 2)) ]; do
		gone
		r=$((r + 1))
	done
else
	say "not root: no full file system and no device that goes away"
fi

# ---- the table -------------------------------------------------------------------------------------

awk '
	{ f[$1] += $2; lost[$1] += $3; hung[$1] += $4; left[$1] += $5; runs[$1] += $6
	  F += $2; L += $3; H += $4; T += $5; R += $6 }
	END {
		line = "%-14s %6s %7s %5s %5s %5s\n"
		printf line, "kind", "runs", "faults", "lost", "hung", "left"
		for (k in f) printf line, k, runs[k], f[k], lost[k], hung[k], left[k] | "sort"
		close("sort")
		printf line, "all", R, F, L, H, T
		exit L + H + T > 0
	}' tally || fail "something was lost, hung or left"
