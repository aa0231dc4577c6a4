# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# backend=null neither opens nor makes its file, whatever the job does. (fio's core looks at the
# name with stat(); that is its own.)
. tests/lib.sh
need_command strace
[ -z "$KP_SANITIZE" ] || skip "strace and a sanitizer do not go together"

full=1
for e in $KP_ENGINES; do
	for o in "--rw=randread" "--rw=randrw --thread=1 --iodepth=8" \
		"--rw=randwrite --null_memory_backed=1 --verify=crc32c --numjobs=2" \
		"--rw=write --fsync=1 --end_fsync=1 --null_completion_nsec=1000" "--rw=trim" \
		"--rw=write --nrfiles=3 --filename_format=touch-me.\$jobnum.\$filenum" \
		"--rw=randread --time_based --runtime=1 --rate_iops=50"; do
		[ "$full" ] || [ "$o" = --rw=randread ] || continue # the adaptor is the same
		say "$e $o"
		# shellcheck disable=SC2086 # options
		(cd "$KP_TMP" && exec strace -f -o trace \
			-e trace=open,openat,creat,truncate,ftruncate,unlink,unlinkat,rename,fallocate,mknod \
			$FIO --name=touch --ioengine="$(engine "$e")" --backend=null --size=1m --bs=8k \
			--filename=touch-me $o) >"$KP_TMP/out" 2>"$KP_TMP/err" || { fio_said; fail "$e $o"; }
		[ -s "$KP_TMP/trace" ] || skip "strace traces nothing here"
		! grep touch-me "$KP_TMP/trace" || fail "it was touched"
		[ -z "$(find "$KP_TMP" -name 'touch-me*')" ] || fail "it was made"
	done
	# A file of that name, even one that nobody may write, is left alone.
	echo mine >"$KP_TMP/touch-me"
	fio_ok --name=touch --ioengine="$(engine "$e")" --backend=null --size=1m --bs=8k \
		--filename=touch-me --rw=randwrite
	equal "the file" "$(cat "$KP_TMP/touch-me")" mine
	rm "$KP_TMP/touch-me"
	full=
	# No /no/such/folder either.
	fio_ok --name=touch --ioengine="$(engine "$e")" --backend=null --size=1m --filename=none/such
	[ ! -e "$KP_TMP/none/such" ] || fail "a file in a folder was made"
done
