// SPDX-License-Identifier: GPL-2.0-only
/*
 * Group locks: "ID FS FIRST SECOND", two I/Os on one file, each KIND:sync or KIND:aio. The answer is
 * "ID SUBMISSION DEVICE": what the second one does while the first is inside its submission, and
 * while the device holds the first: 'enters' or 'waits(FUNCTION)'; 'none' when the first cannot be
 * held there.
 *
 * A first I/O whose memory userfaultfd owns stays in its submission. A suspended dm device holds
 * what it is handed. Whether the second one waits is read from its kernel stack once it sleeps.
 */
#include <linux/aio_abi.h>
#include <linux/dm-ioctl.h>
#include <linux/falloc.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "record.h"

#define BLOCK	4096u
#define BLOCKS	64u
#define MAPPER	"/dev/mapper/lablock"
#define STEADY	40 /* looks at a sleeper, 2 ms apart, that must all see the same */
#define GIVE_UP 5000

struct kind {
	const char *name;
	char op; /* r, w direct; b buffered write, t truncate, p punch, f fsync */
	/* Of the first and of the second I/O; bytes. */
	uint64_t pos[2];
	uint32_t len;
};

static const struct kind kinds[] = {
	{ "read", 'r', { 0, 4 * BLOCK }, BLOCK },
	{ "overwrite", 'w', { BLOCK, 5 * BLOCK }, BLOCK },
	{ "prealloc", 'w', { 18 * BLOCK, 22 * BLOCK }, BLOCK },
	{ "hole", 'w', { 32 * BLOCK, 36 * BLOCK }, BLOCK },
	{ "mixed", 'w', { 15 * BLOCK, 47 * BLOCK }, 2 * BLOCK },
	{ "extend", 'w', { BLOCKS * BLOCK, BLOCKS *BLOCK }, BLOCK },
	{ "beyond", 'w', { (BLOCKS + 4) * BLOCK, (BLOCKS + 4) * BLOCK }, BLOCK },
	{ "unaligned", 'w', { 34 * BLOCK + 512, 38 * BLOCK + 512 }, 512 },
	{ "unaligned-overwrite", 'w', { 8 * BLOCK + 512, 10 * BLOCK + 512 }, 512 },
	{ "punch", 'p', { 12 * BLOCK, 12 * BLOCK }, BLOCK },
	{ "truncate", 't', { 62 * BLOCK, 62 * BLOCK }, 0 },
	{ "buffered", 'b', { 6 * BLOCK, 6 * BLOCK }, BLOCK },
	{ "fsync", 'f', { 0, 0 }, 0 },
};

/* struct actor - a thread that does one of the two I/Os. */
struct actor {
	const struct kind *kind;
	bool aio, second;
	char *memory;
	int fd, buffered_fd;
	pthread_t thread;
	volatile pid_t tid;
	volatile bool returned;
	aio_context_t context;
	ssize_t result;
};

static struct device *mapper;
static int uffd = -1, control = -1;
static char *fault_page, *plain_page[2];
static char mounted[16];

/* ---- the device that can be held ----------------------------------------------------------- */

static void suspend(bool on)
{
	struct dm_ioctl dm = { .version = { 4, 0, 0 }, .data_size = sizeof(dm) };

	strcpy(dm.name, "lablock");
	dm.flags = on ? DM_SUSPEND_FLAG | DM_SKIP_LOCKFS_FLAG | DM_NOFLUSH_FLAG : 0;
	if (ioctl(control, DM_DEV_SUSPEND, &dm))
		fatal("dm suspend %d", on);
}

static int run_program(const char *command)
{
	int status = system(command);

	return status;
}

