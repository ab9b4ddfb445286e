// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/thread_catch.h"

#include <string.h>

#include "daemon/os/process_memory.h"

/* The walker reaches the process through a function without context. */
static __thread struct process_memory *walked;

static bool py_read(void *dst, __u32 bytes, __u64 address)
{
	return process_memory__get(walked, address, dst, bytes) == bytes;
}

#include "stakeout/python_walker.h"

static void walk_python(struct process_memory *reader, const struct thread_catch_request *request,
			struct thread_memory *out)
{
	static __thread struct so_python_walk w;

	walked = reader;
	w.state = SO_PYTHON_STATE_DEPTH;
	if (!py_begin(&w, &request->walker, &request->place, request->fsbase)) {
		for (unsigned i = 0; i < PY_MAX_STEPS && !py_step(&w, &request->walker); i++)
			;
	}
	out->n_python = w.n;
	out->python = w.state;
	out->python_flags = w.flags;
	out->empty_calls = w.empty_calls;
	out->call = w.call;
	out->python_hash = w.hash;
	memcpy(out->python_words, w.words, w.n * SO_PYTHON_WORDS * sizeof(w.words[0]));
}

/* The page of the red zone may be one that the thread has never touched, or the guard page below its stack. */
static void read_stack(struct process_memory *reader, uint64_t rsp, struct thread_memory *out)
{
	const uint64_t in_page = ~(SO_PAGE_BYTES - 1ull), first = rsp & in_page;

	out->base = (rsp - SO_RED_ZONE_BYTES) & in_page;
	out->n_pages = (uint32_t)(process_memory__get_stack(reader, out->base, out->words, sizeof(out->words)) /
				  SO_PAGE_BYTES);
	if (out->n_pages || out->base == first)
		return;
	out->base = first;
	out->n_pages =
		(uint32_t)(process_memory__get_stack(reader, first, out->words, sizeof(out->words)) / SO_PAGE_BYTES);
}

void thread_catch(const struct thread_catch_request *request, struct thread_memory *out)
{
	_cleanup_(process_memory) struct process_memory reader = process_memory__of(request->pid);

	out->n_python = 0;
	out->python = SO_PYTHON_STATE_NONE;
	out->python_flags = 0;
	out->empty_calls = 0;
	out->call = 0;
	out->python_hash = 0;
	if (request->python)
		walk_python(&reader, request, out);
	read_stack(&reader, request->rsp, out);
}

size_t thread_memory__bytes(const struct thread_memory *memory)
{
	return offsetof(struct thread_memory, python_words) +
	       memory->n_python * SO_PYTHON_WORDS * sizeof(memory->python_words[0]);
}

bool thread_memory__is_whole(const struct thread_memory *memory, size_t bytes)
{
	return bytes >= offsetof(struct thread_memory, python_words) && memory->n_pages <= THREAD_CATCH_PAGES &&
	       memory->n_python <= SO_MAX_PYTHON_FRAMES && bytes == thread_memory__bytes(memory);
}
