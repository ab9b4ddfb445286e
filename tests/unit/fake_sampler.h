/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A sampler without a kernel, for the tests of what gives the kernel its tables: shards, mappings, rules and the map of
 * processes are plain memory. It implements those functions of daemon/kernel/sampler.h, and no others.
 */
#ifndef STAKEOUT_TEST_FAKE_SAMPLER_H
#define STAKEOUT_TEST_FAKE_SAMPLER_H

#include "daemon/kernel/sampler.h"

/* NULL when out of memory; released by sampler__free(). */
struct sampler *fake_sampler__new(void);
/* Opening a shard from this number on is answered by `error`. */
void fake_sampler__limit_shards(struct sampler *s, unsigned n, int error);
/* Every sampler__set_process() is answered by this error; 0: they work again. */
void fake_sampler__fail_processes(struct sampler *s, int error);
/* Words of a shard, NULL when it was never opened. */
const uint32_t *fake_sampler__shard(const struct sampler *s, unsigned i);
/* sampler__shard_open() less sampler__shard_close(), of all fake samplers. */
int fake_sampler__open_shards(void);
/* Processes that the kernel side knows. */
size_t fake_sampler__processes(const struct sampler *s);
/* How often a process was given to the kernel side. */
unsigned fake_sampler__updates(const struct sampler *s);

#endif
