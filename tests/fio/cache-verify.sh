#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Every variant of the buffered policies survives verify: one fio writes through our cache, another
# verifies what is on the device. Each variant runs one pattern; tests/long runs every pair. A device
# that corrupts data is caught.
. tests/lib.sh
. tests/cache.sh
need_engine writeback blocksize

n=0
for v in $cache_variants; do
	plan "$v" $n
	n=$((n + 1))
done
plan writeback:strict $n
written_and_verified
[ $fio_status = 0 ] || { fio_said; fail "not what was written"; }
# bs=1000 leaves no padding behind
equal 'size of the file' "$(stat -c %s "$KP_TMP/file3")" 1000000

for v in writeback:6.x blocksize:logical; do
	plan $v 0 --fault=corrupt
	written_and_verified
	[ $fio_status != 0 ] || fail "$v: corruption was not caught"
done