static void begin(void)
{
	static const char *const events[] = { "block/block_bio_queue", NULL };
	uint64_t sectors = read_number("/sys/block/ram0/size", 0);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	char command[256];

	snprintf(command, sizeof(command),
		 "dmsetup create lablock --table '0 %lu linear /dev/ram0 0' >/dev/null 2>&1",
		 sectors);
	if (!sectors || run_program(command))
		fatal("no dm device over /dev/ram0");
	run_program("dmsetup mknodes >/dev/null 2>&1");
	mapper = add_device("lablock", "dm-0");
	control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
	if (!mapper || control < 0)
		fatal("no dm-0");
	uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api))
		fatal("userfaultfd");
	fault_page =
		mmap(NULL, 2 * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	range.range.start = (uintptr_t)fault_page;
	range.range.len = 2 * BLOCK;
	if (fault_page == MAP_FAILED || ioctl(uffd, UFFDIO_REGISTER, &range))
		fatal("userfaultfd range");
	for (int i = 0; i < 2; i++)
		plain_page[i] = mmap(NULL, 2 * BLOCK, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	trace_start(events);
}

static void provide_fault_page(void)
{
	struct uffdio_zeropage zero = { .range = { (uintptr_t)fault_page, 2 * BLOCK } };

	ioctl(uffd, UFFDIO_ZEROPAGE, &zero);
}

/* ---- file systems -------------------------------------------------------------------------- */

static bool mount_fs(const char *fs)
{
	static const char *const mkfs[][2] = {
		{ "ext4", "mkfs.ext4 -q -F -b 4096 -O ^metadata_csum_seed -E "
			  "lazy_itable_init=0,lazy_journal_init=0 " MAPPER },
		{ "xfs", "mkfs.xfs -q -f -m reflink=0,rmapbt=0,bigtime=0,inobtcount=0 " MAPPER },
		{ "btrfs", "mkfs.btrfs -q -f -O ^no-holes -R ^free-space-tree " MAPPER },
	};
	char command[512];

	if (!strcmp(mounted, fs))
		return true;
	if (mounted[0] && strcmp(mounted, "bdev") && umount("/mnt"))
		fatal("umount %s", mounted);
	mounted[0] = '\0';
	if (!strcmp(fs, "bdev")) {
		strcpy(mounted, fs);
		return true;
	}
	for (size_t i = 0; i < sizeof(mkfs) / sizeof(*mkfs); i++) {
		if (strcmp(mkfs[i][0], fs))
			continue;
		snprintf(command, sizeof(command), "%s >/dev/console 2>&1", mkfs[i][1]);
		if (run_program(command))
			return false;
		if (mount(MAPPER, "/mnt", fs, 0, NULL))
			return false;
		strcpy(mounted, fs);
		return true;
	}
	return false;
}

static void write_blocks(int fd, unsigned int first, unsigned int nr)
{
	static char *data;

	if (!data)
		data = mmap(NULL, BLOCKS * BLOCK, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (pwrite(fd, data, nr * BLOCK, (uint64_t)first * BLOCK) != (ssize_t)(nr * BLOCK))
		fatal("prepare the file");
}

/* Blocks 0-15 written, 16-31 preallocated, 32-43 a hole, 44-47 preallocated, 48-63 written. */
static void open_file(int *fd, int *buffered_fd)
{
	const char *path = strcmp(mounted, "bdev") ? "/mnt/file" : MAPPER;
	bool file = path[1] == 'm';

	if (file)
		unlink(path);
	*fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC | (file ? O_CREAT : 0), 0600);
	*buffered_fd = open(path, O_RDWR | O_CLOEXEC);
	if (*fd < 0 || *buffered_fd < 0)
		fatal("open %s", path);
	if (file) {
		write_blocks(*fd, 0, 16);
		if (fallocate(*fd, 0, 16 * BLOCK, 16 * BLOCK) ||
		    fallocate(*fd, 0, 44 * BLOCK, 4 * BLOCK))
			fatal("fallocate");
		write_blocks(*fd, 48, 16);
	}
	sync();
	fsync(*fd);
}

/* ---- the two I/Os -------------------------------------------------------------------------- */

static ssize_t do_aio(struct actor *actor, uint64_t pos)
{
	struct iocb cb = { .aio_lio_opcode =
				   actor->kind->op == 'r' ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE,
			   .aio_fildes = actor->fd,
			   .aio_buf = (uintptr_t)actor->memory,
			   .aio_nbytes = actor->kind->len,
			   .aio_offset = pos };
	struct iocb *list[] = { &cb };

	return syscall(SYS_io_submit, actor->context, 1, list);
}

static void *act(void *arg)
{
	struct actor *actor = arg;
	const struct kind *kind = actor->kind;
	uint64_t pos = kind->pos[actor->second];

	actor->tid = syscall(SYS_gettid);
	if (actor->aio)
		actor->result = do_aio(actor, pos);
	else if (kind->op == 'r')
		actor->result = pread(actor->fd, actor->memory, kind->len, pos);
	else if (kind->op == 'w')
		actor->result = pwrite(actor->fd, actor->memory, kind->len, pos);
	else if (kind->op == 'b')
		actor->result = pwrite(actor->buffered_fd, actor->memory, kind->len, pos);
	else if (kind->op == 'p')
		actor->result = fallocate(actor->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					  pos, kind->len);
	else if (kind->op == 't')
		actor->result = ftruncate(actor->fd, pos);
	else
		actor->result = fsync(actor->fd);
	if (actor->result < 0)
		actor->result = -errno;
	actor->returned = true;
	return NULL;
}

static void start(struct actor *actor)
{
	actor->returned = false;
	actor->tid = 0;
	if (actor->aio && syscall(SYS_io_setup, 4, &actor->context))
		fatal("io_setup");
	if (pthread_create(&actor->thread, NULL, act, actor))
		fatal("thread");
	while (!actor->tid)
		usleep(100);
}

static void finish(struct actor *actor)
{
	pthread_join(actor->thread, NULL);
	if (!actor->aio)
		return;
	if (actor->result == 1) {
		struct io_event done;

		syscall(SYS_io_getevents, actor->context, 1, 1, &done, NULL);
	}
	syscall(SYS_io_destroy, actor->context);
	actor->context = 0;
}

/* The functions in which a thread sleeps, one a line. Return: false while it runs. */
static bool sleeps(const struct actor *actor, char *stack, size_t size)
{
	char path[64], text[256], *state;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", actor->tid);
	if (!read_text(path, text, sizeof(text)))
		return false;
	state = strrchr(text, ')');
	if (!state || (state[2] != 'S' && state[2] != 'D'))
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stack", actor->tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, stack, size - 1);
	if (fd >= 0)
		close(fd);
	stack[got > 0 ? got : 0] = '\0';
	return got > 0;
}

/* Did anybody hand data to the device? Journals have their own threads, and their own flag. */
static bool device_has_data(pid_t tid)
{
	struct block_event block;
	struct event event;
	bool found = false;

	while (trace_next(&event)) {
		if (parse_block(&event, &block) && is_on(&block, mapper) &&
		    (!tid || event.pid == tid) && !strchr(block.rwbs, 'M'))
			found = true;
	}
	return found;
}

/* The first function of a stack that is not the scheduler's. */
static const char *waits_in(const char *stack)
{
	static char name[64];
	static const char *const plumbing[] = { "schedule",
						"__schedule",
						"io_schedule",
						"__switch_to",
						"schedule_preempt_disabled",
						"io_schedule_timeout",
						"schedule_timeout" };

	for (; *stack; stack += strcspn(stack, "\n"), stack += *stack == '\n') {
		const char *at = strstr(stack, "] ");
		bool skip = false;

		if (!at)
			break;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(at + 2, "+\n"), at + 2);
		for (size_t i = 0; i < sizeof(plumbing) / sizeof(*plumbing); i++)
			skip = skip || !strcmp(name, plumbing[i]);
		if (!skip)
			return name;
	}
	return name;
}

