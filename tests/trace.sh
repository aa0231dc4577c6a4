# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
#
# Block events of one device from the running kernel: `. tests/trace.sh` after tests/lib.sh.

# trace_device DEVICE EVENT...: a private trace instance in $trace with these events; the device is
# filtered for where the event has one. Skips where that cannot be.
trace_device() {
	need_root
	need_command mount
	tracefs=$KP_TMP/tracefs
	mkdir -p "$tracefs"
	mount -t tracefs kpolicy "$tracefs" 2>/dev/null || skip "no tracefs"
	at_exit "umount '$tracefs'"
	trace=$tracefs/instances/kpolicy$$
	mkdir "$trace" || skip "no trace instances"
	at_exit "rmdir '$trace'"
	echo 65536 >"$trace/buffer_size_kb"
	dev=$(($(printf %d "0x$(stat -c %t "$1")") << 20 | $(printf %d "0x$(stat -c %T "$1")")))
	shift
	for event; do
		[ -d "$trace/events/$event" ] || skip "this kernel has no event $event"
		! grep -q 'dev_t dev;' "$trace/events/$event/format" ||
			echo "dev == $dev" >"$trace/events/$event/filter"
		echo 1 >"$trace/events/$event/enable"
	done
}

trace_clear() { : >"$trace/trace"; }

# trace_sizes EVENT: "BYTES:COUNT ..." of the writes, ascending
trace_sizes() {
	case $1 in
	block_bio_queue) field=5 scale=512 ;;
	block_rq_issue) field=3 scale=1 ;;
	esac
	sed -n "s/.* $1: //p" "$trace/trace" |
		awk -v field=$field -v scale=$scale '$2 ~ /^W/ { n[$field * scale]++ }
			END { for (s in n) print s ":" n[s] }' | sort -n | tr '\n' ' '
}
