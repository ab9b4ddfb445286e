/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Each supported CPython of this machine in a process of its own, opened as the daemon opens it. For tests: what goes
 * wrong fails the test.
 */
#ifndef STAKEOUT_TESTS_PYTHON_WORLD_H
#define STAKEOUT_TESTS_PYTHON_WORLD_H

#include <inttypes.h>

#include "daemon/python/python_process.h"
#include "tests/unit/python_memory.h"
#include "tests/unit/python_target.h"
#include "tests/unit/python_walk.h"

#define MAX_LINE 4096

static struct python_interpreter interpreters[PYTHON_TARGET_MAX];
static size_t n_interpreters;

/* Those that are supported. */
static inline int find_interpreters(void **state)
{
	struct python_interpreter all[PYTHON_TARGET_MAX];
	size_t n = python_target__list(all, PYTHON_TARGET_MAX);

	for (size_t i = 0; i < n; i++) {
		if ((0x0300 | all[i].minor) >= PYTHON_LAYOUT_OLDEST && (0x0300 | all[i].minor) <= PYTHON_LAYOUT_NEWEST)
			interpreters[n_interpreters++] = all[i];
	}
	return 0;
}

/* An interpreter's process as the daemon sees it. */
struct world {
	struct python_target target;
	struct foreign_memory memory;
	struct python_found found;
	struct python_process process;
	struct so_error err;
};

static inline void cleanup__world(struct world *w)
{
	python_target__stop(&w->target);
}

#define WORLD(name) __attribute__((cleanup(cleanup__world))) struct world name = { .target = PYTHON_TARGET_NONE }

static inline void start(struct world *w, const char *path, const char *script)
{
	assert_int_equal(python_target__start(path, script, &w->target), 0);
	w->memory = (struct foreign_memory){ python_memory__read, &w->target.pid };
}

static inline void read_line(struct world *w, char *line, size_t size)
{
	if (!python_target__line(&w->target, line, size))
		fail_msg("the target said nothing");
}

static inline void open_world(struct world *w)
{
	int r = python_memory__find(w->target.pid, &w->found);

	if (r < 0)
		fail_msg("no interpreter: %d %s", r, w->found.err.text);
	r = python_process__open(&w->memory, &w->found.image, w->found.bias, &w->process, &w->err);
	if (r < 0)
		fail_msg("3.%u: %d %s", w->found.image.version >> 16 & 0xff, r, w->err.text);
	assert_int_equal(w->process.layout.version, w->found.image.version >> 16);
	assert_int_equal(w->process.walker.version, w->found.image.version >> 16);
	assert_true(w->process.runtime == w->found.image.runtime + w->found.bias);
	assert_true(w->process.place.main_interpreter);
}

/*
 * What scripts say of a stack of theirs: a word, the thread's ids, then name:byte code offset from the innermost frame
 * on.
 */
#define SHOW                                                            \
	"import sys, os, threading, time\n"                             \
	"def show(word):\n"                                             \
	"    f, out = sys._getframe(1), []\n"                           \
	"    while f:\n"                                                \
	"        out.append('%s:%d' % (f.f_code.co_name, f.f_lasti))\n" \
	"        f = f.f_back\n"                                        \
	"    native = getattr(threading, 'get_native_id', int)()\n"     \
	"    print(word, os.getpid(), threading.get_ident(), native, *out, flush=True)\n"

/* A line of show(). */
struct shown {
	char word[16];
	int pid;
	uint64_t thread, native_id;
	char frames[MAX_LINE];
};

static inline void read_shown(struct world *w, struct shown *out)
{
	char line[MAX_LINE];
	int used = 0;

	read_line(w, line, sizeof(line));
	assert_int_equal(sscanf(line, "%15s %d %" SCNu64 " %" SCNu64 "%n", out->word, &out->pid, &out->thread,
				&out->native_id, &used),
			 4);
	strcpy(out->frames, line + used);
}

#endif
