# SPDX-License-Identifier: GPL-2.0-only
#
# Draws one random job for tests/fault/torture: the same seed and the same variants give the same
# job. Not drawn are latency_target and rate_process=poisson, with which fio's own engines stop or
# die too often (3.33). Prints four lines:
#	the options that our engine alone gets
#	the options that fio's own engine alone gets
#	the options that both get
#	what is known of the job, words out of:
#		target=TARGET	file, files, loop or null: where it does its I/O
#		start=START	absent, data or hole: what is there before
#		contents	what lies on the device afterwards depends on the options alone
#		figures		so do the numbers of its I/Os
#		verify		what was written can be verified by a run of its own
#		offload		by fio's offload mode
#
# -v seed=N -v variants="split:fast diolock:..." -v loop=1 where a loop device can be had.

# The minimal standard generator of Park and Miller: its products fit into a double.
function draw(n) {
	state = state * 16807 % 2147483647
	return int(state / 2147483647 * n)
}
function chance(percent) { return draw(100) < percent }
function pick(words,    w, n) {
	n = split(words, w, " ")
	return w[draw(n) + 1]
}

function job(option) { both = both " --" option }
function own(option) { ours = ours " --" option }
function know(word) { known = known " " word }

# Nothing after this is the same from run to run.
function unsettled() { contents = figures = 0 }

function draw_split() {
	if (chance(60)) own("max_sectors_kb=" pick("4 8 16 60 64 128 512"))
	if (chance(40)) own("max_segments=" pick("1 2 3 8 16 33 128"))
	if (chance(30)) own("max_segment_size=" pick("4096 8192 65536"))
	if (chance(20)) own("chunk_sectors=" pick("8 16 64 256"))
	if (chance(20)) own("adjacent_pages=1")
}

function draw_checksum() {
	if (chance(30)) own("crc32c=" pick("fast generic"))
	if (chance(30)) own("raid_profile=" pick("single raid0 raid1 raid10 dup raid5 raid6"))
	if (chance(30)) own("workers=" pick("1 2 4 8"))
	if (chance(20)) own("workers_threshold=" pick("1 16 32 64"))
	if (chance(20)) own("sync_writers=" pick("0 1"))
	if (chance(20)) own("async_threshold=" pick("4k 16k 1m"))
	if (chance(20)) own("req_sync=" pick("0 1"))
	if (chance(30) && target != "null") own("sums=@SUMS")
}

function draw_cache() {
	if (chance(40)) own("dirty_bytes=" pick("64k 128k 1m"))
	if (chance(30)) own("cache_bytes=" pick("256k 1m 16m"))
	if (chance(30)) own("read_ahead_kb=" pick("0 4 128 1024"))
	if (chance(20)) own("dirty_writeback_centisecs=" pick("1 5 100"))
	if (chance(20)) own("dirty_expire_centisecs=" pick("1 10"))
	if (chance(30)) own("nr_to_write=" pick("1 7 64 1024"))
	if (engine == "blocksize" && chance(30)) own("block_size=" pick("512 1024 2048 4096"))
	if (engine == "writeback" && chance(30)) own("mapped=" pick("auto none all"))
	if (policy == "overrun" && chance(20)) own("wrap_fault=1")
}

function draw_device() {
	if (backend == "null") {
		own("null_memory_backed=1")
		if (chance(40)) own("null_completion_nsec=" pick("1000 20000 100000"))
		if (chance(20)) own("null_submit_nsec=" pick("500 5000"))
		if (chance(20)) own("null_mbps=" pick("200 2000"))
		if (chance(30)) own("null_queue_depth=" pick("1 2 8 32"))
		if (chance(30)) own("null_completion=" pick("sync async"))
	}
	if (chance(25)) own("plug=" pick("4.9 4.15 6.1 none"))
	# In parts, I/Os that overlap are torn where fio's own are not.
	if (chance(15) && backend != "null" && !(overlaps && depth > 1))
		own("fault=short:" (least < 4096 ? pick("512 1024 4096") : pick("4096 8192 65536")))
}

# What is asked of the device: sizes, and how they lie. Sets least, the smallest of them.
function draw_sizes(    unit) {
	least = 4096
	if (cached && chance(30)) {
		if (chance(50)) {
			odd = 1
			least = pick("1000 3000 517 5000")
			job("bs=" least)
		} else {
			odd = 1
			least = pick("512 700 1024")
			job("bsrange=" least "-" pick("9000 4096 33333"))
			if (chance(70)) { job("bs_unaligned=1"); overlaps = 1 }
		}
		return
	}
	unit = draw(6)
	if (unit == 0) { least = 512; job("bsrange=512-" pick("4k 16k 64k")) }
	else if (unit == 1) { job("bsrange=4k-" pick("16k 64k 128k")) }
	else if (unit == 2) { least = 65536; job("bsrange=64k-" pick("256k 1m")) }
	else if (unit == 3) { least = pick("512 1024 4096"); job("bssplit=" least "/30:4k/50:32k/20") }
	else if (unit == 4) { least = pick("512 1024 2048 4096 8192 65536"); job("bs=" least) }
	else job("bs=4k")
	if (least >= 4096 && chance(8)) { job("blockalign=512"); overlaps = 1 }
	if (chance(1) && target != "null") job("offset=100") # direct I/O has to be refused by both
}

