# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Bad input: one clear line, an exit code that is not 0, no crash, nothing written.
. tests/lib.sh
need_engine split

head -c 65536 /dev/urandom >"$KP_TMP/target.tmp"
sum=$(cksum <"$KP_TMP/target.tmp")
job="--name=bad --ioengine=$(engine split) --size=64k --bs=4k --rw=write"

# untouched: nothing was written, and no file is new.
untouched() {
	equal "checksum of the target after '$*'" "$(cksum <"$KP_TMP/target.tmp")" "$sum"
	new=$(find "$KP_TMP" -type f ! -name target.tmp ! -name out ! -name err ! -name image)
	[ -z "$new" ] || fail "'$*' made $new"
}

# ours PATTERN OPTION...: refused in one line of ours.
ours() {
	say "$2 ${3:-}"
	# shellcheck disable=SC2086 # options
	fio_refused "$1" $job --filename=target.tmp "$2" ${3:+"$3"}
	untouched "$2"
	case $2 in --policy=* | --fault=*) ;; *) return 0 ;; esac
	# The same in a job that is a thread.
	# shellcheck disable=SC2086
	fio_refused "$1" $job --thread=1 --filename=target.tmp "$2" ${3:+"$3"}
	untouched "$2"
}

# fios PATTERN OPTION...: fio itself refuses, in a line that names the option.
fios() {
	say "$2"
	# shellcheck disable=SC2086
	fio_run $job --filename=target.tmp "$2"
	[ "$fio_status" != 0 ] || fail "accepted: $2"
	equal "lines that say why $2 is refused" "$(cat "$KP_TMP/out" "$KP_TMP/err" | grep -Ec "$1")" 1
	untouched "$2"
}

ours 'policy=clowne:.*clone.*none' --policy=clowne
ours 'kernel=3\.10:.*4\.2.*7\.3' --kernel=3.10
ours 'kernel=5\.4-rcx:' --kernel=5.4-rcx
ours 'policy=clone kernel=5\.4:' --policy=clone --kernel=5.4
ours 'backend=floppy:.*libaio.*null' --backend=floppy
for o in max_sectors_kb max_segments max_segment_size logical_block_size physical_block_size \
	chunk_sectors null_queue_depth; do
	fios "$o: min value out of range" "--$o=0"
done
ours 'max_sectors_kb=3:.*page' --max_sectors_kb=3
ours 'max_sectors_kb=5000000:' --max_sectors_kb=5000000
fios 'max_sectors_kb: .*out of range' --max_sectors_kb=4294967295
ours 'max_segment_size=2048:.*page' --max_segment_size=2048
ours 'max_segment_size=4097:.*512' --max_segment_size=4097
ours 'logical_block_size=100:.*power' --logical_block_size=100
ours 'logical_block_size=1536:.*power' --logical_block_size=1536
ours 'physical_block_size=513:.*power' --physical_block_size=513
ours 'physical_block_size=512:.*4096' --logical_block_size=4096 --physical_block_size=512
ours 'chunk_sectors=9:.*multiple of 8' --logical_block_size=4096 --chunk_sectors=9
ours 'fault=sometimes:.*corrupt' --fault=sometimes
ours 'fault=short:100:' --fault=short:100
ours 'counters=/no/such/folder/x:' --counters=/no/such/folder/x
ours 'counters=/tmp:.*directory' --counters=/tmp
ours 'null_completion=maybe:' --backend=null --null_completion=maybe
ours 'null_badblocks=9-3:' --backend=null --null_badblocks=9-3
ours 'null_badblocks=-1:' --backend=null --null_badblocks=-1
fios 'null_queue_depth: max value out of range' --null_queue_depth=5000
ours 'verify=.*null_memory_backed' --backend=null --verify=crc32c

say "blocks of a size that direct I/O refuses"
# shellcheck disable=SC2086
fio_refused 'target.tmp.*length 1000.*512' $job --filename=target.tmp --bs=1000
untouched --bs=1000

# target PATTERN OPTION...: a target that is not fit, on every device.
target() {
	say "$*"
	pattern=$1
	shift
	for b in psync libaio io_uring; do
		# shellcheck disable=SC2086
		fio_refused "$pattern" $job --backend=$b "$@"
		untouched "$@"
	done
}

target 'filename=missing:' --filename=missing --allow_file_create=0
target 'filename=/dev/missing:' --filename=/dev/missing
target 'is a directory' "--filename=$KP_TMP"
[ ! -e /dev/missing ] || fail "/dev/missing was made"

if [ "$(id -u)" = 0 ]; then
	if command -v chattr >/dev/null && chattr +i "$KP_TMP/target.tmp" 2>/dev/null; then
		at_exit "chattr -i $KP_TMP/target.tmp"
		target 'target.tmp: cannot be opened for writing' --filename=target.tmp
		chattr -i "$KP_TMP/target.tmp"
	fi
	if command -v mkfs.ext4 >/dev/null && mkdir "$KP_TMP/mnt" && truncate -s 16m "$KP_TMP/image" &&
		mkfs.ext4 -q "$KP_TMP/image" && mount -o loop "$KP_TMP/image" "$KP_TMP/mnt" 2>/dev/null; then
		at_exit "umount $KP_TMP/mnt"
		cp "$KP_TMP/target.tmp" "$KP_TMP/mnt/there"
		mount -o remount,ro "$KP_TMP/mnt"
		say "a read-only file system"
		for b in psync libaio io_uring; do
			# shellcheck disable=SC2086
			fio_refused 'mnt/there: cannot be opened for writing: Read-only' $job --backend=$b \
				--filename=mnt/there
		done
		equal "checksum there" "$(cksum <"$KP_TMP/mnt/there")" "$sum"
	fi
	cp "$KP_TMP/target.tmp" "$KP_TMP/image.ro"
	loop=$(losetup --find --show -r "$KP_TMP/image.ro" 2>/dev/null) || loop=
	if [ "$loop" ]; then
		at_exit "losetup -d $loop"
		say "a read-only block device"
		for b in psync libaio io_uring; do
			for rw in write randtrim; do
				# shellcheck disable=SC2086
				fio_refused "$loop: cannot be opened for writing: Read-only" $job \
					--backend=$b --filename="$loop" --rw=$rw
			done
		done
		equal "checksum of the device" "$(cksum <"$KP_TMP/image.ro")" "$sum"
	fi
else
	say "not root: no read-only targets"
fi
