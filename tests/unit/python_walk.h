/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The frames of a thread by the numbers of struct so_python alone, from the address of its descriptor on: what the
 * walker in the kernel has to work with. Written apart from it.
 */
#ifndef STAKEOUT_TESTS_PYTHON_WALK_H
#define STAKEOUT_TESTS_PYTHON_WALK_H

#include <stdio.h>
#include <string.h>

#include "daemon/os/foreign_memory.h"
#include "daemon/python/python_process.h"

#define PYTHON_WALK_MAX 128

struct python_walked {
	uint64_t code;
	uint32_t instruction; /* code units; SO_PYTHON_NO_INSTRUCTION */
	bool entry;
	char name[64], filename[64]; /* "?": not ASCII, or not to be read */
};

/* A str object that is ASCII, cut to the room. */
static inline void python_walk__text(const struct foreign_memory *memory, const struct python_layout *layout,
				     uint64_t object, char *text, size_t room)
{
	uint64_t length = foreign_memory__u64(memory, object + layout->str.length);
	size_t n = length < room ? (size_t)length : room - 1;

	if (!object || !foreign_memory__read(memory, object + layout->str.ascii_data, text, n))
		n = (size_t)snprintf(text, room, "?");
	text[n] = '\0';
}

static inline uint32_t python_walk__instruction(const struct foreign_memory *memory, const struct so_python *w,
						const uint8_t *frame, uint64_t code)
{
	uint64_t units, pointer, first = code + w->code_first;
	int32_t last, copy = 0;

	if (w->flags & SO_PYTHON_LASTI) {
		memcpy(&last, frame + w->frame_instruction, sizeof(last));
		if (last < 0)
			return SO_PYTHON_NO_INSTRUCTION;
		units = w->flags & SO_PYTHON_LASTI_BYTES ? (uint32_t)last / 2 : (uint32_t)last;
	} else {
		memcpy(&pointer, frame + w->frame_instruction, sizeof(pointer));
		if (w->flags & SO_PYTHON_COPIES)
			memcpy(&copy, frame + w->frame_copy, sizeof(copy));
		if (copy)
			first = foreign_memory__u64(memory, foreign_memory__u64(memory, code + w->code_copies) +
								    8 * ((uint64_t)copy + 1));
		units = (pointer - first) / 2;
	}
	return units < SO_PYTHON_NO_INSTRUCTION ? (uint32_t)units : SO_PYTHON_NO_INSTRUCTION;
}

/* The thread state of the thread with that descriptor; 0: none, or not its own. */
static inline uint64_t python_walk__thread(const struct foreign_memory *memory, const struct python_process *p,
					   uint64_t descriptor)
{
	return python_process__thread(memory, p, descriptor);
}

/* Innermost first; returns their number, or -1 where something cannot be read. */
static inline int python_walk__frames(const struct foreign_memory *memory, const struct python_layout *layout,
				      const struct so_python *w, uint64_t state, struct python_walked *out)
{
	uint64_t frame = foreign_memory__u64(memory, state + w->frame);
	int n = 0;

	if (w->flags & SO_PYTHON_CFRAME)
		frame = foreign_memory__u64(memory, frame + w->cframe_frame);
	while (frame && n < PYTHON_WALK_MAX) {
		uint8_t bytes[SO_PYTHON_FRAME_BYTES] = { 0 };
		uint64_t code;

		if (w->frame_bytes > sizeof(bytes) || !foreign_memory__read(memory, frame, bytes, w->frame_bytes))
			return -1;
		memcpy(&code, bytes + w->frame_code, sizeof(code));
		if (w->flags & SO_PYTHON_TAGGED)
			code &= ~3ull;
		if (w->entry == SO_PYTHON_ENTRY_SHIM && bytes[w->frame_entry] >= w->entry_owner) {
			if (n > 0)
				out[n - 1].entry = true;
		} else {
			out[n].code = code;
			out[n].instruction = python_walk__instruction(memory, w, bytes, code);
			out[n].entry = w->entry == SO_PYTHON_ENTRY_ALL ||
				       (w->entry == SO_PYTHON_ENTRY_FLAG && bytes[w->frame_entry]);
			python_walk__text(memory, layout, foreign_memory__u64(memory, code + layout->code.name),
					  out[n].name, sizeof(out[n].name));
			python_walk__text(memory, layout, foreign_memory__u64(memory, code + layout->code.filename),
					  out[n].filename, sizeof(out[n].filename));
			n++;
		}
		memcpy(&frame, bytes + w->frame_back, sizeof(frame));
	}
	return n;
}

#endif
