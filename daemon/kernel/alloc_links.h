/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Links of probes in allocators, made in a thread of their own, one after the other as they are asked for. To place
 * one the kernel takes the lock of the memory of each process that maps the file, and meanwhile keeps all others from
 * being placed (register_for_each_vma() of kernel/events/uprobes.c): a process that holds its lock for long holds
 * up that thread alone. May be called by any thread.
 */
#ifndef STAKEOUT_ALLOC_LINKS_H
#define STAKEOUT_ALLOC_LINKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/cleanup.h"

struct alloc_links;
struct alloc_link;

/* Descriptors of the programs, borrowed. session -1: the kernel has none such (before 6.13); the others are used. */
struct alloc_programs {
	int session, enter, leave;
};

/* -ENOMEM, -errno of making a thread. */
int alloc_links__new(const struct alloc_programs *programs, struct alloc_links **out);
/* All links must have been freed. One that the kernel does not make within a second is left to itself. */
void alloc_links__free(struct alloc_links *links);
CLEANUP_DEFINE(struct alloc_links *, alloc_links, alloc_links__free)

/* Offsets in the file where the probes go, and a cookie for each (stakeout/alloc_abi.h); all borrowed. */
struct alloc_places {
	const uint64_t *offsets, *cookies;
	uint32_t n;
};
/* Asks for one. fd: of the file, borrowed. In that process alone. -ENOMEM, -EMFILE. */
int alloc_links__ask(struct alloc_links *links, pid_t pid, int fd, const struct alloc_places *places,
		     struct alloc_link **out);
/* 0: it is there; -EINPROGRESS: not yet; -errno: the kernel refused it. */
int alloc_link__state(struct alloc_link *link);
/* The same, once it is not in progress any more; -ETIMEDOUT: it was so until then (CLOCK_MONOTONIC). */
int alloc_link__wait(struct alloc_link *link, uint64_t until_ns);
/* How long it is in progress, or was until it was there. */
uint64_t alloc_link__waited_ns(struct alloc_link *link);
/* The probes go soon, or as soon as they are there; NULL is fine. */
void alloc_link__free(struct alloc_link *link);
/* Whether some that were freed still go: probes that are placed now would see calls twice. */
bool alloc_links__going(struct alloc_links *links, pid_t pid);

#endif
