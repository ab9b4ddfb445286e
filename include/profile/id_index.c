/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Most tools number from 1 in order: the id is the place. Other ids are sorted and searched, at a bounded cost. */
#include "profile/id_index.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct id_place {
	uint64_t id;
	size_t place;
};

struct id_index {
	size_t n;
	struct id_place *sorted; /* NULL: id = place + 1 */
};

static int compare_ids(const void *a, const void *b)
{
	const struct id_place *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static uint64_t id_of(const void *message, size_t id_offset)
{
	uint64_t id;

	memcpy(&id, (const char *)message + id_offset, sizeof(id));
	return id;
}

static int sort_ids(struct arena *arena, void *const *messages, size_t id_offset, struct id_index *index)
{
	index->sorted = arena__array(arena, index->n, sizeof(*index->sorted));
	if (!index->sorted)
		return -ENOMEM;
	for (size_t i = 0; i < index->n; i++)
		index->sorted[i] = (struct id_place){ id_of(messages[i], id_offset), i };
	qsort(index->sorted, index->n, sizeof(*index->sorted), compare_ids);
	for (size_t i = 0; i < index->n; i++)
		if (!index->sorted[i].id || (i && index->sorted[i].id == index->sorted[i - 1].id))
			return -EINVAL;
	return 0;
}

int id_index__new(struct arena *arena, void *const *messages, size_t n, size_t id_offset, struct id_index **out)
{
	struct id_index *index = arena__alloc(arena, sizeof(*index));
	bool in_order = true;
	int ret;

	if (!index)
		return -ENOMEM;
	*index = (struct id_index){ .n = n };
	for (size_t i = 0; in_order && i < n; i++)
		in_order = id_of(messages[i], id_offset) == i + 1;
	ret = in_order ? 0 : sort_ids(arena, messages, id_offset, index);
	if (ret < 0)
		return ret;
	*out = index;
	return 0;
}

size_t id_index__find(const struct id_index *index, uint64_t id)
{
	struct id_place key = { .id = id };
	const struct id_place *found;

	if (!index->sorted)
		return id && id <= index->n ? (size_t)(id - 1) : ID_INDEX_NONE;
	found = bsearch(&key, index->sorted, index->n, sizeof(key), compare_ids);
	return found ? found->place : ID_INDEX_NONE;
}
