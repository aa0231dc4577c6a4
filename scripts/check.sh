#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# make check: what can be found without running a test. All checks run, then it fails if one did.
# The arguments are the C files.
# shellcheck disable=SC2046,SC2086 # lists of files and flags are meant to split
export LC_ALL=C
status=0
scripts="configure .ci/run scripts/kernel-lab tests/lab/init tests/run tests/fake-fio $(ls scripts/*.sh tests/*.sh tests/*/*.sh)"
sources='' headers=''
for f; do
	case $f in *.c) sources="$sources $f" ;; *) headers="$headers $f" ;; esac
done

# flags FILE: those that the Makefile compiles it with
flags() {
	case $1 in
	engines/*) echo "$KP_ENGINE_CFLAGS" ;;
	examples/*) echo "-std=gnu11 -Wall -Wextra -Ishim" ;;
	*) echo "$KP_SHIM_CFLAGS -include config-paths.h -Itools" ;;
	esac
}

# check NAME TOOL PACKAGE COMMAND...
check() {
	name=$1 tool=$2 package=$3
	shift 3
	if ! command -v "$tool" >/dev/null; then
		echo "check: $name: no $tool: run 'apt-get install $package' or './configure --install-deps=all'"
		status=1
	elif "$@"; then
		echo "ok    $name"
	else
		echo "FAIL  $name"
		status=1
	fi
}

format() { clang-format --dry-run -Werror $sources $headers; }

compile() {
	bad=0
	for f in $sources; do
		"$1" $(flags "$f") -O2 -Werror -c -o /dev/null "$f" || bad=1
	done
	return $bad
}

tidy() {
	bad=0
	for f in $sources; do
		clang-tidy --quiet "$f" -- $(flags "$f") 2>"$tmp/tidy" || {
			grep -v 'warnings\? generated\|^Suppressed\|^Use -' "$tmp/tidy"
			bad=1
		}
	done
	return $bad
}

scan() {
	cppcheck -q --error-exitcode=1 --enable=warning,performance,portability --inline-suppr \
		--std=c11 --suppress=missingIncludeSystem --suppress=unknownMacro -D__linux__ \
		-D__x86_64__ -Ishim $sources
}

shell() { shellcheck -S warning -x $scripts; }

man_pages() {
	bad=0
	for m in man/*.[1-9]; do
		[ ! -f "$m" ] || mandoc -T lint -W warning "$m" || bad=1
	done
	return $bad
}

# Facts that hold for every file of ours.
rules() {
	bad=0
	files=$(git ls-files 2>/dev/null) || files="$sources $headers $scripts"
	for f in $files; do
		case $f in LICENSE | tests/golden/* | debian/* | *.md | .gitignore | *.out | *.json | *.pc.in | *.tsv) continue ;; esac
		head -n 3 "$f" | grep -q 'SPDX-License-Identifier: GPL-2.0-only' ||
			{ echo "$f: no SPDX line"; bad=1; }
	done
	# The class keeps this line from finding itself.
	grep -nE '\b(TOD[O]|FIXM[E]|XX[X])\b' $files && bad=1
	return $bad
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
check rules grep grep rules
check layers awk mawk sh scripts/check-layers.sh
check format clang-format clang-format format
check 'gcc -Werror' gcc gcc compile gcc
check 'clang -Werror' clang clang compile clang
check cppcheck cppcheck cppcheck scan
check clang-tidy clang-tidy clang-tidy tidy
check shellcheck shellcheck shellcheck shell
check 'man pages' mandoc mandoc man_pages
check 'option names' "$KP_FIO" fio sh scripts/check-options.sh
exit $status
