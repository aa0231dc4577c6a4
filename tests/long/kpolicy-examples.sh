#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# At least 15 job files of Debian's fio-examples run to a verdict with --size, --runtime and --target.
# time limit: 3600
. tests/lib.sh
. tests/kpolicy.sh
need_command jq

examples=/usr/share/doc/fio/examples
[ -d $examples ] || examples=/usr/share/fio/examples
[ -d $examples ] || skip "no fio-examples here: apt-get install fio-examples"

cd "$KP_TMP"
mkdir target
done=0 list=
for job in "$examples"/*.fio; do
	name=$(basename "$job" .fio)
	if timeout 300 "$KPOLICY" compare "$job" split:none split:fast --size 8m --runtime 1 \
		--target "$KP_TMP/target" --rounds 6 --quiet --format json >out 2>err &&
		[ "$(verdict)" != null ]; then
		done=$((done + 1))
		list="$list $name"
		say "$name: $(verdict), $(jq -c '.verdicts[0] | [.ratio, .low, .high]' out)"
	else
		say "$name: $(tail -n 1 err)"
	fi
	rm -rf target
	mkdir target
done
say "$done run to a verdict:$list"
[ $done -ge 15 ] || fail "only $done"
none_left
