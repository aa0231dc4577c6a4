// SPDX-License-Identifier: GPL-2.0-only
/*
 * Preloaded by set-up.sh: lets call number KP_FAIL_AT of those that an engine makes fail. Calls of
 * fio and of other libraries are not counted. The name of the call that failed goes to the file
 * KP_FAILED.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned int nr_calls;

static bool from_engine(const void *caller)
{
	Dl_info info;

	return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "/engines/");
}

static bool fails(const void *caller, const char *name, int error)
{
	const char *at = getenv("KP_FAIL_AT"), *path = getenv("KP_FAILED");
	int fd;

	if (!at || !path || !from_engine(caller) ||
	    __atomic_add_fetch(&nr_calls, 1, __ATOMIC_RELAXED) !=
		    (unsigned int)strtoul(at, NULL, 10))
		return false;
	fd = creat(path, 0600);
	if (fd < 0 || write(fd, name, strlen(name)) < 0)
		abort();
	close(fd);
	errno = error;
	return true;
}

#define FAILS(ERROR) fails(__builtin_return_address(0), __func__, ERROR)

/* The real function. glibc's allocator has names that need no lookup, which would allocate. */
#define REAL(NAME) ((__typeof__(&NAME))dlsym(RTLD_NEXT, #NAME))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t nr, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
	return FAILS(ENOMEM) ? NULL : __libc_malloc(size);
}

void *calloc(size_t nr, size_t size)
{
	return FAILS(ENOMEM) ? NULL : __libc_calloc(nr, size);
}

void *realloc(void *memory, size_t size)
{
	return FAILS(ENOMEM) ? NULL : __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return FAILS(ENOMEM) ? NULL : __libc_memalign(alignment, size);
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	return FAILS(ENOMEM) ? MAP_FAILED : REAL(mmap)(at, size, protection, flags, fd, offset);
}

int open(const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = va_arg(args, mode_t);
	va_end(args);
	return FAILS(EMFILE) ? -1 : REAL(open)(path, flags, mode);
}

int ioctl(int fd, unsigned long request, ...)
{
	int (*real)(int, unsigned long, ...) = dlsym(RTLD_NEXT, "ioctl");
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	return FAILS(ENOTTY) ? -1 : real(fd, request, arg);
}

struct statx;
int statx(int fd, const char *path, int flags, unsigned int mask, struct statx *st)
{
	return FAILS(ENOMEM) ? -1 : REAL(statx)(fd, path, flags, mask, st);
}

int eventfd(unsigned int count, int flags)
{
	return FAILS(EMFILE) ? -1 : REAL(eventfd)(count, flags);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	return FAILS(EAGAIN) ? EAGAIN : REAL(pthread_create)(thread, attr, start, arg);
}

struct io_context;
int io_setup(int nr, struct io_context **context)
{
	return FAILS(EAGAIN) ? -EAGAIN : REAL(io_setup)(nr, context);
}

struct io_uring;
int io_uring_queue_init(unsigned int entries, struct io_uring *ring, unsigned int flags)
{
	/* The engine brought liburing along, where RTLD_NEXT does not look. */
	void *uring = dlopen("liburing.so.2", RTLD_LAZY | RTLD_NOLOAD);
	__typeof__(&io_uring_queue_init) real = dlsym(uring, "io_uring_queue_init");

	return FAILS(EMFILE) ? -EMFILE : real(entries, ring, flags);
}
