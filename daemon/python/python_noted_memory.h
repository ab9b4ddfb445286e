/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory of a process that goes on while something in it is read piece by piece. Each piece is noted, and in the end
 * all are read again at once: in the order in which they were used and, in the same call, in the reverse order. If
 * every byte is the same each time, then so it was at one moment: whatever had changed in between would have had to
 * change back within some microseconds. That is done twice, since the reader may lose its CPU in one such call.
 */
#ifndef STAKEOUT_PYTHON_NOTED_MEMORY_H
#define STAKEOUT_PYTHON_NOTED_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/os/process_memory.h"
#include "daemon/os/foreign_memory.h"

#define PYTHON_NOTED_PIECES 320 /* twice as many are within IOV_MAX */
#define PYTHON_NOTED_BYTES  (48u << 10)

struct python_noted_memory {
	struct process_memory *reader;
	unsigned n;
	size_t bytes;
	bool full; /* there was more to note than there is room for */
	struct python_noted_piece {
		uint64_t address;
		size_t bytes;
	} pieces[PYTHON_NOTED_PIECES];
	uint8_t noted[PYTHON_NOTED_BYTES];
	uint8_t again[2 * PYTHON_NOTED_BYTES];
};

/* Of the reader's process; nothing is noted yet. To be forgotten before each other thing that is read. */
static inline void python_noted_memory__begin(struct python_noted_memory *m, struct process_memory *reader)
{
	m->reader = reader;
	m->n = 0;
	m->bytes = 0;
	m->full = false;
}

/* A reader that notes what it reads. Whoever calls it may hang: for a helper (daemon/os/memory_helper.h). */
struct foreign_memory python_noted_memory__reader(struct python_noted_memory *m);
/* Whether all that is noted is the same still, and was the same at one moment. */
bool python_noted_memory__is_same(struct python_noted_memory *m);

#endif
