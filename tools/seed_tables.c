// SPDX-License-Identifier: GPL-2.0-only
#include <stddef.h>

#include "seed_tables.h"

#define MB  1e6
#define MIB 1048576.0
#define KIB 1024.0
#define US  1e3 /* ns */

#define SET(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* ---- seed 1: block size of a block device -------------------------------------------------- */

#define SEED1_READ(...)                                  \
	{                                                \
		"read, MB/s", DIR_READ, Q_BANDWIDTH, MB, \
		{                                        \
			__VA_ARGS__                      \
		}                                        \
	}
#define SEED1_WRITE(...)                                   \
	{                                                  \
		"write, MB/s", DIR_WRITE, Q_BANDWIDTH, MB, \
		{                                          \
			__VA_ARGS__                        \
		}                                          \
	}

/*
 * Columns: faulty, before, unpatched, patched. Reads leave the bandwidth of the array as they are;
 * for writes the null device has the bandwidth of the kernel before and the cost per bio that their
 * faulty kernel shows: (1/faulty - 1/before) over 1792 more bios per MiB.
 */
/* md hands each bio on before any merge; for the disk the fitted cost stands for the CPU's. */
#define BIO_BASED "plug=none"

static const struct seed_row seed1_rows[] = {
	{ "1 HDD, read", SET("rw=read"), "null_mbps=256", { SEED1_READ(257, 256, 256, 255) } },
	{ "1 HDD, write",
	  SET("rw=write"),
	  "null_mbps=254,null_submit_nsec=1430," BIO_BASED,
	  { SEED1_WRITE(154, 254, 149, 247) } },
	{ "RAID0, read", SET("rw=read"), "null_mbps=398", { SEED1_READ(398, 313, 401, 396) } },
	{ "RAID0, write",
	  SET("rw=write"),
	  "null_mbps=253,null_submit_nsec=2370," BIO_BASED,
	  { SEED1_WRITE(122, 253, 123, 274) } },
	{ "RAID10 f2, read", SET("rw=read"), "null_mbps=312", { SEED1_READ(312, 276, 312, 312) } },
	{ "RAID10 f2, write",
	  SET("rw=write"),
	  "null_mbps=195,null_submit_nsec=5380," BIO_BASED,
	  { SEED1_WRITE(67.7, 195, 64, 220) } },
	{ "RAID10 n2, read", SET("rw=read"), "null_mbps=344", { SEED1_READ(344, 313, 356, 340) } },
	{ "RAID10 n2, write",
	  SET("rw=write"),
	  "null_mbps=204,null_submit_nsec=5640," BIO_BASED,
	  { SEED1_WRITE(66.6, 204, 64.1, 225) } },
	{ "RAID6, read", SET("rw=read"), "null_mbps=391", { SEED1_READ(391, 323, 375, 393) } },
	{ "RAID6, write",
	  SET("rw=write"),
	  "null_mbps=117,null_submit_nsec=3530," BIO_BASED,
	  { SEED1_WRITE(67.2, 117, 61.5, 121) } },
	{ 0 },
};

/* ---- seed 2: locks round ext4 direct I/O --------------------------------------------------- */

#define SEED2_ROW(read_bw, read_iops, read_lat, write_bw, write_iops, write_lat)      \
	{                                                                             \
		{ "read, KB/s", DIR_READ, Q_BANDWIDTH, KIB, { read_bw } },            \
			{ "read, IOPS", DIR_READ, Q_IOPS, 1, { read_iops } },         \
			{ "read, us", DIR_READ, Q_MEAN, US, { read_lat } },           \
			{ "write, KB/s", DIR_WRITE, Q_BANDWIDTH, KIB, { write_bw } }, \
			{ "write, IOPS", DIR_WRITE, Q_IOPS, 1, { write_iops } },      \
			{ "write, us", DIR_WRITE, Q_MEAN, US, { write_lat } },        \
	}
#define PAIR(with, without) with, without

#define P3600 "null_read_nsec=85000,null_write_nsec=15000,null_mbps=1200"

