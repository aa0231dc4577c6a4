# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# make install under DESTDIR, with a prefix that is given to make alone; the examples compiled against
# what it installed, through pkg-config, with the shared and with the static library; kpolicy and the
# engines from there; no file and no folder left after make uninstall. In a copy of the tree, since
# kpolicy is built anew for another prefix.
# time limit: 240
. tests/lib.sh

root=$KP_TMP/root
unset MAKEFLAGS MAKELEVEL
say "install"
prefix=/opt/k
libdir=$root$prefix/lib
tree=$KP_TMP/tree
mkdir "$tree"
cp -a Makefile configure config* kpolicy.pc engines examples jobs man shim scripts tools completion "$tree"
make -s -C "$tree" install DESTDIR="$root" PREFIX=$prefix FIO_ENGINE_DIR=/usr/lib/fio
outside=$(cd "$root" && find . -type f ! -path ".$prefix/*")
[ -z "$outside" ] || fail "outside of the prefix: $outside"
equal "prefix in kpolicy.pc" "$(sed -n 's/^libdir=//p' "$libdir/pkgconfig/kpolicy.pc")" $prefix/lib
for f in bin/kpolicy include/kpolicy.h lib/libkpolicy.a lib/libkpolicy.so share/man/man1/kpolicy.1 \
	share/bash-completion/completions/kpolicy share/zsh/site-functions/_kpolicy; do
	[ -s "$root$prefix/$f" ] || fail "not installed: $f"
done
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

# The code in the comment of kpolicy.h and in the man page, as the body of a program that reads a file.
for text in shim/kpolicy.h man/libkpolicy.3; do
	say "the example in $text"
	name=example-$(basename "$text")
	dd if=/dev/urandom of="$KP_TMP/example.in" bs=1M count=1 2>/dev/null
	{
		printf '%s\n' '#include <fcntl.h>' '#include <kpolicy.h>' '#include <stdlib.h>' \
			'int main(void)' '{' 'const char *path = "example.in";' \
			'void *buffer = aligned_alloc(4096, 1 << 20);'
		case $text in
		*.h) sed -n '/^ \*\tstruct kp_pipeline_config/,/^ \*\tkp_arena_destroy/s/^ \*//p' $text ;;
		*) sed -n '/^\.SH EXAMPLE/,/^\.fi/p' $text | sed '/^\./d' ;;
		esac
		printf '%s\n' 'if (kp_io_error(&io)) return 1;' \
			'fwrite(buffer, 1, 4096, stdout);' 'return 0;' '}'
	} >"$KP_TMP/$name.c"
	# shellcheck disable=SC2046,SC2086
	$KP_CC -std=gnu11 -Wall -Wextra -Werror -O2 $sanitize $(pc --cflags kpolicy) -o "$KP_TMP/$name" \
		"$KP_TMP/$name.c" $(pc --libs kpolicy)
	(cd "$KP_TMP" && ASAN_OPTIONS=detect_leaks=0 LD_LIBRARY_PATH=$libdir "./$name" >example.out)
	cmp -n 4096 "$KP_TMP/example.in" "$KP_TMP/example.out" || fail "it read something else"
	[ "$(wc -c <"$KP_TMP/example.out")" = 4096 ] || fail "it read nothing"
done

say "the engines load from where they were installed"
for e in $KP_ENGINES; do
	fio_ok --enghelp="$libdir/kpolicy/$e.so"
done
for f in bash-completion/completions/kpolicy zsh/site-functions/_kpolicy; do
	[ -f "$root$prefix/share/$f" ] || fail "share/$f is not installed"
done
for j in "$root$prefix"/share/kpolicy/jobs/*.fio; do
	[ ! -f "$j" ] || ! grep -n 'external:engines/' "$j" || fail "$j names the source tree"
done

say "a fio with dynamic engines finds them by name"
for e in $KP_ENGINES; do
	equal "fio-kp-$e.so" "$(readlink "$root/usr/lib/fio/fio-kp-$e.so")" $prefix/lib/kpolicy/$e.so
done

say "kpolicy finds the engines of its prefix, and looks for others nowhere"
strings "$root$prefix/bin/kpolicy" | grep -qx "$prefix/lib/kpolicy" || fail "kpolicy knows another folder"
"$root$prefix/bin/kpolicy" list >"$KP_TMP/list"
cp jobs/split.fio "$KP_TMP/job.fio"
"$root$prefix/bin/kpolicy" compare --show --engine-dir "$libdir/kpolicy" "$KP_TMP/job.fio" split:clone \
	>"$KP_TMP/show" || fail "kpolicy cannot use the engines that are installed"

say "uninstall"
make -s -C "$tree" uninstall DESTDIR="$root" PREFIX=$prefix FIO_ENGINE_DIR=/usr/lib/fio
left=$(find "$root" -mindepth 1)
[ -z "$left" ] || fail "left by uninstall: $left"
