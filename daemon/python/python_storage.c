// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * glibc, nptl/descr.h, x86-64: struct pthread begins with tcbhead_t, whose words 0 and 2 point to it; specific_1stblock
 * has for each key two words, a sequence number that is odd while the key is in use, and the value. It has been at
 * 0x310 in all releases that run today, but no header promises it: so the whole descriptor is searched, and what the
 * key's number leads to is only preferred. (Other libraries may keep the thread state under keys of their own too.)
 */
#include "daemon/python/python_storage.h"

#include <errno.h>
#include <string.h>

#define FIRST_BLOCK  0x310u
#define N_KEYS       32u
#define SEARCH_BEGIN 0x100u
#define SEARCH_END   0x800u
#define SLOT_BYTES   16u
#define N_SLOTS      ((SEARCH_END - SEARCH_BEGIN) / SLOT_BYTES)
#define MAX_SEQUENCE UINT32_MAX

/*
 * musl, src/internal/pthread_impl.h: struct pthread begins with a pointer to itself, and has further on one to the
 * values of all keys (tsd, PTHREAD_KEYS_MAX of them).
 */
#define MUSL_BYTES   0x100u
#define MUSL_KEYS    128u
#define MUSL_THREADS 4u /* that are searched; all count */

#define MAX_LOCAL_BYTES 16384 /* before a descriptor: thread-local memory of the program and its libraries */

struct votes {
	unsigned for_slot[N_SLOTS]; /* slot i: words at SEARCH_BEGIN + i * SLOT_BYTES */
	unsigned descriptors;       /* that look like glibc's */
};

struct key {
	int32_t made;
	uint32_t number;
};

static bool is_glibc(const struct foreign_memory *memory, uint64_t descriptor)
{
	uint64_t words[4]; /* tcb, dtv, self, two ints: multiple_threads, gscope_flag */

	return foreign_memory__read(memory, descriptor, words, sizeof(words)) && words[0] == descriptor &&
	       words[2] == descriptor && (uint32_t)words[3] <= 1;
}

static void vote(const struct foreign_memory *memory, const struct python_thread *thread, struct votes *votes)
{
	uint64_t words[(SEARCH_END - SEARCH_BEGIN) / 8];

	if (!is_glibc(memory, thread->thread_id))
		return;
	votes->descriptors++;
	if (!foreign_memory__read(memory, thread->thread_id + SEARCH_BEGIN, words, sizeof(words)))
		return;
	for (unsigned i = 0; i < N_SLOTS; i++) {
		if (words[2 * i] % 2 && words[2 * i] <= MAX_SEQUENCE && words[2 * i + 1] == thread->state)
			votes->for_slot[i]++;
	}
}

static unsigned winner(const struct votes *votes, const struct key *key)
{
	unsigned best = 0;

	if (key->made == 1 && key->number < N_KEYS) {
		unsigned slot = (FIRST_BLOCK - SEARCH_BEGIN) / SLOT_BYTES + key->number;

		if (votes->for_slot[slot])
			return slot;
	}
	for (unsigned i = 1; i < N_SLOTS; i++) {
		if (votes->for_slot[i] > votes->for_slot[best])
			best = i;
	}
	return best;
}

static unsigned count_in_tables(const struct foreign_memory *memory, const struct python_thread *threads, unsigned n,
				unsigned table, unsigned at)
{
	unsigned found = 0;

	for (unsigned i = 0; i < n; i++)
		found += foreign_memory__u64(memory, foreign_memory__u64(memory, threads[i].thread_id + table) + at) ==
			 threads[i].state;
	return found;
}

/* musl. The key decides where its number is known, else the place where most threads have their states. */
static bool find_in_tables(const struct foreign_memory *memory, const struct python_thread *threads, unsigned n,
			   const struct key *key, struct so_python_place *place)
{
	uint64_t words[MUSL_BYTES / 8], values[MUSL_KEYS];
	unsigned most = 0;

	for (unsigned t = 0; t < n && t < MUSL_THREADS; t++) {
		if (!foreign_memory__read(memory, threads[t].thread_id, words, sizeof(words)) ||
		    words[0] != threads[t].thread_id)
			continue;
		for (unsigned i = 1; i < MUSL_BYTES / 8; i++) {
			if (!words[i] || words[i] % 8 ||
			    !foreign_memory__read(memory, words[i], values, sizeof(values)))
				continue;
			for (unsigned k = 0; k < MUSL_KEYS; k++) {
				unsigned found;

				if (values[k] != threads[t].state || (key->made == 1 && k != key->number))
					continue;
				found = count_in_tables(memory, threads, n, i * 8, k * 8);
				if (found <= most)
					continue;
				most = found;
				place->table = (int16_t)(i * 8);
				place->tss = (int16_t)(k * 8);
			}
		}
	}
	return most;
}

