// SPDX-License-Identifier: GPL-2.0-only
/*
 * A library that is preloaded into fio and lets the system calls that carry I/O fail at random, for
 * tests/fault/inject.sh.
 *
 *	KP_INJECT_KINDS	 words out of:
 *			 eintr	a call, or the I/O that it waits for, was interrupted
 *			 eagain	the kernel has no room for a submission now
 *			 short	an I/O, or a batch of submissions, goes through in part
 *			 eio	an I/O fails, or a sync does
 *			 setup	no room for another context (fs.aio-max-nr) or ring
 *	KP_INJECT_EVERY	 one in so many calls, on average
 *	KP_INJECT_SEED	 a number
 *	KP_INJECT_FILE	 where the faults of each kind are counted, by all processes together
 *
 * A short I/O is one that the kernel was asked to do in part, so that what is told is true.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <liburing.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define SECTOR 512u

enum kind { INTERRUPTED, AGAIN, SHORT, ERROR, SETUP, NR_KINDS };

static const char *const kind_names[NR_KINDS] = { "eintr", "eagain", "short", "eio", "setup" };

static struct shared {
	uint64_t faults[NR_KINDS];
	uint64_t draws;
} * shared;

static unsigned int kinds;
static uint64_t every, seed;

static __attribute__((constructor)) void begin(void)
{
	const char *names = getenv("KP_INJECT_KINDS"), *path = getenv("KP_INJECT_FILE");
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;

	if (fd < 0 || !names || ftruncate(fd, sizeof(*shared)))
		return;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (shared == MAP_FAILED)
		abort();
	every = strtoull(getenv("KP_INJECT_EVERY"), NULL, 10);
	seed = strtoull(getenv("KP_INJECT_SEED"), NULL, 10);
	for (int i = 0; i < NR_KINDS; i++)
		kinds |= (!!strstr(names, kind_names[i])) << i;
}

/* The next real function of this name. */
#define NEXT(name)                                     \
	static __typeof__(name) *next;                 \
	if (!__atomic_load_n(&next, __ATOMIC_RELAXED)) \
	__atomic_store_n(&next, (__typeof__(name) *)dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED)

