// SPDX-License-Identifier: GPL-2.0-only
/*
 * The split policy against the kernels: direct I/O of the laboratory's recordings. The bios are the
 * kernel's; where they are cut is ours to say.
 */
#include "policy/split.h"
#include "replay_block.h"

#define SECTOR KP_SECTOR_SIZE

/* How far the limits are falsified, see off_by_one(). */
struct split_context {
	struct replay_device devices[REPLAY_MAX_DEVICES];
	uint32_t less_sectors, less_segments;
};

static void note_device(struct replay *replay, const char *line)
{
	replay_note_device(((struct split_context *)replay->context)->devices, line);
}

/* How the answer writes down a row of equal pieces. */
struct text {
	char *to;
	size_t size, used;
	uint64_t sectors;
	unsigned int same;
	bool cut, any;
};

static void end_row(struct text *text, char separator)
{
	if (!text->same)
		return;
	text->used +=
		snprintf(text->to + text->used, text->size - text->used, "%lu", text->sectors);
	if (text->same > 1)
		text->used +=
			snprintf(text->to + text->used, text->size - text->used, "*%u", text->same);
	if (separator)
		text->used +=
			snprintf(text->to + text->used, text->size - text->used, "%c", separator);
	text->same = 0;
}

static void add_piece(struct text *text, uint64_t sectors, bool cut)
{
	if (text->same && (text->sectors != sectors || text->cut != cut))
		end_row(text, text->cut ? '+' : ' ');
	text->sectors = sectors;
	text->cut = cut;
	text->same++;
}

/* Sectors of the next bio in an answer. Return: 0 at its end. */
static uint64_t next_bio(const char **at)
{
	uint64_t sectors = 0;
	char *end;

	*at += strspn(*at, " ");
	if (!**at || **at == '=')
		return 0;
	for (;;) {
		uint64_t piece = strtoull(*at, &end, 10), count = 1;

		if (*end == '*')
			count = strtoull(end + 1, &end, 10);
		/* Of "16*3 4" the three are bios; of "16*3+4" they are pieces of one. */
		if (*end != '+' && count > 1 && !sectors) {
			static char rest[REPLAY_MAX_LINE];

			snprintf(rest, sizeof(rest), "%lu*%lu%s", piece, count - 1, end);
			*at = rest;
			return piece;
		}
		sectors += piece * count;
		*at = end + (*end == '+');
		if (*end != '+')
			return sectors;
	}
}

static void cut_bio(const struct kp_variant *variant, const struct kp_queue_limits *limits,
		    struct kp_bio *bio, struct text *text)
{
	int64_t front;

	while ((front = kp_split_front(variant, limits, bio, true)) > 0) {
		add_piece(text, front / SECTOR, true);
		kp_iter_advance(bio->vec, &bio->iter, front);
	}
	add_piece(text, bio->iter.size / SECTOR, false);
}

static bool answer(struct replay *replay, const char *rest, const char *theirs, char *ours,
		   size_t size)
{
	static struct kp_segment vec[REPLAY_MAX_VECS];
	const struct kp_variant *variant = replay_variant(&kp_split_policy, replay->kernel);
	struct split_context *context = replay->context;
	char name[32], vector[8000], *bios;
	struct kp_queue_limits limits;
	struct text text = { .to = ours, .size = size };
	struct kp_iter iter = { 0 };
	unsigned long sector, kb;
	uint64_t sectors;

	if (!strncmp(theirs, "error", 5) || !strcmp(theirs, "none"))
		return false;
	ck_assert_int_eq(sscanf(rest, "%31s %*s %*c %lu %7999s", name, &sector, vector), 3);
	kb = strtoul(theirs, &bios, 10);
	if (!variant) {
		snprintf(ours, size, "no row");
		return true;
	}
	limits = *replay_limits(context->devices, name);
	limits.max_sectors = kb * 2 - context->less_sectors;
	limits.max_segments -= context->less_segments;
	replay_vec(vector, replay_join(replay->kernel), 0, vec);
	text.used = snprintf(ours, size, "%lu ", kb);
	for (const char *at = bios; (sectors = next_bio(&at));) {
		struct kp_bio bio = { .vec = vec, .iter = iter };

		bio.iter.pos = sector * SECTOR;
		bio.iter.size = sectors * SECTOR;
		cut_bio(variant, &limits, &bio, &text);
		iter.size = sectors * SECTOR;
		kp_iter_advance(vec, &iter, iter.size);
		sector += sectors;
	}
	end_row(&text, 0);
	/* What the plug made of the pieces is not the split's affair. */
	bios = strstr(theirs, " = ");
	if (bios)
		snprintf(ours + text.used, size - text.used, "%s", bios);
	return true;
}

START_TEST(as_recorded)
{
	static struct split_context context;
	static struct replay replay = {
		.group = "split", .context = &context, .note = note_device, .answer = answer
	};

	replay_all(&replay);
}
END_TEST

/* A limit that is off by one shows in every recording that we answer rightly. */
START_TEST(off_by_one)
{
	static struct split_context context;
	static struct replay replay = { .group = "split",
					.context = &context,
					.quiet = true,
					.note = note_device,
					.answer = answer };

	replay_load(&replay);
	for (char **kernel = replay_kernels("split"); *kernel; kernel++) {
		unsigned int right;

		context = (struct split_context){ 0 };
		replay_run(&replay, *kernel);
		right = replay.different;
		context = (struct split_context){ .less_sectors = 1 };
		replay_run(&replay, *kernel);
		ck_assert_msg(right == replay.compared || replay.different > right + 50,
			      "%s: a sector less makes %u differences of %u", *kernel,
			      replay.different, right);
		context = (struct split_context){ .less_segments = 1 };
		replay_run(&replay, *kernel);
		ck_assert_msg(right == replay.compared || replay.different > right + 20,
			      "%s: a segment less makes %u differences of %u", *kernel,
			      replay.different, right);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("replay split");
	TCase *tcase = tcase_create("replay split");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, as_recorded);
	tcase_add_test(tcase, off_by_one);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
