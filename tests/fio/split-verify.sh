# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Data survives every variant of split on every device, in whole fio runs; and these runs would
# notice if it did not: the device that corrupts fails each of them.
#
# One fio run has a job per variant, each with a file of its own; fio's JSON says which one failed.
# time limit: 240
. tests/lib.sh
need_engine split
need_command jq

variants="$(variants split) none"
backends="psync libaio io_uring null"
jobs=$(echo "$variants" | wc -w)

# How small are the blocks of direct I/O here?
unit=512
fio_run --name=probe --ioengine=psync --direct=1 --rw=write --bs=512 --size=4k --filename=probe.tmp
[ "$fio_status" = 0 ] || unit=4096

# run WHAT BACKEND 'JOB OPTION...': a job per variant, on its own file, or on its own MiB of $target;
# the result in $KP_TMP/json.
target=
run() {
	at=0
	{
		echo "[global]"
		echo "ioengine=$(engine split)"
		echo "direct=1"
		echo "backend=$2"
		echo "null_memory_backed=1"
		echo "max_sectors_kb=16"
		echo "iodepth=8"
		printf '%s\n' $3
		for v in $variants; do
			echo "[$v]"
			if [ "$target" ]; then
				echo "filename=$target"
				echo "offset=${at}m"
			else
				echo "filename=$v.tmp"
			fi
			at=$((at + 1))
			echo "policy=$v"
		done
	} >"$KP_TMP/job.fio"
	fio_run --output-format=json --output=said job.fio
	sed -n '/^{/,$p' "$KP_TMP/said" >"$KP_TMP/json" # jobs that are threads complain there, too
	[ ! -s "$KP_TMP/out" ] || fail "$1: something on stdout: $(cat "$KP_TMP/out")"
	jq -e ".jobs | length == $jobs" "$KP_TMP/json" >/dev/null ||
		{ cat "$KP_TMP/said" "$KP_TMP/err"; fail "$1: no result of $jobs jobs"; }
}

# The jobs that did what they should not: passes, or fails otherwise than by a verify error.
clean() {
	run "$@"
	bad=$(jq -r '[.jobs[] | select(.error != 0) | .jobname + ":" + (.error | tostring)] | join(" ")' \
		"$KP_TMP/json")
	[ -z "$bad$(grep -v '^fio: ' "$KP_TMP/err")" ] && [ "$fio_status" = 0 ] ||
		{ cat "$KP_TMP/err"; fail "$1: $2: $bad"; }
	jq -e '[.jobs[] | .read.total_ios + .write.total_ios + .trim.total_ios > 0] | all' \
		"$KP_TMP/json" >/dev/null || fail "$1: $2: a job did nothing"
}
# fault=corrupt flips a bit of every 7th write: a job needs that many.
caught() {
	run "$1" "$2" "$3 fault=corrupt"
	bad=$(jq -r '[.jobs[] | select(.error != 84) | .jobname + ":" + (.error | tostring)] | join(" ")' \
		"$KP_TMP/json")
	[ -z "$bad" ] || fail "$1: $2: corruption not seen: $bad"
}

# ---- verify, with even, odd and mixed block sizes

k=$((unit / 512))
verify="verify=crc32c size=768k"
set -- "write-64k rw=write bs=64k" \
	"randwrite-1536 rw=randwrite bs=$((1536 * k))" \
	"write-4608 rw=write bs=$((4608 * k)) thread=1" \
	"randrw-mixed rw=randrw bsrange=$unit-40k" \
	"randwrite-mixed rw=randwrite bsrange=$unit-40k thread=1"
for b in $backends; do
	for w; do
		what=${w%% *} options="$verify ${w#* }"
		[ "$what" != randwrite-1536 ] || options="$verify size=300k ${w#* }"
		say "verify $what on $b: clean, corrupted, cut short"
		clean "verify $what" "$b" "$options"
		caught "verify $what" "$b" "$options"
	done
	clean "verify, cut short" "$b" "verify=crc32c size=160k rw=randrw bsrange=$unit-96k fault=short:$unit"
done

# ---- how jobs are run

for b in $backends; do
	say "ways of running on $b"
	clean "read" "$b" "rw=read bs=64k size=1m"
	clean "randrw, threads" "$b" "rw=randrw bs=24k size=1m thread=1"
	clean "several files" "$b" "rw=randwrite bs=24k size=1m nrfiles=4 verify=crc32c filename_format=\$jobname.\$filenum.tmp"
	clean "batches" "$b" "rw=randwrite bs=24k size=1m verify=crc32c iodepth=16 iodepth_batch=8 \
		iodepth_batch_complete_min=3 iodepth_batch_complete_max=9 iodepth_low=2"
	clean "polling" "$b" "rw=randwrite bs=24k size=512k verify=crc32c iodepth_batch_complete_min=0"
	clean "syncs" "$b" "rw=randwrite bs=24k size=512k verify=crc32c fsync=7 fdatasync=3 end_fsync=1"
	clean "sync range" "$b" "rw=write bs=24k size=512k sync_file_range=wait_before,write,wait_after:4"
	clean "sync=1" "$b" "rw=write bs=24k size=96k verify=crc32c sync=1"
	clean "trimwrite" "$b" "rw=trimwrite bs=64k size=1m verify=crc32c"
	clean "time and rate" "$b" "rw=randrw bs=24k size=1m time_based runtime=1 rate_iops=200"
done

# ---- workers that fio makes

say "offload"
for b in libaio io_uring; do
	fio_offload --name=offload --ioengine="$(engine split)" --backend="$b" --policy=clone \
		--rw=randwrite --bs=24k --size=480k --iodepth=8 --verify=crc32c --max_sectors_kb=16 \
		--filename=offload.tmp
	[ "$fio_status" = 0 ] || [ "$fio_status" = 124 ] || { fio_said; fail "offload on $b"; }
done

# ---- a block device

if [ "$(id -u)" = 0 ] && command -v losetup >/dev/null; then
	truncate -s 16m "$KP_TMP/image"
	loop_device "$KP_TMP/image"
	target=$loop
	for b in psync libaio io_uring; do
		say "$loop on $b"
		clean "verify on a device" "$b" "rw=randwrite bsrange=$unit-40k verify=crc32c size=512k"
		caught "verify on a device" "$b" "rw=randwrite bsrange=$unit-40k verify=crc32c size=512k"
		clean "trim on a device" "$b" "rw=randtrim bs=64k size=512k"
		clean "sync on a device" "$b" "rw=randwrite bs=4k size=512k io_size=64k sync=dsync end_fsync=1"
	done
	target=
else
	say "no root or losetup: no run on a block device"
fi

# ---- --readonly

say "--readonly"
cp "$KP_TMP/fast.tmp" "$KP_TMP/ro.tmp"
sum=$(cksum <"$KP_TMP/ro.tmp")
fio_ok --readonly --name=ro --ioengine="$(engine split)" --rw=read --bs=64k --size=256k --filename=ro.tmp
fio_run --readonly --name=ro --ioengine="$(engine split)" --rw=write --bs=64k --size=256k --filename=ro.tmp
[ "$fio_status" != 0 ] || fail "wrote under --readonly"
equal "checksum under --readonly" "$(cksum <"$KP_TMP/ro.tmp")" "$sum"
