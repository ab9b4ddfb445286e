// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_threads.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stakeout/array.h"

#define BY_AGE_NS 60000000000ull

struct thread {
	uint32_t tgid, tid;
	size_t entries;
	uint64_t ended_ns; /* when it was first seen to have ended; UINT64_MAX: it lives */
};

struct cuda_threads {
	bool (*lives)(uint32_t tgid, uint32_t tid);
	struct thread *threads; /* after a look: the one that ended first is the first */
	size_t n, capacity;
	struct u64_table places; /* during a look */
	size_t max_entries, used;
	uint64_t by_age_ns; /* when age counts next */
	bool by_age;        /* it counts now */
};

int cuda_threads__new(size_t max_entries, bool (*lives)(uint32_t tgid, uint32_t tid), struct cuda_threads **out)
{
	struct cuda_threads *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->max_entries = max_entries;
	t->lives = lives;
	*out = t;
	return 0;
}

void cuda_threads__free(struct cuda_threads *t)
{
	if (!t)
		return;
	u64_table__release(&t->places);
	free(t->threads);
	free(t);
}

/* Reading /proc/PID/task would not do: it may leave out a thread while others end. */
bool cuda_threads__lives(uint32_t tgid, uint32_t tid)
{
	return !syscall(SYS_tgkill, (pid_t)tgid, (pid_t)tid, 0) || errno != ESRCH;
}

int cuda_threads__begin(struct cuda_threads *t)
{
	int ret = 0;

	t->used = 0;
	u64_table__release(&t->places);
	for (size_t i = 0; i < t->n; i++) {
		t->threads[i].entries = 0;
		ret = ret
			      ?: u64_table__set(&t->places, cuda_threads__key(t->threads[i].tgid, t->threads[i].tid),
						(uint32_t)i);
	}
	return ret;
}

int cuda_threads__add(struct cuda_threads *t, uint32_t tgid, uint32_t tid)
{
	uint64_t key = cuda_threads__key(tgid, tid);
	uint32_t at;

	t->used++;
	if (!u64_table__get(&t->places, key, &at)) {
		at = (uint32_t)t->n;
		if (ARRAY_RESERVE(t->threads, t->capacity, t->n + 1) || u64_table__set(&t->places, key, at))
			return -ENOMEM;
		t->threads[t->n++] = (struct thread){ .tgid = tgid, .tid = tid, .ended_ns = UINT64_MAX };
	}
	t->threads[at].entries++;
	return 0;
}

static int by_end(const void *a, const void *b)
{
	const struct thread *x = a, *y = b;

	if (x->ended_ns != y->ended_ns)
		return x->ended_ns < y->ended_ns ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

void cuda_threads__end(struct cuda_threads *t, uint64_t now)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->n; i++) {
		struct thread thread = t->threads[i];

		if (!thread.entries)
			continue;
		/* The number may be another thread's by now. */
		if (t->lives(thread.tgid, thread.tid))
			thread.ended_ns = UINT64_MAX;
		else if (thread.ended_ns == UINT64_MAX)
			thread.ended_ns = now;
		t->threads[kept++] = thread;
	}
	t->n = kept;
	if (kept)
		qsort(t->threads, kept, sizeof(*t->threads), by_end);
	u64_table__release(&t->places);
	t->by_age = now >= t->by_age_ns;
	if (t->by_age)
		t->by_age_ns = now + BY_AGE_NS;
}

int cuda_threads__choose(const struct cuda_threads *t, uint64_t now, struct u64_table *out)
{
	size_t room = t->used > t->max_entries / 4 ? t->max_entries / 8 : SIZE_MAX, left = t->used;
	int ret = 0;

	for (size_t i = 0; !ret && i < t->n && t->threads[i].ended_ns != UINT64_MAX; i++) {
		const struct thread *thread = &t->threads[i];
		bool old = t->by_age && now - thread->ended_ns > CUDA_THREADS_FOLD_AFTER_NS;

		if (!old && left <= room)
			break;
		if (t->lives(thread->tgid, thread->tid) || !t->lives(thread->tgid, thread->tgid))
			continue;
		ret = u64_table__set(out, cuda_threads__key(thread->tgid, thread->tid), 1);
		left -= thread->entries;
	}
	return ret;
}
