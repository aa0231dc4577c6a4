#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# A directory that --resume is given may come from anybody: what its job files and its session.json
# would run or write is refused as in a new comparison.
# time limit: 240
. tests/lib.sh
. tests/kpolicy.sh
need_command jq

cd "$KP_TMP"
reader job.fio
kpolicy_run 0 compare job.fio "$(latency 1000)" "$(latency 2000)" --runtime 20ms --rounds 6 --output dir --quiet
cp -r dir good
again() { rm -rf dir; cp -r good dir; }
# shellcheck disable=SC2120 # the first call has no arguments of its own
resume() { "$KPOLICY" compare --resume dir --precision 0.001 --rounds 7 --quiet "$@"; }
not_run() { [ ! -e marker ] || fail "it was run: $1"; }

# Without a change it goes on.
resume >out 2>err || { grep -q 'was the last one' err || { cat err; fail "a sound directory"; }; }

say "commands in a job file"
for line in "exec_prerun=touch marker" "exec_postrun=touch marker"; do
	again
	echo "$line" >>dir/jobs/1.fio
	refused "jobs/1.fio:.*--allow-exec" resume
	not_run "$line"
done
again
sed -i 's/^ioengine=.*/ioengine=exec\nprogram=touch\narguments=marker/' dir/jobs/0.fio
refused "ioengine=exec.*--allow-exec" resume
not_run "ioengine=exec"

say "an engine from elsewhere"
again
cp "$KP_TOP/engines/split.so" split.so
sed -i "s|^ioengine=.*|ioengine=external:$KP_TMP/split.so|" dir/jobs/0.fio
refused "ioengine=external:.*--allow-exec" resume

say "another fio"
again
printf '#!/bin/sh\ntouch %s\necho fio-3.33\n' "$KP_TMP/marker" >evil
chmod +x evil
jq --arg fio "$KP_TMP/evil" '.fio = $fio' good/session.json >dir/session.json
refused "names the fio .*evil.*--allow-exec" resume
not_run "fio"

say "options for fio"
again
jq '.variants[1].args = ["--trigger-timeout=1", "--trigger=touch marker"]' good/session.json >dir/session.json
refused "no option '--trigger-timeout=1'" resume
not_run "a trigger"

if [ "$(id -u)" = 0 ]; then
	say "a block device"
	truncate -s 64m image
	loop_device image
	again
	sed -i "s|^filename=.*|filename=$loop|; s|^rw=.*|rw=write|; s|^backend=.*|backend=psync|" dir/jobs/1.fio
	refused "say --destructive" resume
	cmp -s image /dev/zero -n 1048576 || fail "the device was written"
else
	not_shown "not root: block devices"
fi