static int explain(const struct votes *votes, const struct key *key, struct so_error *err)
{
	if (!votes->descriptors)
		return so_err(err, -ENOTSUP,
			      "this C library is not glibc, and not musl: where it keeps Python's thread "
			      "states is not known");
	if (key->made == 1 && key->number >= N_KEYS)
		return so_err(err, -ENOTSUP, "Python's pthread key is number %u: only the first %u are supported",
			      key->number, N_KEYS);
	return so_err(err, -ENOTSUP, "this C library keeps Python's thread states elsewhere than glibc does");
}

/* How many of the threads have their state at that distance from their descriptor. */
static unsigned count_at(const struct foreign_memory *memory, const struct python_thread *threads, unsigned n,
			 int64_t at)
{
	unsigned found = 0;

	for (unsigned i = 0; i < n; i++)
		found += foreign_memory__u64(memory, threads[i].thread_id + (uint64_t)at) == threads[i].state;
	return found;
}

/*
 * Of a library the begin of its thread-local memory is not known. In it, one word before the other, are the thread's
 * own state and, while it holds the interpreter, the same once more: the former is at the distance to which the latter
 * has the known one.
 */
static int find_variable(const struct foreign_memory *memory, const struct python_thread_locals *locals,
			 const struct python_thread *threads, unsigned n, int16_t *tss, struct so_error *err)
{
	int32_t apart = locals->current - locals->own;
	unsigned most = 0;

	for (int32_t at = -8; at >= -MAX_LOCAL_BYTES; at -= 8) {
		unsigned found = count_at(memory, threads, n, at);

		/* Where the thread's own one would be, if this were the current one. */
		if (found && found >= most && count_at(memory, threads, n, at - apart) < n) {
			most = found;
			*tss = (int16_t)at;
		}
	}
	return most ? 0
		    : so_err(err, -ENOTSUP,
			     "Python's thread states are not in the thread-local memory of its program: a library that "
			     "was loaded late has them elsewhere");
}

static int find_local(const struct foreign_memory *memory, const struct python_thread_locals *locals,
		      const struct python_thread *threads, unsigned n, int16_t *tss, struct so_error *err)
{
	if (locals->kind == PYTHON_LOCALS_UNKNOWN)
		return so_err(err, -ENOTSUP, "how this build of CPython reads a thread's state is not known");
	if (locals->kind == PYTHON_LOCALS_OF_MODULE)
		return find_variable(memory, locals, threads, n, tss, err);
	if (locals->own != (int16_t)locals->own || !count_at(memory, threads, n, locals->own))
		return so_err(err, -ENOTSUP, "Python's thread states are not where its own code reads them");
	*tss = (int16_t)locals->own;
	return 0;
}

int python_storage__find(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t runtime,
			 const struct python_thread_locals *locals, const struct python_thread *threads, unsigned n,
			 struct so_python_place *place, struct so_error *err)
{
	struct votes votes = { 0 };
	struct key key = { 0 };
	unsigned slot;

	if (layout->thread_local)
		return find_local(memory, locals, threads, n, &place->tss, err);

	if (layout->runtime_autotss_key)
		foreign_memory__read(memory, runtime + layout->runtime_autotss_key, &key, sizeof(key));
	for (unsigned i = 0; i < n; i++)
		vote(memory, &threads[i], &votes);
	slot = winner(&votes, &key);
	if (!votes.for_slot[slot])
		return find_in_tables(memory, threads, n, &key, place) ? 0 : explain(&votes, &key, err);
	place->tss = (int16_t)(SEARCH_BEGIN + slot * SLOT_BYTES + 8);
	return 0;
}
