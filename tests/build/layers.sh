#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# scripts/check-layers.sh holds for this tree, and finds what is wrong: an include that the table in
# CONTRIBUTING.md does not allow, a header that is no door, one that is nowhere, a folder without a
# row, circles of files and of folders, and a list of circles that is out of date.
. tests/lib.sh

check() { (cd "$1" && sh "$KP_TOP/scripts/check-layers.sh"); }
check . || fail "the tree is not as its table says"

# tree TABLE: three folders below shim, which say nothing wrong.
tree() {
	rm -rf "$KP_TMP/tree"
	mkdir -p "$KP_TMP/tree/shim/low" "$KP_TMP/tree/shim/high/part" "$KP_TMP/tree/tools"
	cd "$KP_TMP/tree"
	cat >CONTRIBUTING.md <<-END
	## Layers
	| folder | its doors | it may include |
	|---|---|---|
	| \`shim/low\` | \`low.h\` | |
	| \`shim/high\` | | \`shim/low\` |
	$1
	## More
	| \`shim/none\` | | \`shim/low\` |
	END
	touch shim/low/low.h shim/low/inner.h
	echo '#include "inner.h"' >shim/low/low.c
	printf '#include "low/low.h"\n#include <stdio.h>\n' >shim/high/high.c
	cp shim/high/high.c shim/high/part/part.c
	cd "$KP_TOP"
}
ok() {
	check "$KP_TMP/tree" >"$KP_TMP/out" || { cat "$KP_TMP/out"; fail "$1: refused"; }
	[ ! -s "$KP_TMP/out" ] || fail "$1: it says $(cat "$KP_TMP/out")"
}
found() { # WHAT PATTERN
	! check "$KP_TMP/tree" >"$KP_TMP/out" || fail "$1: not found"
	equal "lines about $1" "$(wc -l <"$KP_TMP/out")" 1
	grep -q -- "$2" "$KP_TMP/out" || fail "$1: it says $(cat "$KP_TMP/out")"
	say "$1: $(cat "$KP_TMP/out")"
}
# add FILE INCLUDE...: to a tree of which it is the only fault
add() {
	file=$KP_TMP/tree/$1
	shift
	for header; do echo "#include \"$header\"" >>"$file"; done
}

tree ''
ok 'a tree that is right'
add shim/low/low.c high/other.h
touch "$KP_TMP/tree/shim/high/other.h"
found 'an include upward' 'low.c:2: includes high/other.h: shim/low may not include shim/high'
tree ''
add shim/high/part/part.c low/inner.h
found 'a header that is no door' 'part.c:3: includes low/inner.h: not a door of shim/low, which are: low.h'
tree '| `shim/high/part` | | |'
found 'the row of the folder itself' 'shim/high/part may not include shim/low'
tree ''
add shim/high/high.c ../low/nothing.h
found 'a header that is nowhere' 'high.c:3: includes ../low/nothing.h, which is nowhere'
tree ''
touch "$KP_TMP/tree/tools/new.c"
found 'a folder without a row' 'tools/new.c: no row'
tree '| `tools` | | `shim/lost` |'
found 'a row that is not there' 'tools may include shim/lost, which has no row'
tree ''
add shim/high/a.c a.h b.h
add shim/high/b.h c.h
add shim/high/c.c a.h
touch "$KP_TMP/tree/shim/high/a.h" "$KP_TMP/tree/shim/high/c.h"
found 'a circle of three files' 'a circle of files: .*shim/high/b -> shim/high/c -> '
# shellcheck disable=SC2016 # no expansion is meant
echo 'Not yet free of circles: `shim/high`.' >>"$KP_TMP/tree/CONTRIBUTING.md"
found 'a list outside of the section' 'a circle of files'
# shellcheck disable=SC2016
tree 'Not yet free of circles: `shim/high`.'
found 'a list that is out of date' 'shim/high is free of circles now'
add shim/high/a.c b.h
add shim/high/b.c a.h
touch "$KP_TMP/tree/shim/high/a.h" "$KP_TMP/tree/shim/high/b.h"
ok 'a circle that is known'
tree '| `tools` | | `shim/other` |
| `shim/other` | | `tools` |'
found 'a circle of folders' 'a circle of folders: .*tools'
