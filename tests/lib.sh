# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# What the shell tests share: `. tests/lib.sh` in the first lines of each. A test runs in the top
# folder, through tests/run, which sets
#	FIO		the fio to run (under a sanitizer: a script that preloads its run time)
#	KP_TMP		a folder of its own, on a file system that does O_DIRECT, removed afterwards
#	KP_TOP		the top folder
#	KP_ENGINES	the names of the engines, engines/NAME.so
#	KP_SANITIZE	the sanitizers, or empty
#	KP_FIO_VERSION, KP_FIO_SRC, KP_CC and the flags that gate.sh needs
set -eu
export LC_ALL=C
: "${KP_TOP:?run me through make test TESTS=...}"

say() { echo "$*"; }
fail() { echo "FAIL: $*"; exit 1; }
skip() { echo "$*"; exit 77; }

# not_shown REASON: the test goes on; what passes otherwise is a skip at its end, for that reason.
not_shown_list=''
not_shown() { not_shown_list="${not_shown_list:+$not_shown_list; }$*"; }

# at_exit COMMAND...: run at the end, the latest first, whatever happens. Quote as for eval.
at_exit_list=:
at_exit() { at_exit_list="$* ; $at_exit_list"; }
# shellcheck disable=SC2154
trap 'kp_status=$?; trap - EXIT; set +e; eval "$at_exit_list"
	[ ! "$not_shown_list" ] || [ $kp_status != 0 ] || { say "not shown: $not_shown_list"; kp_status=77; }
	exit $kp_status' EXIT
trap 'exit 1' HUP INT TERM

need_root() { [ "$(id -u)" = 0 ] || skip "not root"; }
need_command() {
	for c; do command -v "$c" >/dev/null || skip "no command $c here"; done
}
need_engine() {
	for e; do case " $KP_ENGINES " in *" $e "*) ;; *) skip "no engine $e" ;; esac; done
}

engine() { echo "external:$KP_TOP/engines/$1.so"; }

# variants POLICY [PREFIX]: the names of its variants in the order of its table, PREFIX before each.
# Assign them to a variable: a loop over $(variants ...) would not see that it fails.
variants() {
	"$KP_TOP/tools/kpolicy" list "$1" | sed -n "s/^$1:\([^ ][^ ]*\) .*/${2:-}\1/p" | grep . ||
		fail "kpolicy list $1 names no variant" >&2
}

# fio_run ARG...: runs fio in $KP_TMP; stdout in $KP_TMP/out, stderr in $KP_TMP/err, the exit status
# in fio_status. Fails on a signal only: judge the rest yourself, or use fio_ok and fio_refused.
fio_run() {
	fio_status=0
	(cd "$KP_TMP" && exec $FIO "$@") >"$KP_TMP/out" 2>"$KP_TMP/err" || fio_status=$?
	[ $fio_status -lt 126 ] || { fio_said; fail "fio ended with status $fio_status: $*"; }
}

fio_said() {
	sed 's/^/  fio: /' "$KP_TMP/out" | tail -n 30
	sed 's/^/  fio: /' "$KP_TMP/err" | tail -n 30
}

# fio_ok ARG...: must succeed.
fio_ok() {
	fio_run "$@"
	[ $fio_status = 0 ] || { fio_said; fail "fio exited with $fio_status: $*"; }
}

# ends_in_time SECONDS FIO-ARG...: is fio over by then? On a slow machine by later. Its status is in
# fio_status.
ends_in_time() {
	seconds=$(($1 * ${KP_SLOW:-1}))
	shift
	fio_status=0
	(cd "$KP_TMP" && exec timeout -s KILL $seconds $FIO "$@") \
		>"$KP_TMP/out" 2>"$KP_TMP/err" || fio_status=$?
	[ $fio_status != 137 ]
}

# fio_offload ARG...: with io_submit_mode=offload, where the threads of fio 3.33 lose a wakeup in two
# runs of five, whatever the engine. One of ten runs has to end; its status is in fio_status. If none
# does, ours is to blame when fio's null engine ends in one of ten; if that never ends either, nothing
# is shown, and fio_status is 124.
fio_offload() {
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		! ends_in_time 2 --io_submit_mode=offload --thread=1 "$@" || return 0
	done
	null=''
	for arg; do
		case $arg in --verify* | --filename=* | --ioengine=*) continue ;; esac
		arg=${arg#--}
		case $($FIO --cmdhelp="${arg%%=*}" 2>&1) in "No such command"*) continue ;; esac
		null="$null --$arg"
	done
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		# shellcheck disable=SC2086 # options
		! ends_in_time 2 --io_submit_mode=offload --thread=1 $null --ioengine=null ||
			fail "ten runs did not end, fio's null engine does: --io_submit_mode=offload $*"
	done
	not_shown "fio's offload mode does not end here, with its null engine either"
	fio_status=124
}

