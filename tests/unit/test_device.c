// SPDX-License-Identifier: GPL-2.0-only
/*
 * The devices that do real I/O, on a scratch file: requests straight into the device, of several
 * bios and of many segments, cut short, failing, across the end of the file.
 */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "unit.h"

#define BLOCK	 4096ull
#define MAX_BIOS 64

struct test {
	struct unit unit;
	struct kp_file *file;
	const char *path;
	struct kp_bio bios[MAX_BIOS];
	struct kp_segment *vecs;
	unsigned int nr, ended;
};

static struct test test;

static void count_end(struct kp_bio *bio)
{
	ck_assert_ptr_null(bio->next);
	test.ended++;
}

static void begin(const char *backend, const char *fault, size_t size, const void *data, int flags)
{
	memset(&test, 0, sizeof(test));
	test.path = unit_path("device");
	unit_make_file(test.path, data, size);
	unit_init(&test.unit, backend);
	test.unit.config.device.fault = fault;
	unit_start(&test.unit);
	test.file = unit_open(&test.unit, test.path, flags);
	test.vecs = calloc(MAX_BIOS * 256, sizeof(*test.vecs));
	ck_assert(!strcmp(backend, "null") || fcntl(test.file->fd, F_GETFL) & O_DIRECT);
}

static void end(void)
{
	unit_exit(&test.unit);
	free(test.vecs);
	unlink(test.path);
}

/* A bio of @nr segments of @len at @memory, each @stride apart, to the request. */
static struct kp_bio *add(enum kp_op op, uint64_t pos, char *memory, unsigned int nr, size_t len,
			  size_t stride)
{
	struct kp_bio *bio = &test.bios[test.nr];
	struct kp_segment *vec = test.vecs + test.nr * 256;

	for (unsigned int i = 0; i < nr; i++)
		vec[i] = (struct kp_segment){ memory + i * stride, len };
	*bio = (struct kp_bio){
		.op = op,
		.file = test.file,
		.iter = { .pos = pos, .size = nr * len },
		.vec = vec,
		.nr_vecs = nr,
		.end_io = count_end,
	};
	if (test.nr)
		test.bios[test.nr - 1].next = bio;
	test.nr++;
	return bio;
}

/* Hand the request to the device and wait for its end. */
static void go(void)
{
	struct kp_stage *device = &test.unit.pl->device->stage;

	test.ended = 0;
	kp_stage_submit(device, &test.bios[0]);
	while (test.ended < test.nr) {
		int ret = kp_pipeline_wait(test.unit.pl, device);

		ck_assert(ret >= 0 || test.ended == test.nr);
	}
	ck_assert_uint_eq(test.ended, test.nr);
	test.nr = 0;
}

/* ---- data ---------------------------------------------------------------------------------- */

/* Requests of one to several bios of one to 256 segments, the transfers whole and cut short. */
static void random_requests(const char *backend, const char *fault, int rounds)
{
	enum { SIZE = 2 * 1024 * 1024 };
	char *model = unit_memory(SIZE), *memory = unit_memory(2 * SIZE), *back = unit_memory(SIZE);
	uint64_t requests = 0;

	unit_fill(model, SIZE);
	begin(backend, fault, SIZE, model, O_RDWR);
	for (int round = 0; round < rounds; round++) {
		enum kp_op op = unit_between(0, 1);
		unsigned int bios = unit_between(1, 4);
		uint64_t start = unit_between(0, 100) * 512, pos = start;
		size_t at = 0;

		for (unsigned int i = 0; i < bios; i++) {
			unsigned int nr = unit_between(1, unit_between(0, 3) ? 20 : 256);
			size_t len = unit_between(1, 3) * 512;
			/* adjacent in memory, or not */
			size_t stride = len + unit_between(0, 1) * 512;

			add(op, pos, memory + at, nr, len, stride);
			pos += nr * len;
			at += nr * stride + unit_between(0, 1) * 512;
			if (op == KP_OP_WRITE) {
				for (unsigned int j = 0; j < nr; j++) {
					struct kp_segment *segment = &test.vecs[i * 256 + j];
					uint64_t to = test.bios[i].iter.pos + j * len;

					memset(segment->addr, round + j, len);
					memcpy(model + to, segment->addr, len);
				}
			}
		}
		go();
		requests++;
		for (unsigned int i = 0; i < bios; i++) {
			ck_assert_int_eq(test.bios[i].status, 0);
			ck_assert_uint_eq(test.bios[i].resid, 0);
			pos = test.bios[i].iter.pos;
			for (unsigned int j = 0; j < test.bios[i].nr_vecs; j++) {
				struct kp_segment *segment = &test.vecs[i * 256 + j];

				ck_assert_int_eq(memcmp(segment->addr, model + pos, segment->len),
						 0);
				pos += segment->len;
			}
		}
	}
	ck_assert_uint_eq(unit_counter(&test.unit, KP_REQUESTS), requests);
	unit_read_file(test.path, back, SIZE, 0);
	ck_assert_int_eq(memcmp(back, model, SIZE), 0);
	end();
}

