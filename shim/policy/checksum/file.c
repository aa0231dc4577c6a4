// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files of the checksum policy: the state that jobs share about one, and sums=FILE, which keeps the
 * sums across runs.
 *
 * A run that writes removes FILE first, and writes it again, whole, after the last job has ended. A
 * run that crashes therefore leaves no FILE, whose sums would be older than the data.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/arena.h"
#include "core/new_file.h"
#include "core/robust.h"
#include "checksum.h"
#include "file.h"

#define MAGIC	"KPSUMS1"
#define RUN_MAX 65536u /* sums in one run of the file */

/*
 * The format: this header; runs of { first sector, number of sums, the sums }; a run without sums; the
 * CRC32C of all that.
 */
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

/* Read one run. *nr: how many sums it had; 0 for the last. Return: NULL, or what is wrong. */
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

/* Read all runs into @tree. Return: NULL, or what is wrong. */
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

/* Can a file be made in the folder of @path? Return: NULL, or what is wrong. */
static const char *check_folder(const char *path)
{
	char folder[4096];

	folder_of(path, folder);
	return access(folder, W_OK) ? strerror(errno) : NULL;
}

/* A file that does not exist is fine: the run makes it. The first job logs what is wrong with one. */
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

/* Make a name durable that was added to a folder, or removed from it. */
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
	struct kp_new_file file;
	int ret = kp_new_file_begin(&file, shared->sums);

	if (ret)
		return ret;
	out.file = file.stream;
	errno = 0;
	if (!put_all(&out, shared, size))
		ret = errno ? -errno : -EIO;
	ret = kp_new_file_end(&file, ret, true);
	return ret ? ret : sync_folder(shared->sums);
}

static void forget(void *arg, uint64_t start, uint64_t end)
{
	kp_csum_tree_clear(arg, start / KP_CSUM_SECTOR, (end - start) / KP_CSUM_SECTOR);
}

/* Write the data back before its sums, so that no power cut leaves sums newer than data. Sets size. */
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
	/* A job that was killed may have written data without storing the sums. */
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

/* The arguments of init_shared(). */
struct opening {
	struct checksum *cs;
	struct kp_file *file;
	char sums[256];
};

/* Set opening->sums. sums=FOLDER stands for FOLDER/NAME.sums. */
static int name_sums(struct opening *opening)
{
	const char *sums = opening->cs->options.sums;
	const char *base = strrchr(opening->file->path, '/');
	struct stat st;
	int len;

	if (!sums)
		return 0;
	if (opening->file->fd < 0) {
		kp_log("sums=%s: the null device keeps nothing beyond the run, drop sums=", sums);
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

/* The first job that opens the file comes here; other jobs wait for it. */
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
		kp_log("sums=%s: another job keeps the sums of %s in sums=%s, give the same",
		       opening->sums, opening->file->path, (*shared)->sums);
		return -EINVAL;
	}
	return (*shared)->error;
}

/*
 * Remove FILE before any job can write, and make the removal durable. Otherwise FILE could be there
 * again after a power cut, with data that is newer.
 */
static int drop_sums(struct checksum_shared *shared)
{
	int ret = 0;

	kp_robust_lock(&shared->lock);
	if (!shared->writes && shared->sums[0]) {
		/* Sync also when FILE is gone: a run that crashed may have removed it without a sync. */
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
