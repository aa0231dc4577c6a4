# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# What the checksum engine refuses, in one line each, and who computes the sums under its options.
. tests/lib.sh
. tests/checksum.sh

refuse() {
	pattern=$1
	shift
	fio_refused "$pattern" --name=bad --ioengine="$(engine checksum)" --filename=b.tmp --size=1m \
		--rw=write --bs=64k "$@"
}

refuse 'crc32c=slow.*fast generic' --crc32c=slow
refuse 'raid_profile=raid7.*single raid0' --raid_profile=raid7
refuse 'offload_csum=2.*auto' --offload_csum=2
refuse 'policy=never.*unsplit_inline' --policy=never
refuse 'kernel=6.2' --kernel=6.2
refuse 'raid_devices=1.*at least 3' --raid_profile=raid6 --raid_devices=1
refuse 'read_mirror=2' --mirrors=2 --read_mirror=2
refuse 'mirror_distance=1000.*multiple of 4096' --mirrors=2 --mirror_distance=1000
refuse 'after the end of the first of 2 copies' --mirrors=2
refuse 'sums=b.sums: policy=none' --sums=b.sums --policy=none
refuse 'mirrors=2: policy=none' --mirrors=2 --policy=none
refuse 'sums=.*null device' --sums=b.sums --backend=null
refuse 'sums=/nowhere' --sums=/nowhere/b.sums
echo 'not sums, but long enough to be read as a header' >"$KP_TMP/bad.sums"
refuse 'sums=bad.sums: cut off' --sums=bad.sums
for _ in 1 2 3 4 5 6 7 8 9 10; do cat "$KP_TMP/bad.sums"; done >"$KP_TMP/bad2.sums"
refuse 'sums=bad2.sums: not a file of sums' --sums=bad2.sums

# who BIOS_INLINE BIOS_ASYNC ARG...: one more job of the run that follows, and what it must count.
jobs=0
: >"$KP_TMP/wanted"
: >"$KP_TMP/args"
who() {
	jobs=$((jobs + 1))
	echo "who$jobs $1 $2 256 $3 $4 ${5:-} ${6:-}" >>"$KP_TMP/wanted"
	shift 2
	echo "--name=who$jobs --filename=w$jobs.tmp $*" >>"$KP_TMP/args"
}

who 16 0 --bs=64k --policy=unsplit_inline
who 16 0 --bs=64k --raid_devices=4
who 0 16 --bs=64k --policy=threshold
who 32 0 --bs=32k --policy=threshold
who 0 32 --bs=32k --policy=threshold --async_threshold=32k
who 0 16 --bs=128k --raid_profile=raid1
who 11 0 --bs=128k --raid_profile=raid5 # of 192k: three are cut
who 0 16 --bs=64k --kernel=2.6.36
who 16 0 --bs=64k --kernel=6.12
who 16 0 --bs=64k --kernel=6.12 --crc32c=generic
who 16 0 --bs=64k --kernel=6.12 --offload_csum=1
who 0 16 --bs=64k --kernel=6.12 --crc32c=generic --req_sync=0
who 16 0 --bs=64k --kernel=6.12 --crc32c=generic --req_sync=0 --offload_csum=0
who 0 16 --bs=64k --kernel=6.12 --offload_csum=1 --req_sync=0
who 0 16 --bs=128k --raid_profile=raid0 --kernel=3.6 --sync=1
who 16 0 --bs=128k --raid_profile=raid0 --kernel=3.19 --sync=1
who 0 16 --bs=128k --raid_profile=raid0 --kernel=3.19 --sync=1 --sync_writers=0
who 0 16 --bs=64k --policy=async --workers=1
who 0 16 --bs=64k --policy=async --workers=8 --workers_threshold=32

set -- --size=1m --rw=write --iodepth=4
# shellcheck disable=SC2013 # words are wanted
for arg in $(cat "$KP_TMP/args"); do
	case $arg in
	--name=*) set -- "$@" "$arg" --ioengine="$(engine checksum)" --counters=c.json ;;
	*) set -- "$@" "$arg" ;;
	esac
done
# Options before the first --name are all jobs' own.
fio_ok "$@"
while read -r job inline async sums what; do
	got=$(jq -r ".jobs[] | select(.name == \"$job\") |
		\"\(.csum_bios_inline) \(.csum_bios_async) \(.csums_inline + .csums_async)\"" \
		"$KP_TMP/c.json")
	equal "inline, async and sums of: $what" "$got" "$inline $async $sums"
done <"$KP_TMP/wanted"
say "$jobs jobs"

say "copies"
truncate -s 4m "$KP_TMP/m.tmp"
csum --name=m --filename=m.tmp --size=2m --rw=write --bs=64k --mirrors=2 --verify=crc32c
cmp -n 2097152 -i 0:2097152 "$KP_TMP/m.tmp" "$KP_TMP/m.tmp" || fail "the copies differ"
