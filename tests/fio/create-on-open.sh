#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# create_on_open makes the files of a reader and of a writer, as fio's own engines do, and
# allow_file_create=0 none.
# shellcheck disable=SC2016 # $filenum is fio's
. tests/lib.sh
need_command timeout find

FIO="timeout -s KILL 60 $FIO" # fio tries for ever to open what it cannot
for e in $KP_ENGINES; do
	for rw in read write; do
		for files in 1 5; do
			rm -f "$KP_TMP"/c.*
			fio_ok --name=c --ioengine="$(engine "$e")" --rw=$rw --bs=4k --size=1m \
				--create_on_open=1 --nrfiles=$files --openfiles=1 --filename_format='c.$filenum'
			equal "files of $e, $rw" "$(find "$KP_TMP" -name 'c.*' | wc -l)" $files
		done
	done
	rm -f "$KP_TMP"/c.*
	fio_run --name=c --ioengine="$(engine "$e")" --rw=read --bs=4k --size=1m --create_on_open=1 \
		--allow_file_create=0 --filename=c.0
	[ $fio_status != 0 ] && [ ! -e "$KP_TMP/c.0" ] || fail "$e: a file was made"
done
