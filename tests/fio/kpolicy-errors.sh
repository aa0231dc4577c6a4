#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# kpolicy: bad input gives one clear line and exit code 2.
. tests/lib.sh
. tests/kpolicy.sh

cd "$KP_TMP"
reader job.fio
sed s/psync/null/ job.fio >null.fio
: >empty.fio
printf '#!/bin/sh\necho fio-3.1\n' >oldfio
cat >badfio <<-END
	#!/bin/sh
	[ "\$1" = --version ] && exec $KP_FIO --version
	exit 1
END
chmod +x oldfio badfio

# no PATTERN ARG...: kpolicy refuses.
no() {
	pattern=$1
	shift
	refused "^kpolicy: .*$pattern" "$KPOLICY" "$@"
	equal "exit code of kpolicy $*" "$status" 2
}

no "which command"
no "did you mean 'compare'" compar
no "compare what" compare
no "two variants or more" compare job.fio split:fast
no "did you mean 'clone'" compare job.fio split:clon split:fast
no "did you mean 'split'" compare job.fio splt:clone split:fast
no "no policy 'x'" show split:x
no "did you mean 'split'" list splt
no "none.fio: No such file" compare none.fio split:clone split:fast
no "empty.fio" compare empty.fio split:clone split:fast
no "did you mean --precision" compare job.fio native native --precison 2
no "needs a value" compare job.fio native native --rounds
no "from 6 to 1000" compare job.fio native native --rounds 5
no "more than 0" compare job.fio native native --precision 0
no "such as 90s" compare job.fio native native --time soon
no "text, json, csv or markdown" compare job.fio native native --format xml
no "key=value" compare job.fio native native --set direct
no "fio command line" compare native native --
no "install fio" compare job.fio native native --fio "$KP_TMP/nofio"
no "needs 3.25" compare job.fio native native --fio ./oldfio
no "not a directory written with --output" report "$KP_TMP"
no "over what" sweep job.fio native native
no "two or more" sweep job.fio native native --over bs=4k
no "two or more" sweep job.fio native native --over bs=1m:4k
no "1 to 5" seeds 6
no "report has no --rounds" report x --rounds 8
no "sweep has no --resume" sweep --resume x
no "show cannot be changed by --resume" compare --resume x --show
no "set cannot be changed by --resume" compare --resume x --set bs=4k
no "leave 'job.fio'" compare job.fio --resume x

# A run that fails: the reason, and nothing under a final name.
kpolicy_run 2 compare job.fio native native --fio ./badfio --output dir --quiet
grep -q '^kpolicy: warm-up, native: fio ended with exit code 1' err || fail "$(cat err)"
[ ! -s out ] || fail "a report of nothing"
[ -z "$(find dir -name '*.json' -path '*runs*')" ] || fail "a result of nothing"

# A variant that is none leaves no directory behind.
kpolicy_run 2 compare job.fio native split:x --output dir2
[ ! -e dir2 ] || fail "an empty dir2 is left"

# fio's own reason comes through.
kpolicy_run 2 compare job.fio native native --set filename=/proc/nothing/here --quiet
grep -Eq '/proc/nothing|No such file' err || fail "$(cat err)"
equal "lines" "$(wc -l <err)" 1

# Truncated JSON, text in front of it.
cat >cutfio <<-END
	#!/bin/sh
	$KP_FIO "\$@" || exit
	for a; do case \$a in --output=*) f=\${a#--output=}; head -c 2000 "\$f" >"\$f.cut"; mv "\$f.cut" "\$f";; esac; done
END
chmod +x cutfio
kpolicy_run 2 compare null.fio native native --fio ./cutfio --quiet
grep -q 'not a complete result of fio' err || fail "$(cat err)"
equal "lines" "$(wc -l <err)" 1

# A job file that cannot be read, one that is a directory; root is not asked unless it gives that up.
mkdir dir.fio
no "dir.fio: is a directory" compare dir.fio native native
cp job.fio secret.fio
chmod 0 secret.fio
if [ "$(id -u)" != 0 ]; then
	no "secret.fio: Permission denied" compare secret.fio native native
elif command -v setpriv >/dev/null; then
	refused "^kpolicy: secret.fio: Permission denied$" setpriv \
		--bounding-set=-dac_override,-dac_read_search \
		--inh-caps=-dac_override,-dac_read_search "$KPOLICY" compare secret.fio native native
else
	fail "no setpriv here, to be refused a file as root (apt-get install util-linux)"
fi

# Nothing that is there for a moment only is named, and TMPDIR is where it is.
mkdir tmp
env TMPDIR="$KP_TMP/nowhere" "$KPOLICY" compare null.fio native native >out 2>err && fail "no TMPDIR"
grep -q "^kpolicy: $KP_TMP/nowhere/kpolicy-.*TMPDIR" err || fail "TMPDIR is not there: $(cat err)"
env TMPDIR="$KP_TMP/tmp" "$KPOLICY" compare null.fio native native --fio ./cutfio --quiet >out 2>err &&
	fail "a truncated result was taken"
grep -q 'native: runs/r000.s0.json.partial: not a complete result' err || fail "$(cat err)"
equal "left in TMPDIR" "$(ls tmp)" ""

# What is over before it began, and a time that is none.
kpolicy_run 2 compare null.fio native native --runtime 100ms --time 0.2s --quiet
grep -q '^kpolicy: --time 0.2s is over before one round.*--runtime' err || fail "$(cat err)"

# Help fits a screen.
for c in '' compare sweep report list show reproduce seeds; do
	# shellcheck disable=SC2086 # nothing or a word
	"$KPOLICY" $c --help >help || fail "no help for '$c'"
	[ "$(wc -l <help)" -le 24 ] || fail "help of '$c' has $(wc -l <help) lines"
	[ "$(wc -L <help)" -le 80 ] || fail "help of '$c' is too wide"
done
none_left
