#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# shellcheck disable=SC2086
#
# Every variant of the buffered policies under every pattern survives verify. time limit: 900
. tests/lib.sh
. tests/cache.sh
need_engine writeback blocksize

for v in $cache_variants; do
	for n in 0 1 2 3 4 5 6 7 8 9; do
		cache_pattern $n
		written $v "$common" "$first"
		verified "$common" || { fio_said; fail "$v: $common $first"; }
	done
	say "$v: ok"
done
