/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ordered work queue of btrfs (fs/btrfs/async-thread.c, 3.19). Workers start the works in parallel.
 * The works are completed one at a time, in the order in which they were queued, by any worker that
 * finds the oldest one ready.
 *
 * No more workers run than there are CPUs. A kernel without preemption (PREEMPT_NONE,
 * PREEMPT_VOLUNTARY) never takes the CPU from a kworker in the middle of a sum. Of more threads than
 * CPUs, some would lose their CPU for a time slice of milliseconds, and all works queued behind that
 * sum would wait for it.
 */
#ifndef KP_WORK_QUEUE_H
#define KP_WORK_QUEUE_H

#include "stage.h"

#define KP_WORK_MAX_WORKERS  8u	 /* thread_pool_size: min(online CPUs + 2, 8) */
#define KP_WORK_DFT_THRESH   32u /* DFT_THRESHOLD: below it there is no thresholding */
#define KP_WORK_QUEUE_THRESH 16u /* the threshold of the queue for checksums: open_ctree() */

/* struct kp_work - struct btrfs_work. It belongs to the queue until its 'free' hook is called. */
struct kp_work {
	struct kp_work *next_ordered, *next_pending;
	bool done;    /* WORK_DONE: the start hook has returned. Changed with the queue locked. */
	bool ordered; /* WORK_ORDER_DONE: a worker runs the done hook, or ran it. Also locked. */
};

struct kp_work_ops {
	void (*start)(struct kp_work *work); /* on any worker, in parallel. Required. */
	void (*done)(struct kp_work *work);  /* one at a time, in order. Required. */
	void (*free)(struct kp_work *work);  /* after the work has left the list. Required. */
	void (*idle)(
		void *arg); /* after a worker has completed all works that were ready. Optional. */
};

/* struct kp_work_thresh - how many workers may run: those fields of struct __btrfs_workqueue. */
struct kp_work_thresh {
	unsigned int thresh; /* 0: there is no threshold, and all workers may run */
	unsigned int max, current;
	unsigned int count;
};

struct kp_work_queue {
	const struct kp_work_ops *ops;
	void *arg;
	/* Protects the fields below. The hooks run without it, and no lock nests inside. */
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct kp_work *ordered, **ordered_tail;
	struct kp_work *pending, **pending_tail;
	unsigned int nr_pending; /* works that are queued and not started */
	unsigned int nr_running;
	unsigned int nr_idle;	/* workers that sleep */
	unsigned int nr_waking; /* sleeping workers that were signalled */
	unsigned int nr_work;	/* atomic; works whose idle hook has not returned */
	unsigned int cpus;
	struct kp_work_thresh thresh;
	bool stop;
	pthread_t threads[64];
	unsigned int nr_threads;
};

#define KP_WORK_THREADS (sizeof(((struct kp_work_queue *)0)->threads) / sizeof(pthread_t))

/* kp_work_default_workers - min(online CPUs + 2, 8). */
unsigned int kp_work_default_workers(void);

/* kp_work_thresh_init - set up as btrfs_alloc_workqueue() does for @max workers. */
void kp_work_thresh_init(struct kp_work_thresh *thresh, unsigned int max, unsigned int threshold);

/* kp_work_thresh_exec - thresh_exec_hook(): a work starts, and @pending others are queued. */
void kp_work_thresh_exec(struct kp_work_thresh *thresh, unsigned int pending);

/**
 * kp_work_queue_init - start the workers.
 * @workers: 1 to KP_WORK_THREADS; 0: kp_work_default_workers().
 * @threshold: KP_WORK_QUEUE_THRESH, or another one.
 * @arg: passed to the idle hook.
 *
 * Call it in the process that will queue works. Return: 0; -EINVAL; -EAGAIN when no thread can be made.
 */
int kp_work_queue_init(struct kp_work_queue *queue, const struct kp_work_ops *ops, void *arg,
		       unsigned int workers, unsigned int threshold);

/* kp_work_queue_exit - finish all queued works and join the workers. */
void kp_work_queue_exit(struct kp_work_queue *queue);

/* kp_work_queue - btrfs_queue_work(). Any thread. */
void kp_work_queue(struct kp_work_queue *queue, struct kp_work *work);

/* kp_work_queue_busy - is there a work whose done hook may not have run? Any thread. */
static inline bool kp_work_queue_busy(const struct kp_work_queue *queue)
{
	return __atomic_load_n(&queue->nr_work, __ATOMIC_ACQUIRE);
}

#endif
