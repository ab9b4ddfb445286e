// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/python/python_noted_memory.h"

#include <string.h>
#include <sys/uio.h>

#define PASSES 2

static bool read_noted(void *context, uint64_t address, void *to, size_t bytes)
{
	struct python_noted_memory *m = context;

	if (m->n == PYTHON_NOTED_PIECES || bytes > PYTHON_NOTED_BYTES - m->bytes) {
		m->full = true;
		return false;
	}
	if (process_memory__get(m->reader, address, to, bytes) != bytes)
		return false;
	m->pieces[m->n++] = (struct python_noted_piece){ address, bytes };
	memcpy(m->noted + m->bytes, to, bytes);
	m->bytes += bytes;
	return true;
}

struct foreign_memory python_noted_memory__reader(struct python_noted_memory *m)
{
	return (struct foreign_memory){ read_noted, m };
}

static bool read_again(struct python_noted_memory *m)
{
	struct iovec local = { m->again, 2 * m->bytes }, remote[2 * PYTHON_NOTED_PIECES];
	ssize_t n;

	for (unsigned i = 0; i < m->n; i++) {
		remote[i] = (struct iovec){ (void *)(uintptr_t)m->pieces[i].address, m->pieces[i].bytes };
		remote[2 * m->n - 1 - i] = remote[i];
	}
	n = process_vm_readv(m->reader->pid, &local, 1, remote, 2 * m->n, 0);
	return n >= 0 && (size_t)n == 2 * m->bytes;
}

/* Forwards as they were noted, and backwards behind that. */
static bool is_twice_the_same(const struct python_noted_memory *m)
{
	const uint8_t *back = m->again + 2 * m->bytes, *noted = m->noted;

	if (memcmp(m->again, m->noted, m->bytes) != 0)
		return false;
	for (unsigned i = 0; i < m->n; i++) {
		back -= m->pieces[i].bytes;
		if (memcmp(back, noted, m->pieces[i].bytes) != 0)
			return false;
		noted += m->pieces[i].bytes;
	}
	return true;
}

bool python_noted_memory__is_same(struct python_noted_memory *m)
{
	for (unsigned i = 0; i < PASSES; i++)
		if (m->n && (!read_again(m) || !is_twice_the_same(m)))
			return false;
	return true;
}
