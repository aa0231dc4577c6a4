# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# What a stage costs: instructions per I/O that each variant adds to a pass-through, in all threads of
# the job, and the functions where most of them are. The device is null and does nothing, or keeps
# what is written where a variant reads it back. Counted are our functions, the C library's that copy
# memory, lock, or call the kernel, and those of ISA-L, liburing and libaio. KP_BENCH_STAGES names the
# stages to look at (default: all).
# time limit: 2400
. tests/lib.sh
. tests/bench-lib.sh
need_command valgrind
[ -z "$KP_SANITIZE" ] || skip "a sanitizer is in the figures"
: "${KP_BENCH_STAGES:=diolock writeback checksum blocksize split plug}"

few=500 many=2500

# functions IOS FIO-ARG...: a line for each function: its name, and the instructions in itself.
functions() {
	ios=$1 fio_valgrind=$FIO
	shift
	(cd "$KP_TMP" && valgrind --tool=callgrind --callgrind-out-file=callgrind.out \
		"$fio_valgrind" --thread=1 --minimal --number_ios="$ios" --io_size=1t "$@") \
		>"$KP_TMP/out" 2>"$KP_TMP/err" || { fio_said; fail "callgrind: $*"; }
	callgrind_annotate --auto=no --show-percs=no --threshold=100 "$KP_TMP/callgrind.out" |
		awk '$1 ~ /^[0-9,]+$/ && $2 ~ /:/ {
			gsub(",", "", $1)
			name = $2
			sub(/.*:/, "", name)
			library = $NF
			gsub(/.*\/|\.so.*/, "", library)
			if (name ~ /^0x/)
				name = library
			if ($2 !~ /shim\/|engines\// && library !~ /^(libisal|liburing|libaio)$/ &&
				name !~ /pthread|^__mem|^syscall|^pread|^pwrite/)
				next
			sub(/\.(isra|part|constprop|cold).*/, "", name)
			n[name] += $1
		}
		END { for (name in n) print name, n[name] }'
}

# per_io FILE FIO-ARG...: what an I/O costs, function by function. What happens once cancels out.
per_io() {
	file=$KP_TMP/$1
	shift
	functions $few "$@" >"$KP_TMP/few"
	functions $many "$@" >"$KP_TMP/many"
	awk -v ios=$((many - few)) 'NR == FNR { few[$1] = $2; next } { print $1, ($2 - few[$1]) / ios }' \
		"$KP_TMP/few" "$KP_TMP/many" >"$file"
}

# added NAME: what $KP_TMP/with has more than $KP_TMP/without, and the three largest sources
added() {
	awk 'NR == FNR { without[$1] = $2; next } { print $1, $2 - without[$1] }' \
		"$KP_TMP/without" "$KP_TMP/with" | sort -k2 -gr >"$KP_TMP/added"
	report "$1" "$(awk '{ sum += $2 } END { printf "%.0f", sum }' "$KP_TMP/added")" "" \
		"$(awk 'NR <= 3 { printf "%s%s %.0f", (NR == 1 ? "" : ", "), $1, $2 }' "$KP_TMP/added")"
}

# run POLICY ENGINE OPTION WHAT FIO-ARG...: every variant of POLICY, which OPTION of ENGINE selects
run() {
	policy=$1 engine=$2 option=$3 what=$4
	shift 4
	case " $KP_BENCH_STAGES " in *" $policy "*) ;; *) return 0 ;; esac
	need_engine "$engine"
	set -- --name=bench --ioengine="$(engine "$engine")" --backend=null --norandommap --size=1g "$@"
	rows=$(variants "$policy")
	per_io without "$@" "--$option=none"
	for v in $rows; do
		per_io with "$@" "--$option=$v"
		added "$policy:$v, $what"
	done
}

bench_head "instructions per I/O that a stage adds"
run diolock diolock policy "read 4k" --rw=randread --bs=4k
run diolock diolock policy "write 4k" --rw=randwrite --bs=4k
run writeback writeback policy "write 4k" --rw=write --bs=4k
run writeback writeback policy "read 4k" --rw=read --bs=4k
run checksum checksum policy "write 4k" --rw=randwrite --bs=4k --null_memory_backed=1
run checksum checksum policy "read 4k" --rw=randread --bs=4k --null_memory_backed=1
run blocksize blocksize policy "write 4k" --rw=write --bs=4k
run split split policy "read 1m in 16" --rw=read --bs=1m --max_sectors_kb=64
run plug split plug "read 4k, 16 in a batch" --rw=read --bs=4k --iodepth=16 --iodepth_batch=16 \
	--policy=none
bench_end
