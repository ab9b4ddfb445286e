/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A recorded interpreter (tests/golden/python/memory), what stakeout makes of it, and whether that is what the
 * interpreter told. For tests: what goes wrong fails the test. Include cmocka.h before.
 */
#ifndef STAKEOUT_TESTS_PYTHON_REPLAY_H
#define STAKEOUT_TESTS_PYTHON_REPLAY_H

#include "tests/golden/python/recording.h"
#include "tests/unit/python_look.h"

#define PYTHON_RECORDINGS "tests/golden/python/memory/"

/* A recording and what stakeout makes of it. */
struct replay {
	struct recording r;
	struct foreign_memory memory;
	struct python_look look;
	unsigned n_hidden; /* frames that it does not hold */
};

static inline void load(struct replay *p, const char *version)
{
	char path[64];
	struct so_error err = { "" };

	memset(p, 0, sizeof(*p));
	snprintf(path, sizeof(path), PYTHON_RECORDINGS "%s", version);
	if (recording__read(path, &p->r, &err))
		fail_msg("%s: %s", path, err.text);
	p->memory = recording__memory(&p->r);
}

/*
 * Since 3.13 a constructor that is called often has a frame of the interpreter's own below it, of which it does not
 * tell; the file of its code is called "__init__" (_Py_InitCleanup in Python/specialize.c).
 */
static inline unsigned drop_hidden_frames(struct python_look_thread *t)
{
	size_t kept = 0, n = t->n_frames;

	for (size_t i = 0; i < n; i++) {
		if (strcmp(t->frames[i].file, "__init__") != 0)
			t->frames[kept++] = t->frames[i];
	}
	t->n_frames = kept;
	return (unsigned)(n - kept);
}

static inline int look(struct replay *p)
{
	struct so_error err = { "" };
	int ret = python_look(&p->memory, p->r.runtime, p->r.version, p->r.own, &p->look, &err);

	p->n_hidden = 0;
	for (size_t i = 0; ret == 0 && i < p->look.n_threads; i++)
		p->n_hidden += drop_hidden_frames(&p->look.threads[i]);
	return ret;
}

static inline void load_and_look(struct replay *p, const char *version)
{
	load(p, version);
	assert_int_equal(look(p), 0);
}

static inline const struct python_look_thread *find_thread(const struct python_look *l, uint64_t descriptor)
{
	for (size_t i = 0; i < l->n_threads; i++) {
		if (l->threads[i].thread.thread_id == descriptor)
			return &l->threads[i];
	}
	return NULL;
}

static inline bool same_frame(const struct python_look_frame *got, const struct recording_frame *want)
{
	return !strcmp(got->name, want->name) && !strcmp(got->file, want->file) && got->line == want->line &&
	       got->entry == want->entry &&
	       (want->offset == RECORDING_NO_OFFSET || got->instruction * 2 == (uint32_t)want->offset);
}

/* Compares the Python frames. False with what is different in `text`. */
static inline bool same_stack(const struct python_look_thread *got, const struct recording_thread *want,
			      char *text, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < want->n_frames; i++) {
		const struct recording_frame *f = &want->frames[i];

		if (f->kind != RECORDING_PYTHON)
			continue;
		if (n == got->n_frames || !same_frame(&got->frames[n], f)) {
			const struct python_look_frame *g = n < got->n_frames ? &got->frames[n] : NULL;

			snprintf(text, size, "frame %zu is %s (%s:%d) %u %d, not %s (%s:%d) %d %d", n,
				 g ? g->name : "missing", g ? g->file : "", g ? g->line : 0,
				 g ? g->instruction * 2 : 0, g ? g->entry : 0, f->name, f->file, f->line,
				 f->offset, f->entry);
			return false;
		}
		n++;
	}
	snprintf(text, size, "%zu frames, not %zu; state %u; the lock is %d, not %d", got->n_frames, n,
		 got->state, got->held, want->held);
	return n == got->n_frames && got->state == SO_PYTHON_STATE_COMPLETE && got->held == want->held;
}

/* Whether all is as the interpreter told. */
static inline bool same(const struct replay *p, char *text, size_t size)
{
	bool says_native_id = p->look.process.layout.thread_native_id != 0;

	snprintf(text, size, "%zu threads, not %zu", p->look.n_threads, p->r.n_threads);
	if (p->look.n_threads != p->r.n_threads)
		return false;
	for (size_t i = 0; i < p->r.n_threads; i++) {
		const struct recording_thread *want = &p->r.threads[i];
		const struct python_look_thread *got = find_thread(&p->look, want->descriptor);

		snprintf(text, size, "the threads are others");
		if (!got || got->thread.native_id != (says_native_id ? want->native_id : 0) ||
		    !same_stack(got, want, text, size))
			return false;
	}
	return true;
}

static inline void expect_same(const struct replay *p, const char *version)
{
	char text[512];

	if (!same(p, text, sizeof(text)))
		fail_msg("%s: %s", version, text);
}

#endif
