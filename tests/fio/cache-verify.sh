#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# shellcheck disable=SC2086
#
# Every variant of the buffered policies survives verify: what one fio wrote through our cache
# another finds on the device. A pattern for each variant; tests/long has every pair of them. And
# the corrupting device is caught.
. tests/lib.sh
. tests/cache.sh
need_engine writeback blocksize

n=0
for v in $cache_variants; do
	cache_pattern $n
	say "$v: $common $first"
	written $v "$common" "$first"
	verified "$common" || { fio_said; fail "$v: $common $first"; }
	n=$((n + 1))
done
cache_pattern 9
written writeback:strict "$common" "$first"
verified "$common" || { fio_said; fail "$common $first"; }

# bs=1000 leaves no padding behind
cache_pattern 2
written blocksize:coalesce "$common" "$first"
equal 'size of the file' "$(stat -c %s "$KP_TMP/file")" 1000000

for v in writeback:6.x blocksize:logical; do
	written $v '--rw=write --bs=64k --size=4m' --fault=corrupt
	! verified '--rw=write --bs=64k --size=4m' || fail "$v: corruption was not caught"
done
