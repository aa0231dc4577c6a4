# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154 # configure sets the variables
#
# Sourced by configure: finds the headers of $fio (version $fio_version), which installs none. Sets
# fio_src, its source tree, and fio_config, the config-host.h that goes with it.

# Fetches the source of the package that owns $fio, of that very version, into .fio/. Only private
# apt folders are written; the sources are the machine's own entries, asked for source packages.
fetch_source() {
	owner=$(dpkg-query -S "$(readlink -f "$fio")" 2>>"$log" | sed -n '1s/: .*//p')
	[ "$owner" ] || die "no headers for $fio, which is from no Debian package:" \
		"give --fio-src=DIR, the source tree of $fio_version"
	package=$(dpkg-query -W -f '${source:Package}=${source:Version}' "$owner")
	fio_src=$top/.fio/$(echo "$package" | tr '=:' __)
	[ ! -d "$fio_src" ] || return 0
	apt=$top/.fio/apt
	rm -rf "$apt"
	mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/parts" "$apt/source"
	eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
	uri=$(apt-cache policy "$owner" 2>>"$log" |
		awk '/^ \*\*\*/ { on = 1; next } /^     [^ ]/ { on = 0 } on && $2 ~ /:/ { print $2; exit }')
	cat "$list" "$parts"/*.list 2>/dev/null | sed -n 's/^[ \t]*deb\([ \t]\)/deb-src\1/p' |
		grep -F "$uri" >"$apt/parts/kpolicy.list" || true
	for f in "$parts"/*.sources; do
		[ ! -f "$f" ] || awk -v uri="$uri" 'BEGIN { RS = ""; ORS = "\n\n" } index($0, uri) {
			sub(/[Tt]ypes:[^\n]*/, "Types: deb-src"); print }' "$f"
	done >"$apt/parts/kpolicy.sources"
	cat >"$apt/conf" <<-END
	Dir::Etc::sourcelist "/dev/null";
	Dir::Etc::sourceparts "$apt/parts";
	Dir::State::lists "$apt/lists";
	Dir::Cache "$apt/cache";
	APT::Sandbox::User "root";
	Acquire::http::Timeout "20";
	#clear APT::Update::Pre-Invoke;
	#clear APT::Update::Post-Invoke;
	#clear APT::Update::Post-Invoke-Success;
	END
	(
		cd "$apt/source"
		apt-get -c "$apt/conf" update &&
			apt-get -c "$apt/conf" source --download-only "$package" &&
			dpkg-source -x ./*.dsc tree &&
			mv tree "$fio_src"
	) </dev/null >>"$log" 2>&1 ||
		die "cannot fetch the source of $package (no network, or a version that its suite" \
			"has replaced): give --fio-src=DIR, the source tree of $fio_version, or" \
			"'apt-get update && apt-get install fio' and run configure again"
	rm -rf "$apt"
}

source_version() {
	if [ -f FIO-VERSION-FILE ]; then sed -n 's/^FIO_VERSION = //p' FIO-VERSION-FILE
	elif [ -f version ]; then cat version
	elif [ -e .git ]; then git describe --match 'fio-[0-9]*' --abbrev=4
	else sed -n 's/^DEF_VER=//p' FIO-VERSION-GEN
	fi
}

if [ "$fio_src" ]; then
	[ -f "$fio_src/ioengines.h" ] || die "--fio-src=$fio_src is not a fio source tree: no ioengines.h"
	fio_src=$(cd "$fio_src" && pwd)
else
	fetch_source
fi
v=$(cd "$fio_src" && source_version 2>>"$log") || true
[ "$v" = "$fio_version" ] || die "$fio is $fio_version but $fio_src is ${v:-of no known version}:" \
	"give the --fio and --fio-src of one version"

# A tree that was built says how; another is configured outside of it.
fio_config=$fio_src/config-host.h
if [ ! -f "$fio_config" ]; then
	fio_config=$top/.fio/config-$fio_version/config-host.h
	[ -f "$fio_config" ] || {
		mkdir -p "${fio_config%/*}"
		(cd "${fio_config%/*}" && sh "$fio_src/configure" --cc="$cc") </dev/null >>"$log" 2>&1 || {
			rm -rf "${fio_config%/*}"
			die "fio's own configure failed in $fio_src: see config.log"
		}
	}
fi

# One version can still have two layouts: let fio load an engine that compares what both see.
cat >"$tmp/probe.c" <<'END'
#include "fio.h"
static struct ioengine_ops ops;
static int setup(struct thread_data *td)
{
	td->files[0]->real_file_size = 4096;
	fio_file_set_size_known(td->files[0]);
	return 0;
}
static int open_file(struct thread_data *td, struct fio_file *f)
{
	return td->o.nr_files != 1 || f != td->files[0];
}
static enum fio_q_status queue(struct thread_data *td, struct io_u *io_u)
{
	if (td->io_ops != &ops || td->o.size != 4096 || td->o.rate_iops_min[1] != 4711 ||
	    io_u->file != td->files[0] || io_u->xfer_buflen != 512)
		io_u->error = EPROTO;
	return FIO_Q_COMPLETED;
}
static struct ioengine_ops ops = {
	.name = "probe", .version = FIO_IOOPS_VERSION, .setup = setup, .open_file = open_file,
	.queue = queue, .flags = FIO_SYNCIO | FIO_DISKLESSIO | FIO_NODISKUTIL,
};
void get_ioengine(struct ioengine_ops **p);
void get_ioengine(struct ioengine_ops **p) { *p = &ops; }
END
$cc -w -std=gnu11 -D_GNU_SOURCE -fPIC -shared -include "$fio_config" -I"$fio_src" -o "$tmp/probe.so" \
	"$tmp/probe.c" >>"$log" 2>&1 || die "an engine does not compile with $fio_src: see config.log"
(cd "$tmp" && "$fio" --ioengine=external:"$tmp/probe.so" --name=probe --rw=write --size=4k --bs=512 \
	--rate_iops_min=1,4711) </dev/null >>"$log" 2>&1 ||
	die "$fio and the headers in $fio_src disagree, although both are $fio_version: see config.log"
