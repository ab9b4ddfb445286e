/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The capabilities that the daemon goes on with once it has loaded what needs more. A set of capabilities belongs to a
 * thread and is inherited by those it starts: so they are given up by the only thread there is, before others begin.
 */
#ifndef STAKEOUT_PRIVILEGES_H
#define STAKEOUT_PRIVILEGES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/error.h"

#define PRIVILEGES_TEXT 256

/*
 * Sets of capabilities: bit N is capability N of include/uapi/linux/capability.h.
 *
 * What of `permitted` is used after the start. CAP_SYS_ADMIN is part of it only where one that is a part of it is
 * not permitted, or is not known to the kernel, whose greatest one is `last`.
 */
uint64_t privileges__wanted(uint64_t permitted, unsigned last);

/*
 * Gives up all but those (and CAP_SYS_ADMIN, where this kernel asks for it to open clock events): in the permitted,
 * effective, inheritable, ambient and bounding sets, and for programs that are executed (no_new_privs). Without
 * CAP_SETPCAP the bounding set stays, which no_new_privs makes useless. -EBUSY: the process has other threads already;
 * others from the kernel, in words.
 */
int privileges__drop(struct so_error *err);

/* Those that the calling thread may use now; 0 as well when the kernel does not tell. */
uint64_t privileges__now(void);

/* "CAP_BPF, CAP_PERFMON"; "none". */
void privileges__names(uint64_t set, char text[PRIVILEGES_TEXT]);
/* Those that stakeoutd uses and this thread lacks, by name; "" when there are none. Returns text. */
const char *privileges__missing(char text[PRIVILEGES_TEXT]);

/* The same in words for a message "(it lacks …)" about something that was not permitted. Returns text. */
const char *privileges__why(char text[PRIVILEGES_TEXT]);

/*
 * {"kept": [name], "missing": [{"name", "for"}], "bounding": [name], "no_new_privs": bool}, all as the kernel tells it
 * of the calling thread. New reference; NULL: no memory.
 */
json_t *privileges__json(void);

#endif