static uint64_t draw(void)
{
	uint64_t x = seed +
		     __atomic_add_fetch(&shared->draws, 1, __ATOMIC_RELAXED) * 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static bool wanted(enum kind kind)
{
	return shared && kinds & 1u << kind && draw() % every == 0;
}

static void count(enum kind kind)
{
	__atomic_add_fetch(&shared->faults[kind], 1, __ATOMIC_RELAXED);
}

static bool fails(enum kind kind)
{
	if (!wanted(kind))
		return false;
	count(kind);
	return true;
}

/* A part of @bytes that direct I/O can do; all of it where there is none. */
static size_t part_of(size_t bytes)
{
	size_t sectors = bytes / SECTOR;

	return sectors < 2 || bytes % SECTOR ? bytes : (1 + draw() % (sectors - 1)) * SECTOR;
}

/* ---- psync --------------------------------------------------------------------------------- */

static bool call_fails(void)
{
	if (fails(INTERRUPTED))
		errno = EINTR;
	else if (fails(ERROR))
		errno = EIO;
	else
		return false;
	return true;
}

static size_t shortened(size_t bytes)
{
	size_t part = wanted(SHORT) ? part_of(bytes) : bytes;

	if (part != bytes)
		count(SHORT);
	return part;
}

#define PLAIN(name, buffer)                                                       \
	ssize_t name(int fd, buffer data, size_t bytes, off_t pos)                \
	{                                                                         \
		NEXT(name);                                                       \
		return call_fails() ? -1 : next(fd, data, shortened(bytes), pos); \
	}
PLAIN(pread, void *)
PLAIN(pwrite, const void *)
PLAIN(pread64, void *)
PLAIN(pwrite64, const void *)

#define VECTOR(name)                                                     \
	ssize_t name(int fd, const struct iovec *iov, int nr, off_t pos) \
	{                                                                \
		NEXT(name);                                              \
		struct iovec one = iov[0];                               \
		if (call_fails())                                        \
			return -1;                                       \
		one.iov_len = shortened(one.iov_len);                    \
		if (one.iov_len != iov->iov_len)                         \
			return next(fd, &one, 1, pos);                   \
		return next(fd, iov, nr, pos);                           \
	}
VECTOR(preadv)
VECTOR(pwritev)
VECTOR(preadv64)
VECTOR(pwritev64)

int fsync(int fd)
{
	NEXT(fsync);
	if (!fails(ERROR))
		return next(fd);
	errno = EIO;
	return -1;
}

int fdatasync(int fd)
{
	NEXT(fdatasync);
	if (!fails(ERROR))
		return next(fd);
	errno = EIO;
	return -1;
}

/* ---- libaio -------------------------------------------------------------------------------- */

int io_setup(int nr, io_context_t *context)
{
	NEXT(io_setup);
	return fails(SETUP) ? -EAGAIN : next(nr, context);
}

static bool moves_data(const struct iocb *iocb)
{
	return iocb->aio_lio_opcode == IO_CMD_PREAD || iocb->aio_lio_opcode == IO_CMD_PWRITE ||
	       iocb->aio_lio_opcode == IO_CMD_PREADV || iocb->aio_lio_opcode == IO_CMD_PWRITEV;
}

/* The kernel has copied an iocb, and its vector, when io_submit() returns. */
struct cut {
	struct iocb *iocb;
	size_t was;
};

static bool cut_iocb(struct cut *cut, struct iocb *iocb)
{
	bool vector =
		iocb->aio_lio_opcode == IO_CMD_PREADV || iocb->aio_lio_opcode == IO_CMD_PWRITEV;
	struct iovec *iov = iocb->u.c.buf;

	if (!moves_data(iocb) || !wanted(SHORT))
		return false;
	*cut = (struct cut){ iocb, iocb->u.c.nbytes };
	if (!vector)
		iocb->u.c.nbytes = part_of(iocb->u.c.nbytes);
	else if (iocb->u.c.nbytes > 1 && iov->iov_len % SECTOR == 0)
		iocb->u.c.nbytes = 1;
	if (iocb->u.c.nbytes == cut->was)
		return false;
	count(SHORT);
	return true;
}

int io_submit(io_context_t context, long nr, struct iocb **iocbs)
{
	NEXT(io_submit);
	struct cut cuts[16];
	int nr_cuts = 0, ret;

	if (nr > 0 && fails(AGAIN))
		return -EAGAIN;
	if (nr > 0 && fails(INTERRUPTED))
		return -EINTR;
	if (nr > 0 && moves_data(iocbs[0]) && fails(ERROR))
		return -EIO;
	if (nr > 1 && fails(SHORT))
		nr = 1 + draw() % (nr - 1);
	for (long i = 0; i < nr && nr_cuts < 16; i++)
		nr_cuts += cut_iocb(&cuts[nr_cuts], iocbs[i]);
	ret = next(context, nr, iocbs);
	while (nr_cuts--)
		cuts[nr_cuts].iocb->u.c.nbytes = cuts[nr_cuts].was;
	return ret;
}

int io_getevents(io_context_t context, long min, long nr, struct io_event *events,
		 struct timespec *timeout)
{
	NEXT(io_getevents);
	int ret;

	if (fails(INTERRUPTED))
		return -EINTR;
	ret = next(context, min, nr, events, timeout);
	for (int i = 0; i < ret; i++) {
		if (!moves_data(events[i].obj))
			continue;
		if (fails(INTERRUPTED))
			events[i].res = -EINTR;
		else if (fails(ERROR))
			events[i].res = -EIO;
	}
	return ret;
}

/* ---- io_uring ------------------------------------------------------------------------------ */

int io_uring_queue_init(unsigned int entries, struct io_uring *ring, unsigned int flags)
{
	static const int errors[] = { -EMFILE, -ENOMEM, -EPERM, -ENOSYS };

	NEXT(io_uring_queue_init);
	return fails(SETUP) ? errors[draw() % 4] : next(entries, ring, flags);
}

static void spoil_sqe(struct io_uring_sqe *sqe)
{
	bool plain = sqe->opcode == IORING_OP_READ || sqe->opcode == IORING_OP_WRITE ||
		     sqe->opcode == IORING_OP_READ_FIXED || sqe->opcode == IORING_OP_WRITE_FIXED;
	bool vector = sqe->opcode == IORING_OP_READV || sqe->opcode == IORING_OP_WRITEV;

	if (!plain && !vector)
		return;
	if (plain && wanted(SHORT)) {
		size_t part = part_of(sqe->len);

		if (part != sqe->len)
			count(SHORT);
		sqe->len = part;
	} else if (vector && sqe->len > 1 &&
		   ((struct iovec *)(uintptr_t)sqe->addr)->iov_len % SECTOR == 0 && fails(SHORT)) {
		sqe->len = 1;
	}
}

/*
 * An I/O that fails does so where its result lies; the results that have come since the last look.
 * A poll's is smaller than a sector.
 */
static int spoil_cqes(struct io_uring *ring, int ret)
{
	static __thread unsigned int seen;
	unsigned int head = *ring->cq.khead;
	unsigned int tail = __atomic_load_n(ring->cq.ktail, __ATOMIC_ACQUIRE);

	if ((int)(seen - head) < 0 || (int)(tail - seen) < 0)
		seen = head;
	for (; seen != tail; seen++) {
		struct io_uring_cqe *cqe = &ring->cq.cqes[seen & *ring->cq.kring_mask];

		if (cqe->res >= (int)SECTOR && fails(ERROR))
			cqe->res = -EIO;
	}
	return ret;
}

int io_uring_submit(struct io_uring *ring)
{
	NEXT(io_uring_submit);
	if (io_uring_sq_ready(ring)) {
		if (fails(AGAIN))
			return draw() & 1 ? -EAGAIN : -EBUSY;
		if (fails(INTERRUPTED))
			return -EINTR;
	}
	/* What the last submission left behind may be cut again. */
	for (unsigned int i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++)
		spoil_sqe(&ring->sq.sqes[i & *ring->sq.kring_mask]);
	return spoil_cqes(ring, next(ring));
}

int __io_uring_get_cqe(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned int submit,
		       unsigned int wait, sigset_t *mask)
{
	NEXT(__io_uring_get_cqe);
	if (wait && fails(INTERRUPTED))
		return -EINTR;
	return spoil_cqes(ring, next(ring, cqe, submit, wait, mask));
}

int io_uring_wait_cqes(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned int wait,
		       struct __kernel_timespec *timeout, sigset_t *mask)
{
	NEXT(io_uring_wait_cqes);
	if (fails(INTERRUPTED))
		return -EINTR;
	return spoil_cqes(ring, next(ring, cqe, wait, timeout, mask));
}
