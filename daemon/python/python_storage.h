/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the threads of a process keep their thread state: CPython puts it under a pthread key (autoTSSkey), and glibc
 * puts the values of a thread's first 32 keys into the thread's descriptor, to which fsbase points. musl's descriptor
 * has a pointer to a table of all values. What other C libraries do is not known here. From 3.15 on it is a
 * thread-local variable, which lies before the descriptor.
 */
#ifndef STAKEOUT_PYTHON_STORAGE_H
#define STAKEOUT_PYTHON_STORAGE_H

#include "daemon/python/python_process.h"

/*
 * Fills in place->tss and place->table, by looking for thread states where they belong. locals: of its file. threads:
 * the interpreter's, n of them. -ENOTSUP: this C library keeps them elsewhere, or the key is beyond glibc's first 32,
 * and err says which.
 */
int python_storage__find(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t runtime,
			 const struct python_thread_locals *locals, const struct python_thread *threads, unsigned n,
			 struct so_python_place *place, struct so_error *err);

#endif