START_TEST(whole_transfers)
{
	random_requests(unit_real_backends[_i], NULL, 200);
}
END_TEST

START_TEST(short_transfers)
{
	random_requests(unit_real_backends[_i], _i ? "short:4096" : "short:1536", 40);
	random_requests(unit_real_backends[_i], "short:512", 5);
}
END_TEST

/* What is adjacent in memory is one piece to the system call. */
START_TEST(adjacent_segments_join)
{
	struct iovec iov[KP_REQUEST_IOV];
	char *memory = unit_memory(MIB);

	begin("psync", NULL, BLOCK, memory, O_RDWR);
	add(KP_OP_READ, 0, memory, 256, 512, 512);
	add(KP_OP_READ, 131072, memory + 131072, 256, 512, 512);
	ck_assert_uint_eq(kp_request_iov(test.unit.pl->device, &test.bios[0], 0, iov), 1);
	ck_assert_uint_eq(iov[0].iov_len, 262144);
	ck_assert_uint_eq(kp_request_iov(test.unit.pl->device, &test.bios[0], 131073, iov), 1);
	ck_assert_ptr_eq(iov[0].iov_base, memory + 131073);
	test.nr = 0;
	/* Not adjacent: what does not fit into one call is left for the next. */
	add(KP_OP_READ, 0, memory, 200, 512, 1024);
	add(KP_OP_READ, 102400, memory + 204800, 200, 512, 1024);
	ck_assert_uint_eq(kp_request_iov(test.unit.pl->device, &test.bios[0], 0, iov),
			  KP_REQUEST_IOV);
	ck_assert_uint_eq(kp_request_iov(test.unit.pl->device, &test.bios[0], 256 * 512, iov), 144);
	test.nr = 0;
	end();
}
END_TEST

/* ---- ends and errors ----------------------------------------------------------------------- */

/* A read of four bios across the end of the file, which lies within a block. */
START_TEST(end_of_file)
{
	static const struct {
		size_t size;
		uint64_t resid[4];
	} table[] = {
		{ 4 * BLOCK, { 0, 0, 0, 0 } },
		{ 3 * BLOCK, { 0, 0, 0, BLOCK } },
		{ BLOCK + 1536, { 0, BLOCK - 1536, BLOCK, BLOCK } },
		{ 2 * BLOCK + 100, { 0, 0, BLOCK - 100, BLOCK } },
		{ 1, { BLOCK - 1, BLOCK, BLOCK, BLOCK } },
		{ 0, { BLOCK, BLOCK, BLOCK, BLOCK } },
	};
	static const char *const faults[] = { NULL, "short:512", "short:4096" };
	char *data = unit_memory(4 * BLOCK), *memory = unit_memory(4 * BLOCK);

	for (size_t i = 0; i < 3 * sizeof(table) / sizeof(*table); i++) {
		const uint64_t *resid = table[i / 3].resid;

		begin(unit_real_backends[_i], faults[i % 3], table[i / 3].size, data, O_RDONLY);
		for (int j = 0; j < 4; j++)
			add(KP_OP_READ, j * BLOCK, memory + (3 - j) * BLOCK, 1, BLOCK, BLOCK);
		go();
		for (int j = 0; j < 4; j++) {
			ck_assert_int_eq(test.bios[j].status, 0);
			ck_assert_msg(test.bios[j].resid == resid[j], "file of %zu, bio %d: %lu",
				      table[i / 3].size, j, test.bios[j].resid);
		}
		end();
	}
}
END_TEST

