# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Data survives every variant of checksum: fio verifies what it wrote, a second fio without us finds
# it on the device, and a device that corrupts is caught, by our sums and by fio's.
# time limit: 120
. tests/lib.sh
. tests/checksum.sh

n=0
for policy in $csum_variants; do
	set -- libaio io_uring psync null
	shift $((n % 4))
	profile=$(echo single raid0 raid1 dup raid5 raid10 | cut -d' ' -f$((n % 6 + 1)))
	job="--filename=v.tmp --size=8m --rw=randwrite --bsrange=4k-256k --verify=crc32c
		--verify_fatal=1 --randseed=1$n"
	# shellcheck disable=SC2086 # arguments
	csum --name=v $job --backend="$1" --policy="$policy" --thread=$((n % 2)) --iodepth=16 \
		--raid_profile="$profile" --null_memory_backed=1 --do_verify=1
	said_nothing
	equal "mismatches, $policy" "$(counter "$KP_TMP/c.json" csum_mismatches)" 0
	[ "$(counter "$KP_TMP/c.json" csums_verified)" -ge 2048 ] ||
		fail "$policy, $1: fio's reads were not verified"
	# shellcheck disable=SC2086
	[ "$1" = null ] || fio_ok --name=v --ioengine=libaio --direct=1 $job --verify_only=1
	say "$policy on $1, $profile"
	n=$((n + 1))
done

for policy in inline async; do
	say "several jobs on one file, $policy"
	for thread in 0 1; do
		csum --name=m --filename=m.tmp --filesize=16m --size=4m --offset_increment=4m \
			--numjobs=4 --rw=randwrite --bsrange=4k-64k --iodepth=16 --verify=crc32c \
			--verify_fatal=1 --policy=$policy --thread=$thread
		said_nothing
	done
	say "a corrupting device, $policy"
	csum --name=w --filename=c.tmp --size=4m --rw=write --bs=4k --fault=corrupt \
		--policy=$policy --sums=c.sums
	fio_run --ioengine="$(engine checksum)" --name=r --filename=c.tmp --size=4m --rw=read \
		--bs=4k --policy=inline --sums=c.sums --counters=c.json --continue_on_error=io
	equal 'corruptions found' "$(counter "$KP_TMP/c.json" csum_mismatches)" 147
	equal 'lines about it' "$(grep -c 'csum failed at offset' "$KP_TMP/err")" 1
	rm "$KP_TMP/c.sums"
done

say "sums=FILE follows no planted link"
echo precious >"$KP_TMP/victim"
# shellcheck disable=SC2016,SC2086
(cd "$KP_TMP" && sh -c 'ln -s victim "p.sums.$$.tmp" && ln -s victim p.sums.tmp && exec "$@"' plant \
	$FIO --ioengine="$(engine checksum)" --name=p --filename=c.tmp --size=4m --rw=write --bs=64k \
	--sums=p.sums) >"$KP_TMP/out" 2>"$KP_TMP/err" || { fio_said; fail "fio failed beside planted links"; }
equal "the file behind the links" "$(cat "$KP_TMP/victim")" precious
[ -s "$KP_TMP/p.sums" ] || fail "the sums were not written"
[ ! -L "$KP_TMP/p.sums" ] || fail "the sums are a link"
rm -f "$KP_TMP"/p.sums*

say "sums of a null device without memory are computed, and not compared"
csum --name=n --filename=n.tmp --size=1m --rw=readwrite --bs=64k --backend=null --policy=inline
[ ! -s "$KP_TMP/err" ] || { fio_said; fail "a message on standard error"; }
equal mismatches "$(counter "$KP_TMP/c.json" csum_mismatches)" 0

say "trims: what was given back has no sum"
csum --name=t --filename=v.tmp --size=8m --rw=randtrim --bs=64k --iodepth=4 --policy=inline
csum --name=r --filename=v.tmp --size=8m --rw=read --bs=64k --iodepth=4 --policy=inline
said_nothing
