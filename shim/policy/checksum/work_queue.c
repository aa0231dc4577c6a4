// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ordered work queue of btrfs. See work_queue.h. Threads take the place of the kernel's pool, and
 * one lock protects both lists; in the kernel the pool has a lock of its own.
 */
#include <sched.h>
#include <unistd.h>

#include "work_queue.h"

unsigned int kp_work_default_workers(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return kp_min((unsigned int)kp_max(cpus, 1) + 2, KP_WORK_MAX_WORKERS);
}

/* How many CPUs the caller and the threads that it makes may use. */
static unsigned int usable_cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? UINT32_MAX : CPU_COUNT(&set);
}

void kp_work_thresh_init(struct kp_work_thresh *thresh, unsigned int max, unsigned int threshold)
{
	*thresh = (struct kp_work_thresh){ .max = max, .current = max };
	if (threshold >= KP_WORK_DFT_THRESH) {
		thresh->thresh = threshold;
		thresh->current = 1;
	}
}

void kp_work_thresh_exec(struct kp_work_thresh *thresh, unsigned int pending)
{
	if (!thresh->thresh)
		return;
	/* Not at each work, since it costs the kernel something to change the number of workers. */
	thresh->count = (thresh->count + 1) % (thresh->thresh / 4);
	if (!thresh->count)
		return;
	if (pending > thresh->thresh && thresh->current < thresh->max)
		thresh->current++;
	if (pending < thresh->thresh / 2 && thresh->current > 1)
		thresh->current--;
}

/*
 * run_ordered_work(). The head of the list stays there while its done hook runs, so that no other
 * worker completes the next work meanwhile. The queue is locked on entry and on return.
 */
static void run_ordered(struct kp_work_queue *queue)
{
	struct kp_work *work, *finished = NULL;
	unsigned int nr = 0;

	while ((work = queue->ordered) && work->done && !work->ordered) {
		work->ordered = true;
		pthread_mutex_unlock(&queue->lock);
		if (finished) /* the work before, which has left the list */
			queue->ops->free(finished);
		queue->ops->done(work);
		nr++;
		pthread_mutex_lock(&queue->lock);
		queue->ordered = work->next_ordered;
		if (!queue->ordered)
			queue->ordered_tail = &queue->ordered;
		finished = work;
	}
	if (!nr)
		return;
	pthread_mutex_unlock(&queue->lock);
	queue->ops->free(finished);
	if (queue->ops->idle)
		queue->ops->idle(queue->arg);
	__atomic_fetch_sub(&queue->nr_work, nr, __ATOMIC_RELEASE);
	pthread_mutex_lock(&queue->lock);
}

static bool may_run(const struct kp_work_queue *queue)
{
	return queue->pending && queue->nr_running < kp_min(queue->thresh.current, queue->cpus);
}

/*
 * Shall a sleeping worker be woken for a pending work? Not when as many workers as allowed run or were
 * signalled already. If so the caller signals, before or after it unlocks the queue.
 */
static bool wants_worker(struct kp_work_queue *queue)
{
	if (!queue->pending || queue->nr_idle == queue->nr_waking ||
	    queue->nr_running + queue->nr_waking >= kp_min(queue->thresh.current, queue->cpus))
		return false;
	queue->nr_waking++;
	return true;
}

static struct kp_work *take_pending(struct kp_work_queue *queue)
{
	struct kp_work *work = queue->pending;

	queue->pending = work->next_pending;
	if (!queue->pending)
		queue->pending_tail = &queue->pending;
	kp_work_thresh_exec(&queue->thresh, --queue->nr_pending);
	return work;
}

/* normal_work_helper() */
static void *worker(void *arg)
{
	struct kp_work_queue *queue = arg;

	pthread_mutex_lock(&queue->lock);
	for (;;) {
		struct kp_work *work;

		while (!may_run(queue) && (queue->pending || !queue->stop)) {
			queue->nr_idle++;
			pthread_cond_wait(&queue->more, &queue->lock);
			queue->nr_idle--;
			if (queue->nr_waking)
				queue->nr_waking--;
		}
		if (!queue->pending)
			break;
		work = take_pending(queue);
		queue->nr_running++;
		if (wants_worker(queue)) /* the threshold now allows one more */
			pthread_cond_signal(&queue->more);
		pthread_mutex_unlock(&queue->lock);
		queue->ops->start(work);
		pthread_mutex_lock(&queue->lock);
		work->done = true;
		run_ordered(queue);
		queue->nr_running--;
	}
	pthread_cond_broadcast(
		&queue->more); /* wake the workers that wait for the last work to be started */
	pthread_mutex_unlock(&queue->lock);
	return NULL;
}

int kp_work_queue_init(struct kp_work_queue *queue, const struct kp_work_ops *ops, void *arg,
		       unsigned int workers, unsigned int threshold)
{
	if (!workers)
		workers = kp_work_default_workers();
	if (workers > KP_WORK_THREADS)
		return -EINVAL;
	*queue = (struct kp_work_queue){ .ops = ops, .arg = arg, .cpus = usable_cpus() };
	queue->ordered_tail = &queue->ordered;
	queue->pending_tail = &queue->pending;
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->more, NULL);
	kp_work_thresh_init(&queue->thresh, workers, threshold);
	for (; queue->nr_threads < workers; queue->nr_threads++) {
		int ret = pthread_create(&queue->threads[queue->nr_threads], NULL, worker, queue);

		if (ret) {
			kp_work_queue_exit(queue);
			return -ret;
		}
	}
	return 0;
}

void kp_work_queue_exit(struct kp_work_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->stop = true;
	pthread_cond_broadcast(&queue->more);
	pthread_mutex_unlock(&queue->lock);
	for (unsigned int i = 0; i < queue->nr_threads; i++)
		pthread_join(queue->threads[i], NULL);
	pthread_cond_destroy(&queue->more);
	pthread_mutex_destroy(&queue->lock);
}

void kp_work_queue(struct kp_work_queue *queue, struct kp_work *work)
{
	bool wake;

	*work = (struct kp_work){ 0 };
	pthread_mutex_lock(&queue->lock);
	*queue->ordered_tail = work;
	queue->ordered_tail = &work->next_ordered;
	*queue->pending_tail = work;
	queue->pending_tail = &work->next_pending;
	queue->nr_pending++;
	__atomic_fetch_add(&queue->nr_work, 1, __ATOMIC_RELAXED);
	wake = wants_worker(queue);
	pthread_mutex_unlock(&queue->lock);
	if (wake)
		pthread_cond_signal(&queue->more);
}