/*
 * A write of eight bios of which the device takes some: those have no error, those behind the
 * place where it failed have it all. The limit on file sizes makes such a place.
 */
START_TEST(error_within_a_request)
{
	struct rlimit limit = { 5 * BLOCK, RLIM_INFINITY };
	char *memory = unit_memory(16 * BLOCK);

	begin(unit_real_backends[_i], NULL, BLOCK, memory, O_RDWR);
	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (int j = 0; j < 8; j++)
		add(KP_OP_WRITE, j * BLOCK, memory + 2 * j * BLOCK, 1, BLOCK, BLOCK);
	go();
	limit.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &limit);
	for (int j = 0; j < 8; j++) {
		ck_assert_msg(test.bios[j].status == (j < 5 ? 0 : -EFBIG), "bio %d: %d", j,
			      test.bios[j].status);
		ck_assert_uint_eq(test.bios[j].resid, j < 5 ? 0 : BLOCK);
	}
	end();
}
END_TEST

START_TEST(refused_by_the_kernel)
{
	char *memory = unit_memory(2 * BLOCK);

	/* Not open for writing. */
	begin(unit_real_backends[_i], NULL, BLOCK, memory, O_RDONLY);
	add(KP_OP_WRITE, 0, memory, 1, BLOCK, BLOCK);
	go();
	ck_assert_int_eq(test.bios[0].status, -EBADF);
	/* Not whole blocks; and what follows in the same batch is not harmed. */
	add(KP_OP_READ, 100, memory, 1, 512, 512);
	go();
	ck_assert_int_eq(test.bios[0].status, -EINVAL);
	add(KP_OP_READ, 0, memory, 1, BLOCK, BLOCK);
	go();
	ck_assert_int_eq(test.bios[0].status, 0);
	end();
}
END_TEST

/* Many I/Os of which every third is refused, in one batch: each gets its own answer. */
START_TEST(refusals_in_a_batch)
{
	char *memory = unit_memory(32 * BLOCK);
	struct kp_io ios[32];

	begin(unit_real_backends[_i], NULL, 32 * BLOCK, memory, O_RDWR);
	for (int i = 0; i < 32; i++) {
		kp_io_prepare(&ios[i], i % 2 ? KP_OP_READ : KP_OP_WRITE, test.file,
			      i * BLOCK + (i % 3 ? 0 : 7), memory + i * BLOCK, BLOCK);
		ck_assert_int_eq(kp_submit(test.unit.pl, &ios[i]), 0);
	}
	kp_commit(test.unit.pl);
	ck_assert_int_eq(kp_reap(test.unit.pl, 32, 32, NULL), 32);
	for (int i = 0; i < 32; i++)
		ck_assert_int_eq(kp_io_error(&ios[i]), i % 3 ? 0 : -EINVAL);
	end();
}
END_TEST

/* fault=error:3 through kp_io: every third fails, none is lost, none other fails. */
START_TEST(injected_errors)
{
	char *memory = unit_memory(32 * BLOCK);
	struct kp_io ios[32];
	unsigned int failed = 0;

	begin(unit_real_backends[_i], "error:3", 32 * BLOCK, memory, O_RDWR);
	for (int i = 0; i < 32; i++) {
		kp_io_prepare(&ios[i], KP_OP_READ, test.file, i * BLOCK, memory + i * BLOCK, BLOCK);
		ck_assert_int_eq(kp_submit(test.unit.pl, &ios[i]), 0);
	}
	kp_commit(test.unit.pl);
	ck_assert_int_eq(kp_reap(test.unit.pl, 32, 32, NULL), 32);
	for (int i = 0; i < 32; i++) {
		failed += kp_io_error(&ios[i]) == -EIO;
		ck_assert_int_eq(kp_io_error(&ios[i]), i % 3 == 2 ? -EIO : 0);
	}
	ck_assert_uint_eq(failed, 10);
	ck_assert_uint_eq(unit_counter(&test.unit, KP_IOS), 32);
	ck_assert_uint_eq(unit_counter(&test.unit, KP_BYTES), 22 * BLOCK);
	end();
}
END_TEST

