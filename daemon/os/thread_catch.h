/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The memory that a thread's stack is made of: the innermost pages, and its Python frames. Without stopping it. */
#ifndef STAKEOUT_THREAD_CATCH_H
#define STAKEOUT_THREAD_CATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/sampler_abi.h"

#define THREAD_CATCH_PAGES 8

struct thread_catch_request {
	pid_t pid;
	uint64_t rsp, fsbase;
	bool python; /* walker and place are there */
	struct so_python walker;
	struct so_python_place place;
};

struct thread_memory {
	uint64_t base;    /* address of the first page: the red zone's, or rsp's if that one is not in memory */
	uint32_t n_pages; /* that are in memory, from the first one on */
	/* As struct so_python_walk has them. */
	uint32_t n_python;
	uint32_t python, python_flags, empty_calls, pad;
	uint64_t call;
	uint64_t python_hash;
	uint64_t words[THREAD_CATCH_PAGES * SO_PAGE_BYTES / 8];
	uint64_t python_words[SO_MAX_PYTHON_FRAMES * SO_PYTHON_WORDS]; /* last: a message ends with those used */
};

/* Reads by whoever calls: it may hang (memory_lock.h has the same with a bound). out: whole. */
void thread_catch(const struct thread_catch_request *request, struct thread_memory *out);

/* Bytes of *memory that are used. */
size_t thread_memory__bytes(const struct thread_memory *memory);
/* Whether so many received bytes are a whole one. */
bool thread_memory__is_whole(const struct thread_memory *memory, size_t bytes);

#endif
