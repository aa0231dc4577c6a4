# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# The gate: an engine that was built for one fio and is loaded by another is refused in one line
# that names both versions and the remedy, and never crashes.
. tests/lib.sh

# build NAME VERSION: engines/NAME.c as $KP_TMP/NAME.so that was made for fio VERSION
build() {
	# shellcheck disable=SC2086 # flags
	$KP_CC $KP_ENGINE_CFLAGS -DKP_FIO_VERSION="\"$2\"" $KP_ENGINE_LDFLAGS -o "$KP_TMP/$1.so" \
		"engines/$1.c" engines/adaptor.c shim/libkpolicy.a $KP_LIBS
}

# All engines share the gate: three false versions for the first of them, one for the others. The
# number inside (FIO_IOOPS_VERSION) is that of this fio in each: only the string can tell.
versions="fio-0.0 $KP_FIO_VERSION.1 fio-99.99-dirty"
job='--name=gate --size=64k --bs=4k --rw=write --filename=gate.tmp'
for e in $KP_ENGINES; do
	say "$e: only get_ioengine is exported"
	equal "exported by $e" "$(nm -D --defined-only "engines/$e.so" | awk '{ print $3 }')" get_ioengine

	for version in $versions; do
		say "$e: built for $version"
		build "$e" "$version"
		# shellcheck disable=SC2086 # arguments
		fio_refused "$e.*$version,.*$KP_FIO_VERSION:.*configure" \
			--ioengine="external:$KP_TMP/$e.so" $job
		[ ! -e "$KP_TMP/gate.tmp" ] || fail "$e wrote a file"
		# Several jobs, one line; and the way that shows the options.
		# shellcheck disable=SC2086
		fio_refused "$version" --ioengine="external:$KP_TMP/$e.so" $job --numjobs=4
		fio_refused "$version" --enghelp="$KP_TMP/$e.so"
	done

	versions=fio-0.0
	say "$e: built for $KP_FIO_VERSION"
	fio_ok --enghelp="$KP_TOP/engines/$e.so"
done

# Another fio, if the caller has one: KP_OTHER_FIO=PATH make test TESTS=tests/fio/gate.sh
if [ "${KP_OTHER_FIO:-}" ]; then
	other=$("$KP_OTHER_FIO" --version)
	[ "$other" != "$KP_FIO_VERSION" ] || fail "KP_OTHER_FIO=$KP_OTHER_FIO is $other as well"
	[ -z "$KP_SANITIZE" ] || skip "the other fio has no $KP_SANITIZE run time"
	FIO=$KP_OTHER_FIO
	for e in $KP_ENGINES; do
		say "$e: loaded by $other"
		# shellcheck disable=SC2086
		fio_refused "$KP_FIO_VERSION,.*$other:.*configure" --ioengine="$(engine "$e")" $job
	done
fi
