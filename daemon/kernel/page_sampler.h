/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel side of memory's growth: loads bpf/memory/pages.bpf.c beside the sampler, whose tables and ring of stacks
 * it uses, and attaches it as long as a target is watched. Not thread-safe: the engine serialises.
 */
#ifndef STAKEOUT_PAGE_SAMPLER_H
#define STAKEOUT_PAGE_SAMPLER_H

#include "daemon/kernel/sampler.h"
#include "stakeout/pages_abi.h"

/*
 * What the two tracepoints add to a page fault of any process of the machine, ns: 8 MiB touched and given back, again
 * and again, with and without, alternating (.design/memory.md).
 */
#define PAGE_SAMPLER_FAULT_NS 200

struct page_sampler;

/* -ENOTSUP: the kernel lacks what is needed, in words. Takes some 100 ms. */
int page_sampler__new(const struct sampler *sampler, struct page_sampler **out, struct so_error *err);
void page_sampler__free(struct page_sampler *s);
CLEANUP_DEFINE(struct page_sampler *, page_sampler, page_sampler__free)

/* By which pages are chosen: so_page_hash(). */
uint64_t page_sampler__salt(const struct page_sampler *s);
/* Begins with a slot's target. -errno: of attaching, and nothing has begun. */
int page_sampler__begin(struct page_sampler *s, uint32_t slot);
/* The same for one that had ended, with its counts. */
int page_sampler__go_on(struct page_sampler *s, uint32_t slot, uint32_t threshold, uint32_t random);
/* Nothing more of the slot comes, but what is in the ring. With the last one the programs are taken away. */
void page_sampler__end(struct page_sampler *s, uint32_t slot);
/* The lowest threshold that the slot has had since this was last called, or begun. */
uint32_t page_sampler__take_lowest(struct page_sampler *s, uint32_t slot);
/* From now on more pages are chosen, or fewer; SO_PAGE_MIN_THRESHOLD to SO_PAGE_MAX_THRESHOLD. */
void page_sampler__set_threshold(struct page_sampler *s, uint32_t slot, uint32_t threshold);
/* The same of those that are chosen at random. */
void page_sampler__set_random(struct page_sampler *s, uint32_t slot, uint32_t threshold);
/* When the page was touched last, of those that were touched lately; 0: it is not known. */
uint64_t page_sampler__touched_ns(const struct page_sampler *s, uint32_t tgid, uint64_t page);
/* As it is now: the kernel side counts on. */
struct so_page_slot page_sampler__slot(const struct page_sampler *s, uint32_t slot);

#endif
