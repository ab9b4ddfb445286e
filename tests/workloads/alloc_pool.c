// SPDX-License-Identifier: GPL-2.0-or-later
/* An allocator with two functions of mimalloc's names, for alloc_count.c: blocks of 1024 bytes of one array. */
#include <stddef.h>

#define BLOCKS 65536

static char blocks[BLOCKS][1024];
static void *freed[BLOCKS];
static size_t n_freed, n_blocks;

void *mi_malloc(size_t bytes)
{
	if (bytes > sizeof(blocks[0]))
		return NULL;
	if (n_freed)
		return freed[--n_freed];
	return n_blocks < BLOCKS ? blocks[n_blocks++] : NULL;
}

void mi_free(void *block)
{
	if (block && n_freed < BLOCKS)
		freed[n_freed++] = block;
}
