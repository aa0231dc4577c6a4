#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# shellcheck disable=SC2086 # options are meant to split
#
# Writeback fails: the next sync of each opener reports it once, writers at the dirty limit do not hang,
# and the run ends. The device is a null device with bad blocks, or a loop device on a full file system,
# where the kernel's own page cache is the reference.
. tests/lib.sh
need_engine writeback blocksize
case $KP_SANITIZE in *thread*) skip 'threads after a fork and the thread sanitizer do not go together' ;; esac

bad="--backend=null --null_badblocks=4000-4007 --rw=write --bs=4k --size=4m --filename=f --dirty_bytes=128k"
for e in writeback:6.x blocksize:logical; do
	j="--name=j --ioengine=$(engine ${e%:*}) --policy=${e#*:}"
	fio_run $j $bad --fsync=512
	[ $fio_status != 0 ] || { fio_said; fail "$e: no sync failed"; }
	grep -q 'Input/output error' "$KP_TMP/err" "$KP_TMP/out" || { fio_said; fail "$e: not EIO"; }
	# Once: 64 more syncs of the same opener succeed
	fio_run $j $bad --fsync=16 --continue_on_error=all --output-format=json --output=r.json
	equal "$e: errors" "$(jq '.jobs[0].total_err' "$KP_TMP/r.json")" 1
	# Two openers: each is told once, whoever wrote
	fio_run $j $bad --rate=16m --fsync=16 --continue_on_error=all --name=other \
		--ioengine="$(engine ${e%:*})" --policy=${e#*:} $bad --size=1m --rate=2m \
		--fsync=16 --continue_on_error=all --output-format=json --output=r.json
	equal "$e: errors of two openers" "$(jq -c '[.jobs[].total_err]' "$KP_TMP/r.json")" '[1,1]'
	# Nobody asks: the end does
	fio_refused 'late writeback failed: Input/output error' $j $bad
done

need_root
need_command mkfs.ext4 mount truncate
image=$KP_TMP/full.img
truncate -s 24m "$image"
mkfs.ext4 -q "$image"
loop_device "$image"
mkdir "$KP_TMP/mnt"
mount "$loop" "$KP_TMP/mnt"
at_exit "umount '$KP_TMP/mnt'"

# full ENGINE-OPTIONS...: two jobs fsync a loop device on a full file system. Sets said to the error of
# each.
full() {
	rm -f "$KP_TMP/mnt/disk"
	truncate -s 64m "$KP_TMP/mnt/disk"
	inner=$(losetup --find --show --direct-io=on "$KP_TMP/mnt/disk") || skip "no second loop device"
	fio_run --name=full --filename="$inner" --rw=write --bs=64k --size=28m --numjobs=2 \
		--offset_increment=32m --fsync=64 "$@"
	losetup -d "$inner" && inner=''
	[ $fio_status != 0 ] || { fio_said; fail "nothing failed: $*"; }
	said=$(sed -n 's/.*(groupid=0, jobs=1): err=\( *[0-9]*\).*/\1/p' "$KP_TMP/out")
}
inner=''
# shellcheck disable=SC2016 # expands then
at_exit '[ -z "$inner" ] || losetup -d "$inner"'

full --ioengine=psync
kernel=$said
for e in writeback:strict blocksize:logical; do
	full --ioengine="$(engine ${e%:*})" --policy=${e#*:} --dirty_bytes=1m
	equal "$e: errors on a full device" "$said" "$kernel"
done