/*
 * A stack leaves out the lock's own functions: who sleeps for a lock is seen in the function that
 * takes it. These are other sleeps.
 */
static bool is_other_sleep(const char *stack)
{
	static const char *const functions[] = {
		"jbd2_", "submit_bio_wait", "issue_flush",   "folio_wait",	 "wait_on_page",
		"xlog_", "xfs_log_",	    "balance_dirty", "handle_userfault", "blk_mq_get_tag"
	};

	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		if (strstr(stack, functions[i]))
			return true;
	}
	return false;
}

/* What the second one does. */
static const char *outcome(const struct actor *actor)
{
	static char text[2][96], before[4096], stack[4096];
	static unsigned int turn;
	unsigned int same = 0;

	before[0] = '\0';
	turn = !turn;
	for (unsigned int look = 0; look < GIVE_UP; look++, usleep(2000)) {
		if (actor->returned || device_has_data(actor->tid))
			return "enters";
		if (!sleeps(actor, stack, sizeof(stack)) || strcmp(stack, before)) {
			snprintf(before, sizeof(before), "%s", stack);
			same = 0;
			continue;
		}
		if (++same < STEADY)
			continue;
		snprintf(text[turn], sizeof(text[turn]),
			 is_other_sleep(stack) ? "enters(%s)" : "waits(%s)", waits_in(stack));
		return text[turn];
	}
	return "runs";
}

