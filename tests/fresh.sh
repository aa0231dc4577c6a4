#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# make test-fresh: the README's two lines in a Debian 12 that has nothing, so that a forgotten
# package shows. Each line is the first one once: `seeds` then `test` in one root, `test` then
# `seeds` in another. Needs root, debootstrap and the machine's own Debian mirror.
# FRESH_ORDERS="seeds,test" runs one of the two orders; FRESH_KEEP=1 keeps the roots.
set -eu
export LC_ALL=C
suite=bookworm
orders=${FRESH_ORDERS:-seeds,test test,seeds}

die() { echo "test-fresh: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "needs root"
command -v debootstrap >/dev/null || die "no debootstrap: run 'apt-get install debootstrap'"
cd "$(dirname "$0")/.."

# The mirror that this machine's apt takes the suite from, and its proxy if it has one.
mirror=$(apt-cache policy base-files | awk -v s="$suite/main" '$3 == s { print $2; exit }')
[ "$mirror" ] || die "this machine's apt sources have no $suite main: run 'apt-get update'"
proxy=
eval "$(apt-config shell proxy Acquire::http::Proxy)"
[ -z "$proxy" ] || export http_proxy="$proxy"

work=$(mktemp -d "${TMPDIR:-/var/tmp}/kpolicy-fresh.XXXXXX")
# Nothing is mounted here: the runs below have mounts of their own, which end with them.
cleanup() { [ "${FRESH_KEEP:-}" ] && echo "kept: $work" || rm -rf --one-file-system "$work"; }
trap cleanup EXIT
trap 'exit 1' HUP INT TERM

started() { start=$(date +%s); printf '%-40s ' "$1"; }
took() { echo "$1 $(($(date +%s) - start)) s"; }

# run ROOT COMMAND: in ROOT, in namespaces of its own, with nothing of our environment and no stdin
run() {
	unshare --mount --pid --fork --kill-child sh -c '
		set -e
		mount --rbind /dev "$1/dev"
		mount -t proc proc "$1/proc"
		mount --rbind /sys "$1/sys"
		exec chroot "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
			${http_proxy:+http_proxy="$http_proxy"} sh -c "cd /root/kpolicy && $2"' \
		sh "$1" "$2" </dev/null
}

started "debootstrap $suite"
debootstrap --variant=minbase "$suite" "$work/base" "$mirror" >"$work/log" 2>&1 ||
	{ tail -n 20 "$work/log"; die "debootstrap failed"; }
mkdir "$work/base/root/kpolicy"
git ls-files -z | tar --null -T - -c | tar -x -C "$work/base/root/kpolicy"
took ok

status=0
for order in $orders; do
	cp -a "$work/base" "$work/root"
	for target in $(echo "$order" | tr , ' '); do
		started "$order: make $target"
		if run "$work/root" "./configure --install-deps && make $target" >"$work/log" 2>&1; then
			took "ok, $(tail -n 1 "$work/log"),"
		else
			took FAIL
			tail -n 60 "$work/log"
			status=1
		fi
	done
	rm -rf --one-file-system "$work/root"
done
exit $status
