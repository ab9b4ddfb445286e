/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a program's steps begin: a function, which is entered once a step. A probe on its entry tells each entry with its
 * time (SO_STEP_STACK), as a sample of kind SAMPLE_STEP.
 *
 * A native function is found by its name, as profiles show it ("torch::autograd::Engine::execute"), in the files that the
 * target's root process maps, and gets a uprobe in this process and what it forks.
 */
#ifndef STAKEOUT_STEPS_H
#define STAKEOUT_STEPS_H

#include "daemon/targets/targets.h"

/* With the engine's lock. */
void steps__add(struct target *t, const struct stack_sample *sample);

/* A native function in one of a process's files. */
struct step_place {
	int fd;          /* of the file; -1: none */
	uint64_t offset; /* in it, of the function's first instruction */
	char file[128];  /* its name, */
	char name[256];  /* and the function's */
};

/*
 * Finds the function, without any lock, in a bounded call: -ENOENT: no file of the process has it; -EEXIST: several
 * have; -EINPROGRESS: its files take too long to read; others from reading. place->fd is the caller's to close.
 */
int steps__find(pid_t pid, const char *name, struct step_place *place, struct so_error *err);

/* Places the probe. With the engine's lock. */
int steps__begin(struct target *t, struct sampler *sampler, const struct step_place *place, struct so_error *err);
/* Takes it away. */
void steps__end(struct target *t);

#endif
