# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# What the variants of split cost, on a device that costs nothing (seed 5: 1 MiB reads in requests
# of 16 KiB), and that they need no more memory the longer they run.
# time limit: 1200
. tests/lib.sh
. tests/bench-lib.sh
need_engine split
[ -z "$KP_SANITIZE" ] || skip "a sanitizer is in the figures"

split="--ioengine=$(engine split)"
common="--name=bench --backend=null --rw=read --bs=1m --size=1g --max_sectors_kb=16"
timed="--time_based --runtime=$KP_BENCH_SECONDS"

bench_head "I/O per second"
# shellcheck disable=SC2086
ratios "$split --policy=clone" "$split --policy=fast" $common $timed
verdict "fast over clone" "$ratio" ">= 1.72" "$(holds "$ratio >= 1.72")" \
	"published 21011/12227 = 1.72; A/A differs by $noise"
# shellcheck disable=SC2086
ratios "$split --policy=build" "$split --policy=fast" $common $timed
report "fast over build" "$ratio" "published 1.11" "A/A differs by $noise"

say
if command -v valgrind >/dev/null; then
	bench_head "instructions per I/O"
	for v in fast clone build; do
		for bs in 256 512 1024; do
			# shellcheck disable=SC2086
			n=$(instructions $split --policy=$v $common --bs=${bs}k)
			eval "i_${v}_$bs=$n"
			report "$v, $((bs / 16)) fragments" "$n" ""
		done
	done
	# shellcheck disable=SC2154
	r=$(calc "($i_fast_1024 - $i_fast_512) / ($i_fast_512 - $i_fast_256)")
	verdict "fast: twice the fragments cost more by" "$r" "2: linear" "$(holds "$r > 1.9 && $r < 2.1")"
	# shellcheck disable=SC2154
	r=$(calc "($i_clone_1024 - $i_fast_1024) / ($i_clone_512 - $i_fast_512)")
	verdict "clone over fast: what it adds grows by" "$r" "4: quadratic" "$(holds "$r > 3.6 && $r < 4.2")"
else
	say "no valgrind: instructions per I/O not counted"
fi

# peak SECONDS ARG...: largest resident size of a job in KiB
peak() {
	seconds=$1
	shift
	(cd "$KP_TMP" && exec $FIO --thread=1 --time_based --runtime="$seconds" "$@" >out 2>err) &
	pid=$!
	most=0
	while now=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status" 2>/dev/null) && [ "$now" ]; do
		most=$now
		sleep 0.2
	done
	wait $pid || fail "fio failed: $*"
	echo "$most"
}

say
bench_head "resident KiB, 1 s and 6 s"
fio_ok --name=layout --ioengine=psync --rw=write --bs=1m --size=64m --filename=bench.tmp
for v in clone fast build 5.4; do
	for b in null libaio io_uring; do
		set -- $split --policy=$v --name=bench --backend=$b --rw=randread --bs=256k --size=64m \
			--iodepth=16 --max_sectors_kb=16 --filename=bench.tmp
		short=$(peak 1 "$@")
		long=$(peak 6 "$@")
		verdict "$v on $b" "$long" "$short + 1024" "$(holds "$long <= $short + 1024")"
	done
done
bench_end
