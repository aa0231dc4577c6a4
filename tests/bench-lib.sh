# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# What the benchmarks share, after tests/lib.sh. They measure time: run them alone on the machine.
#	KP_BENCH_PAIRS	 pairs of runs (default 5)
#	KP_BENCH_SECONDS length of each run (default 1)
: "${KP_BENCH_PAIRS:=5}" "${KP_BENCH_SECONDS:=1}"
need_command jq awk

bench_bad=0
# verdict NAME MEASURED WANTED GOOD(0|1) [REMARK]
verdict() {
	word=ok
	[ "$4" = 1 ] || { word='NOT REACHED'; bench_bad=1; }
	printf '%-42s %14s %18s  %-11s %s\n' "$1" "$2" "$3" "$word" "${5:-}"
}
# verdict_ratio NAME RATIO LEAST NOISE: where equal runs differ by more than 3 %, nothing is said of a
# ratio that is no further from the least than they are from each other.
verdict_ratio() {
	if [ "$(holds "$4 > 0.03 && $2 + $4 >= $3 && $2 - $4 < $3")" = 1 ]; then
		report "$1" "$2" ">= $3" "inconclusive: A/A differs by $4"
	else
		verdict "$1" "$2" ">= $3" "$(holds "$2 >= $3")" "A/A differs by $4"
	fi
}
# report NAME MEASURED BESIDE: a figure that nothing is asked of
report() { printf '%-42s %14s %18s  %-11s %s\n' "$1" "$2" "$3" '-' "${4:-}"; }
bench_head() {
	printf '%-42s %14s %18s  %-11s %s\n' "$1" measured wanted verdict remark
}
bench_end() { [ $bench_bad = 0 ] || fail "figures not reached"; }

# In brackets: without, awk takes a > b for a redirection.
calc() { awk "BEGIN { printf \"%.4f\", ($*) }"; }
holds() { awk "BEGIN { print ($*) ? 1 : 0 }"; }
# median < numbers
median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

# value FILTER FIO-ARG...: of one run's JSON
value() {
	filter=$1
	shift
	fio_ok --output-format=json --output=bench.json "$@"
	sed -n '/^{/,$p' "$KP_TMP/bench.json" | jq -e "$filter"
}

# ratios A-ARGS B-ARGS COMMON-ARG...: B over A, and A over A, of reads per second, in interleaved
# runs. Sets ratio and noise (the median distance of A over A from 1).
ratios() {
	a=$1 b=$2
	shift 2
	: >"$KP_TMP/ba"
	: >"$KP_TMP/aa"
	pair=0
	while [ $pair -lt "$KP_BENCH_PAIRS" ]; do
		# shellcheck disable=SC2086
		if [ $((pair % 2)) = 0 ]; then
			a1=$(value .jobs[0].read.iops $a "$@")
			b1=$(value .jobs[0].read.iops $b "$@")
			a2=$(value .jobs[0].read.iops $a "$@")
		else
			a2=$(value .jobs[0].read.iops $a "$@")
			b1=$(value .jobs[0].read.iops $b "$@")
			a1=$(value .jobs[0].read.iops $a "$@")
		fi
		calc "2 * $b1 / ($a1 + $a2)" >>"$KP_TMP/ba"
		echo >>"$KP_TMP/ba"
		calc "sqrt(($a2 / $a1 - 1) ^ 2)" >>"$KP_TMP/aa"
		echo >>"$KP_TMP/aa"
		pair=$((pair + 1))
	done
	# shellcheck disable=SC2034 # for the caller
	ratio=$(median <"$KP_TMP/ba")
	# shellcheck disable=SC2034 # for the caller
	noise=$(median <"$KP_TMP/aa")
}

# instructions FIO-ARG...: per I/O, in fio's calls into the engine (prep, queue, commit, getevents, event)
# and what they call; the kernel's are not counted. The same binary gives nearly the same figure in
# every run.
instructions() {
	fio_valgrind=$FIO
	(cd "$KP_TMP" && valgrind --tool=callgrind --callgrind-out-file=callgrind.out \
		"$fio_valgrind" --thread=1 --minimal --number_ios=3000 --io_size=1t "$@") \
		>"$KP_TMP/out" 2>"$KP_TMP/err" || { fio_said; fail "callgrind: $*"; }
	callgrind_annotate --inclusive=yes --threshold=100 "$KP_TMP/callgrind.out" 2>/dev/null |
		awk '{ gsub(",", "", $1) }
		/:td_io_prep \[/ && !p { p = $1 }
		/:td_io_queue \[/ && !q { q = $1 }
		/:io_u_queued_complete \[/ && !c { c = $1 }
		END { printf "%d\n", (p + q + c) / 3000 }'
}

# ram_device: sets ram to a block device in memory, or to nothing.
ram_device() {
	ram=
	[ "$(id -u)" = 0 ] || return 0
	if [ -r /sys/class/zram-control/hot_add ]; then
		zram=$(cat /sys/class/zram-control/hot_add)
		at_exit "echo $zram >/sys/class/zram-control/hot_remove"
		if echo 128M >/sys/block/zram"$zram"/disksize 2>/dev/null; then
			ram=/dev/zram$zram
			# Memory that does not compress is kept as it is: no decompression in the figures.
			dd if=/dev/urandom of="$ram" bs=1M count=128 oflag=direct 2>/dev/null
			at_exit "echo 1 >/sys/block/zram$zram/reset"
			return 0
		fi
	fi
	[ -d /dev/shm ] || return 0
	image=$(mktemp /dev/shm/kpolicy.XXXXXX)
	at_exit "rm -f $image"
	dd if=/dev/urandom of="$image" bs=1M count=128 2>/dev/null
	ram=$(losetup --find --show "$image" 2>/dev/null) || { ram=; return 0; }
	at_exit "losetup -d $ram"
}
