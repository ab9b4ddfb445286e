/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Recordings whose client is gone. A client that dies cannot detach what it attached, so each recording has a
 * lease that every request about it renews; when nobody asked for too long, one that has no duration is stopped
 * and one that has ended is forgotten. Targets that are kept have no lease.
 */
#ifndef STAKEOUT_LEASE_H
#define STAKEOUT_LEASE_H

#include <stdint.h>

#include "daemon/engine/engine.h"

struct leases;

int leases__new(struct engine *engine, double ended_idle_s, double running_idle_s, struct leases **out,
		struct so_error *err);
/* unlimited: the recording has no duration, so nothing else would end it. -ENOMEM: the caller must detach it. */
int leases__add(struct leases *leases, uint32_t id, bool unlimited);
/* Renews; nothing happens for a target without a lease. */
void leases__touch(struct leases *leases, uint32_t id);
void leases__remove(struct leases *leases, uint32_t id);
void leases__free(struct leases *leases);
CLEANUP_DEFINE(struct leases *, leases, leases__free)

#endif
