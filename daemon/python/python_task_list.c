// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/python/python_task_list.h"

#include <errno.h>

#include "daemon/python/python_object.h"

/* struct llist_node */
struct node {
	uint64_t next, prev;
};

static bool is_pointer(uint64_t address)
{
	return address >= 0x1000 && address < PYTHON_MAX_USER_ADDRESS && address % 8 == 0;
}

/* Each node points back to the one before, so a list has no circle but the whole. */
int python_task_list__walk(const struct foreign_memory *memory, const struct python_asyncio *asyncio,
			   struct python_task_walk *walk, uint64_t *tasks, unsigned room, unsigned *n)
{
	struct node node;

	*n = 0;
	if (!walk->begun) {
		if (!foreign_memory__read(memory, walk->head, &node, sizeof(node)))
			return -EAGAIN;
		walk->begun = true;
		walk->before = walk->head;
		walk->at = node.next;
		/* A thread that never had a loop has no list. */
		walk->ended = !node.next;
	}
	while (!walk->ended && *n < room) {
		if (walk->at == walk->head) {
			walk->ended = true;
			break;
		}
		if (!is_pointer(walk->at) || !foreign_memory__read(memory, walk->at, &node, sizeof(node)) ||
		    node.prev != walk->before)
			return -EAGAIN;
		tasks[(*n)++] = walk->at - asyncio->node;
		walk->before = walk->at;
		walk->at = node.next;
	}
	return 0;
}
