/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ordered work queue of btrfs (fs/btrfs/async-thread.c, 3.19): work starts on any worker, in
 * parallel, and is done one at a time in the order in which it was queued, by whichever worker
 * finds the oldest ready.
 *
 * No more workers run than there are CPUs. A kernel that does not preempt itself (PREEMPT_NONE,
 * PREEMPT_VOLUNTARY) never takes the CPU from a kworker in the middle of a sum; more threads than
 * CPUs would have theirs taken, for a time slice of milliseconds in which all that is queued behind
 * that sum waits.
 */
#ifndef KP_WORK_QUEUE_H
#define KP_WORK_QUEUE_H

#include "stage.h"

#define KP_WORK_MAX_WORKERS  8u	 /* thread_pool_size: min(online CPUs + 2, 8) */
#define KP_WORK_DFT_THRESH   32u /* DFT_THRESHOLD: below it thresholding is off */
#define KP_WORK_QUEUE_THRESH 16u /* what open_ctree() gives the queue of checksums */

/* struct kp_work - struct btrfs_work. The queue's from submit until its 'free' hook. */
struct kp_work {
	struct kp_work *next_ordered, *next_pending;
	bool done;    /* WORK_DONE: start has returned. With the queue locked. */
	bool ordered; /* WORK_ORDER_DONE: somebody has taken on its done hook. As above. */
};

struct kp_work_ops {
	void (*start)(struct kp_work *work); /* any worker, in parallel. Required. */
	void (*done)(struct kp_work *work);  /* one at a time, in order. Required. */
	void (*free)(struct kp_work *work);  /* after it left the list. Required. */
	void (*idle)(void *arg); /* a worker has run out of work that is ready. Optional. */
};

/* struct kp_work_thresh - how many workers may run; __btrfs_workqueue's fields of that purpose. */
struct kp_work_thresh {
	unsigned int thresh; /* 0: off, all may */
	unsigned int max, current;
	unsigned int count;
};

struct kp_work_queue {
	const struct kp_work_ops *ops;
	void *arg;
	/* Protects everything below it. The hooks run without it; nothing nests inside. */
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct kp_work *ordered, **ordered_tail;
	struct kp_work *pending, **pending_tail;
	unsigned int nr_pending; /* queued, not started */
	unsigned int nr_running;
	unsigned int nr_idle;	/* workers that sleep */
	unsigned int nr_waking; /* of which are on their way */
	unsigned int nr_work;	/* atomic to read; queued, idle hook not run */
	unsigned int cpus;
	struct kp_work_thresh thresh;
	bool stop;
	pthread_t threads[64];
	unsigned int nr_threads;
};

#define KP_WORK_THREADS (sizeof(((struct kp_work_queue *)0)->threads) / sizeof(pthread_t))

/* kp_work_default_workers - min(online CPUs + 2, 8). */
unsigned int kp_work_default_workers(void);

/* kp_work_thresh_init - as btrfs_alloc_workqueue() with this many workers and threshold. */
void kp_work_thresh_init(struct kp_work_thresh *thresh, unsigned int max, unsigned int threshold);

/* kp_work_thresh_exec - thresh_exec_hook(): a work starts, @pending more wait. */
void kp_work_thresh_exec(struct kp_work_thresh *thresh, unsigned int pending);

/**
 * kp_work_queue_init - start the workers.
 * @workers: 1 to KP_WORK_THREADS; 0: kp_work_default_workers().
 * @threshold: KP_WORK_QUEUE_THRESH, or another.
 * @arg: for the idle hook.
 *
 * Call in the process that will use them. Return: 0; -EINVAL; -EAGAIN no more threads.
 */
int kp_work_queue_init(struct kp_work_queue *queue, const struct kp_work_ops *ops, void *arg,
		       unsigned int workers, unsigned int threshold);

/* kp_work_queue_exit - finish what is queued and join the workers. */
void kp_work_queue_exit(struct kp_work_queue *queue);

/* kp_work_queue - btrfs_queue_work(). Any thread. */
void kp_work_queue(struct kp_work_queue *queue, struct kp_work *work);

/* kp_work_queue_busy - is there work whose done hook may not have run? Any thread. */
static inline bool kp_work_queue_busy(const struct kp_work_queue *queue)
{
	return __atomic_load_n(&queue->nr_work, __ATOMIC_ACQUIRE);
}

#endif
