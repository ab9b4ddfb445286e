// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/processes/thread_names.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/os/limits.h"
#include "stakeout/array.h"

/* A program that names its thread itself does that first of all; a later renaming is rare. */
#define FIRST_DISTANCE_NS 1000000000ull
#define MAX_DISTANCE_NS   64000000000ull

static uint64_t key_of(pid_t tgid, uint32_t tid)
{
	return (uint64_t)tgid << 32 | tid;
}

static struct named_thread *find(const struct thread_names *names, pid_t tgid, uint32_t tid)
{
	uint32_t at;

	return u64_table__get(&names->by_thread, key_of(tgid, tid), &at) ? &names->list[at] : NULL;
}

static int compare_seen(const void *a, const void *b)
{
	const struct named_thread *x = a, *y = b;

	return x->seen_ns < y->seen_ns ? 1 : x->seen_ns > y->seen_ns ? -1 : 0;
}

/* One that has no place in the table for want of memory is as if forgotten. */
static void index_all(struct thread_names *names)
{
	u64_table__release(&names->by_thread);
	for (size_t i = 0; i < names->n; i++)
		if (u64_table__set(&names->by_thread, key_of(names->list[i].tgid, names->list[i].tid), (uint32_t)i))
			return;
}

static void forget_half(struct thread_names *names)
{
	qsort(names->list, names->n, sizeof(names->list[0]), compare_seen);
	limits__hit(LIMIT_THREAD_NAMES, names->n - names->n / 2);
	names->n /= 2;
	index_all(names);
}

static struct named_thread *add(struct thread_names *names, pid_t tgid, uint32_t tid)
{
	struct named_thread *name;

	if (names->n >= THREAD_NAMES_MAX)
		forget_half(names);
	if (ARRAY_RESERVE(names->list, names->capacity, names->n + 1) ||
	    u64_table__set(&names->by_thread, key_of(tgid, tid), (uint32_t)names->n))
		return NULL;
	name = &names->list[names->n++];
	*name = (struct named_thread){ .tgid = tgid, .tid = tid };
	return name;
}

static bool is_due(const struct named_thread *name, uint64_t now_ns)
{
	return !name->asked_ns || (name->seen_ns > name->asked_ns && now_ns - name->asked_ns >= name->distance_ns);
}

bool thread_names__seen(struct thread_names *names, pid_t tgid, uint32_t tid, const char comm[16], uint64_t now_ns)
{
	struct named_thread *name = find(names, tgid, tid) ?: add(names, tgid, tid);

	if (!name)
		return false;
	/* A sample may be taken in after its thread's end was found. */
	if (memcmp(name->comm, comm, sizeof(name->comm)) != 0 ||
	    (name->gone && now_ns - name->asked_ns >= FIRST_DISTANCE_NS))
		name->distance_ns = name->asked_ns = 0;
	memcpy(name->comm, comm, sizeof(name->comm));
	name->seen_ns = now_ns;
	return is_due(name, now_ns);
}

size_t thread_names__due(const struct thread_names *names, uint64_t now_ns, pid_t *tgid, uint32_t *tids)
{
	size_t n = 0;

	for (size_t i = 0; i < names->n && n < THREAD_NAMES_AT_ONCE; i++) {
		const struct named_thread *name = &names->list[i];

		if ((n && name->tgid != *tgid) || !is_due(name, now_ns))
			continue;
		*tgid = name->tgid;
		tids[n++] = name->tid;
	}
	return n;
}

static struct named_thread *note_asked(struct thread_names *names, pid_t tgid, uint32_t tid, uint64_t now_ns)
{
	struct named_thread *name = find(names, tgid, tid);

	if (!name)
		return NULL;
	name->asked_ns = now_ns;
	name->gone = false;
	name->distance_ns = name->distance_ns ? 2 * name->distance_ns : FIRST_DISTANCE_NS;
	if (name->distance_ns > MAX_DISTANCE_NS)
		name->distance_ns = MAX_DISTANCE_NS;
	return name;
}

void thread_names__set(struct thread_names *names, pid_t tgid, uint32_t tid, const char *text, uint64_t now_ns)
{
	struct named_thread *name = note_asked(names, tgid, tid, now_ns);

	if (name && text)
		snprintf(name->text, sizeof(name->text), "%s", text);
	else if (name)
		name->gone = true;
}

void thread_names__unread(struct thread_names *names, pid_t tgid, uint32_t tid, uint64_t now_ns)
{
	note_asked(names, tgid, tid, now_ns);
}

const char *thread_names__get(const struct thread_names *names, pid_t tgid, uint32_t tid)
{
	const struct named_thread *name = names ? find(names, tgid, tid) : NULL;

	return name && name->text[0] ? name->text : NULL;
}

void thread_names__copy(const struct thread_names *from, struct thread_names *to)
{
	struct thread_names copy = { 0 };

	if (!from->n || ARRAY_RESERVE(copy.list, copy.capacity, from->n))
		return;
	memcpy(copy.list, from->list, from->n * sizeof(*copy.list));
	copy.n = from->n;
	index_all(&copy);
	*to = copy;
}

void thread_names__release(struct thread_names *names)
{
	free(names->list);
	u64_table__release(&names->by_thread);
	*names = (struct thread_names){ 0 };
}
