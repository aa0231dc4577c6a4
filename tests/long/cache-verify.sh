#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Every variant of the buffered policies under every pattern survives verify. time limit: 900
. tests/lib.sh
. tests/cache.sh
need_engine writeback blocksize

for v in $cache_variants; do
	for n in 0 1 2 3 4 5 6 7 8 9; do plan "$v" $n; done
	written_and_verified
	[ $fio_status = 0 ] || { fio_said; fail "$v: not what was written"; }
	say "$v: ok"
done
