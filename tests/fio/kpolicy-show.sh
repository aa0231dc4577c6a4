#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# kpolicy compare --show, for every job file of Debian's fio-examples: either a difference that makes
# a file which fio accepts, with the same jobs (fio --showcmd of both agree but for the engine), or
# one line that says truly why not. Nothing is run.
# time limit: 240
. tests/lib.sh
need_command patch awk
need_engine split

kpolicy=$KP_TOP/tools/kpolicy
[ -x "$kpolicy" ] || skip "no kpolicy command here"
examples=/usr/share/doc/fio/examples
[ -d $examples ] || examples=/usr/share/fio/examples
[ -d $examples ] || skip "no fio-examples here: apt-get install fio-examples"

cd "$KP_TMP"
storage_engines='sync|psync|vsync|pvsync|pvsync2|libaio|io_uring|posixaio'

# Reads fio --showcmd; the options of the jobs, one a line, but for those that match pattern $1.
options_but() {
	sed 's/ --/\n--/g' | sed 's/ *$//' | grep -vE -- "^--($1)(=|\$)"
}

# Whether a job of file $1 has a storage engine, by its fio --showcmd in showcmd. That prints name=
# in a section like a section of its own, so the file has to be shown without.
uses_storage() {
	if grep -q '^ *name *=' "$1"; then
		sed '/^ *name *=/d' "$1" >nameless.fio
		"$FIO" --showcmd nameless.fio 2>/dev/null
	else
		cat showcmd
	fi | tr ' ' '\n' | awk -v storage="^($storage_engines)$" '
		BEGIN { global = "psync" }
		/^--name=/ { if (seen && engine ~ storage) found = 1; seen = 1; engine = global }
		/^--ioengine=/ { engine = substr($0, 12); if (!seen) global = engine }
		END { exit !(found || (seen && engine ~ storage)) }'
}

# Whether the refusal in err names a line of file $1 that has what it speaks of.
refusal_is_true() {
	[ "$(wc -l <err)" = 1 ] || return 1
	! grep -q -e --destructive -e 'in use' err || return 1
	line=$(sed -nE "s|^.*$(basename "$1"):([0-9]+): .*|\1|p" err)
	reason=$(sed -E 's|^.*:[0-9]+: ||' err)
	case $reason in
	'no job has a storage engine that'*) ! $storage ;;
	*=*)
		subject=${reason%%[: ]*}
		[ "$line" ] && sed -n "${line}p" "$1" | grep -qF -- "${subject%%=*}"
		;;
	*) return 1 ;;
	esac
}

# Judges the difference for file $1; why says what is wrong with it.
check_shown() {
	cp "$1" private.fio
	patch -s -f private.fio difference >patched 2>&1 ||
		{ why="the difference does not apply"; return; }
	grep -q '^ioengine=external:' private.fio || { why="no engine exchanged"; return; }
	$parses || return 0
	"$FIO" --showcmd private.fio >private 2>&1 ||
		{ why="fio does not accept it: $(head -n 1 private)"; return; }
	dropped=$(sed -nE "s/.*: '([^']+)' is an option of .* dropped/\1/p" err | paste -sd '|')
	options_but 'ioengine|policy|backend' <private >new || true
	options_but "ioengine${dropped:+|$dropped}" <showcmd >old || true
	cmp -s old new || why="fio --showcmd differs: $(diff old new | sed -n 2p)"
}

nr=0 nr_shown=0 nr_refused=0 nr_storage=0 nr_storage_shown=0
: >failed
for job in "$examples"/*.fio; do
	why='' parses=false storage=false status=0
	! "$FIO" --showcmd "$job" >showcmd 2>/dev/null || parses=true
	if $parses && uses_storage "$job"; then
		storage=true nr_storage=$((nr_storage + 1))
	fi
	nr=$((nr + 1))
	timeout 20 "$kpolicy" compare --show --fio "$FIO" "$job" split:none >difference 2>err || status=$?
	case $status in
	0)
		nr_shown=$((nr_shown + 1))
		check_shown "$job"
		if $storage && [ ! "$why" ]; then nr_storage_shown=$((nr_storage_shown + 1)); fi
		;;
	2)
		nr_refused=$((nr_refused + 1))
		refusal_is_true "$job" || why="the refusal is not true: $(head -n 1 err)"
		[ "$why" ] || say "refused: $(cat err)"
		;;
	*) why="ended with status $status: $(tail -n 1 err)" ;;
	esac
	[ ! "$why" ] || echo "$(basename "$job"): $why" >>failed
done

say "$nr job files: $nr_shown shown, $nr_refused refused;" \
	"of $nr_storage with a storage engine that parse as shipped $nr_storage_shown shown"
[ ! -s failed ] || fail "$(cat failed)"
# Four of the 38 of fio 3.33 may be zoned or the like: what an engine cannot do at all.
[ $nr_storage_shown -ge 34 ] || fail "only $nr_storage_shown shown"