# fio_refused PATTERN ARG...: must end with an error, and exactly one line of ours (it starts with
# "kpolicy:") that matches the extended regular expression PATTERN.
fio_refused() {
	pattern=$1
	shift
	fio_run "$@"
	[ $fio_status != 0 ] || { fio_said; fail "fio did not fail: $*"; }
	lines=$(grep -c '^kpolicy:' "$KP_TMP/err") || true
	[ "$lines" = 1 ] || { fio_said; fail "$lines lines of ours, not one: $*"; }
	grep '^kpolicy:' "$KP_TMP/err" | grep -Eq -- "$pattern" ||
		{ fio_said; fail "the line does not match '$pattern': $*"; }
	! grep -q '^kpolicy:' "$KP_TMP/out" || fail "a message of ours is on stdout: $*"
}

# refused PATTERN COMMAND ARG...: the same for any other command: a status from 1 to 125, nothing on
# stdout, one line on stderr that matches.
refused() {
	pattern=$1
	shift
	status=0
	"$@" >"$KP_TMP/out" 2>"$KP_TMP/err" || status=$?
	[ $status != 0 ] || fail "did not fail: $*"
	[ $status -lt 126 ] || { cat "$KP_TMP/err"; fail "ended with status $status: $*"; }
	[ ! -s "$KP_TMP/out" ] || { cat "$KP_TMP/out"; fail "wrote to stdout: $*"; }
	[ "$(wc -l <"$KP_TMP/err")" = 1 ] || { cat "$KP_TMP/err"; fail "not one line: $*"; }
	grep -Eq -- "$pattern" "$KP_TMP/err" ||
		{ cat "$KP_TMP/err"; fail "the line does not match '$pattern': $*"; }
}

# counter FILE NAME: a number from the totals of a counters=FILE.
counter() { jq -e ".total.$2" "$1"; }

# equal WHAT GOT WANTED
equal() { [ "$2" = "$3" ] || fail "$1: $2, wanted $3"; }

# loop_device FILE [LOGICAL_BLOCK_SIZE]: sets loop to a new loop device over FILE, direct I/O to it.
loop_device() {
	need_root
	need_command losetup
	loop=$(losetup --find --show --direct-io=on ${2:+--sector-size "$2"} "$1" 2>&1) ||
		skip "no loop device: $loop"
	at_exit "losetup -d $loop"
}

# module NAME [PARAM=VALUE...]: loads a kernel module until the test ends.
module() {
	need_root
	need_command modprobe
	modprobe "$@" 2>/dev/null || skip "no kernel module $1"
	at_exit "modprobe -r $1"
}

# trace_events EVENT...: records these block events of device $loop, in a trace instance of the
# test's own, from now on. trace_read gives what was recorded since the last time, one event a line
# as in "block_bio_queue: 7,0 WS 8 + 8 [fio]", and begins anew.
tracing=''
trace_instance() {
	need_root
	tracing=/sys/kernel/tracing
	if [ ! -d $tracing/instances ]; then
		mkdir "$KP_TMP/tracing"
		tracing=$KP_TMP/tracing
		mount -t tracefs nodev "$tracing" 2>/dev/null || skip "no tracefs here"
		at_exit "umount $tracing"
	fi
	tracing=$tracing/instances/kpolicy.$$
	mkdir "$tracing" 2>/dev/null || skip "no trace instances here"
	at_exit "rmdir $tracing"
	echo 16384 >"$tracing/buffer_size_kb"
}
trace_events() {
	[ "$tracing" ] || trace_instance
	device=$((0x$(stat -c %t "$loop") << 20 | 0x$(stat -c %T "$loop")))
	for event; do
		[ -d "$tracing/events/block/$event" ] || skip "no tracepoint $event here"
		echo "dev == $device" >"$tracing/events/block/$event/filter"
		echo 1 >"$tracing/events/block/$event/enable"
	done
}
trace_read() {
	! grep -q LOST "$tracing/trace" || fail "trace events were lost: it needs a larger buffer"
	# udev looks at a device whenever somebody who could write closes it.
	sed -n '/udev/d; s/^[^#].* \(block_[a-z_]*: .*\)/\1/p' "$tracing/trace"
	echo >"$tracing/trace"
}

# queue_limit NAME [VALUE]: a file in the queue directory of $loop: read, or set until the test ends
# (what is set there outlives a loop device).
queue_limit() {
	limit=/sys/block/${loop#/dev/}/queue/$1
	[ $# = 2 ] || { cat "$limit"; return; }
	at_exit "echo $(cat "$limit") >$limit"
	echo "$2" >"$limit" || fail "$1 of $loop cannot be $2"
}
