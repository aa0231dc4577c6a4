# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# make install under DESTDIR; the examples compiled against what it installed, through pkg-config,
# with the shared and with the static library; nothing left after make uninstall.
# time limit: 240
. tests/lib.sh

root=$KP_TMP/root
unset MAKEFLAGS MAKELEVEL
say "install"
make -s install DESTDIR="$root"
prefix=$(sed -n 's/^PREFIX = //p' config-host.mak)
libdir=$root$(sed -n 's/^LIBDIR = //p' config-host.mak)
export PKG_CONFIG_PATH="$libdir/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root"
pc() { PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 pkg-config "$@"; }
sanitize=${KP_SANITIZE:+-fsanitize=$KP_SANITIZE}

say "kpolicy.h stands alone"
echo '#include <kpolicy.h>' >"$KP_TMP/header.c"
# shellcheck disable=SC2046 # flags
$KP_CC -std=gnu11 -Wall -Wextra -Werror $(pc --cflags kpolicy) -fsyntax-only "$KP_TMP/header.c"

say "the shared library exports what kpolicy.h declares, and nothing else"
# shellcheck disable=SC2046
gcc -aux-info "$KP_TMP/prototypes" $(pc --cflags kpolicy) -fsyntax-only "$KP_TMP/header.c"
{
	grep 'kpolicy\.h' "$KP_TMP/prototypes" | grep -v '\*/ static' | grep -o '\bkp_[a-z0-9_]* ('
	grep '^extern .*;' shim/kpolicy.h | grep -o '\bkp_[a-z0-9_]*\(\[\]\)\?;'
} | tr -d ' ([];' | sort -u >"$KP_TMP/declared"
nm -D --defined-only "$libdir/libkpolicy.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
	sort -u >"$KP_TMP/exported"
diff "$KP_TMP/declared" "$KP_TMP/exported" || fail "declared (<) and exported (>) differ"

for c in examples/*.c; do
	[ -f "$c" ] || fail "no examples"
	name=$(basename "$c" .c)
	say "$c, shared"
	# shellcheck disable=SC2046,SC2086
	$KP_CC -std=gnu11 -Wall -Wextra -Werror -O2 $sanitize $(pc --cflags kpolicy) -o "$KP_TMP/$name" \
		"$c" $(pc --libs kpolicy)
	(cd "$KP_TMP" && LD_LIBRARY_PATH=$libdir "./$name")
	say "$c, static"
	# shellcheck disable=SC2046,SC2086
	$KP_CC -std=gnu11 -Wall -Wextra -Werror -O2 $sanitize $(pc --cflags kpolicy) \
		-o "$KP_TMP/$name-static" "$c" $(pc --static --libs kpolicy | sed 's/-lkpolicy/-l:libkpolicy.a/')
	! ldd "$KP_TMP/$name-static" | grep -q libkpolicy || fail "it needs the shared library"
	(cd "$KP_TMP" && "./$name-static")
done

say "the engines load from where they were installed"
for e in $KP_ENGINES; do
	fio_ok --enghelp="$libdir/kpolicy/$e.so"
done
for j in "$root$prefix"/share/kpolicy/jobs/*.fio; do
	[ ! -f "$j" ] || ! grep -n 'external:engines/' "$j" || fail "$j names the source tree"
done

say "uninstall"
make -s uninstall DESTDIR="$root"
left=$(find "$root" ! -type d)
[ -z "$left" ] || fail "left by uninstall: $left"