/* The first one is where it is to stay. Return: false when it does not get there. */
static bool arrived(const struct actor *actor, bool in_submission)
{
	char stack[4096];
	bool data = false;

	for (unsigned int look = 0; look < GIVE_UP / 5; look++, usleep(2000)) {
		bool asleep = sleeps(actor, stack, sizeof(stack));

		if (in_submission) {
			if (asleep && strstr(stack, "handle_userfault"))
				return true;
			if (actor->returned)
				return false;
			continue;
		}
		data = device_has_data(0) || data;
		if (data && (actor->returned || asleep))
			return true;
		if (actor->returned && !actor->aio)
			return false;
	}
	return false;
}

static const char *phase(struct actor *first, struct actor *second, bool in_submission)
{
	const char *result = "none";

	open_file(&first->fd, &first->buffered_fd);
	second->fd = first->fd;
	second->buffered_fd = first->buffered_fd;
	madvise(fault_page, 2 * BLOCK, MADV_DONTNEED);
	first->memory = in_submission ? fault_page : plain_page[0];
	second->memory = plain_page[1];
	trace_drop();
	if (!in_submission)
		suspend(true);
	start(first);
	if (arrived(first, in_submission)) {
		trace_drop();
		start(second);
		result = outcome(second);
	} else {
		second->tid = 0;
	}
	if (in_submission)
		provide_fault_page();
	else
		suspend(false);
	finish(first);
	if (second->tid)
		finish(second);
	if (first->result < 0)
		result = "error";
	close(first->fd);
	close(first->buffered_fd);
	return result;
}

static bool parse_actor(const char *text, struct actor *actor)
{
	const char *colon = strchr(text, ':');

	if (!colon)
		return false;
	actor->aio = !strcmp(colon + 1, "aio");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (strlen(kinds[i].name) == (size_t)(colon - text) &&
		    !strncmp(kinds[i].name, text, colon - text))
			actor->kind = &kinds[i];
	}
	return actor->kind;
}

static void record(const char *id, const char *rest)
{
	struct actor first = { 0 }, second = { .second = true };
	char fs[16], one[40], two[40], submission[96];

	if (sscanf(rest, "%15s %39s %39s", fs, one, two) != 3 || !parse_actor(one, &first) ||
	    !parse_actor(two, &second))
		fatal("case %s: %s", id, rest);
	if (!mount_fs(fs)) {
		answer("%s none none", id);
		return;
	}
	snprintf(submission, sizeof(submission), "%s", phase(&first, &second, true));
	answer("%s %s %s", id, submission, phase(&first, &second, false));
}

const struct recording locks_recording = { "locks", begin, record };
