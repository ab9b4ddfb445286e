/* SPDX-License-Identifier: GPL-2.0-or-later */
/* From the id of a mapping, function or location to its place in the message. Ids are the writer's choice. */
#ifndef STAKEOUT_PROFILE_ID_INDEX_H
#define STAKEOUT_PROFILE_ID_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "profile/arena.h"

#define ID_INDEX_NONE SIZE_MAX

struct id_index;

/* messages: n pointers to structs, a uint64_t id at id_offset. In the arena. -EINVAL: an id is 0 or double; -ENOMEM. */
int id_index__new(struct arena *arena, void *const *messages, size_t n, size_t id_offset, struct id_index **out);
/* The place of an id, or ID_INDEX_NONE. */
size_t id_index__find(const struct id_index *index, uint64_t id);

#endif
