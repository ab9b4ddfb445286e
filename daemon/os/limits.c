// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/limits.h"

#include <errno.h>
#include <pthread.h>

#include "daemon/os/clock.h"
#include "daemon/os/bounded_call.h"
#include "daemon/os/user_shares.h"
#include "stakeout/looks_abi.h"
#include "stakeout/sampler_abi.h"

static const struct {
	const char *word;
	uint64_t most;
	bool counted;
} limits[LIMIT_COUNT] = {
#define X(name, word, most, counted) [LIMIT_##name] = { word, most, counted },
	LIMITS(X)
#undef X
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards `now` and `hits` */
static pthread_cond_t given = PTHREAD_COND_INITIALIZER;
static uint64_t now[LIMIT_COUNT], hits[LIMIT_COUNT];

void limits__hit(enum limit limit, uint64_t n)
{
	pthread_mutex_lock(&lock);
	hits[limit] += n;
	pthread_mutex_unlock(&lock);
}

void limits__set(enum limit limit, uint64_t value)
{
	pthread_mutex_lock(&lock);
	now[limit] = value;
	pthread_mutex_unlock(&lock);
}

/* Under the same lock. */
static struct user_shares shares[LIMIT_COUNT] = {
	[LIMIT_PROFILES] = { .of_one = LIMITS_PROFILES / 2, .of_all = LIMITS_PROFILES - 1 },
	[LIMIT_FILE_COPIES] = { .of_one = FILE_COPY_ALL_BYTES / 4, .of_all = FILE_COPY_ALL_BYTES / 4 * 3 },
	[LIMIT_REPLY_BYTES] = { .of_one = LIMITS_REPLY_BYTES / 4, .of_all = LIMITS_REPLY_BYTES / 4 * 3 },
};

static bool fits(enum limit limit, uint64_t n)
{
	return n <= limits[limit].most && now[limit] <= limits[limit].most - n;
}

static bool wait_of(enum limit limit, uid_t uid, uint64_t n, unsigned ms)
{
	uint64_t until_ns = clock__now_ns() + ms * 1000000ull;
	bool ok;

	pthread_mutex_lock(&lock);
	while (!(ok = fits(limit, n) && user_shares__take(&shares[limit], uid, (uint32_t)n)) && ms &&
	       clock__wait(&given, &lock, until_ns) != ETIMEDOUT)
		;
	if (ok)
		now[limit] += n;
	else
		hits[limit]++;
	pthread_mutex_unlock(&lock);
	return ok;
}

bool limits__take(enum limit limit, uint64_t n)
{
	return limits__wait(limit, n, 0);
}

bool limits__take_of(enum limit limit, uid_t uid, uint64_t n)
{
	return wait_of(limit, uid, n, 0);
}

bool limits__wait(enum limit limit, uint64_t n, unsigned ms)
{
	return wait_of(limit, 0, n, ms);
}

void limits__give(enum limit limit, uint64_t n)
{
	pthread_mutex_lock(&lock);
	now[limit] -= n < now[limit] ? n : now[limit];
	pthread_cond_broadcast(&given);
	pthread_mutex_unlock(&lock);
}

void limits__give_of(enum limit limit, uid_t uid, uint64_t n)
{
	pthread_mutex_lock(&lock);
	user_shares__give(&shares[limit], uid, (uint32_t)n);
	pthread_mutex_unlock(&lock);
	limits__give(limit, n);
}

static uint32_t used_by(enum limit limit, uid_t uid, uint32_t *all)
{
	uint32_t used;

	pthread_mutex_lock(&lock);
	used = user_shares__used(&shares[limit], uid);
	*all = shares[limit].all;
	pthread_mutex_unlock(&lock);
	return used;
}

static int refuse_profile(uid_t uid, struct so_error *err)
{
	uint32_t all, own = used_by(LIMIT_PROFILES, uid, &all);

	if (uid && own >= shares[LIMIT_PROFILES].of_one)
		return so_err(err, -EBUSY, "%u profiles are being built for you already: try again later", own);
	if (uid && all >= shares[LIMIT_PROFILES].of_all)
		return so_err(err, -EBUSY, "%u profiles are being built for users already: try again later", all);
	return so_err(err, -EBUSY, "%d profiles are being built already: try again later", LIMITS_PROFILES);
}

int limits__wait_profile(uid_t uid, struct so_error *err)
{
	return wait_of(LIMIT_PROFILES, uid, 1, LIMITS_PROFILES_WAIT) ? 0 : refuse_profile(uid, err);
}

json_t *limits__json(void)
{
	json_t *all = json_array();
	int ret = 0;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < LIMIT_COUNT; i++)
		ret |= json_array_append_new(
			all,
			json_pack("{s:s, s:I, s:o, s:I}", "name", limits[i].word, "limit", (json_int_t)limits[i].most,
				  "now", limits[i].counted ? json_integer((json_int_t)now[i]) : json_null(), "hit",
				  (json_int_t)hits[i]));
	pthread_mutex_unlock(&lock);
	if (ret) {
		json_decref(all);
		return NULL;
	}
	return all;
}
