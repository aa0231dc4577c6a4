#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The null device has no size: a job does all of its I/O wherever its range begins, as with fio's
# own null engine. A part of a size that is not there is refused in one line.
. tests/lib.sh
need_engine split
need_command jq

# ios ENGINE OPTION...: the writes of each job
ios() {
	e=$1
	shift
	fio_ok --name=r --ioengine="$e" --rw=randwrite --bs=4k --filename=r --output-format=json \
		--output=r.json "$@"
	jq -c '[.jobs[].write.total_ios]' "$KP_TMP/r.json"
}

while read -r o; do
	# shellcheck disable=SC2086 # options
	equal "writes with $o" "$(ios "$(engine split)" --backend=null $o)" "$(ios null $o)"
done <<END
--size=1m
--size=1m --offset=2m
--size=1m --offset=25%
--size=1m --offset_increment=1m --numjobs=3
--size=1m --offset_increment=512k --numjobs=2 --thread
--size=1m --file_append=1
--size=1m --filesize=4m
--size=50% --filesize=1m
--size=1m --io_size=3m
END
# What lies beyond the first job's range is kept, too.
fio_ok --name=r --ioengine="$(engine split)" --backend=null --null_memory_backed=1 --rw=randwrite \
	--bs=4k --filename=r --size=1m --offset_increment=1m --numjobs=3 --verify=crc32c

fio_refused 'size=25% on backend=null.* give size= in bytes' --name=r --ioengine="$(engine split)" \
	--backend=null --rw=read --size=25% --filename=r