/* One read or write: by kp_transfer(), or by submission and reaping. */
static ssize_t transfer(bool in_place, enum kp_op op, uint64_t pos, char *memory, size_t len)
{
	struct kp_io io;

	if (in_place)
		return kp_transfer(test.file, memory, len, pos, op);
	kp_io_prepare(&io, op, test.file, pos, memory, len);
	ck_assert_int_eq(kp_submit(test.unit.pl, &io), 0);
	ck_assert_int_eq(kp_reap(test.unit.pl, 1, 1, NULL), 1);
	ck_assert_ptr_eq(kp_reaped(test.unit.pl, 0), &io);
	return kp_io_error(&io) ? kp_io_error(&io) : (ssize_t)(len - kp_io_resid(&io));
}

/*
 * Single transfers with nothing above the device, and with a stage there: whole ones, across the
 * end of the file, of nothing, refused by the kernel. What is counted is what they did.
 */
static void single_transfers(const char *backend, bool in_place, const char *fault)
{
	enum { SIZE = 24 * BLOCK + 1536, MOST = 4 * BLOCK };
	unsigned int every = fault && !strcmp(fault, "error:3") ? 3 : 0, nr = 0;
	char *model = unit_memory(28 * BLOCK), *memory = unit_memory(MOST);
	uint64_t ios = 0, bytes = 0, requests = 0;

	unit_fill(model, SIZE);
	begin(backend, fault, SIZE, model, O_RDWR);
	for (; ios < 400; ios++) {
		bool read = unit_between(0, 1), refused = !unit_between(0, 9);
		size_t len = unit_between(0, 3) ? BLOCK : unit_between(0, 4) * BLOCK;
		/* A read behind the end of the file moves nothing, wherever it begins. */
		uint64_t pos =
			unit_between(0, read && !refused ? 27 : 20) * BLOCK + (refused ? 7 : 0);
		ssize_t wanted = read ? kp_min(pos, SIZE) : pos;

		wanted = read ? (ssize_t)kp_min(len, SIZE - (uint64_t)wanted) : (ssize_t)len;
		unit_fill(memory, MOST);
		if (len && every && ++nr % every == 0) {
			wanted = -EIO;
		} else if (len) {
			requests++;
			wanted = refused ? -EINVAL : wanted;
		}
		ck_assert_int_eq(
			transfer(in_place, read ? KP_OP_READ : KP_OP_WRITE, pos, memory, len),
			wanted);
		if (wanted <= 0)
			continue;
		bytes += wanted;
		if (read)
			ck_assert_mem_eq(memory, model + pos, wanted);
		else
			memcpy(model + pos, memory, wanted);
	}
	ck_assert_uint_eq(unit_counter(&test.unit, KP_IOS), ios);
	ck_assert_uint_eq(unit_counter(&test.unit, KP_BYTES), bytes);
	ck_assert_uint_eq(unit_counter(&test.unit, KP_BIOS), requests);
	ck_assert_uint_eq(unit_counter(&test.unit, KP_REQUESTS), requests);
	end();
}

START_TEST(transfers_in_place)
{
	static const char *const faults[] = { NULL, "short:512", "error:3" };

	for (int i = 0; i < 3; i++)
		single_transfers(unit_real_backends[_i / 2], _i % 2, faults[i]);
}
END_TEST

