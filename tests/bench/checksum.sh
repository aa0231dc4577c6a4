# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# The figures of the checksum policy: the rate of sums, the cost of handing a bio to a worker and
# back, the table's memory, inline beside the pass-through on a real file, and seed 3 on a null
# device of stated bandwidth (KP_CSUM_MBPS; default that of jobs/checksum.fio, which says why) with
# crc32c=generic and fast: where inline and workers cross, and `threshold` set to that place beside the
# better of the two.
# KP_BENCH_PAIRS runs for each figure (default here 9), of KP_BENCH_SECONDS. For an idle machine.
# time limit: 2400
: "${KP_BENCH_PAIRS:=9}"
. tests/lib.sh
. tests/bench-lib.sh
. tests/checksum.sh
[ -z "$KP_SANITIZE" ] || skip "a sanitizer is in the figures"
: "${KP_CSUM_MBPS:=535}"

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

# bw ARG...: bytes per second of one run's writes
bw() { value .jobs[0].write.bw_bytes "$@"; }

# real POLICY: of 4k writes to the real file, 2 seconds at least
real() {
	bw --name=b --ioengine="$(engine checksum)" --backend="$e" --filename=real.tmp --size=256m \
		--rw=randwrite --bs=4k --iodepth="$depth" --norandommap --time_based \
		--runtime=$((KP_BENCH_SECONDS < 2 ? 2 : KP_BENCH_SECONDS)) --policy="$1"
}

say
bench_head "inline over pass-through, 4k writes"
csum --name=layout --policy=none --filename=real.tmp --rw=write --bs=1m --size=256m --end_fsync=1
for e in "libaio 32" "io_uring 32" "psync 1"; do
	depth=${e#* } e=${e% *}
	: >"$KP_TMP/r"
	: >"$KP_TMP/aa"
	real none >"$KP_TMP/warm" # the file, and the device under it, settle
	pair=0
	while [ $pair -lt "$KP_BENCH_PAIRS" ]; do
		# One between two of the other, and each in the middle by turns.
		if [ $((pair % 2)) = 0 ]; then
			first=$(real none) inline=$(real inline) last=$(real none)
			calc "2 * $inline / ($first + $last)" >>"$KP_TMP/r"
		else
			first=$(real inline) none=$(real none) last=$(real inline)
			calc "($first + $last) / (2 * $none)" >>"$KP_TMP/r"
		fi
		calc "sqrt(($last / $first - 1) ^ 2)" >>"$KP_TMP/aa"
		echo >>"$KP_TMP/r"
		echo >>"$KP_TMP/aa"
		pair=$((pair + 1))
	done
	r=$(median <"$KP_TMP/r") a=$(median <"$KP_TMP/aa")
	verdict_ratio "$e, iodepth $depth" "$r" 0.97 "$a"
done

# seed BS POLICY CRC [ARG...]: bytes per second of seed 3's job
seed() {
	seed_bs=$1 policy=$2 crc=$3
	shift 3
	bw --name=seed3 --ioengine="$(engine checksum)" --policy="$policy" --crc32c="$crc" \
		--backend=null --null_mbps="$KP_CSUM_MBPS" --filename=seed3 --size=8g --rw=write \
		--bs="$seed_bs" --iodepth=64 --iodepth_batch=64 --iodepth_batch_complete=64 \
		--iodepth_low=64 --time_based --runtime="$KP_BENCH_SECONDS" "$@"
}

# side_by_side BS CRC A B [B-ARG...]: medians of two policies, taken in turns, in a and b; noise is
# how far the quartiles of a are from it.
side_by_side() {
	side_bs=$1 side_crc=$2 side_a=$3 side_b=$4
	shift 4
	: >"$KP_TMP/side-a"
	: >"$KP_TMP/side-b"
	run=0
	while [ $run -lt "$KP_BENCH_PAIRS" ]; do
		[ $((run % 2)) = 1 ] || seed "$side_bs" "$side_a" "$side_crc" >>"$KP_TMP/side-a"
		seed "$side_bs" "$side_b" "$side_crc" "$@" >>"$KP_TMP/side-b"
		[ $((run % 2)) = 0 ] || seed "$side_bs" "$side_a" "$side_crc" >>"$KP_TMP/side-a"
		run=$((run + 1))
	done
	a=$(median <"$KP_TMP/side-a") b=$(median <"$KP_TMP/side-b")
	noise=$(sort -n "$KP_TMP/side-a" | awk -v m="$a" '{ v[NR] = $1 } END {
		q = int((NR + 3) / 4); l = m / v[q] - 1; h = v[NR + 1 - q] / m - 1
		printf "%.4f", (l > h ? l : h) }')
}

sizes="4k 8k 16k 32k 64k 128k 256k 512k"
bytes() { echo $((${1%k} * 1024)); }
for crc in generic fast; do
	say
	say "seed 3 on a null device of $KP_CSUM_MBPS MB/s, crc32c=$crc, MB/s"
	printf '%6s %10s %10s %8s %8s\n' bs workers inline ratio noise
	crossover=''
	: >"$KP_TMP/table"
	for bs in $sizes; do
		side_by_side "$bs" "$crc" unsplit_inline always_async
		echo "$bs $b $a" >>"$KP_TMP/table"
		printf '%6s %10.1f %10.1f %8.3f %8.3f\n' "$bs" "$(calc "$b / 1e6")" \
			"$(calc "$a / 1e6")" "$(calc "$b / $a")" "$noise"
		# The first size from which on workers are ahead.
		if [ "$(holds "$b > $a")" = 1 ]; then
			: "${crossover:=$bs}"
		else
			crossover=''
		fi
	done
	# What is left of it with the CPU's instructions is reported only.
	if [ "$crc" = fast ]; then
		report "crossover, crc32c=fast" "${crossover:-none}" ""
		continue
	fi
	small=$(awk 'NR == 1 { printf "%.4f", $3 / $2 }' "$KP_TMP/table")
	large=$(awk '{ r = $2 / $3 } END { printf "%.4f", r }' "$KP_TMP/table")
	verdict "inline over workers at 4k" "$small" "> 1" "$(holds "$small > 1")"
	verdict "workers over inline at 512k" "$large" "> 1" "$(holds "$large > 1")"
	found=1
	[ "$crossover" ] && [ "$crossover" != 4k ] || found=0
	verdict "crossover, crc32c=generic" "${crossover:-none}" "64k in seed 3" $found
	[ $found = 1 ] || continue
	while read -r bs async inline; do
		better=unsplit_inline
		[ "$(holds "$async > $inline")" = 0 ] || better=always_async
		side_by_side "$bs" "$crc" "$better" threshold --async_threshold="$(bytes "$crossover")"
		# However noisy: more than 5 % is a loss.
		least=$(calc "1 - ($noise < 0.03 ? 0.03 : $noise > 0.05 ? 0.05 : $noise)")
		verdict "threshold=$crossover over $better, $bs" "$(calc "$b / $a")" ">= $least" \
			"$(holds "$b / $a >= $least")" "noise $noise"
	done <"$KP_TMP/table"
done
bench_end
