/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What each user other than root has of something that all share, so that no user takes all of it. Not thread-safe. */
#ifndef STAKEOUT_USER_SHARES_H
#define STAKEOUT_USER_SHARES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/os/u64_table.h"

struct user_shares {
	uint32_t of_one, of_all; /* the most that one user may have, and that all but root may */
	uint32_t all;            /* that they have */
	struct u64_table used;   /* by user */
};

/* Of so many in all: a quarter for one user, three quarters for all but root. */
static inline struct user_shares user_shares__of(uint32_t all)
{
	return (struct user_shares){ .of_one = all / 4, .of_all = all / 4 * 3 };
}

static inline uint32_t user_shares__used(const struct user_shares *s, uid_t uid)
{
	uint32_t used = 0;

	return u64_table__get(&s->used, uid, &used) ? used : 0;
}

/* Whether the user may have so much more. Root always may. */
static inline bool user_shares__has_room(const struct user_shares *s, uid_t uid, uint32_t n)
{
	return !uid || (n <= s->of_one && user_shares__used(s, uid) <= s->of_one - n && n <= s->of_all &&
			s->all <= s->of_all - n);
}

/* False, and nothing is taken: it would be more than the user may have. */
static inline bool user_shares__take(struct user_shares *s, uid_t uid, uint32_t n)
{
	if (!uid)
		return true;
	if (!user_shares__has_room(s, uid, n) || u64_table__set(&s->used, uid, user_shares__used(s, uid) + n))
		return false;
	s->all += n;
	return true;
}

/* n: part of what was taken. */
static inline void user_shares__give(struct user_shares *s, uid_t uid, uint32_t n)
{
	/* The user's entry is there, so that setting it needs no memory. */
	if (uid && n && !u64_table__set(&s->used, uid, user_shares__used(s, uid) - n))
		s->all -= n;
}

/* Nobody has anything. */
static inline void user_shares__reset(struct user_shares *s)
{
	u64_table__release(&s->used);
	s->all = 0;
}

#endif
