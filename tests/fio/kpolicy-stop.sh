#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# kpolicy compare: stopped, killed, resumed; nothing is left running.
# time limit: 240
. tests/lib.sh
. tests/kpolicy.sh
need_command jq pgrep

cd "$KP_TMP"
reader job.fio
sed s/psync/null/ job.fio >null.fio
a=$(latency 1000000)

# A fio that does not end by itself in the run that $at names, nor when it is asked for an option if
# that is what $at says: 'at' is there once it has begun.
cat >longfio <<-END
	#!/bin/sh
	[ "\$at" ] || exec $KP_FIO "\$@"
	case "\$*" in
	*--output=*"\$at"*) ;;
	--cmdhelp*) [ "\$at" = --cmdhelp ] || exec $KP_FIO "\$@"; touch at; exec sleep 1000 ;;
	*) exec $KP_FIO "\$@" ;;
	esac
	for job; do :; done
	sed 's/^runtime=.*/runtime=1000/' "\$job" >long.fio
	for arg; do
		shift
		[ "\$arg" = "\$job" ] && set -- "\$@" long.fio || set -- "\$@" "\$arg"
	done
	touch at
	exec $KP_FIO "\$@"
END
chmod +x longfio

# start AT ARG...: a comparison in the background that goes on to the run AT; pid in $pid, and fio's in
# $fio. until COMMAND...: a minute at most.
until_true() {
	for _ in $(seq $((600 * KP_SLOW))); do
		! "$@" || return 0
		sleep 0.1
	done
	fail "not within a minute: $*"
}
fio_of() { cat /proc/"$1"/task/"$1"/children; }
# The job has done I/O once it has taken 20 ms of a CPU.
busy() {
	for job in $(fio_of "$1"); do
		read -r ran _ <"/proc/$job/schedstat" && [ "$ran" -gt 20000000 ] && return 0
	done 2>/dev/null
	return 1
}
start() {
	rm -f at
	at=$1
	shift
	at=$at "$KPOLICY" compare job.fio "$a" "$a" --fio ./longfio "$@" >out 2>err &
	pid=$!
	until_true [ -e at ]
	fio=$(fio_of "$pid")
	until_true busy "${fio% }"
}
ended() { # STATUS
	status=0
	wait "$pid" || status=$?
	[ "$status" = "$1" ] || { cat out err; fail "exit code $status, wanted $1"; }
	none_left
}

# Ctrl-C in the third round: two rounds are kept and reported, and it goes on from there.
start r003.s1 --output dir --plot stop.svg
kill -INT "$pid"
ended 130
grep -q '</svg>' stop.svg || fail "no picture of what was stopped: $(cat err)"
grep -q '2 rounds, 6 runs' out || { cat out err; fail "two rounds are not reported"; }
grep -q 'kpolicy compare --resume' err || fail "no word on how to go on"
kpolicy_run 4 report dir --fail-if-undecided
kpolicy_run 0 compare --resume dir --rounds 6 --format json --allow-exec
equal "rounds" "$(jq .rounds out)" 6
[ "$(jq -s 'map(.timestamp) | max' dir/runs/r002.*.json)" -lt \
	"$(jq -s 'map(.timestamp) | min' dir/runs/r003.*.json)" ] || fail "round 2 ran again"

# Whoever has seen the result has spent its error: no further rounds after the last one.
refused "after 6 rounds was the last one" "$KPOLICY" compare --allow-exec --resume dir --rounds 12
# Nor rounds of another machine, or another engine.
cp dir/environment.json environment.json
jq '.kernel = "Linux 0.0.0"' environment.json >dir/environment.json
refused "kernel was 'Linux 0.0.0' and is 'Linux .*' now" "$KPOLICY" compare --allow-exec --resume dir
jq '.engines.split = "abc"' environment.json >dir/environment.json
refused "engines split was 'abc' and is '[0-9a-f]*' now" "$KPOLICY" compare --allow-exec --resume dir
cp environment.json dir/environment.json
# A directory that something is in is not taken for a new one.
refused "holds a comparison" "$KPOLICY" compare job.fio native native --output dir
mkdir -p old/runs
cp dir/runs/*.json old/runs
refused "old is not empty" "$KPOLICY" compare job.fio native native --output old
mkdir empty
kpolicy_run 2 compare job.fio native split:x --output empty
equal "what a refused variant leaves" "$(ls empty)" ""

# While fio is asked for its options, as the terminal does it: to all of the group.
rm at
at=--cmdhelp setsid "$KPOLICY" compare job.fio native native --set bs=4k --fio ./longfio >out 2>err &
pid=$!
until_true [ -e at ]
kill -INT -"$pid"
ended 130
equal "lines" "$(wc -l <err)" 1
! grep -q memory err || fail "Ctrl-C is no lack of memory: $(cat err)"

# SIGTERM as well; without --output nothing is kept.
start r000.s1
kill -TERM "$pid"
ended 143

# fio killed in mid-run, jobs and all.
start r002.s0 --output killed
kill -9 $fio
ended 2
grep -q 'fio was killed by signal 9' err || { cat err; fail "the kill is not named"; }
grep -q '1 round, 3 runs' out || { cat out; fail "the complete round is not reported"; }
grep -q 'Failed runs' out || fail "the failed run is not shown"
[ -z "$(find killed/runs -name '*.partial')" ] || fail "partial files are left"
results=$(find killed/runs -name 'r*.json' | wc -l)
[ "$results" -ge 5 ] || fail "$results results are left"
for f in killed/runs/r*.json; do
	jq -e '.jobs | length == 1 and .[0].read.total_ios > 0' "$f" >/dev/null || fail "$f is no result"
done

# One job of a run killed: fio itself ends well and reports no error.
start r001.s1 --output job
# shellcheck disable=SC2046 # process numbers
kill -9 $(fio_of "${fio% }")
ended 2
grep -Eq 'got signal=9|did no I/O' err || { cat err; fail "the killed job is not named"; }

# A run that hangs.
cat >hangfio <<-END
	#!/bin/sh
	case "\$*" in *--output=*r001*) exec sleep 1000;; esac
	exec $KP_FIO "\$@"
END
chmod +x hangfio
kpolicy_run 2 compare null.fio native native --runtime 100ms --timeout 3s --quiet --fio ./hangfio
grep -q 'did not end within' err || { cat err; fail "the hang is not named"; }
none_left

# A fio that leaves processes in sessions of their own; past a failed run, when that is asked for; and
# under nohup, when the terminal goes away.
cat >strayfio <<-END
	#!/bin/sh
	case "\$*" in *--output=*) setsid sleep 1234 & ;; esac
	case "\$*" in *--output=*r001.s0*) kill -HUP \$PPID;; esac
	case "\$*" in *--output=*r002.s1*) exit 3;; esac
	exec $KP_FIO "\$@"
END
chmod +x strayfio
status=0
(trap '' HUP && exec "$KPOLICY" compare null.fio native native --runtime 100ms --rounds 6 --quiet \
	--fio ./strayfio --keep-going --format json) >out 2>err || status=$?
[ $status = 0 ] || { cat err; fail "SIGHUP under nohup: exit code $status"; }
equal "rounds" "$(jq .rounds out)" 6
equal "failed runs" "$(jq '.failed_runs | length' out)" 1
none_left