START_TEST(corrupting_device)
{
	char *data = unit_memory(28 * BLOCK), *back = unit_memory(28 * BLOCK);
	struct kp_io io;
	unsigned int differ = 0;

	unit_fill(data, 28 * BLOCK);
	begin(unit_real_backends[_i], "corrupt", 28 * BLOCK, back, O_RDWR);
	for (int i = 0; i < 28; i++)
		ck_assert_int_eq(unit_io(&test.unit, &io, KP_OP_WRITE, test.file, i * BLOCK,
					 data + i * BLOCK, BLOCK),
				 0);
	unit_read_file(test.path, back, 28 * BLOCK, 0);
	for (size_t i = 0; i < 28 * BLOCK; i++)
		differ += __builtin_popcount((unsigned char)(data[i] ^ back[i]));
	ck_assert_uint_eq(differ, 4); /* one bit of every seventh write */
	end();
}
END_TEST

/* ---- sync and discard ---------------------------------------------------------------------- */

START_TEST(sync_and_discard)
{
	static const unsigned int syncs[] = { KP_OP_FLUSH, KP_OP_FDATASYNC, KP_OP_SYNC_RANGE };
	char *data = unit_memory(8 * BLOCK), *back = unit_memory(8 * BLOCK);
	struct kp_io io;

	memset(data, 0x11, 8 * BLOCK);
	begin(unit_real_backends[_i], NULL, 8 * BLOCK, data, O_RDWR);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(
			unit_io(&test.unit, &io, syncs[i], test.file, 0, NULL, i == 2 ? BLOCK : 0),
			0);
	ck_assert_int_eq(
		unit_io(&test.unit, &io, KP_OP_DISCARD, test.file, 2 * BLOCK, NULL, 3 * BLOCK), 0);
	memset(data + 2 * BLOCK, 0, 3 * BLOCK);
	unit_read_file(test.path, back, 8 * BLOCK, 0);
	ck_assert_mem_eq(back, data, 8 * BLOCK);
	/* Counted as I/Os, not as data. */
	ck_assert_uint_eq(unit_counter(&test.unit, KP_IOS), 4);
	ck_assert_uint_eq(unit_counter(&test.unit, KP_BYTES), 0);
	ck_assert_uint_eq(unit_counter(&test.unit, KP_REQUESTS), 0);
	end();
}
END_TEST

/* Each that cannot be done says so. */
START_TEST(sync_and_discard_fail)
{
	char *data = unit_memory(BLOCK);
	struct kp_io io;

	begin(unit_real_backends[_i], NULL, BLOCK, data, O_RDONLY);
	ck_assert_int_eq(unit_io(&test.unit, &io, KP_OP_DISCARD, test.file, 0, NULL, BLOCK),
			 -EBADF);
	ck_assert_uint_eq(kp_io_resid(&io), BLOCK);
	ck_assert_int_eq(
		unit_io(&test.unit, &io, KP_OP_SYNC_RANGE, test.file, -4096ull, NULL, BLOCK),
		-EINVAL);
	end();
}
END_TEST

START_TEST(sync_behind_writes)
{
	char *data = unit_memory(16 * BLOCK), *back = unit_memory(16 * BLOCK);
	struct kp_io ios[17];

	unit_fill(data, 16 * BLOCK);
	begin(unit_real_backends[_i], NULL, 16 * BLOCK, back, O_RDWR);
	for (int i = 0; i < 16; i++) {
		kp_io_prepare(&ios[i], KP_OP_WRITE, test.file, i * BLOCK, data + i * BLOCK, BLOCK);
		ck_assert_int_eq(kp_submit(test.unit.pl, &ios[i]), 0);
	}
	kp_io_prepare(&ios[16], KP_OP_FLUSH, test.file, 0, NULL, 0);
	ck_assert_int_eq(kp_submit(test.unit.pl, &ios[16]), 0);
	kp_commit(test.unit.pl);
	ck_assert_int_eq(kp_reap(test.unit.pl, 17, 17, NULL), 17);
	for (int i = 0; i < 17; i++)
		ck_assert_int_eq(kp_io_error(&ios[i]), 0);
	unit_read_file(test.path, back, 16 * BLOCK, 0);
	ck_assert_mem_eq(back, data, 16 * BLOCK);
	end();
}
END_TEST

/* ---- files --------------------------------------------------------------------------------- */

