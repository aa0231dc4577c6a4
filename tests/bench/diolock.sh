#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Seed 2's table on the model of its SSD, beside the published figures; zram; libaio at depth 16
# under the three rwsems; the lock beside glibc's; the stage switched off beside the pass-through.
# For a machine that has nothing else to do. KP_RUNTIME seconds a cell (4), KP_RUNS rounds (3).
#
# The jobs run on two CPUs, whatever the machine has: KP_CPUS (0-1). What depends on how long waiters
# watch for their wake is seen by building with another time and running this again:
# make clean all CFLAGS='-O2 -g -DKP_RWSEM_WATCH_NS=0'
# time limit: 3000
# shellcheck disable=SC2046,SC2086 # options and cells are lists of words
. "$KP_TOP/tests/lib.sh"
need_engine diolock split
need_command jq
need_command taskset
diolock=$(engine diolock)
runtime=${KP_RUNTIME:-4} runs=${KP_RUNS:-3} cpus=${KP_CPUS:-0-1}
missed='' skipped=''
[ "$(nproc)" -ge 2 ] || skip "one CPU: the locks are compared on two"

# cell RUNS ARG...: IOPS (reads and writes), mean total latency of reads and of writes in us: the
# median round by IOPS.
cell() {
	n=$1
	shift
	i=0
	: >"$KP_TMP/cells"
	while [ $i -lt "$n" ]; do
		fio_ok --name=c --ioengine="$diolock" --direct=1 --rw=randrw --numjobs=8 \
			--group_reporting --time_based --runtime="$runtime" --output-format=json \
			--cpus_allowed="$cpus" --cpus_allowed_policy=shared \
			--output="$KP_TMP/c.json" "$@"
		sed -n '/^{/,$p' "$KP_TMP/c.json" | jq -r '.jobs[0] | "\(.read.iops + .write.iops | floor)
			\(.read.lat_ns.mean / 1000) \(.write.lat_ns.mean / 1000)"' | tr -s '\n\t ' ' ' \
			>>"$KP_TMP/cells"
		echo >>"$KP_TMP/cells"
		i=$((i + 1))
	done
	sort -n "$KP_TMP/cells" | sed -n "$((n / 2 + 1))p"
}

# The model of seed 2's SSD, fixed before anything was measured; see jobs/diolock.fio.
ssd="--backend=null --null_read_nsec=90000 --null_write_nsec=15000 --null_mbps=1200
	--filename=ssd --size=20g"

# want WHAT VALUE LEAST
want() {
	if awk "BEGIN { exit !($2 >= $3) }"; then
		say "  $1: $2, wanted at least $3"
	else
		say "  $1: $2, MISSED: wanted at least $3"
		missed="$missed; $1"
	fi
}

ratio() { awk "BEGIN { printf \"%.2f\", $1 / $2 }"; }

say "seed 2, psync, 8 jobs, randrw: IOPS of both directions; latency of reads and writes, us"
say "   bs     without (4.8)              with (4.9)                ratio   seed   5.6"
for row in 4k:3.8:58941:15442 16k:3.7:27291:7364 64k:3.5:13193:3726 512k:1.5:2305:1534 \
	1m:1.2:1157:950; do
	bs=${row%%:*}
	set -- $(cell "$runs" --policy=ext4-4.8 --bs="$bs" $ssd) $(cell "$runs" --policy=ext4-4.9 \
		--bs="$bs" $ssd) $(cell "$runs" --policy=ext4-5.6 --bs="$bs" $ssd)
	r=$(ratio "$1" "$4")
	printf '   %-5s %6d %6.0f %6.0f      %6d %6.0f %6.0f      %5s %6s  %6d\n' "$bs" "$1" "$2" "$3" \
		"$4" "$5" "$6" "$r" "$(echo "$row" | cut -d: -f2)" "$7"
	printf '   %-5s %6d IOPS                %6d IOPS                published\n' '' \
		"$(echo "$row" | cut -d: -f3)" "$(echo "$row" | cut -d: -f4)"
	if [ "$bs" = 4k ]; then
		at_4k=$r write_ratio=$(ratio "$6" "$3") recovers=$(ratio "$7" "$1")
	fi
	last=$r