static const struct seed_row seed2_rows[] = {
	{ "bs=4k psync", SET("ioengine=psync", "bs=4k"), P3600,
	  SEED2_ROW(PAIR(30898, 117915), PAIR(7724, 29478), PAIR(555.00, 248.18),
		    PAIR(30875, 117854), PAIR(7718, 29463), PAIR(479.70, 21.91)) },
	{ "bs=16k psync", SET("ioengine=psync", "bs=16k"), P3600,
	  SEED2_ROW(PAIR(58961, 218409), PAIR(3685, 13650), PAIR(835.28, 554.46),
		    PAIR(58877, 218257), PAIR(3679, 13641), PAIR(1335.98, 29.22)) },
	{ "bs=64k psync", SET("ioengine=psync", "bs=64k"), P3600,
	  SEED2_ROW(PAIR(119396, 422815), PAIR(1865, 6606), PAIR(1759.38, 1146.05),
		    PAIR(119159, 421619), PAIR(1861, 6587), PAIR(2532.26, 60.72)) },
	{ "bs=512k psync", SET("ioengine=psync", "bs=512k"), P3600,
	  SEED2_ROW(PAIR(392973, 590266), PAIR(767, 1152), PAIR(5046.35, 4312.01),
		    PAIR(393165, 590554), PAIR(767, 1153), PAIR(5359.86, 2606.82)) },
	{ "bs=1M psync", SET("ioengine=psync", "bs=1M"), P3600,
	  SEED2_ROW(PAIR(487779, 593927), PAIR(476, 580), PAIR(8058.55, 7623.63),
		    PAIR(485592, 591265), PAIR(474, 577), PAIR(8630.51, 6163.42)) },
	{ "bs=4k libaio, iodepth=16", SET("ioengine=libaio", "iodepth=16", "bs=4k"), P3600,
	  SEED2_ROW(PAIR(78313, 387774), PAIR(19578, 96943), PAIR(1698.70, 1009.73),
		    PAIR(78313, 387656), PAIR(19578, 96914), PAIR(4837.60, 308.87)) },
	{ 0 },
};

/* ---- seed 3: who computes the checksums ---------------------------------------------------- */

#define SEED3_ROW(bs, async_bw, sync_bw, async_iops, sync_iops)                                \
	{                                                                                      \
		"bs=" bs, SET("bs=" bs), "crc32c=generic,null_mbps=535",                       \
		{                                                                              \
			{ "write, KB/s", DIR_WRITE, Q_BANDWIDTH, KIB, { async_bw, sync_bw } }, \
				{ "write, IOPS",                                               \
				  DIR_WRITE,                                                   \
				  Q_IOPS,                                                      \
				  1,                                                           \
				  { async_iops, sync_iops } },                                 \
		}                                                                              \
	}

static const struct seed_row seed3_rows[] = {
	SEED3_ROW("4k", 115312, 115480, 28827.6, 28869.6),
	SEED3_ROW("8k", 114381, 115586, 14297.4, 14447.6),
	SEED3_ROW("16k", 115393, 116290, 7211.4, 7267.6),
	SEED3_ROW("32k", 114268, 116589, 3570.4, 3643),
	SEED3_ROW("64k", 115421, 113417, 1803, 1771.8),
	SEED3_ROW("128k", 115545, 112585, 902, 879),
	SEED3_ROW("256k", 115178, 111521, 449.2, 435),
	SEED3_ROW("512k", 115874, 111620, 226, 217.6),
	{ 0 },
};

/* ---- seeds 4 and 5 ------------------------------------------------------------------------- */

static const struct seed_row seed4_rows[] = {
	{ "bs=8k",
	  NULL,
	  "null_mbps=180,null_submit_nsec=25000",
	  { { "write, MB/s", DIR_WRITE, Q_BANDWIDTH, MB, { 157, 174 } } } },
	{ 0 },
};

static const struct seed_row seed5_rows[] = {
	{ "bs=1M, max_sectors_kb=16",
	  NULL,
	  "null_completion_nsec=0",
	  { { "read, MB/s", DIR_READ, Q_BANDWIDTH, MIB, { 12227, 21011, 18959 } } } },
	{ 0 },
};

/* ---- the reports --------------------------------------------------------------------------- */

