#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Every job file of Debian's fio-examples under 'kpolicy compare --show': either a difference that
# makes a file which fio accepts, with the same jobs (fio --showcmd of both agree but for the
# engine), or one line that says truly why not. Nothing is run.
#
# Environment: KPOLICY (command, ./kpolicy), FIO (fio), VARIANT (split:none), EXAMPLES (directory),
# LEAST (files that must be shown of those with a storage engine that parse as shipped, 34).
# Exit: 0 passed, 1 failed, 77 skipped.

set -u
KPOLICY=${KPOLICY:-./kpolicy}
FIO=${FIO:-fio}
VARIANT=${VARIANT:-split:none}
EXAMPLES=${EXAMPLES:-/usr/share/doc/fio/examples}
LEAST=${LEAST:-34}
STORAGE='sync|psync|vsync|pvsync|pvsync2|libaio|io_uring|posixaio'

skip()
{
	echo "skipped: $*"
	exit 77
}

ls "$EXAMPLES"/*.fio >/dev/null 2>&1 ||
	skip "no job files in $EXAMPLES; install the package fio-examples"
command -v patch >/dev/null || skip "the patch command is missing"
command -v "$FIO" >/dev/null || skip "'$FIO' is not there"

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# Reads fio --showcmd; the options of the jobs, one a line, but for those that match pattern $1.
options_but()
{
	sed 's/ --/\n--/g' | sed 's/ *$//' | grep -vE -- "^--($1)(=|\$)"
}

# Whether one of the jobs has a storage engine, as fio --showcmd tells. It prints name= in a section
# like a section, so that has to go.
uses_storage()
{
	sed '/^ *name *=/d' "$1" >"$tmp/nameless.fio"
	"$FIO" --showcmd "$tmp/nameless.fio" 2>/dev/null | tr ' ' '\n' | awk -v storage="^($STORAGE)$" '
		BEGIN { global = "psync" }
		/^--name=/ { if (seen && engine ~ storage) found = 1; seen = 1; engine = global }
		/^--ioengine=/ { engine = substr($0, 12); if (!seen) global = engine }
		END { exit !(found || (seen && engine ~ storage)) }'
}

# Whether the refusal in $tmp/err names a line of file $1 that has what it speaks of.
refusal_is_true()
{
	local line reason subject

	[ "$(wc -l <"$tmp/err")" = 1 ] || return 1
	grep -q -e --destructive -e 'in use' "$tmp/err" && return 1
	line=$(sed -nE "s|^.*$(basename "$1"):([0-9]+): .*|\1|p" "$tmp/err")
	reason=$(sed -E 's|^.*:[0-9]+: ||' "$tmp/err")
	case $reason in
	'no job has a storage engine that'*)
		! uses_storage "$1"
		;;
	*=*)
		subject=${reason%%[: ]*}
		[ -n "$line" ] && sed -n "${line}p" "$1" | grep -qF -- "${subject%%=*}"
		;;
	*)
		return 1
		;;
	esac
}

check_shown()
{
	local dropped

	cp "$1" "$tmp/private.fio"
	patch -s -f "$tmp/private.fio" "$tmp/diff" >"$tmp/patch" 2>&1 ||
		{ why="the difference does not apply"; return 1; }
	grep -q '^ioengine=external:' "$tmp/private.fio" || { why="no engine exchanged"; return 1; }
	$parses || return 0
	"$FIO" --parse-only "$tmp/private.fio" >"$tmp/parse" 2>&1 ||
		{ why="fio does not accept it: $(head -n 1 "$tmp/parse")"; return 1; }
	dropped=$(sed -nE "s/.*: '([^']+)' is an option of .* dropped/\1/p" "$tmp/err" | paste -sd '|')
	"$FIO" --showcmd "$tmp/private.fio" | options_but 'ioengine|policy|backend' >"$tmp/new"
	options_but "ioengine${dropped:+|$dropped}" <"$tmp/showcmd" >"$tmp/old"
	cmp -s "$tmp/old" "$tmp/new" ||
		{ why="fio --showcmd differs: $(diff "$tmp/old" "$tmp/new" | sed -n 2p)"; return 1; }
}

nr=0 nr_shown=0 nr_refused=0 nr_storage=0 nr_storage_shown=0 failed=()
for job in "$EXAMPLES"/*.fio; do
	why='' parses=false storage=false
	"$FIO" --showcmd "$job" >"$tmp/showcmd" 2>/dev/null && parses=true
	$parses && uses_storage "$job" && storage=true && nr_storage=$((nr_storage + 1))
	nr=$((nr + 1))
	timeout 20 $KPOLICY compare --show "$job" "$VARIANT" >"$tmp/diff" 2>"$tmp/err"
	case $? in
	0)
		nr_shown=$((nr_shown + 1))
		check_shown "$job" && $storage && nr_storage_shown=$((nr_storage_shown + 1))
		;;
	2)
		nr_refused=$((nr_refused + 1))
		refusal_is_true "$job" || why="the refusal is not true: $(head -n 1 "$tmp/err")"
		[ -z "$why" ] && echo "refused: $(cat "$tmp/err")"
		;;
	*)
		why="crashed or hung: $(tail -n 1 "$tmp/err")"
		;;
	esac
	[ -n "$why" ] && failed+=("$(basename "$job"): $why")
done

echo "$nr job files: $nr_shown shown, $nr_refused refused;" \
	"of $nr_storage with a storage engine that parse as shipped $nr_storage_shown shown"
[ "$nr_storage_shown" -ge "$LEAST" ] || failed+=("only $nr_storage_shown shown, $LEAST expected")
[ ${#failed[@]} = 0 ] || printf 'FAILED: %s\n' "${failed[@]}"
[ ${#failed[@]} = 0 ]
