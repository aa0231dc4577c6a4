#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# kpolicy writes a block device only when that was said, in each of its commands and again to resume;
# never one that is in use, nor another one than at the beginning.
. tests/lib.sh
. tests/kpolicy.sh
need_root
need_command jq mkfs.ext4

cd "$KP_TMP"
truncate -s 16m a.img b.img
loop_device a.img
sum() { cksum <a.img; }
untouched=$(sum)

# no PATTERN ARG...: refused, with nothing run and nothing written.
no() {
	pattern=$1
	shift
	refused "^kpolicy: .*$pattern" "$KPOLICY" "$@"
	equal "exit code of kpolicy $*" "$status" 2
	equal "the device after kpolicy $*" "$(sum)" "$untouched"
}
write="--name=w --ioengine=psync --rw=write --bs=64k --direct=1 --size=4m"
no "seeds has no --show" seeds 2 --show --device "$loop"
no "seeds has no --resume" seeds 2 --resume x --device "$loop"
no "seeds has no --over" seeds 2 --over bs=4k,8k --device "$loop"
no "seeds has no --html" seeds 2 --html x.html --device "$loop"
no "seeds has no --plot" seeds 2 --plot x.svg --device "$loop"
no "sweep has no --show" sweep --over bs=4k,8k native native --show -- fio $write --filename="$loop"
no "say --destructive" seeds 2 --device "$loop" --quiet
# shellcheck disable=SC2086 # words
no "say --destructive" compare native native --target "$loop" --quiet -- fio $write
# shellcheck disable=SC2086
kpolicy_run 0 compare native --target "$loop" --show -- fio $write
equal "the device after --show" "$(sum)" "$untouched"

# What --destructive began has to be said again.
# shellcheck disable=SC2086
kpolicy_run 2 compare split:none split:fast --target "$loop" --destructive --output dir --quiet \
	--set rate_iops=1000 --time 1s -- fio $write
[ "$(sum)" != "$untouched" ] || fail "nothing was written"
untouched=$(sum)
equal "target" "$(jq -r '.written.targets[].path' dir/session.json)" "$loop"
jq -e '.written.targets[0].device | test("^7:[0-9]+ .*a.img$")' dir/session.json >/dev/null ||
	fail "the device is not known: $(jq -c .written dir/session.json)"
no "say --destructive" compare --resume dir --quiet

# In use meanwhile.
mkfs.ext4 -q "$loop" 8m 2>/dev/null || mkfs.ext4 -qF "$loop"
mkdir mnt
mount "$loop" mnt
at_exit "umount '$KP_TMP/mnt' 2>/dev/null"
sync
untouched=$(sum)
no "in use.*mounted on" compare --resume dir --destructive --quiet
umount mnt

# In use from the second round on: that round does not run.
cat >mountfio <<-END
	#!/bin/sh
	$KP_FIO "\$@" || exit
	case "\$*" in *--output=*r001.s2*)
		mkfs.ext4 -qF $loop && mount $loop "$KP_TMP/mnt" ;;
	esac
END
chmod +x mountfio
# shellcheck disable=SC2086
kpolicy_run 2 compare split:none split:fast --target "$loop" --destructive --quiet --output dir2 \
	--fio ./mountfio -- fio $write
grep -q 'in use.*mounted on' err || fail "mounted between two rounds: $(cat err)"
umount mnt
equal "runs of round 1" "$(find dir2/runs -name 'r001.s?.json' | wc -l)" 3
equal "runs of round 2" "$(find dir2/runs -name 'r002*' | wc -l)" 0

# Another device of the same name.
losetup -d "$loop"
losetup --direct-io=on "$loop" b.img
untouched=$(sum)
no "was device .*a.img.*is .*b.img now" compare --resume dir --destructive --quiet
losetup -d "$loop"
losetup --direct-io=on "$loop" a.img
kpolicy_run 2 compare --resume dir --destructive --quiet --time 1s
none_left
