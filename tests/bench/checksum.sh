# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# The figures of the checksum policy: the rate of sums, the cost of handing a bio to a worker and
# back, the table's memory, inline beside the pass-through on a real file, and seed 3 on a null
# device of stated bandwidth (KP_CSUM_MBPS, default 600) with crc32c=generic and fast: where inline
# and workers cross, and `threshold` set to that place beside the better of the two.
# time limit: 2400
. tests/lib.sh
. tests/bench-lib.sh
. tests/checksum.sh
[ -z "$KP_SANITIZE" ] || skip "a sanitizer is in the figures"
: "${KP_CSUM_MBPS:=600}"

bench_head "in memory"
# shellcheck disable=SC2086 # flags
$KP_CC $KP_SHIM_CFLAGS -O2 -o "$KP_TMP/bench" tests/bench/checksum.c shim/libkpolicy.a -pthread $KP_LIBS
"$KP_TMP/bench" >"$KP_TMP/figures"
figure() { awk -v name="$1" '$1 == name { print $2 }' "$KP_TMP/figures"; }
for how in fast generic; do
	ours=$(figure crc_$how) theirs=$(figure isal_$how)
	verdict "crc32c=$how, GB/s over 4 KiB" "$ours" "95 % of $theirs" \
		"$(holds "$ours >= 0.95 * $theirs")" "$(calc "$ours / $theirs") of ISA-L's own rate"
done
report "write of 4 KiB alone, inline, ns" "$(figure inline_ns)" ""
report "the same by a worker and back, ns" "$(figure async_ns)" "" \
	"$(calc "$(figure async_ns) - $(figure inline_ns)") more: to a worker and back"
report "64 in flight, inline, ns" "$(figure inline_deep_ns)" ""
report "64 in flight, workers, ns" "$(figure async_deep_ns)" ""
stretch=$(figure stretch_kib)
verdict "table, 1 GiB in a stretch of 1 TiB, KiB" "$stretch" "< 2048" "$(holds "$stretch < 2048")"
report "table, 1 GiB of 4 KiB at random, KiB" "$(figure random_kib)" ""

# writes FILTER ARG...: a figure of one run's writes
bw() { value .jobs[0].write.bw_bytes "$@"; }

say
bench_head "inline over pass-through, 4k writes"
csum --name=layout --policy=none --filename=real.tmp --rw=write --bs=1m --size=256m --end_fsync=1
for e in "libaio 32" "io_uring 32" "psync 1"; do
	depth=${e#* } e=${e% *}
	: >"$KP_TMP/r"
	: >"$KP_TMP/aa"
	pair=0
	while [ $pair -lt "$KP_BENCH_PAIRS" ]; do
		set -- --name=b --ioengine="$(engine checksum)" --backend="$e" --filename=real.tmp \
			--size=256m --rw=randwrite --bs=4k --iodepth="$depth" --norandommap \
			--time_based --runtime="$KP_BENCH_SECONDS"
		none=$(bw "$@" --policy=none)
		inline=$(bw "$@" --policy=inline)
		again=$(bw "$@" --policy=none)
		echo "$(calc "2 * $inline / ($none + $again)")" >>"$KP_TMP/r"
		echo "$(calc "sqrt(($again / $none - 1) ^ 2)")" >>"$KP_TMP/aa"
		pair=$((pair + 1))
	done
	r=$(median <"$KP_TMP/r") a=$(median <"$KP_TMP/aa")
	verdict "$e, iodepth $depth" "$r" ">= 0.97" "$(holds "$r + $a >= 0.97")" "A/A differs by $a"
done

# seed BS POLICY CRC ARG...: bytes per second of seed 3's job
seed() {
	bs=$1 policy=$2 crc=$3
	shift 3
	bw --name=seed3 --ioengine="$(engine checksum)" --policy="$policy" --crc32c="$crc" \
		--backend=null --null_mbps="$KP_CSUM_MBPS" --filename=seed3 --size=8g --rw=write \
		--bs="$bs" --iodepth=64 --iodepth_batch=64 --iodepth_batch_complete=64 \
		--iodepth_low=64 --time_based --runtime="$KP_BENCH_SECONDS" "$@"
}

# med BS POLICY CRC ARG...: the median of several runs
med() {
	run=0
	while [ $run -lt "$KP_BENCH_PAIRS" ]; do
		seed "$@"
		run=$((run + 1))
	done | median
}

sizes="4k 8k 16k 32k 64k 128k 256k 512k"
bytes() { echo $((${1%k} * 1024)); }
for crc in generic fast; do
	say
	say "seed 3 on a null device of $KP_CSUM_MBPS MB/s, crc32c=$crc, MB/s"
	printf '%6s %10s %10s %8s\n' bs workers inline ratio
	crossover=''
	: >"$KP_TMP/table"
	for bs in $sizes; do
		async=$(med $bs always_async $crc) inline=$(med $bs unsplit_inline $crc)
		echo "$bs $async $inline" >>"$KP_TMP/table"
		printf '%6s %10.1f %10.1f %8.3f\n' $bs "$(calc "$async / 1e6")" \
			"$(calc "$inline / 1e6")" "$(calc "$async / $inline")"
		# The first size from which on workers are ahead.
		if [ "$(holds "$async > $inline")" = 1 ]; then
			: "${crossover:=$bs}"
		else
			crossover=''
		fi
	done
	[ "$crossover" ] || { report "crossover, crc32c=$crc" none ""; continue; }
	report "crossover, crc32c=$crc" "$crossover" "64k in seed 3"
	if [ "$crc" = generic ]; then
		first=$(head -n 1 "$KP_TMP/table")
		# shellcheck disable=SC2086 # words
		set -- $first
		verdict "inline ahead at 4k" "$(calc "$3 / $2")" "> 1" "$(holds "$3 > $2")"
	fi
	while read -r bs async inline; do
		mixed=$(med "$bs" threshold $crc --async_threshold="$(bytes "$crossover")")
		better=$(calc "$async > $inline ? $async : $inline")
		same=$(med "$bs" "$(if [ "$(holds "$async > $inline")" = 1 ]; then
			echo always_async; else echo unsplit_inline; fi)" $crc)
		noise=$(calc "sqrt(($same / $better - 1) ^ 2)")
		verdict "threshold=$crossover over the better, $bs" "$(calc "$mixed / $better")" "1 - noise" \
			"$(holds "$mixed / $better >= 1 - ($noise > 0.03 ? $noise : 0.03)")" \
			"A/A differs by $noise"
	done <"$KP_TMP/table"
done
bench_end
