/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libdwfl as the second opinion on a stopped process: it executes the call-frame information itself, for all
 * registers, and shares nothing with stakeout's tables.
 */
#ifndef STAKEOUT_TESTS_REFEREE_H
#define STAKEOUT_TESTS_REFEREE_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/cleanup.h"
#include "tests/golden/tracee.h"

#define REFEREE_MAX_FRAMES 2048

struct referee_frame {
	uint64_t pc, sp;
	bool exact; /* an interrupted instruction or a signal trampoline: not a return address */
};

struct referee;

/* Learns the modules that the process has mapped now. NULL when that fails. */
struct referee *referee__new(pid_t pid);
void referee__free(struct referee *referee);
CLEANUP_DEFINE(struct referee *, referee, referee__free)

/*
 * The frames from these registers, innermost first, with memory read through `read`. True when the last one is
 * outermost by its unwind information; *n frames are valid in either case.
 */
bool referee__frames(struct referee *referee, const uint64_t regs[TRACEE_REGS],
		     bool (*read)(void *context, uint64_t address, uint64_t *word), void *context,
		     struct referee_frame *frames, size_t *n);

Dwfl *referee__dwfl(struct referee *referee);

#endif