const struct seed seeds[NR_SEEDS] = {
	{
		.number = 1,
		.title = "block size of a block device (2021-01)",
		.engine = "blocksize",
		.theirs = "Helios4 NAS, 2 slow Arm cores, 4 HDDs, dd bs=1M count=2000",
		.stand_in = "bandwidth as of their kernel before; the cost of a bio from their "
			    "faulty one: the patched column is the test",
		.headline =
			"the revert makes writes 1.5 to 3.5 times as fast and leaves reads alone",
		.fio = SET("fio", "--name=seed1", "--ioengine=psync", "--filename=seed1.file",
			   "--bs=1M", "--size=128M", "--end_fsync=1"),
		.columns = { { "5ff9f19231a0 (faulty)", "blocksize:logical" },
			     { "9011495c9466 (before)", "blocksize:coalesce" },
			     { "5.10.10 unpatched", "blocksize:logical" },
			     { "5.10.10 patched", "blocksize:coalesce" } },
		.rows = seed1_rows,
	},
	{
		.number = 2,
		.title = "locks round ext4 direct I/O (2019-07)",
		.engine = "diolock",
		.theirs = "Intel P3600 NVMe, 64 CPUs, 256 GB; psync, direct, randrw, numjobs=8",
		.stand_in = "85 us reads, 15 us writes, 1200 MB/s: that drive's own figures",
		.headline = "without the shared lock 3.8 times at 4k down to 1.2 times at 1M; 4.95 "
			    "times with libaio",
		.fio = SET("fio", "--name=seed2", "--direct=1", "--rw=randrw", "--numjobs=8",
			   "--filename=seed2.file", "--size=20G", "--runtime=600", "--time_based=1",
			   "--group_reporting=1"),
		.columns = { { "with 16c54688592c", "diolock:ext4-4.9" },
			     { "without", "diolock:ext4-4.8" } },
		.rows = seed2_rows,
	},
	{
		.number = 3,
		.title = "who computes the checksums of a btrfs direct write (2015-02)",
		.engine = "checksum",
		.theirs = "HDD, 4 CPUs, 8 GB; libaio, direct, write, iodepth=64",
		.stand_in =
			"crc32c=generic and 535 MB/s: a little more than one CPU sums, so that it "
			"matters who does",
		.headline = "inline is ahead below 64 KiB, up to 2 %; workers from 64 KiB on, up "
			    "to 3.8 %",
		.fio = SET("fio", "--name=seed3", "--ioengine=libaio", "--direct=1", "--rw=write",
			   "--iodepth=64", "--iodepth_batch=64", "--iodepth_batch_complete=64",
			   "--iodepth_low=64", "--size=8g", "--filename=seed3.file", "--runtime=30",
			   "--time_based=1", "--group_reporting=1"),
		.columns = { { "async (workers)", "checksum:always_async" },
			     { "sync (inline)", "checksum:unsplit_inline" } },
		.rows = seed3_rows,
	},
	{
		.number = 4,
		.title = "ext4 writeback overruns its budget (2013-10)",
		.engine = "writeback",
		.theirs = "Arm A15, 2 cores, 2 GB, SATA SSD at 3 Gbps; dd bs=8K count=512K",
		.stand_in = "180 MB/s, 25 us per request, no merging; 8 MiB may be dirty",
		.headline = "more than 10 % faster without the fault",
		.fio = SET("fio", "--name=seed4", "--ioengine=psync", "--rw=write", "--bs=8k",
			   "--size=256M", "--filename=seed4.file", "--end_fsync=1"),
		.columns = { { "with the fault", "writeback:overrun,plug=none,dirty_bytes=8m" },
			     { "without", "writeback:strict,plug=none,dirty_bytes=8m" } },
		.rows = seed4_rows,
	},
	{
		.number = 5,
		.title = "copying the vector when a bio is split (2015-09)",
		.engine = "split",
		.theirs = "null_blk, max_sectors_kb=16, sequential direct read",
		.stand_in = "the model of null_blk that completes at once",
		.headline =
			"sharing the vector is 1.72 times cloning and 1.11 times building to fit",
		.fio = SET("fio", "--name=seed5", "--ioengine=psync", "--direct=1", "--rw=read",
			   "--bs=1M", "--size=4G", "--filename=seed5.file", "--runtime=30",
			   "--time_based=1"),
		.columns = { { "4.3-rc1-next, clone", "split:clone,max_sectors_kb=16" },
			     { "the same, shared vector", "split:fast,max_sectors_kb=16" },
			     { "v4.2, built to fit", "split:build,max_sectors_kb=16" } },
		.rows = seed5_rows,
	},
};
