// SPDX-License-Identifier: GPL-2.0-only
/*
 * The plug against the kernels: bios that one io_submit() handed to the kernel, and the requests
 * that each flush of the list issued. What is larger than a request was cut before, as the split of
 * that kernel does it.
 */
#include "policy/plug.h"
#include "policy/split.h"
#include "replay_block.h"

#define SECTOR	 KP_SECTOR_SIZE
#define MAX_BIOS 2048

struct request {
	unsigned int device;
	uint64_t sector, sectors;
};

/* @less_sectors: how far the limits are falsified, see off_by_one(). */
struct plug_context {
	struct replay_device devices[REPLAY_MAX_DEVICES];
	uint32_t less_sectors;
	const struct kp_variant *plug, *split; /* of the kernel, or what stands for them */
	/* Of the case. */
	struct kp_file files[2];
	struct kp_bio bios[MAX_BIOS];
	unsigned int nr_given, nr_bios, nr_flushes;
	struct kp_plug list;
	char *to;
	size_t size, used;
};

static void note_device(struct replay *replay, const char *line)
{
	replay_note_device(((struct plug_context *)replay->context)->devices, line);
}

static int by_place(const void *a, const void *b)
{
	const struct request *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return (x->sector > y->sector) - (x->sector < y->sector);
}

static void flush(struct plug_context *context)
{
	struct request requests[KP_PLUG_REQUESTS] = { 0 };
	unsigned int nr = 0;
	struct kp_bio *bio;

	while ((bio = kp_plug_take(&context->list))) {
		struct request *request = &requests[nr++];

		request->device = bio->file - context->files;
		request->sector = bio->iter.pos / SECTOR;
		request->sectors = 0;
		for (; bio; bio = bio->next)
			request->sectors += bio->iter.size / SECTOR;
	}
	qsort(requests, nr, sizeof(*requests), by_place);
	for (unsigned int i = 0; i < nr; i++)
		context->used +=
			snprintf(context->to + context->used, context->size - context->used,
				 " %s%u:%lu+%lu", !i && context->nr_flushes ? "| " : "",
				 requests[i].device, requests[i].sector, requests[i].sectors);
	context->nr_flushes += nr > 0;
}

static void add_to_plug(struct plug_context *context, struct kp_bio *bio)
{
	uint32_t segments = kp_plug_segments(&bio->file->limits, bio, true);

	if (kp_plug_merge(context->plug, &context->list, bio, segments))
		return;
	if (kp_plug_full(context->plug, &context->list, bio))
		flush(context);
	kp_plug_add(&context->list, bio, segments);
}

/* A bio of the case, in the pieces that the split leaves of it. */
static void submit(struct plug_context *context, struct kp_bio bio)
{
	int64_t front;

	do {
		struct kp_bio *piece = &context->bios[context->nr_bios++];

		ck_assert_uint_lt(context->nr_bios, MAX_BIOS);
		front = kp_split_front(context->split, &bio.file->limits, &bio, true);
		ck_assert_int_ge(front, 0);
		*piece = bio;
		if (front) {
			piece->flags |= KP_BIO_NOMERGE;
			piece->iter.size = front;
			kp_iter_advance(bio.vec, &bio.iter, front);
		}
		add_to_plug(context, piece);
	} while (front);
}

static void add_token(struct replay *replay, const char *token)
{
	static struct kp_segment vecs[1 << 16];
	static unsigned int nr_vecs;
	struct plug_context *context = replay->context;
	unsigned int which, count = 1, stride = 0;
	const char *times = strchr(token, 'x');
	char op, vector[400];
	unsigned long sector;

	if (!context->nr_bios)
		nr_vecs = 0;
	ck_assert_int_eq(sscanf(token, "%c%u:%lu+%399[0-9+*/,]", &op, &which, &sector, vector), 4);
	if (times)
		sscanf(times, "x%u/%u", &count, &stride);
	for (unsigned int i = 0; i < count; i++) {
		struct kp_bio bio = { .op = op == 'r' ? KP_OP_READ : KP_OP_WRITE,
				      .file = &context->files[which],
				      .vec = vecs + nr_vecs };

		bio.nr_vecs =
			replay_vec(vector, replay_join(replay->kernel), i * 16, vecs + nr_vecs);
		for (unsigned int v = 0; v < bio.nr_vecs; v++)
			bio.iter.size += vecs[nr_vecs++].len;
		ck_assert_uint_lt(nr_vecs, (1 << 16) - 1024);
		bio.iter.pos = (sector + (uint64_t)i * stride) * SECTOR;
		submit(context, bio);
		context->nr_given++;
	}
}

static void set_limits(struct plug_context *context, unsigned int which, const char *name,
		       unsigned long kb)
{
	struct kp_file *file = &context->files[which];

	file->key.dev = which + 1;
	file->limits = *replay_limits(context->devices, name);
	file->limits.max_sectors = kb * 2 - context->less_sectors;
}

static bool answer(struct replay *replay, const char *rest, const char *theirs, char *ours,
		   size_t size)
{
	struct plug_context *context = replay->context;
	unsigned long kb = strtoul(theirs, NULL, 10);
	char line[1 << 14], names[64], *token, *position, *second;

	if (!strcmp(theirs, "none"))
		return false;
	context->plug = replay_variant(&kp_plug_policy, replay->kernel);
	context->split = replay_variant(&kp_split_policy, replay->kernel);
	if (!context->plug || !context->split) {
		snprintf(ours, size, "no row");
		return true;
	}
	snprintf(line, sizeof(line), "%s", rest);
	strtok_r(line, " ", &position);
	snprintf(names, sizeof(names), "%s", strtok_r(NULL, " ", &position));
	second = strchr(names, ',');
	if (second) {
		*second = '\0';
		set_limits(context, 1, second + 1, kb);
	}
	set_limits(context, 0, names, kb);
	context->nr_bios = context->nr_flushes = 0;
	context->to = ours;
	context->size = size;
	context->used = snprintf(ours, size, "%lu", kb);
	context->nr_given = 0;
	while ((token = strtok_r(NULL, " ", &position)))
		add_token(replay, token);
	flush(context);
	/* io_submit() plugs more than two only: AIO_PLUG_THRESHOLD. */
	return context->nr_given > 2;
}

static struct plug_context context;

START_TEST(as_recorded)
{
	static struct replay replay = {
		.group = "plug", .context = &context, .note = note_device, .answer = answer
	};

	replay_all(&replay);
}
END_TEST

/* A limit that is off by one shows in every recording that we answer rightly. */
START_TEST(off_by_one)
{
	static struct replay replay = { .group = "plug",
					.context = &context,
					.quiet = true,
					.note = note_device,
					.answer = answer };

	replay_load(&replay);
	for (char **kernel = replay_kernels("plug"); *kernel; kernel++) {
		unsigned int right;

		context.less_sectors = 0;
		replay_run(&replay, *kernel);
		right = replay.different;
		context.less_sectors = 1;
		replay_run(&replay, *kernel);
		ck_assert_msg(right == replay.compared || replay.different > right + 20,
			      "%s: a sector less makes %u differences of %u", *kernel,
			      replay.different, right);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("replay plug");
	TCase *tcase = tcase_create("replay plug");

	tcase_set_timeout(tcase, 60);
	tcase_add_test(tcase, as_recorded);
	tcase_add_test(tcase, off_by_one);
	suite_add_tcase(suite, tcase);
	return unit_run(suite);
}
