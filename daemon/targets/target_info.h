/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is said of a target. */
#ifndef STAKEOUT_TARGET_INFO_H
#define STAKEOUT_TARGET_INFO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/os/limits.h"
#include "daemon/os/process_access.h"
#include "daemon/processes/process_labels.h"

#define ENGINE_MIN_RATE_HZ     1
#define ENGINE_MAX_RATE_HZ     10000
#define ENGINE_DEFAULT_RATE_HZ 99
/* Of ENGINE_MAX_TARGETS those attached for one user other than root, and for all such together: */
#define ENGINE_MAX_TARGETS_USER  24
#define ENGINE_MAX_TARGETS_USERS 48

enum target_state {
	TARGET_ATTACHING, /* its files are being read */
	TARGET_SAMPLING,
	TARGET_ENDED, /* no more samples; what was taken is kept until engine__detach */
};

enum target_end {
	TARGET_END_NONE,
	TARGET_END_DURATION, /* its duration was over */
	TARGET_END_EXITED,   /* its last process ended */
	TARGET_END_STOPPED,  /* engine__stop */
	TARGET_END_FAILED,   /* attaching failed after the call had returned; see error */
};

/* Resident memory of a target's processes together, bytes; anonymous: without what is swapped out. */
struct target_memory_now {
	bool known;
	uint64_t anonymous, file, shared, swapped;
};

struct target_info {
	uint32_t id;
	pid_t pid;
	uid_t uid;            /* real user of the root process at attach */
	struct caller viewer; /* who may see the target beside root; uid 0: nobody */
	char comm[16];        /* of the root process at attach */
	enum target_state state;
	enum target_end end;
	unsigned rate_hz;
	bool children, kernel, keep;
	bool wall;                            /* its waiting threads are looked at (waits.h) */
	bool timed;                           /* its samples are kept with their times */
	uint64_t slow_step_ns, usual_step_ns; /* the step that it was ended for, and the 95th percentile; 0: none */
	double elapsed_s;                     /* of sampling */
	unsigned processes;                   /* living now */
	uint64_t samples;                     /* drained so far, lost ones included */
	uint64_t lost;
	bool hides;          /* some of its processes are not to be seen by the viewer */
	bool window_carries; /* its open window has samples of a generation that turned old: it is to be taken soon */
	uint32_t rule;       /* that attached it; 0: none */
	struct process_labels labels;    /* of the root process */
	struct target_memory_now memory; /* of one whose memory is watched (memory_watch.h) */
};

#endif
