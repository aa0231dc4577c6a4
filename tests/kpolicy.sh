# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# What the tests of the kpolicy command share, on top of tests/lib.sh. Sourced after it.
need_engine split

KPOLICY=$KP_TOP/tools/kpolicy
export NO_COLOR=1
# Engines with a sanitizer, in the fio that kpolicy runs: the run time has to be there before it.
case $KP_SANITIZE in
*address*)
	LD_PRELOAD=$($KP_CC -print-file-name=libasan.so)
	ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
	export LD_PRELOAD ASAN_OPTIONS
	;;
esac

# A device whose speed is known: every read takes so many nanoseconds, one at a time.
reader() { # FILE
	cat >"$1" <<-END
	[global]
	ioengine=psync
	direct=1
	filename=kpolicy.file
	size=64m
	runtime=300ms
	time_based
	[reader]
	rw=randread
	bs=4k
	END
}
latency() { echo "split:none,backend=null,null_completion_nsec=$1"; }

# kpolicy_run STATUS ARG...: runs kpolicy in $KP_TMP, stdout in $KP_TMP/out, stderr in $KP_TMP/err.
kpolicy_run() {
	wanted=$1
	shift
	status=0
	(cd "$KP_TMP" && exec "$KPOLICY" "$@") >"$KP_TMP/out" 2>"$KP_TMP/err" || status=$?
	[ "$status" = "$wanted" ] || {
		cat "$KP_TMP/out" "$KP_TMP/err"
		fail "exit code $status, wanted $wanted: kpolicy $*"
	}
}

# The verdict on the second variant in $KP_TMP/out, which is JSON.
verdict() { jq -r '.verdicts[0].verdict' "$KP_TMP/out"; }

# none_left [PID]: nothing that this test started may be left, whatever its name is and in whatever
# session it is: the test's mark in the environment gives it away. Not meant are this shell, what runs
# it (tests/run's timeout) and the subshells in which it looks.
marked() { grep -lzs "^KP_TEST_RUN=$KP_TEST_RUN\$" /proc/[0-9]*/environ | sed 's|/proc/||; s|/environ||'; }
none_left() {
	for _ in $(seq $((5 * KP_SLOW))); do
		left=
		for pid in $(marked); do
			[ "$pid" != $$ ] && [ "$pid" != "$PPID" ] || continue
			line=$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") 2>/dev/null || continue
			case $line in
			'' | grep\ -lzs* | sed\ * | "sh $0 "*) ;;
			*) left="$left; $line" ;;
			esac
		done
		[ "$left" ] || return 0
		sleep 0.2 # one on its way out
	done
	fail "left running$left"
}