START_TEST(open_errors)
{
	struct kp_file *file;
	struct unit unit;

	unit_init(&unit, unit_real_backends[_i]);
	unit_start(&unit);
	ck_assert_int_eq(kp_file_open(unit.pl, "/no/such/file", O_RDWR, 0, &file), -ENOENT);
	ck_assert_int_eq(kp_file_open(unit.pl, "/tmp", O_RDWR, 0, &file), -EISDIR);
	ck_assert_ptr_null(unit.pl->files);
	unit_exit(&unit);
}
END_TEST

/* More files than io_uring registers, opened and closed in any order. */
START_TEST(many_files)
{
	enum { FILES = 80 };
	char *memory = unit_memory(BLOCK), path[FILES][600];
	struct kp_file *files[FILES];
	struct unit unit;
	struct kp_io io;

	unit_init(&unit, unit_real_backends[_i]);
	unit_start(&unit);
	for (int i = 0; i < FILES; i++) {
		snprintf(path[i], sizeof(path[i]), "%s.%d", unit_path("many"), i);
		memset(memory, i, BLOCK);
		unit_make_file(path[i], memory, BLOCK);
		files[i] = unit_open(&unit, path[i], O_RDWR);
	}
	for (int round = 0; round < 300; round++) {
		int i = unit_between(0, FILES - 1);

		if (unit_between(0, 1)) {
			ck_assert_int_eq(kp_file_close(files[i]), 0);
			files[i] = unit_open(&unit, path[i], O_RDWR);
		}
		i = unit_between(0, FILES - 1);
		ck_assert_int_eq(unit_io(&unit, &io, KP_OP_READ, files[i], 0, memory, BLOCK), 0);
		ck_assert_int_eq(memory[17], i);
	}
	unit_exit(&unit);
	for (int i = 0; i < FILES; i++)
		unlink(path[i]);
}
END_TEST

/* io_uring registers the memory; I/O in it, outside it and across its end all work. */
START_TEST(registered_buffers)
{
	char *memory = unit_memory(64 * BLOCK), *data = unit_memory(8 * BLOCK);
	struct kp_io io;

	unit_fill(data, 8 * BLOCK);
	begin(unit_real_backends[_i], NULL, 8 * BLOCK, data, O_RDWR);
	kp_pipeline_buffers(test.unit.pl, memory, 32 * BLOCK);
	for (int i = 0; i < 56; i++) {
		memset(memory, 0, 64 * BLOCK);
		ck_assert_int_eq(unit_io(&test.unit, &io, KP_OP_READ, test.file, 0,
					 memory + i * BLOCK, 8 * BLOCK),
				 0);
		ck_assert_mem_eq(memory + i * BLOCK, data, 8 * BLOCK);
	}
	end();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("device");
	TCase *tcase = tcase_create("device");
	const int nr = NR_REAL_BACKENDS;

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, whole_transfers, 0, nr);
	tcase_add_loop_test(tcase, short_transfers, 0, nr);
	tcase_add_loop_test(tcase, transfers_in_place, 0, 2 * nr);
	tcase_add_test(tcase, adjacent_segments_join);
	tcase_add_loop_test(tcase, end_of_file, 0, nr);
	tcase_add_loop_test(tcase, error_within_a_request, 0, nr);
	tcase_add_loop_test(tcase, refused_by_the_kernel, 0, nr);
	tcase_add_loop_test(tcase, refusals_in_a_batch, 0, nr);
	tcase_add_loop_test(tcase, injected_errors, 0, nr);
	tcase_add_loop_test(tcase, corrupting_device, 0, nr);
	tcase_add_loop_test(tcase, sync_and_discard, 0, nr);
	tcase_add_loop_test(tcase, sync_and_discard_fail, 0, nr);
	tcase_add_loop_test(tcase, sync_behind_writes, 0, nr);
	tcase_add_loop_test(tcase, open_errors, 0, nr);
	tcase_add_loop_test(tcase, many_files, 0, nr);
	tcase_add_loop_test(tcase, registered_buffers, 0, nr);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
