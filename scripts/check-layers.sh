#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Which folder may include which: reads the table under "## Layers" in CONTRIBUTING.md, then every
# #include "..." of the C files below the current folder, and names
#	an include of a folder that the table does not allow, or of a header that is no door of it
#	an include of a header that is nowhere
#	a folder without a row
#	a circle, between folders in the table and between files: a.c and a.h are one file, which
#	depends on b if either of them includes b.h
# A row is for a folder and those below it that have no row of their own, or for one file. Below the
# table stands which rows are not yet free of circles; of one that is, nothing is left there.
export LC_ALL=C
list=$(mktemp)
trap 'rm -f "$list"' EXIT
find shim engines tools tests examples -name '*.[ch]' 2>/dev/null | sort >"$list"
# shellcheck disable=SC2046 # names without blanks
grep -n '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' /dev/null $(cat "$list") |
	awk -v list="$list" '
function bad(text) { print text; status = 1 }

# A circle may be there only where all of it is in rows of which that is said.
function circle(what, first,  at, text, node, allowed) {
	allowed = 1
	for (at = first; at <= depth; at++) {
		text = text path[at] " -> "
		node = row_of(path[at])
		if (node == "")
			node = row_of(path[at] ".h")
		allowed = allowed && node in circles
	}
	for (at = first; allowed && at <= depth; at++) {
		circles[row_of(path[at])] = 1
		circles[row_of(path[at] ".h")] = 1
	}
	if (!allowed)
		bad("a circle of " what ": " text path[first])
}

# The row of a file: its own, or that of the nearest folder above it.
function row_of(file) {
	while (file != "" && !(file in row)) {
		if (!sub(/\/[^\/]*$/, "", file))
			file = ""
	}
	return file
}

function folder(file) { sub(/\/?[^\/]*$/, "", file); return file }

# Where the compiler finds it: beside the file, then with -Ishim and, but for the shim, -Itools.
function resolve(file, name,  try) {
	try = folder(file) "/" name
	while (sub(/[^\/]+\/\.\.\//, "", try))
		;
	if (try in exists)
		return try
	if (("shim/" name) in exists)
		return "shim/" name
	if (file !~ /^shim\// && ("tools/" name) in exists)
		return "tools/" name
	return ""
}

function is_door(header, of,  base) {
	base = header
	sub(/.*\//, "", base)
	return header == of || index(" " door[of] " ", " " base " ") || door[of] == "*"
}

# visit NODE: depth first; a node that is on the path already closes a circle.
function visit(node, edges, what,  i, n, next_node, to) {
	seen[node] = 1
	path[++depth] = node
	on_path[node] = depth
	n = split(edges[node], to, " ")
	for (i = 1; i <= n; i++) {
		next_node = to[i]
		if (next_node in on_path)
			circle(what, on_path[next_node])
		else if (!(next_node in seen))
			visit(next_node, edges, what)
	}
	delete on_path[node]
	depth--
}

BEGIN {
	while ((getline line < "CONTRIBUTING.md") > 0) {
		if (line ~ /^## /)
			inside = line ~ /^## Layers/
		if (inside && sub(/^Not yet free of circles:/, "", line)) {
			n = split(line, cell, "`")
			for (i = 2; i <= n; i += 2)
				circles[cell[i]] = 0
		}
		if (!inside || line !~ /^\| *`/)
			continue
		gsub(/`/, "", line)
		split(line, cell, /[ \t]*\|[ \t]*/)
		row[cell[2]] = cell[4]
		door[cell[2]] = cell[3]
		order[++rows] = cell[2]
	}
	if (!rows) {
		bad("CONTRIBUTING.md: no table under \"## Layers\"")
		exit
	}
	while ((getline line < list) > 0) {
		exists[line] = 1
		if (!row_of(line))
			bad(line ": no row for its folder in the table of CONTRIBUTING.md")
	}
	for (i = 1; i <= rows; i++) {
		n = split(row[order[i]], to, " ")
		for (j = 1; j <= n; j++)
			if (to[j] != "*" && !(to[j] in row))
				bad("CONTRIBUTING.md: " order[i] " may include " to[j] ", which has no row")
	}
}
{
	split($0, part, ":")
	file = part[1]
	name = $0
	sub(/^[^"]*"/, "", name)
	sub(/".*/, "", name)
	from = row_of(file)
	header = resolve(file, name)
	where = file ":" part[2] ": includes " name
	if (!header) {
		if (from != "engines") # the headers of fio
			bad(where ", which is nowhere")
		next
	}
	to_row = row_of(header)
	if (from != to_row && row[from] != "*") {
		if (!index(" " row[from] " ", " " to_row " "))
			bad(where ": " from " may not include " to_row)
		else if (!is_door(header, to_row))
			bad(where ": not a door of " to_row ", which are: " door[to_row])
	}
	a = file
	b = header
	sub(/\.[ch]$/, "", a)
	sub(/\.[ch]$/, "", b)
	if (a != b && !((a, b) in edge)) {
		edge[a, b] = 1
		if (!(a in edges))
			node[++nodes] = a
		edges[a] = edges[a] " " b
	}
}
END {
	for (i = 1; i <= rows; i++)
		if (!(order[i] in seen))
			visit(order[i], row, "folders")
	for (i = 1; i <= nodes; i++)
		if (!(node[i] in seen))
			visit(node[i], edges, "files")
	for (name in circles)
		if (name && !circles[name])
			bad("CONTRIBUTING.md: " name " is free of circles now, and so to be taken from the list")
	exit status
}'
