#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# kpolicy compare takes at most 5 % longer than its runs of fio.
. tests/lib.sh
. tests/kpolicy.sh

cd "$KP_TMP"
reader job.fio
# Only the runs: that fio is asked for its version and its options is kpolicy's own time.
cat >timedfio <<-END
	#!/bin/sh
	case "\$*" in *--output=*) ;; *) exec $KP_FIO "\$@" ;; esac
	a=\$(date +%s%N)
	$KP_FIO "\$@"
	s=\$?
	b=\$(date +%s%N)
	echo \$(((b - a) / 1000)) >>"$KP_TMP/each-run"
	exit \$s
END
chmod +x timedfio
start=$(date +%s%N)
kpolicy_run 0 compare job.fio "$(latency 1000000)" "$(latency 1000000)" --runtime 700ms --rounds 6 \
	--quiet --fio ./timedfio
wall=$((($(date +%s%N) - start) / 1000))
equal "runs" "$(wc -l <each-run)" 20
runs=$(awk '{ sum += $1 } END { print sum }' each-run)
say "$wall us, $runs us of it fio: $(awk "BEGIN { printf \"%.2f\", ($wall / $runs - 1) * 100 }") % more"
[ $((wall * 100)) -le $((runs * 105)) ] || fail "more than 5 %"
