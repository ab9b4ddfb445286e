/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Second opinions on a stopped process: libdwfl, and the walk of cfi_walk.h by libdw. Both execute the call-frame
 * information for all registers and share nothing with stakeout's tables.
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
	bool exact;  /* an interrupted instruction: not a return address */
	bool signal; /* a signal trampoline */
	bool leaped; /* the caller's rsp is not the CFA */
};

struct referee;

/* Learns the modules that the process has mapped now. NULL when that fails. */
struct referee *referee__new(pid_t pid);
void referee__free(struct referee *referee);
CLEANUP_DEFINE(struct referee *, referee, referee__free)

/*
 * The frames from these registers, innermost first, with memory read through `read`. 0 when the last one is outermost
 * by its unwind information; -ENODATA when they end before; -EBADMSG when libdwfl and libdw do not agree, beyond what
 * cfi_walk.h says of libdwfl: it may then have less. *n frames are libdw's in each case.
 */
int referee__frames(struct referee *referee, const uint64_t regs[TRACEE_REGS],
		    bool (*read)(void *context, uint64_t address, uint64_t *word), void *context,
		    struct referee_frame *frames, size_t *n);
/* How often libdwfl had less so far. */
uint64_t referee__short(const struct referee *referee);

Dwfl *referee__dwfl(struct referee *referee);

#endif
