// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files of the checksum policy: what jobs share about one, and sums=FILE, which keeps its sums
 * across runs.
 *
 * While a run that writes goes on, FILE is away: a run that ends by a crash leaves none, since its
 * sums would be older than the data. It comes back, whole, when the last job has ended.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/arena.h"
#include "core/robust.h"
#include "checksum.h"

#define MAGIC	"KPSUMS1"
#define RUN_MAX 65536u /* sums in one run of the file */

/* The file: this, runs of { first sector, sums, the sums }, a run of none, a CRC32C of it all. */
struct sums_header {
	char magic[8];
	struct kp_file_key key;
	uint64_t size; /* of the data */
	uint32_t sector_size;
	uint32_t pad;
};

struct sums_run {
	uint64_t sector;
	uint64_t nr;
};

/* struct stream - the file while it is read or written. */
struct stream {
	FILE *file;
	uint32_t crc;
};

static void folder_of(const char *path, char folder[4096])
{
	const char *slash = strrchr(path, '/');

	snprintf(folder, 4096, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
}

/* ---- reading ------------------------------------------------------------------------------- */

static bool get(struct stream *in, void *data, size_t len)
{
	if (fread(data, 1, len, in->file) != len)
		return false;
	in->crc = kp_crc32c_fast(in->crc, data, len);
	return true;
}

/* One run. NULL or what is wrong; *nr: sums that it had, 0 for the last. */
static const char *get_run(struct stream *in, struct kp_csum_tree *tree, uint64_t sectors,
			   uint32_t *sums, uint64_t *nr)
{
	struct sums_run run;

	if (!get(in, &run, sizeof(run)))
		return "cut off";
	*nr = run.nr;
	if (run.nr > RUN_MAX || run.sector > sectors || run.nr > sectors - run.sector)
		return "corrupt";
	if (!get(in, sums, run.nr * sizeof(*sums)))
		return "cut off";
	return kp_csum_tree_set(tree, run.sector, sums, run.nr) ? "no memory" : NULL;
}

/* Enter the runs into @tree. NULL or what is wrong. */
static const char *get_runs(struct stream *in, struct kp_csum_tree *tree, uint64_t size)
{
	uint64_t sectors = kp_round_up(size, KP_CSUM_SECTOR) / KP_CSUM_SECTOR;
	uint32_t *sums = malloc(RUN_MAX * sizeof(*sums));
	const char *wrong = sums ? NULL : "no memory";
	uint64_t nr = 1;

	while (!wrong && nr)
		wrong = get_run(in, tree, sectors, sums, &nr);
	free(sums);
	return wrong;
}

static const char *check_header(const struct sums_header *header,
				const struct checksum_shared *shared)
{
	if (memcmp(header->magic, MAGIC, sizeof(header->magic)) ||
	    header->sector_size != KP_CSUM_SECTOR)
		return "not a file of sums";
	if (memcmp(&header->key, &shared->key, sizeof(header->key)))
		return "belongs to another file or device";
	if (header->size != shared->size)
		return "belongs to another size of it";
	return NULL;
}

static const char *get_all(struct stream *in, struct checksum_shared *shared)
{
	struct sums_header header;
	const char *wrong;
	uint32_t crc, stored;

	if (!get(in, &header, sizeof(header)))
		return "cut off";
	wrong = check_header(&header, shared);
	if (!wrong)
		wrong = get_runs(in, &shared->tree, shared->size);
	if (wrong)
		return wrong;
	crc = in->crc;
	if (!get(in, &stored, sizeof(stored)))
		return "cut off";
	return stored == kp_csum_final(crc) ? NULL : "corrupt";
}

/* Can a file be made beside @path? NULL or what is wrong. */
static const char *check_folder(const char *path)
{
	char folder[4096];

	folder_of(path, folder);
	return access(folder, W_OK) ? strerror(errno) : NULL;
}

/* A file that is not there is one that will be. What is wrong with one is said once, by who finds. */
static int load(struct checksum_shared *shared)
{
	struct stream in = { .crc = ~0u };
	const char *wrong;

	in.file = fopen(shared->sums, "re");
	if (in.file)
		wrong = get_all(&in, shared);
	else
		wrong = errno == ENOENT ? check_folder(shared->sums) : strerror(errno);
	if (in.file)
		fclose(in.file);
	if (!wrong)
		return 0;
	kp_log("sums=%s: %s (%s): remove it or name another", shared->sums, wrong, shared->path);
	return -EINVAL;
}

/* ---- writing ------------------------------------------------------------------------------- */

static bool put(struct stream *out, const void *data, size_t len)
{
	out->crc = kp_crc32c_fast(out->crc, data, len);
	return fwrite(data, 1, len, out->file) == len;
}

static bool put_runs(struct stream *out, const struct kp_csum_tree *tree)
{
	uint32_t *sums = malloc(RUN_MAX * sizeof(*sums));
	struct sums_run run = { 0 };
	bool good = sums;

	while (good && (run.nr = kp_csum_tree_next(tree, &run.sector, sums, RUN_MAX))) {
		good = put(out, &run, sizeof(run)) && put(out, sums, run.nr * sizeof(*sums));
		run.sector += run.nr;
	}
	run = (struct sums_run){ 0 };
	good = good && put(out, &run, sizeof(run));
	free(sums);
	return good;
}

static bool put_all(struct stream *out, const struct checksum_shared *shared, uint64_t size)
{
	struct sums_header header = {
		.magic = MAGIC,
		.key = shared->key,
		.size = size,
		.sector_size = KP_CSUM_SECTOR,
	};
	uint32_t stored;

	if (!put(out, &header, sizeof(header)) || !put_runs(out, &shared->tree))
		return false;
	stored = kp_csum_final(out->crc);
	return put(out, &stored, sizeof(stored));
}

/* The name is durable when its folder is. */
static int sync_folder(const char *path)
{
	char folder[4096];
	int fd, ret;

	folder_of(path, folder);
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = fsync(fd) ? -errno : 0;
	close(fd);
	return ret;
}

static int write_whole(const struct checksum_shared *shared, uint64_t size)
{
	struct stream out = { .crc = ~0u };
	char temporary[sizeof(shared->sums) + 32];
	int ret = 0;

	snprintf(temporary, sizeof(temporary), "%s.%d.tmp", shared->sums, (int)getpid());
	out.file = fopen(temporary, "we");
	if (!out.file)
		return -errno;
	errno = 0;
	if (!put_all(&out, shared, size) || fflush(out.file) || fsync(fileno(out.file)))
		ret = errno ? -errno : -EIO;
	if (fclose(out.file) && !ret)
		ret = -errno;
	if (!ret && rename(temporary, shared->sums))
		ret = -errno;
	if (ret)
		unlink(temporary);
	return ret ? ret : sync_folder(shared->sums);
}

static void forget(void *arg, uint64_t start, uint64_t end)
{
	kp_csum_tree_clear(arg, start / KP_CSUM_SECTOR, (end - start) / KP_CSUM_SECTOR);
}

/* Sums must never be newer than the data, whenever the power goes. Takes note of its size. */
static int sync_data(struct checksum_shared *shared)
{
	int fd = open(shared->path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (fsync(fd) || fstat(fd, &st))
		ret = errno ? -errno : -EIO;
	else if (!shared->block_device)
		shared->size = st.st_size;
	close(fd);
	return ret;
}

static void save(void *object, void *arg)
{
	struct checksum_shared *shared = object;
	int ret;

	(void)arg;
	if (!shared->sums[0] || !shared->writes)
		return;
	/* A job that was killed may have left data that its sums do not tell of. */
	kp_range_leftover(&shared->ranges, forget, &shared->tree);
	ret = sync_data(shared);
	if (!ret)
		ret = write_whole(shared, shared->size);
	if (ret)
		kp_log("sums=%s: not written for %s: %s", shared->sums, shared->path,
		       strerror(-ret));
}

void checksum_finish(struct kp_arena *arena)
{
	kp_arena_each(arena, "checksum", save, NULL);
}

/* ---- files --------------------------------------------------------------------------------- */

/* What a new struct checksum_shared is made from. */
struct opening {
	struct checksum *cs;
	struct kp_file *file;
	char sums[256];
};

/* sums=FOLDER stands for FOLDER/NAME.sums */
static int name_sums(struct opening *opening)
{
	const char *sums = opening->cs->options.sums;
	const char *base = strrchr(opening->file->path, '/');
	struct stat st;
	int len;

	if (!sums)
		return 0;
	if (opening->file->fd < 0) {
		kp_log("sums=%s: the null device keeps nothing beyond the run, leave sums= out",
		       sums);
		return -EINVAL;
	}
	base = base ? base + 1 : opening->file->path;
	if (!stat(sums, &st) && S_ISDIR(st.st_mode))
		len = snprintf(opening->sums, sizeof(opening->sums), "%s/%s.sums", sums, base);
	else
		len = snprintf(opening->sums, sizeof(opening->sums), "%s", sums);
	if (len < (int)sizeof(opening->sums))
		return 0;
	kp_log("sums=%s: the name is too long, give at most %zu characters", sums,
	       sizeof(opening->sums) - 1);
	return -ENAMETOOLONG;
}

/* The first job that opens the file; others wait for it. */
static int init_shared(void *object, void *arg)
{
	struct checksum_shared *shared = object;
	const struct opening *opening = arg;
	const struct kp_file *file = opening->file;
	int ret = kp_robust_init(&shared->lock);

	if (ret)
		return ret;
	shared->tree.arena = opening->cs->stage.pipeline->arena;
	shared->key = file->key;
	shared->size = file->size;
	shared->block_device = file->block_device;
	snprintf(shared->path, sizeof(shared->path), "%s", file->path);
	memcpy(shared->sums, opening->sums, sizeof(shared->sums));
	shared->error = shared->sums[0] ? load(shared) : 0;
	return 0;
}

static int get_shared(struct opening *opening, struct checksum_shared **shared)
{
	struct kp_arena *arena = opening->cs->stage.pipeline->arena;
	const struct kp_file_key *key = &opening->file->key;
	void *object;
	int ret = name_sums(opening);

	if (!ret)
		ret = kp_arena_object(arena, "checksum", key, sizeof(*key), sizeof(**shared),
				      init_shared, opening, &object);
	if (ret)
		return ret;
	*shared = object;
	if (strcmp((*shared)->sums, opening->sums)) {
		kp_log("sums=%s: another job keeps those of %s in sums=%s, give the same",
		       opening->sums, opening->file->path, (*shared)->sums);
		return -EINVAL;
	}
	return (*shared)->error;
}

/*
 * Before anybody can write: FILE goes, and its name is gone for good. Else it could be back after a
 * power cut, beside data that is newer.
 */
static int drop_sums(struct checksum_shared *shared)
{
	int ret = 0;

	kp_robust_lock(&shared->lock);
	if (!shared->writes && shared->sums[0]) {
		/* Also when it is gone already: a run that crashed may not have come to the folder. */
		if (unlink(shared->sums) && errno != ENOENT)
			ret = -errno;
		else
			ret = sync_folder(shared->sums);
	}
	shared->writes |= !ret;
	pthread_mutex_unlock(&shared->lock);
	if (!ret)
		return 0;
	kp_log("sums=%s: cannot be removed before %s is written: %s", shared->sums, shared->path,
	       strerror(-ret));
	return -EINVAL;
}

static int set_distance(const struct checksum *cs, const struct kp_file *file,
			struct checksum_file *cf)
{
	const struct kp_checksum_options *o = &cs->options;

	cf->distance = UINT64_MAX;
	if (o->mirrors == 1)
		return 0;
	cf->distance = o->mirror_distance;
	if (!cf->distance)
		cf->distance = kp_round_down(file->size / o->mirrors, KP_CSUM_SECTOR);
	if (cf->distance)
		return 0;
	kp_log("mirrors=%u: %s has no room for the copies, make it larger or give mirror_distance=",
	       o->mirrors, file->path);
	return -EINVAL;
}

int checksum_open(struct kp_stage *stage, struct kp_file *file)
{
	struct checksum *cs = kp_container_of(stage, struct checksum, stage);
	struct opening opening = { .cs = cs, .file = file };
	struct checksum_file *cf = calloc(1, sizeof(*cf));
	int ret = cf ? set_distance(cs, file, cf) : -ENOMEM;

	if (!ret)
		ret = get_shared(&opening, &cf->shared);
	if (!ret && file->writable)
		ret = drop_sums(cf->shared);
	if (ret) {
		free(cf);
		return ret;
	}
	cf->no_data = !kp_device_keeps_data(stage->pipeline->device);
	file->stage_data[stage->index] = cf;
	kp_range_open(&cs->owner, file);
	return 0;
}

void checksum_close(struct kp_stage *stage, struct kp_file *file)
{
	free(file->stage_data[stage->index]);
	file->stage_data[stage->index] = NULL;
}
