#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Small inputs that used to go wrong without a word, or with the wrong one. fio is tests/fake-fio where
# figures matter.
# time limit: 300
. tests/lib.sh
. tests/kpolicy.sh

fake="--fio $KP_TOP/tests/fake-fio --rounds 6 --quiet"
cd "$KP_TMP"
cat >job.fio <<-END
	[a]
	ioengine=psync
	direct=1
	filename=a
	size=64k
	rw=read
	bs=4k
END
job() { sed "\$a$1" job.fio >"$2"; }

say "the reason that an engine prints is in the message, not the error number alone"
# shellcheck disable=SC2086
for set in rwsem=1 null_badblocks=9-3; do
	kpolicy_run 2 compare job.fio diolock:ext4-4.8 diolock:none --set backend=null --set $set --quiet
	grep "${set%=*}" err | grep -qv 'error [0-9]*)$' || { cat err; fail "$set: no reason"; }
	[ "$(wc -l <err)" = 1 ] || { cat err; fail "$set: more than a line"; }
done

say "a kernel that no row knows is refused, by --show too"
refused 'kernel=9\.9: not known to diolock, give one of: ' "$KPOLICY" compare job.fio diolock:kernel=9.9 --show
"$KPOLICY" compare job.fio diolock:kernel=v6.12 split:kernel="$(uname -r | sed 's/^[0-9.]*/6.1.0/')" --show >out

say "fio's null engine"
job ioengine=null null.fio
refused 'backend=null' "$KPOLICY" compare null.fio split:none --show

say "an engine of others beside a storage job"
printf '[b]\nioengine=external:/x/mysplit.so\n' | cat job.fio - >foreign.fio
refused 'external:/x/mysplit.so is code from outside .*--allow-exec' "$KPOLICY" compare foreign.fio split:none split:fast

say "a size is set, the offset stays"
job offset=64m offset.fio
"$KPOLICY" compare offset.fio split:none --show --size 8m >out 2>err
grep -q "'offset=64m' stays: files grow" err || { cat err; fail "no word on the offset"; }

say "a control character in an option is no second line"
refused 'cannot be written in a job file' "$KPOLICY" compare job.fio split:none --show --set "bs=4k
8k"

say "a job with stats=0 is not measured"
sed 's/^\[a\]/[idle]/' job.fio | sed '$astats=0' >two.fio
cat job.fio >>two.fio
# shellcheck disable=SC2086
kpolicy_run 0 compare two.fio split:none split:fast --set backend=null --rounds 6 --quiet --format json
[ "$(jq '.verdicts | length' out)" = 1 ] || { cat out; fail "no verdict"; }
job stats=0 none.fio
kpolicy_run 2 compare none.fio split:none split:fast --set backend=null --rounds 6 --quiet
grep -q 'stats=0' err || { cat err; fail "no word on stats=0"; }

say "more jobs than fio takes"
job numjobs=9999999999 many.fio
sed -i /filename/d many.fio
timeout $((5 * ${KP_SLOW:-1})) "$KPOLICY" compare many.fio split:none split:fast --show >out || fail "numjobs: $?"

say "two words for one variant"
# shellcheck disable=SC2086
for pair in 'writeback:kernel=6.12 writeback:kernel=6.18' 'split:kernel=4.4 split:fast'; do
	"$KPOLICY" compare job.fio $pair --set backend=null --size 64m $fake >out
	grep -q 'are one variant, .*: they do not differ' out || { cat out; fail "$pair: no word"; }
done
# shellcheck disable=SC2086
for pair in 'split:fast split:fast' 'split:fast split:kernel=4.4,max_sectors_kb=16' 'split:fast split:clone'; do
	"$KPOLICY" compare job.fio $pair --set backend=null --size 64m $fake >out
	! grep 'are one variant' out || fail "$pair"
done

say "a sweep of equal variants has no crossover"
# shellcheck disable=SC2086
FAKE_NOISE=8 "$KPOLICY" sweep job.fio split:fast split:fast --set backend=null --size 64m --over bs=4k:64k $fake >out
! grep 'crosses' out || fail "crosses itself"

say "a full folder for temporary files does not make fio unknown"
if [ "$(id -u)" = 0 ] && mkdir full && mount -t tmpfs -o size=4k none full 2>/dev/null; then
	at_exit "umount $KP_TMP/full"
	head -c 4096 /dev/zero >full/x || :
	TMPDIR=$KP_TMP/full refused 'No space left' "$KPOLICY" compare job.fio split:none split:fast --quiet
	! grep 'not fio' err || fail "a full folder is taken for a missing fio"
else
	not_shown "no tmpfs here"
fi
