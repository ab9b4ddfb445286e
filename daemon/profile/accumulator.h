/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A target's samples: distinct stacks, and one counter for each (process, thread, name, stack, time if it is kept). */
#ifndef STAKEOUT_ACCUMULATOR_H
#define STAKEOUT_ACCUMULATOR_H

#include <stdint.h>

#include "daemon/python/python_functions.h"
#include "daemon/os/u64_table.h"
#include "stakeout/cleanup.h"
#include "stakeout/sampler_abi.h"

/*
 * One stack as the kernel sent it: n_user user frames, then n_kernel kernel frames, then n_python Python frames, each
 * leaf first. The Python frames have been read: in the place of the kernel's words are struct python_frame.
 */
struct stack {
	_Atomic uint32_t refs;              /* nothing but this changes once a second one holds it */
	struct python_functions *functions; /* those of its Python frames, a reference; NULL: it has none */
	struct so_stack_record record;
	uint64_t frames[];
};

/* What a sample's value counts. A further kind is added here (.design/rooms.md). */
enum sample_kind {
	/* samples of a thread that ran, taken by the clock event; the only ones in an accumulator's figures */
	SAMPLE_CPU,
	/*
	 * Nanoseconds in which a thread waited there, and in which it was runnable there but not on a CPU (waits.h);
	 * and those that it ran, all on one stack without frames.
	 */
	SAMPLE_WAIT,
	SAMPLE_RUNNABLE,
	SAMPLE_RUN,
	SAMPLE_ALLOC, /* bytes of memory that the stack touched first (memory_watch.h), as chosen pages are scaled to */
	/*
	 * The thread began a step then, or entered a counted function (SAMPLE_STEP + its mark, steps.h); without
	 * frames.
	 */
	SAMPLE_STEP,
	SAMPLE_ENTRY_1,
	SAMPLE_ENTRY_2,
	SAMPLE_ENTRY_3,
};

/* One sample, or several equal ones. */
struct stack_sample {
	enum sample_kind kind;
	uint32_t tgid, tid;
	const char *comm; /* 16 bytes */
	uint64_t stack;   /* its hash */
	uint64_t value;
	uint64_t when_ns; /* CLOCK_MONOTONIC: when it was taken, or what it counts began; 0: times are not kept */
};

struct counter {
	uint32_t tgid, tid;
	uint32_t stack; /* index of accumulator.stacks */
	char comm[16];
	uint32_t kind;    /* enum sample_kind */
	uint64_t when_ns; /* as struct stack_sample has it */
	uint64_t count;   /* sum of the values */
	uint64_t latest;  /* of these, in the window of that number: the last in which there were any */
	uint64_t window;
};

struct accumulator {
	struct stack **stacks;
	size_t n_stacks, cap_stacks;
	struct counter *counters;
	size_t n_counters, cap_counters;
	struct u64_table stack_by_hash, counter_by_hash;
	size_t bytes;                       /* held */
	size_t max_bytes;                   /* more is refused with -ENOSPC; 0: no bound */
	uint64_t window;                    /* number of the open window; the owner counts it up */
	uint64_t samples;                   /* sum of the counts */
	uint64_t truncated[SO_TRUNC_COUNT]; /* [SO_TRUNC_NONE]: complete */
	uint64_t frame_pointer;             /* samples in which a step went by the frame pointer */
	uint64_t python[SO_PYTHON_STATE_COUNT];
	uint64_t python_named; /* samples with all Python frames, each of which could be read */
	uint64_t gil;          /* samples whose thread held its interpreter's lock */
	uint64_t no_gil;       /* samples whose thread's interpreter ran without one */
};

/*
 * Copy of a record with its frames, with one reference; NULL when out of memory. functions: what its Python frames
 * show, of which it takes a reference of its own.
 */
struct stack *stack__new(const struct so_stack_record *record, const uint64_t *frames,
			 struct python_functions *functions);
/* Thread-safe, as is holding on to a stack beside others. */
struct stack *stack__ref(const struct stack *stack);
void stack__unref(struct stack *stack);
static inline size_t stack__frames(const struct stack *stack)
{
	return (size_t)stack->record.n_user + stack->record.n_kernel;
}

/* 64-bit words in frames[]. */
static inline size_t stack__words(const struct stack *stack)
{
	return stack__frames(stack) + (size_t)stack->record.n_python * SO_PYTHON_WORDS;
}

static inline struct python_frame *stack__python(struct stack *stack)
{
	return (struct python_frame *)&stack->frames[stack__frames(stack)];
}

/* In which an interpreter was met. */
static inline uint64_t accumulator__python_samples(const struct accumulator *acc)
{
	uint64_t n = 0;

	for (unsigned i = SO_PYTHON_STATE_NONE + 1; i < SO_PYTHON_STATE_COUNT; i++)
		n += acc->python[i];
	return n;
}

bool accumulator__has_stack(const struct accumulator *acc, uint64_t hash);
/* Takes a reference. 0 also when it is there already. -ENOMEM, -ENOSPC. */
int accumulator__add_stack(struct accumulator *acc, const struct stack *stack);
/* Counts samples of a known stack; -ENOENT when it is not there, -ENOMEM, -ENOSPC. */
int accumulator__add(struct accumulator *acc, const struct stack_sample *sample);
/* Shares the stacks; for work outside the engine's lock. */
int accumulator__copy(const struct accumulator *from, struct accumulator *to);
/* Adds the other's samples and stacks. -ENOMEM, -ENOSPC: some did not fit, `samples` of the two tells how many. */
int accumulator__merge(struct accumulator *to, const struct accumulator *from);
/* Adds the sums alone, from `samples` on, of an accumulator that is to be forgotten. */
void accumulator__add_figures(struct accumulator *to, const struct accumulator *from);
void accumulator__release(struct accumulator *acc);

#endif
