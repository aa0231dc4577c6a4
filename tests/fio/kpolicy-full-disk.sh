#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# kpolicy compare --output on a disk that fills up: one line, nothing under a final name.
. tests/lib.sh
. tests/kpolicy.sh
need_root

cd "$KP_TMP"
reader job.fio
sed s/psync/null/ job.fio >null.fio
mkdir full
mount -t tmpfs -o size=96k none full 2>/dev/null || skip "no tmpfs can be mounted here"
at_exit "umount '$KP_TMP/full'"

# It fills up in some run, whatever fio writes: the line names it, and what is left is whole.
kpolicy_run 2 compare null.fio native native --runtime 100ms --output full/dir --quiet
grep -q 'No space left' err || fail "full disk: $(cat err)"
[ -z "$(find full -name '*.partial')" ] || fail "partial files are left"
for f in full/dir/runs/*.json; do
	[ ! -e "$f" ] || jq -e .jobs "$f" >/dev/null || fail "$f is no result"
done

# From the beginning.
dd if=/dev/zero of=full/rest bs=1k 2>/dev/null || true
kpolicy_run 2 compare null.fio native native --runtime 100ms --output full/dir2 --quiet
grep -q 'No space left' err || fail "no room at all: $(cat err)"
[ -z "$(find full/dir2 -type f 2>/dev/null)" ] || fail "left: $(find full/dir2 -type f)"
none_left
