// SPDX-License-Identifier: GPL-2.0-only
/*
 * Figures of the checksum policy that fio cannot give, a name and a number to a line:
 *
 *	crc_fast, isal_fast, crc_generic, isal_generic	GB/s over a cached block of 4 KiB
 *	inline_ns, async_ns	one 4 KiB write at a time to a null device that costs nothing
 *	inline_deep_ns, async_deep_ns	the same, 64 in flight, per write
 *	stretch_kib, random_kib	the table of a file of 1 TiB when 1 GiB of it has been written
 *
 * Built and run by tests/bench/checksum.sh.
 */
#include <isa-l/crc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "policy/checksum/checksum.h"

#define ARENA  (1ull << 34)
#define BLOCK  4096u
#define ROUNDS 9
#define DEPTH  64

static unsigned char block[BLOCK] __attribute__((aligned(BLOCK)));
static volatile uint32_t sink;

static void rate_isal_fast(unsigned int times)
{
	while (times--)
		sink = crc32_iscsi(block, BLOCK, ~0u);
}

static void rate_isal_generic(unsigned int times)
{
	while (times--)
		sink = crc32_iscsi_base(block, BLOCK, ~0u);
}

static void rate_ours(kp_crc32c_fn crc32c, unsigned int times)
{
	struct kp_segment segment = { block, BLOCK };
	uint32_t sum;

	while (times--) {
		struct kp_iter iter = { .size = BLOCK };

		kp_csum_vec(crc32c, &segment, &iter, &sum, 1);
		sink = sum;
	}
}

static void rate_fast(unsigned int times)
{
	rate_ours(kp_crc32c_fast, times);
}

static void rate_generic(unsigned int times)
{
	rate_ours(kp_crc32c_generic, times);
}

static double gb_per_s(void (*run)(unsigned int times), unsigned int times)
{
	uint64_t start = kp_now_ns();

	run(times);
	return (double)times * BLOCK / (double)(kp_now_ns() - start);
}

/* The best of several rounds, ours and theirs in turn: what disturbs only makes slower. */
static void rates(void)
{
	double best[4] = { 0 };

	for (int i = 0; i < ROUNDS; i++) {
		best[0] = kp_max(best[0], gb_per_s(rate_fast, 200000));
		best[1] = kp_max(best[1], gb_per_s(rate_isal_fast, 200000));
		best[2] = kp_max(best[2], gb_per_s(rate_generic, 4000));
		best[3] = kp_max(best[3], gb_per_s(rate_isal_generic, 4000));
	}
	printf("crc_fast %.3f\nisal_fast %.3f\ncrc_generic %.4f\nisal_generic %.4f\n", best[0],
	       best[1], best[2], best[3]);
}

static void fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

/* ns per write with @depth of them in flight. */
static double write_ns(const char *policy, unsigned int depth, unsigned int total)
{
	static struct kp_io ios[DEPTH];
	struct kp_stage_config stage = { .policy = &kp_checksum_policy };
	struct kp_pipeline_config config = {
		.stages = &stage,
		.nr_stages = 1,
		.device.backend = "null",
		.depth = depth,
		.max_io_size = BLOCK,
	};
	struct kp_pipeline *pl;
	struct kp_file *file;
	unsigned int done = 0;
	uint64_t start;
	char why[256];
	double ns;

	if (kp_arena_create(&config.arena, ARENA) ||
	    kp_policy_find(&kp_checksum_policy, policy, NULL, &stage.variant, why, sizeof(why)) ||
	    kp_pipeline_create(&pl, &config) || kp_file_open(pl, "null", 2, 1ull << 30, &file))
		fail("no pipeline");
	start = kp_now_ns();
	while (done < total) {
		for (unsigned int i = 0; i < depth; i++) {
			kp_io_prepare(&ios[i], KP_OP_WRITE, file, (done + i) % 65536ull * BLOCK,
				      block, BLOCK);
			if (kp_submit(pl, &ios[i]))
				fail("busy");
		}
		kp_commit(pl);
		if (kp_reap(pl, depth, depth, NULL) != (int)depth)
			fail("lost");
		done += depth;
	}
	ns = (double)(kp_now_ns() - start) / total;
	kp_pipeline_destroy(pl);
	kp_arena_destroy(config.arena);
	return ns;
}

static double best_write_ns(const char *policy, unsigned int depth, unsigned int total)
{
	double best = write_ns(policy, depth, total);

	for (int i = 1; i < ROUNDS; i++) {
		double ns = write_ns(policy, depth, total);

		best = kp_min(best, ns);
	}
	return best;
}

static void quiet(const char *line)
{
	(void)line;
}

static size_t resident(void *memory)
{
	size_t pages = ARENA / KP_PAGE_SIZE, used = 0;
	unsigned char *in = malloc(pages);

	if (!in || mincore(memory, ARENA, in))
		fail("mincore");
	for (size_t i = 0; i < pages; i++)
		used += in[i] & 1;
	free(in);
	return used * KP_PAGE_SIZE;
}

/* KiB of the table of a file of 1 TiB after 1 GiB in one stretch, or at random. */
static size_t table_kib(bool random)
{
	struct kp_arena *arena;
	struct kp_csum_tree *tree;
	size_t before, used;

	if (kp_arena_create(&arena, ARENA) || !(tree = kp_arena_alloc(arena, sizeof(*tree))))
		fail("no tree");
	tree->arena = arena;
	before = resident(arena);
	for (uint64_t i = 0; i < 262144; i++) {
		uint64_t at = random ? (uint64_t)lrand48() % (1ull << 28) : 100000000 + i;
		uint32_t sum = i;

		if (kp_csum_tree_set(tree, at, &sum, 1))
			fail("no memory");
	}
	used = resident(arena) - before;
	kp_arena_destroy(arena);
	return used / 1024;
}

int main(void)
{
	kp_set_log(quiet);
	rates();
	printf("inline_ns %.0f\nasync_ns %.0f\n", best_write_ns("inline", 1, 20000),
	       best_write_ns("async", 1, 20000));
	printf("inline_deep_ns %.0f\nasync_deep_ns %.0f\n", best_write_ns("inline", DEPTH, 64000),
	       best_write_ns("async", DEPTH, 64000));
	printf("stretch_kib %zu\nrandom_kib %zu\n", table_kib(false), table_kib(true));
	return 0;
}
