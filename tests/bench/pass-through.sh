# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# What the pass-through costs: policy=none against fio's own engine for the same interface.
# time limit: 1200
. tests/lib.sh
. tests/bench-lib.sh
need_engine split
[ -z "$KP_SANITIZE" ] || skip "a sanitizer is in the figures"

ours="--ioengine=$(engine split) --policy=none"
common="--name=bench --rw=randread --bs=4k --direct=1 --norandommap --time_based --runtime=$KP_BENCH_SECONDS"

# against NAME WANTED FIO-ENGINE BACKEND ARG...
against() {
	what=$1 wanted=$2 theirs="--ioengine=$3" mine="$ours --backend=$4"
	shift 4
	ratios "$theirs" "$mine" "$@"
	verdict_ratio "$what" "$ratio" "$wanted" "$noise"
}

ram_device
fio_ok --name=layout --ioengine=psync --rw=write --bs=1m --size=128m --filename=bench.tmp --end_fsync=1
bench_head "ours over fio's own, I/O per second"
for where in "$ram" "$KP_TMP/bench.tmp"; do
	[ "$where" ] || { say "no block device in memory here: not root, no zram, no loop device"; continue; }
	name=$(basename "$where")
	for e in "psync 1" "libaio 32" "io_uring 32"; do
		depth=${e#* } e=${e% *}
		# shellcheck disable=SC2086
		against "$e, iodepth $depth, $name" 0.98 $e $e $common --filename="$where" --size=128m \
			--iodepth="$depth"
	done
done
# With gtod_reduce fio asks for no time, and an I/O of its null engine takes about 50 ns.
for bs in 4k 1m; do
	for reduce in 0 1; do
		# shellcheck disable=SC2086
		against "null, $bs, gtod_reduce=$reduce" 0.85 null null $common --bs=$bs --size=1g \
			--gtod_reduce=$reduce
	done
done

say
bench_head "bios of a pass-through"
for b in psync libaio io_uring null; do
	# shellcheck disable=SC2086
	fio_ok $ours --backend=$b --name=bench --rw=randread --bs=4k --size=4m --iodepth=8 \
		--filename=bench.tmp --counters=c
	verdict "bios, $b" "$(counter "$KP_TMP/c" bios)" "$(counter "$KP_TMP/c" ios)" \
		"$(holds "$(counter "$KP_TMP/c" bios) == $(counter "$KP_TMP/c" ios)")"
done

say
if command -v valgrind >/dev/null; then
	bench_head "instructions per I/O, ours - fio's"
	for e in "psync 1 60" "libaio 32 150" "io_uring 32 150" "null 1 60" "null 32 60"; do
		most=${e##* } e=${e% *}
		depth=${e#* } e=${e% *}
		args="--name=bench --rw=randread --bs=4k --direct=1 --norandommap --size=128m --iodepth=$depth"
		[ "$e" = null ] || args="$args --filename=${ram:-bench.tmp}"
		# shellcheck disable=SC2086
		theirs=$(instructions --ioengine=$e $args)
		# shellcheck disable=SC2086
		mine=$(instructions $ours --backend=$e $args)
		verdict "$e, iodepth $depth" "$((mine - theirs))" "<= $most" \
			"$(holds "$mine - $theirs <= $most")" "$mine - $theirs"
	done
else
	say "no valgrind: instructions per I/O not counted"
fi
bench_end
