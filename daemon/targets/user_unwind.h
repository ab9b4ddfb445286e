/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel side's unwinder, compiled for user space: for samples that it could not unwind because the process had
 * just changed its mappings, and for threads that do not run. Over the tables in the kernel's maps. With the engine's
 * lock held.
 */
#ifndef STAKEOUT_USER_UNWIND_H
#define STAKEOUT_USER_UNWIND_H

#include "daemon/learner/learn.h"
#include "daemon/os/thread_catch.h"
#include "daemon/targets/pythons.h"
#include "daemon/profile/accumulator.h"
#include "daemon/profile/jit_names.h"
#include "stakeout/threads_abi.h"

struct user_unwind {
	struct sampler *sampler;
	struct process_table *processes;
	struct learner *learner;
	struct pythons *pythons;
	struct jit_names *jits; /* NULL: JIT code gets its newest names */
};

/*
 * A raw sample, over the copy of the stack that came with it; functions: those that its Python frames name. Rules that
 * were learned on the way are for learn_notes__publish(). -ENOMEM.
 */
int user_unwind__raw(const struct user_unwind *uu, struct process *process, const struct so_raw_record *raw,
		     struct python_functions *functions, struct stack **out);
/* After one or several of these, with the lock: gives back the tables that this thread mapped for them. */
void user_unwind__done(void);
/* The same for who comes again soon: most times it keeps them. */
void user_unwind__pause(void);
/* What is to be read of a thread before it can be unwound; memory_lock__catch() does that. */
void user_unwind__request(const struct process *process, const struct so_thread *thread,
			  struct thread_catch_request *out);
/*
 * A thread that does not run, over its memory as it was caught; what was not is read now. It may have run meanwhile:
 * the caller looks. memory: NULL where none of it can be read: then there are the kernel's frames and the innermost
 * one. file: number of the file that it waits for, which becomes the innermost frame; 0: none. -ENOMEM.
 */
int user_unwind__caught(const struct user_unwind *uu, struct process *process, const struct so_thread *thread,
			const struct thread_memory *memory, uint32_t file, struct stack **out);

#endif
