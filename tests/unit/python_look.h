/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All that stakeout reads of an interpreter whose threads stand still, in the way it does: the process is opened, its
 * threads are listed, each is walked by include/stakeout/python_walker.h from its descriptor on, and the code objects
 * of its frames are read.
 */
#ifndef STAKEOUT_TESTS_PYTHON_LOOK_H
#define STAKEOUT_TESTS_PYTHON_LOOK_H

#include <stdlib.h>
#include <string.h>

#include "daemon/python/python_code.h"
#include "daemon/python/python_process.h"

#define PYTHON_LOOK_THREADS 8
#define PYTHON_LOOK_FRAMES  128
#define PYTHON_LOOK_NAME    128

struct python_look_frame {
	uint64_t address; /* of the frame */
	uint64_t code, sum;
	uint32_t instruction; /* code units */
	bool entry;
	char name[PYTHON_LOOK_NAME], file[PYTHON_LOOK_NAME]; /* "" both: the code object could not be read */
	int line;
};

struct python_look_thread {
	struct python_thread thread;
	enum so_python_state state;
	bool held; /* it has the lock */
	struct python_look_frame frames[PYTHON_LOOK_FRAMES];
	size_t n_frames;
};

struct python_look {
	struct python_process process;
	struct python_look_thread threads[PYTHON_LOOK_THREADS];
	size_t n_threads;
};

/* The walker reaches the memory through a function without context. */
static const struct foreign_memory *python_look__memory;

static bool py_read(void *dst, __u32 bytes, __u64 address)
{
	return foreign_memory__read(python_look__memory, address, dst, bytes);
}

#include "stakeout/python_walker.h"

static inline void python_look__code(const struct python_layout *layout, struct python_look_frame *f)
{
	_cleanup_(python_code) struct python_code *code = NULL;

	if (python_code__read(python_look__memory, layout, f->code, f->sum, &code) < 0)
		return;
	snprintf(f->name, sizeof(f->name), "%s", code->name);
	snprintf(f->file, sizeof(f->file), "%s", code->filename);
	f->line = python_code__line(code, layout->version, f->instruction);
}

static inline void python_look__thread(const struct python_process *process, struct python_look_thread *t)
{
	static struct so_python_walk w;
	uint64_t addresses[PYTHON_LOOK_FRAMES] = { 0 };

	w.state = SO_PYTHON_STATE_DEPTH;
	if (!py_begin(&w, &process->walker, &process->place, t->thread.thread_id)) {
		for (unsigned i = 0; i < PY_MAX_STEPS; i++) {
			if (w.n < PYTHON_LOOK_FRAMES)
				addresses[w.n] = w.frame;
			if (py_step(&w, &process->walker))
				break;
		}
	}
	t->state = w.state;
	t->held = w.flags & SO_STACK_GIL;
	t->n_frames = w.n < PYTHON_LOOK_FRAMES ? w.n : PYTHON_LOOK_FRAMES;
	for (size_t i = 0; i < t->n_frames; i++) {
		uint64_t word = w.words[i * SO_PYTHON_WORDS];

		t->frames[i] = (struct python_look_frame){
			.address = addresses[i],
			.code = SO_PYTHON_FRAME_CODE(word),
			.sum = w.words[i * SO_PYTHON_WORDS + 1],
			.instruction = SO_PYTHON_FRAME_INSTRUCTION(word),
			.entry = SO_PYTHON_FRAME_ENTRY(word),
		};
		python_look__code(&process->layout, &t->frames[i]);
	}
}

/*
 * runtime: the process address of _PyRuntime; version: Py_Version; own: struct python_thread_locals, 0: none. 0, or as
 * python_process__open() and __threads().
 */
static inline int python_look(const struct foreign_memory *memory, uint64_t runtime, uint32_t version, int32_t own,
			      struct python_look *out, struct so_error *err)
{
	const struct python_image image = { .runtime = runtime,
					    .version = version,
					    .locals = { own ? PYTHON_LOCALS_OF_THREAD : PYTHON_LOCALS_UNKNOWN, own,
							0 } };
	struct python_thread threads[PYTHON_LOOK_THREADS];
	int n = python_process__open(memory, &image, 0, &out->process, err);

	if (n == 0)
		n = python_process__threads(memory, &out->process, threads, PYTHON_LOOK_THREADS);
	if (n < 0)
		return n;
	python_look__memory = memory;
	out->n_threads = (size_t)n;
	for (int i = 0; i < n; i++) {
		out->threads[i].thread = threads[i];
		python_look__thread(&out->process, &out->threads[i]);
	}
	return 0;
}

#endif
