# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# What configure says when something is wrong: one line on stderr that names the thing and the
# remedy, and a status that is not 0. Runs in a copy, so that the build at hand stays as it is.
. tests/lib.sh

mkdir "$KP_TMP/tree" "$KP_TMP/tree/scripts" "$KP_TMP/bin"
cp configure "$KP_TMP/tree"
cp scripts/fio-headers.sh "$KP_TMP/tree/scripts"
real_cc=$(command -v "${KP_CC%% *}")

# configure_says PATTERN ARG...
configure_says() {
	say "configure $*"
	pattern=$1
	shift
	status=0
	(cd "$KP_TMP/tree" && env PATH="$KP_TMP/bin:$PATH" ./configure "$@") \
		>"$KP_TMP/out" 2>"$KP_TMP/err" || status=$?
	[ $status = 1 ] || { cat "$KP_TMP/err"; fail "status $status, wanted 1"; }
	equal "lines on stderr" "$(cat "$KP_TMP/err" | tee /dev/fd/2 | wc -l)" 1
	grep -Eq -- "$pattern" "$KP_TMP/err" || fail "the line does not match '$pattern'"
	[ ! -e "$KP_TMP/tree/config-host.mak" ] || fail "it wrote config-host.mak all the same"
}

# fake NAME: a program found before the real one, its text on stdin
fake() {
	cat >"$KP_TMP/bin/$1"
	chmod +x "$KP_TMP/bin/$1"
}

configure_says "unknown option '--frob'" --frob
configure_says "unknown option '--fio='" --fio=
configure_says "not one of address, undefined, thread" --sanitize=memory
configure_says "exclude each other" --sanitize=address,thread
configure_says "fio=/nonexistent: no such" --fio=/nonexistent
configure_says "/bin/true is not fio" --fio=/bin/true
configure_says "fio-src=$KP_TMP is not a fio source tree" --fio-src="$KP_TMP"

# A missing library, named with its package and the command.
fake "${KP_CC%% *}" <<END
#!/bin/sh
case "\$*" in *-luring*) exit 1 ;; esac
exec $real_cc "\$@"
END
configure_says "missing liburing-dev: run 'apt-get install liburing-dev'" --cc="${KP_CC%% *}"
rm "$KP_TMP/bin/${KP_CC%% *}"

# A source of another version.
mkdir "$KP_TMP/src"
touch "$KP_TMP/src/ioengines.h"
echo 'FIO_VERSION = fio-1.2.3' >"$KP_TMP/src/FIO-VERSION-FILE"
configure_says "is $KP_FIO_VERSION but $KP_TMP/src is fio-1.2.3" --fio="$KP_FIO" --fio-src="$KP_TMP/src"

# A fio of no package, without its source.
fake fio <<END
#!/bin/sh
exec $KP_FIO "\$@"
END
configure_says "from no Debian package: give --fio-src=DIR"
rm "$KP_TMP/bin/fio"

# No network and no source: both ways out.
if dpkg-query -S "$(readlink -f "$KP_FIO")" >/dev/null 2>&1; then
	fake apt-get <<-END
	#!/bin/sh
	exit 100
	END
	configure_says "cannot fetch .*--fio-src=DIR.*apt-get install fio" --fio="$KP_FIO"
	rm "$KP_TMP/bin/apt-get"
fi

# --install-deps without being root says what root must run.
fake id <<END
#!/bin/sh
echo 1000
END
fake dpkg-query <<END
#!/bin/sh
case "\$*" in *jq) exit 1 ;; esac
echo install ok installed
END
configure_says "as root, run: apt-get update && apt-get install .*jq" --install-deps
rm "$KP_TMP/bin/id" "$KP_TMP/bin/dpkg-query"

# A right pair, from another folder, leaves the source as it was and writes the three files.
say "configure --fio=$KP_FIO --fio-src=$KP_FIO_SRC --cc=$KP_CC"
before=$(ls -R "$KP_FIO_SRC" | cksum)
(cd "$KP_TMP/tree" && ./configure --fio="$KP_FIO" --fio-src="$KP_FIO_SRC" --cc="$KP_CC")
equal "the source tree" "$(ls -R "$KP_FIO_SRC" | cksum)" "$before"
for f in config-host.h config-host.mak config.log; do
	[ -s "$KP_TMP/tree/$f" ] || fail "no $f"
done
