/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Makes placing and removing uprobes quick, for who says a little before that it is coming.
 *
 * The kernel does either under a lock of its own (dup_mmap_sem, kernel/events/uprobes.c), a percpu_rw_semaphore: its writer
 * waits for an RCU grace period, 5 to 25 ms, unless another one was there within the last grace period (kernel/rcu/sync.c). When
 * probes are taken away, the target runs into them all that time. So a thread becomes a writer before, again and again as long as
 * the gate is wanted open, by a link on a file of ours that nobody executes. Links of eight functions, kernel 6.18: made in 0.2 ms
 * instead of 7 to 26, last hit 0.2 to 0.4 ms after closing began instead of 5 to 18.
 *
 * All functions may be called by any thread.
 */
#ifndef STAKEOUT_CUDA_GATE_H
#define STAKEOUT_CUDA_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "stakeout/cleanup.h"

/* So long before it is needed, in ms, the gate should be asked for: most grace periods are over then. */
#define CUDA_GATE_AHEAD_MS 15

struct cuda_gate;

/*
 * write: makes a link, which may take a grace period, and returns its descriptor, which is to be closed; in the gate's thread.
 * -EAGAIN: not now; -EBUSY: not for 10 s; other -errno: not on this kernel. close: takes the descriptor, and returns at once. -ENOMEM, -errno of making a thread.
 */
int cuda_gate__new(int (*write)(void *context), void (*close)(void *context, int fd), void *context,
		   struct cuda_gate **out);
/* The gate is to be open until then (CLOCK_MONOTONIC). Returns at once. */
void cuda_gate__want(struct cuda_gate *gate, uint64_t until_ns);
/* Whether it is open now; also where there are no such links, or not for a while: who waited for it would wait in vain. */
bool cuda_gate__is_open(struct cuda_gate *gate);
/* NULL is fine. */
void cuda_gate__free(struct cuda_gate *gate);
CLEANUP_DEFINE(struct cuda_gate *, cuda_gate, cuda_gate__free)

#endif
