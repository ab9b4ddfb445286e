/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The coroutines of a task (python_task.h), from the outermost to what they wait for. For that alone. */
#ifndef STAKEOUT_PYTHON_COROUTINE_H
#define STAKEOUT_PYTHON_COROUTINE_H

#include "daemon/python/python_object.h"
#include "daemon/python/python_task.h"

/* The object's first `bytes`, but for its count of references, which says nothing and changes. */
bool python_coroutine__read_object(struct python_task_reader *reader, uint64_t address, size_t bytes,
				   struct python_object *object);
/* The address of an object's type. */
bool python_coroutine__type(struct python_task_reader *reader, uint64_t object, uint64_t *type);
enum python_type_kind python_coroutine__kind(struct python_task_reader *reader, uint64_t type);

/*
 * Fills in the frames and the state. running: the thread state that runs the task; 0: none does. Errors as
 * python_task__read().
 */
int python_coroutine__read(struct python_task_reader *reader, uint64_t coroutine, uint64_t running,
			   struct python_task *out);

#endif