function draw_depth() {
	depth = pick("1 1 2 4 8 16 32 64")
	job("iodepth=" depth)
	if (depth > 1 && chance(40)) {
		job("iodepth_batch=" pick("1 2 4 8"))
		if (chance(60)) {
			job("iodepth_batch_complete_min=" pick("0 1 " (depth > 8 ? 8 : depth)))
			if (chance(60)) job("iodepth_batch_complete_max=" depth)
		}
		if (chance(50)) job("iodepth_low=" pick("1 " int(depth / 2)))
	}
}

function draw_verify(    kind) {
	kind = pick("crc32c crc32c crc32 crc16 crc7 md5 sha1 sha256 sha512 xxhash pattern pattern")
	job("verify=" kind)
	if (kind == "pattern") {
		job("verify_pattern=" pick("0xabcd 0x11223344 %o"))
	} else {
		contents = 0 # headers carry the time
		if (chance(25)) job("verify_interval=" pick("512 1024 4096"))
		if (chance(10)) job("verify_pattern=0xabcd")
	}
	job("verify_fatal=1")
	job("verify_state_save=0")
	if (chance(45)) {
		job("verify_backlog=" pick("1 4 16 64 1024"))
		if (chance(40)) job("verify_backlog_batch=" pick("1 4 16"))
	}
	if (chance(15)) job("verify_async=" pick("1 2"))
	verifying = 1
}

# Discards of what was written, on a device alone: fio asks a file for them by BLKDISCARD.
function draw_trims() {
	if (rw ~ /trim/) return
	if (verifying && chance(25)) {
		job("experimental_verify=1")
		job("trim_percentage=" pick("5 20 60"))
		job("trim_backlog=" pick("4 32 128"))
		job("trim_verify_zero=0")
		unsettled()
		trimmed = 1
	}
}

function draw_syncs() {
	if (chance(20)) job("fsync=" pick("1 7 32 200"))
	if (chance(15)) job("fdatasync=" pick("1 7 50"))
	if (chance(20)) job("sync_file_range=" pick("write:2 write:16 wait_before:8 " \
		"wait_before,write:3 write,wait_after:5 wait_before,write,wait_after:9"))
	if (chance(10)) job("sync=" pick("1 dsync"))
	if (chance(10)) job("end_fsync=1")
	if (chance(10)) job("fsync_on_close=1")
}

function draw_jobs(    jobs) {
	jobs = chance(25) ? pick("2 3 4") : 1
	if (jobs > 1) {
		job("numjobs=" jobs)
		# Each its part, or files of its own, or now and then all the same.
		if (target != "files" && target != "own")
			if (verifying || chance(80))
				job("offset_increment=" size)
			else
				unsettled()
		if (chance(30)) job("group_reporting=1")
	}
	if (chance(25)) job("thread=1")
	# Together with serialize_overlap it stops, or fails an assertion of fio's (3.33).
	if (chance(2) && both !~ /serialize_overlap/) {
		job("io_submit_mode=offload")
		know("offload")
		if (!(both ~ / --thread=1/)) job("thread=1")
		if (overlaps || depth > 1) unsettled()
		offload = 1
	}
	nr_jobs = jobs
}

function draw_pace() {
	if (chance(10)) { job("rate=" pick("8m 32m 64m")); paced = 1 }
	else if (chance(8)) { job("rate_iops=" pick("2000 8000")); paced = 1 }
	if (chance(6)) { job("thinktime=" pick("10 100")); job("thinktime_blocks=" pick("4 32")); }
	if (paced && rw ~ /rw|trimwrite/) unsettled()
}

function draw_order() {
	if (rw ~ /^rand/) {
		if (chance(20)) { job("norandommap=1"); overlaps = 1 }
		if (chance(10)) job("random_generator=" pick("tausworthe lfsr tausworthe64"))
		if (chance(10)) { job("random_distribution=" pick("zipf:1.1 pareto:0.3")); overlaps = 1 }
		if (chance(8)) { job("percentage_random=" pick("30 70")); overlaps = 1 }
	}
	if (!overlaps && chance(10) && rw !~ /trim/) {
		job("zonemode=strided")
		job("zonesize=256k")
		job("zoneskip=" pick("0 128k"))
		overlaps = 1 # it wraps
	}
	if (loop && target == "loop" && !overlaps && chance(6)) {
		job("zonemode=zbd")
		job("zonesize=256k")
		if (rw !~ /^(rand)?read$/) overlaps = 1
	}
	if (chance(12)) { job("io_size=" pick("300k 1m 3m")); overlaps = 1 }
	if (chance(6)) { job("number_ios=" pick("10 100 500")) }
	if (chance(5)) { job("loops=2"); overlaps = 1 }
	if (chance(4)) { job("time_based=1"); job("runtime=300ms"); overlaps = 1; unsettled() }
	if (chance(25)) job("serialize_overlap=1")
	if (chance(20)) { job("overwrite=1") }
}

