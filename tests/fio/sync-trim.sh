# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Syncs and trims as fio's own engines do them: sync_file_range with the job's own flags and not at
# all for a range of nothing, trims inside queue() and never beside a write that is still queued.
. tests/lib.sh
need_command jq

verify="--verify_fatal=1 --verify_state_save=0 --eta=never"

# shellcheck disable=SC2086
for e in $KP_ENGINES; do
	for backend in psync libaio io_uring; do
		# Verify reads stand between the writes: a sync may find nothing written since the last.
		rm -f "$KP_TMP/f"
		fio_ok --name=t --ioengine="$(engine "$e")" --backend=$backend --filename=f --size=2m \
			--direct=1 --iodepth=4 --rw=randwrite --bsrange=4k-128k --verify=crc32c \
			--verify_backlog=1 --sync_file_range=write:2 $verify
		rm -f "$KP_TMP/f"
		fio_ok --name=t --ioengine="$(engine "$e")" --backend=$backend --filename=f --size=8m \
			--direct=1 --rw=trimwrite --bsrange=64k-1m --iodepth=32 --fdatasync=7 \
			--serialize_overlap=1 --verify=crc32c --randseed=207870474 $verify
		say "$e on $backend: sync_file_range, trimwrite"
	done
done

# fio counts a trim that ends inside queue() at depth 1, whatever iodepth= says.
for e in $KP_ENGINES; do
	for backend in libaio io_uring null; do
		fio_ok --name=t --ioengine="$(engine "$e")" --backend=$backend --filename=f --size=1m \
			--rw=randtrim --bs=4k --iodepth=32 --null_completion=async --eta=never \
			--output-format=json --output=json
		equal "$e on $backend: trims at depth 1, percent" \
			"$(jq '.jobs[0].iodepth_level["1"]' "$KP_TMP/json")" 100
		equal "$e on $backend: trims" "$(jq '.jobs[0].trim.total_ios' "$KP_TMP/json")" 256
	done
done

# The flags reach the system call.
need_command strace
for e in $KP_ENGINES; do
	case $e in writeback | blocksize) continue ;; esac # their page cache does it
	rm -f "$KP_TMP/f"
	(cd "$KP_TMP" && strace -f -o trace -e trace=sync_file_range $FIO --name=t --filename=f \
		--ioengine="$(engine "$e")" --size=64k --rw=write --bs=4k \
		--sync_file_range=wait_before,write:4 $verify >out 2>err) || { fio_said; fail "$e"; }
	grep -q 'WAIT_BEFORE|SYNC_FILE_RANGE_WRITE)' "$KP_TMP/trace" || fail "$e: no such call"
	! grep -q WAIT_AFTER "$KP_TMP/trace" || fail "$e: a flag that the job did not give"
done
