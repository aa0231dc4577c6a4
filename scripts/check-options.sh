#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# No option of an engine may carry the name of an option of fio's own, or an alias of one: it would
# reach fio and never the engine. `fio --cmdhelp=NAME` knows both; the source knows those that fio
# no longer shows but still takes.
status=0
for e in $KP_ENGINES; do
	names=$("$KP_FIO" --enghelp="$PWD/engines/$e.so" | sed -n 's/^ *\([^ :]*\) *: .*/\1/p')
	[ "$names" ] || { echo "engines/$e.so shows no options"; status=1; }
	for name in $names; do
		case $("$KP_FIO" --cmdhelp="$name" 2>&1) in
		"No such command"*) ;;
		*) echo "$e: option '$name' is fio's own"; status=1 ;;
		esac
		grep -Eq "\.(name|alias)[[:space:]]*=[[:space:]]*\"$name\"" "$KP_FIO_SRC/options.c" &&
			{ echo "$e: option '$name' is in fio's options.c"; status=1; }
	done
done
exit $status