function draw_memory() {
	if (chance(15)) job("mem=" pick("malloc mmap shm mmapshared"))
	if (chance(15)) job("iomem_align=" pick("512 4k 64k"))
	if (chance(10)) job("invalidate=0")
	if (chance(10)) job("fallocate=" pick("none native truncate"))
	if (chance(6) && target != "null") job("create_on_open=1")
	if (chance(6) && nr_jobs == 1) job("file_append=1") # whatever offset_increment says
	if (chance(5)) job("fadvise_hint=0")
	if (chance(5)) job("refill_buffers=1")
	if (chance(5)) job("unified_rw_reporting=1")
	if (chance(4)) job("clocksource=" pick("gettimeofday clock_gettime"))
	if (chance(4)) job("gtod_reduce=1")
	if (chance(4)) job("nice=5")
	if (chance(4)) job("exitall=1")
}

BEGIN {
	nr = split(variants, v, " ")
	for (i = 1; i <= nr; i++) {
		engine = substr(v[i], 1, index(v[i], ":") - 1)
		if (!(engine in of)) engines = engines " " engine
		of[engine] = of[engine] " " substr(v[i], index(v[i], ":") + 1)
	}
	state = (seed * 7919 + 104729) % 2147483646 + 1
	for (i = 0; i < 16; i++) draw(2)

	contents = figures = 1
	engine = pick(engines)
	policy = pick(of[engine])
	none = policy == "none"
	cached = (engine == "blocksize" || engine == "writeback") && !none
	own("policy=" policy)

	backend = pick("libaio libaio io_uring io_uring psync psync null")
	target = pick("file file file files own loop loop")
	if (target == "loop" && !loop) target = "file"
	if (backend == "null") target = "null"
	own("backend=" backend)
	reference = backend == "null" ? pick("libaio io_uring psync") : backend

	rw = pick("write randwrite randwrite rw randrw read randread write randwrite")
	if (target == "loop" && chance(25)) rw = pick("trimwrite randtrimwrite trim randtrim")
	if (rw == "randtrimwrite") rw = "trimwrite"
	job("rw=" rw)
	draw_sizes()
	# The null device, other than a real one, has no blocks that direct I/O has to keep to.
	job("direct=" (target == "null" && odd ? 0 : chance(80) ? !cached : cached))
	size = pick("256k 512k 1m 1m 2m 4m")
	if (least < 2000) size = pick("128k 256k 512k")
	job("size=" size)
	draw_depth()
	if (rw !~ /trim$/ && rw !~ /read$/ && chance(70) || rw == "trimwrite" && chance(40))
		draw_verify()
	if (!verifying) {
		job("refill_buffers=1")
		job("scramble_buffers=0")
		if (chance(40)) job(pick("zero_buffers=1 buffer_pattern=0xcafe"))
	}
	draw_order()
	draw_syncs()
	draw_jobs()
	draw_pace()
	draw_memory()
	if (target == "loop") draw_trims()
	if (target == "files") {
		job("nrfiles=" pick("2 5 16"))
		if (chance(40)) job("openfiles=" pick("1 2"))
		if (chance(40)) job("file_service_type=" pick("random roundrobin sequential"))
	}
	draw_device()
	if (engine == "split") draw_split()
	if (engine == "diolock" && !none && chance(30)) own("rwsem=" pick("4.9 5.3 5.11"))
	if (engine == "checksum" && !none) draw_checksum()
	if (cached) draw_cache()
	job("randseed=" draw(2147483646) + 1)

	# What overlaps while in flight may end in any order.
	if (overlaps && depth > 1) contents = 0
	if (overlaps && nr_jobs > 1) contents = 0
	if (offload && nr_jobs > 1) contents = 0

	start = target == "loop" ? pick("data hole") : target == "file" ? pick("absent absent data hole") : "absent"
	if (target == "null") contents = 0
	know("target=" target)
	know("start=" start)
	if (contents) know("contents")
	if (figures) know("figures")
	if (verifying && !overlaps && !trimmed && rw ~ /write$/ && rw !~ /trim/ && !(both ~ /time_based|number_ios|loops/))
		know("verify")
	print engine ours
	print reference
	print both
	print known
}
