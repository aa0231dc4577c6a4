# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Each allocation and each system call by which an engine sets a job up fails in turn, in whole fio
# runs with every engine and backend, in processes and threads: fio ends by no signal and says why,
# and nothing is left running. Here every KP_STEP-th call; tests/long/set-up.sh lets all of them fail.
# time limit: 400
. tests/lib.sh
need_command cc pgrep
[ -z "$KP_SANITIZE" ] || skip "the sanitizer has an allocator of its own"

step=${KP_STEP:-40}
$KP_CC -shared -fPIC -pthread -O1 -D_GNU_SOURCE -o "$KP_TMP/fail_call.so" tests/fault/fail_call.c -ldl

runs=0
phase=0
# one_job ENGINE BACKEND THREAD: lets calls phase, phase + step ... fail until there are no more.
one_job() {
	fail_at=$((phase % step + 1))
	phase=$((phase + 5))
	while :; do
		rm -f "$KP_TMP/failed"
		fio_status=0
		(cd "$KP_TMP" && LD_PRELOAD="$KP_TMP/fail_call.so" KP_FAIL_AT=$fail_at \
			KP_FAILED="$KP_TMP/failed" timeout -s KILL 60 $FIO --name=t --eta=never \
			--ioengine="$(engine "$1")" --backend="$2" --thread="$3" --filename="$KP_TMP/f" \
			--size=64k --rw=randrw --bs=4k --iodepth=4 --kernel=4.9 --plug=4.9) \
			>"$KP_TMP/out" 2>"$KP_TMP/err" || fio_status=$?
		[ -f "$KP_TMP/failed" ] || break
		runs=$((runs + 1))
		what="$1 on $2, thread=$3, call $fail_at ($(cat "$KP_TMP/failed"))"
		[ $fio_status -lt 126 ] || { fio_said; fail "$what: status $fio_status"; }
		! grep -q 'got signal' "$KP_TMP/out" "$KP_TMP/err" || { fio_said; fail "$what"; }
		[ $fio_status = 0 ] || grep -Eq '^(kpolicy|fio):' "$KP_TMP/out" "$KP_TMP/err" ||
			{ fio_said; fail "$what: no line says why"; }
		! pgrep -f -- "--filename=$KP_TMP/f" >/dev/null || fail "$what: something still runs"
		fail_at=$((fail_at + step))
	done
	[ $fio_status = 0 ] || { fio_said; fail "$1 on $2: no call failed, status $fio_status"; }
}

for e in $KP_ENGINES; do
	for backend in psync libaio io_uring null; do
		for thread in 0 1; do one_job "$e" $backend $thread; done
	done
done
say "$runs failed calls"
[ $runs -ge 20 ] || fail "only $runs calls failed"