done
want "4.8 over 4.9 at 4k" "$at_4k" 2.0
want "write latency, 4.9 over 4.8, at 4k" "$write_ratio" 2.0
want "5.6 over 4.8 at 4k" "$recovers" 1.0
want "ratio at 4k over ratio at 1m" "$(ratio "$at_4k" "$last")" 1.5

say "libaio, iodepth 16, 4k: seed 2 has 193890 without and 39156 with, 4.95x"
set -- $(cell "$runs" --policy=ext4-4.8 --bs=4k --iodepth=16 $ssd)
without=$1
for rwsem in 4.9 5.3 5.11; do
	set -- $(cell "$runs" --policy=ext4-4.9 --rwsem=$rwsem --bs=4k --iodepth=16 $ssd)
	say "  rwsem $rwsem: $without without, $1 with, ratio $(ratio "$without" "$1")"
done

say "zram"
zram=''
[ -d /sys/class/zram-control ] || modprobe zram num_devices=1 2>/dev/null || true
if [ -r /sys/class/zram-control/hot_add ] && n=$(cat /sys/class/zram-control/hot_add 2>/dev/null); then
	at_exit "echo $n >/sys/class/zram-control/hot_remove"
	[ ! -b "/dev/zram$n" ] || zram=/dev/zram$n
	[ -z "$zram" ] || echo 1G >"/sys/block/zram$n/disksize"
fi
if [ "$zram" ]; then
	set -- $(cell "$runs" --policy=ext4-4.8 --bs=4k --backend=psync --filename="$zram" --size=1g) \
		$(cell "$runs" --policy=ext4-4.9 --bs=4k --backend=psync --filename="$zram" --size=1g)
	say "  $1 IOPS and $4"
	want "zram, 4.8 over 4.9 at 4k" "$(ratio "$1" "$4")" 1.8
else
	say "  SKIPPED: no zram here; modprobe zram first"
	skipped="zram, 4.8 over 4.9 at 4k"
fi

say "the lock beside pthread_rwlock, on the CPUs $cpus"
$KP_CC $KP_SHIM_CFLAGS -O2 -o "$KP_TMP/rwsem" tests/bench/rwsem.c shim/libkpolicy.a -pthread $KP_LIBS
taskset -c "$cpus" "$KP_TMP/rwsem" | tee "$KP_TMP/rwsem.out"
glibc_read=$(awk '$1 == "glibc" { print $2 }' "$KP_TMP/rwsem.out")
glibc_write=$(awk '$1 == "glibc" { print $3 }' "$KP_TMP/rwsem.out")
for rwsem in 4.9 5.3 5.11; do
	want "rwsem $rwsem, reads, speed over glibc" \
		"$(ratio "$glibc_read" "$(awk "\$1 == \"$rwsem\" { print \$2; exit }" "$KP_TMP/rwsem.out")")" 1.0
	want "rwsem $rwsem, writes, speed over glibc" \
		"$(ratio "$glibc_write" "$(awk "\$1 == \"$rwsem\" { print \$3; exit }" "$KP_TMP/rwsem.out")")" 1.0
done

say "policy=none beside the pass-through of split, null device that costs nothing, IOPS of one job"
passes() {
	i=0
	while [ $i -lt 5 ]; do
		fio_ok --name=p --ioengine="$(engine "$1")" --policy=none --backend=null --size=1g \
			--rw=randread --bs=4k --time_based --runtime=2 --output-format=json \
			--output="$KP_TMP/p.json" --gtod_reduce=1
		jq '.jobs[0].read.iops' "$KP_TMP/p.json"
		i=$((i + 1))
	done | sort -n | tail -n 1
}
want "diolock:none over split:none" "$(ratio "$(passes diolock)" "$(passes split)")" 0.98

[ -z "$missed" ] || fail "missed${missed#;}"
[ -z "$skipped" ] || skip "not measured: $skipped"
