#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# shellcheck disable=SC2086 # options are meant to split
#
# The buffered policies refuse options that are impossible, and their counters show the policy.
. tests/lib.sh
need_engine writeback blocksize
case $KP_SANITIZE in *thread*) skip 'threads after a fork and the thread sanitizer do not go together' ;; esac

w="--ioengine=$(engine writeback) --backend=null --rw=write --size=4m --filename=f --counters=c.json"
r="--ioengine=$(engine writeback) --backend=null --size=4m --filename=g --counters=c.json"
b="--ioengine=$(engine blocksize) --backend=null --rw=write --size=4m --filename=f --counters=c.json"

fio_refused 'mapped=some: .*auto' --name=j $w --mapped=some
fio_refused 'dirty_bytes=4096: .*8192' --name=j $w --dirty_bytes=4096
fio_refused 'block_size=512: .*4096' --name=j $b --block_size=512 --logical_block_size=4096
fio_refused 'block_size=3000: .*power of two' --name=j $b --block_size=3000
# disagree PATTERN OPTIONS OPTIONS: two jobs with different options for something that they share.
disagree() {
	both="--ioengine=$(engine writeback) --backend=null --rw=write --size=1m --rate=1m"
	fio_refused "$1" --name=i $both $2 --exitall_on_error --name=j $both $3
}
disagree 'dirty_bytes=[0-9]*: another job has [0-9]*' '' --dirty_bytes=1m
disagree 'cache_bytes=[0-9]*: another job has [0-9]*' '' --cache_bytes=32m
disagree 'policy=strict: another job .*overrun|policy=overrun: another job .*strict' \
	'--filename=f --policy=overrun' '--filename=f --policy=strict'
# There is one null device, whatever the names of the files.
disagree 'nr_to_write=[0-9]*: another job has [0-9]*' '--filename=f' '--filename=g --nr_to_write=8'
disagree 'wrap_fault=[01]: another job has [01]' '--filename=f' '--filename=g --wrap_fault=1'
disagree 'mapped=[a-z]*: another job has it' '--filename=f' '--filename=f --mapped=all'
fio_refused 'in a page cache of its own' --name=a --ioengine="$(engine writeback)" --rw=write \
	--size=16m --filename=f --rate=1m --exitall_on_error --name=b --ioengine="$(engine blocksize)" --rw=write \
	--size=16m --filename=f --rate=1m --exitall_on_error --startdelay=0.2

# of NAME COUNTER: a counter of one job
of() { jq -e ".jobs[] | select(.name == \"$1\") | .$2" "$KP_TMP/c.json"; }

# 1024 dirty pages become bios. The bios of folio are split at 128 segments.
args=''
for p in logical coalesce merge_bh folio; do
	args="$args --name=$p --stonewall $b --bs=64k --policy=$p --plug=none"
done
fio_ok $args
for p in logical:8192 coalesce:1024 merge_bh:1024 folio:8; do
	equal "$p: bios" "$(of ${p%:*} bios)" ${p#*:}
done

# 64 dirty pages need mapping, one page is above the background limit, and the budget is 4. The fault
# continues page by page; the other variants leave the rest to the late flush.
args=''
for p in overrun v1 overrun_once strict 6.x; do
	args="$args --name=$p --stonewall $w --size=256k --bs=256k --policy=$p --nr_to_write=4
		--dirty_bytes=512k --dirty_background_bytes=252k --thinktime=300ms"
done
# Mapped pages that follow each other are one extent. The last job writes at its end what nobody has
# synced. The second pass of a read finds its pages in the cache.
fio_ok $args --name=mapped --stonewall $w --size=1m --bs=1m --policy=overrun --mapped=all \
	--nr_to_write=4 --name=late --stonewall $w --numjobs=2 --rate=16m --group_reporting \
	--name=twice --stonewall $r --rw=read --bs=4k --loops=2 --invalidate=0
for p in overrun:61 v1:2 overrun_once:2 strict:2 6.x:2; do
	equal "$p: extents" "$(of ${p%:*} extents)" ${p#*:}
done
equal 'single pages' "$(of mapped single_page_extents)" 0
equal 'late flush' "$(jq '[.jobs[] | select(.name == "late") | .late_flush_bytes] | add' "$KP_TMP/c.json")" 4194304
equal 'pages read' $(($(of twice cache_hits) + $(of twice cache_misses))) 2048
equal 'bytes read' "$(of twice cache_read_bytes)" 4194304

# No job takes page faults for the pages of the cache while it is measured, neither in sections that
# run one after the other nor beside other jobs. 64 MiB are 16384 pages.
own_file="--ioengine=$(engine blocksize) --backend=null --rw=write --bs=1m --size=64m"
args=''
for p in logical coalesce folio; do
	args="$args --name=$p --stonewall $own_file --policy=$p"
done
fio_ok $args --name=at-once --stonewall $own_file --numjobs=2 --output-format=json --output=r.json
faults=$(sed -n '/^{/,$p' "$KP_TMP/r.json" | jq '[.jobs[].minf] | max')
[ "$faults" -lt 2000 ] || fail "a job took $faults page faults"
