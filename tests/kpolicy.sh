# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# What the tests of the kpolicy command share, on top of tests/lib.sh. Sourced after it.
need_engine split

KPOLICY=$KP_TOP/tools/kpolicy
export NO_COLOR=1

# A device whose speed is known: every read takes so many nanoseconds, one at a time.
reader() { # FILE
	cat >"$1" <<-END
	[global]
	ioengine=psync
	direct=1
	filename=kpolicy.file
	size=64m
	runtime=500ms
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

# Nothing that this test started may be left: their working directory gives them away.
none_left() {
	for pid in /proc/[0-9]*; do
		line=$(tr '\0' ' ' 2>/dev/null <"$pid/cmdline") 2>/dev/null || continue
		case $line in
		*"$KP_TMP"*fio* | fio*"$KP_TMP"*) fail "left running: $line" ;;
		esac
	done
}
