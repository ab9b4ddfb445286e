// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/targets.h"

#include <errno.h>

#include "daemon/os/clock.h"
#include "daemon/os/limits.h"

_Static_assert(ENGINE_MAX_TARGETS + ENGINE_MAX_VIEWS == SO_MAX_SLOTS, "each has a slot");

struct target *targets__of_slot(const struct targets *ts, uint32_t slot)
{
	return slot < SO_MAX_SLOTS ? ts->by_slot[slot] : NULL;
}

struct target *targets__next(const struct targets *ts, const struct target *t)
{
	for (unsigned i = t ? t->slot + 1 : 0; i < SO_MAX_SLOTS; i++) {
		if (ts->by_slot[i])
			return ts->by_slot[i];
	}
	return NULL;
}

struct target *targets__find(const struct targets *ts, uint32_t id)
{
	struct target *t;

	TARGETS_EACH(t, ts)
	{
		if (t->id == id && !t->doomed)
			return t;
	}
	return NULL;
}

struct target *targets__find_windowed(const struct targets *ts, uint32_t id)
{
	struct target *t;

	TARGETS_EACH(t, ts)
	{
		if (t->id == id && windows__are_taken(&t->samples))
			return t;
	}
	return NULL;
}

struct target *targets__find_pid(const struct targets *ts, pid_t pid)
{
	struct target *t, *found = NULL;

	TARGETS_EACH(t, ts)
	{
		if (!t->doomed && t->info.pid == pid && t->info.state != TARGET_ENDED)
			found = t;
	}
	return found;
}

int targets__add(struct targets *ts, struct target *t)
{
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++) {
		if (ts->by_slot[i])
			continue;
		t->slot = i;
		t->id = t->info.id = ++ts->next_id;
		ts->by_slot[i] = t;
		return 0;
	}
	return -ENOSPC;
}

void targets__remove(struct targets *ts, struct target *t)
{
	ts->by_slot[t->slot] = NULL;
	targets__stacks_moved(ts);
}

unsigned targets__count(const struct targets *ts, bool view)
{
	const struct target *t;
	unsigned n = 0;

	TARGETS_EACH(t, ts)
	n += t->view == view;
	return n;
}

static struct target *older(struct target *oldest, struct target *t)
{
	if (t->info.state != TARGET_ENDED || t->users)
		return oldest;
	return !oldest || t->end_ns < oldest->end_ns ? t : oldest;
}

struct target *targets__oldest_ended(const struct targets *ts, bool view)
{
	struct target *t, *oldest = NULL;

	TARGETS_EACH(t, ts)
	oldest = t->view == view ? older(oldest, t) : oldest;
	return oldest;
}

struct target *targets__oldest_kept(const struct targets *ts)
{
	struct target *t, *oldest = NULL;

	TARGETS_EACH(t, ts)
	oldest = t->info.keep ? older(oldest, t) : oldest;
	return oldest;
}

int targets__check_share(const struct targets *ts, uid_t uid, bool view, struct so_error *err)
{
	unsigned own = 0, users = 0, each = view ? ENGINE_MAX_VIEWS / ENGINE_MAX_TARGETS : 1;
	const struct target *t;

	TARGETS_EACH(t, ts)
	{
		if (t->view != view)
			continue;
		own += t->caller.uid == uid;
		users += t->caller.uid != 0;
	}
	if (own < each * ENGINE_MAX_TARGETS_USER && users < each * ENGINE_MAX_TARGETS_USERS)
		return 0;
	limits__hit(view ? LIMIT_VIEWS : LIMIT_TARGETS, 1);
	if (view)
		return so_err(err, -ENOSPC, "as many recordings of watched processes run as users may have");
	if (own >= ENGINE_MAX_TARGETS_USER)
		return so_err(err, -ENOSPC, "%d processes are watched for you already, which is the most",
			      ENGINE_MAX_TARGETS_USER);
	return so_err(err, -ENOSPC, "%d processes are watched for users already, which is the most",
		      ENGINE_MAX_TARGETS_USERS);
}

/* One whose clocks run for a user other than root, or for this one; uid 0: for any. */
static bool has_clocks_for(const struct target *t, uid_t uid)
{
	return !t->view && t->info.state != TARGET_ENDED && t->caller.uid && (!uid || t->caller.uid == uid);
}

/* Of the different rates, with a further one. */
static unsigned sum_of_rates(const struct targets *ts, uid_t uid, unsigned rate_hz)
{
	const struct target *t, *before;
	unsigned sum = rate_hz;

	TARGETS_EACH(t, ts)
	{
		bool counted = !has_clocks_for(t, uid) || t->info.rate_hz == rate_hz;

		for (before = targets__next(ts, NULL); before != t; before = targets__next(ts, before))
			counted |= has_clocks_for(before, uid) && before->info.rate_hz == t->info.rate_hz;
		sum += counted ? 0 : t->info.rate_hz;
	}
	return sum;
}

int targets__check_rates(const struct targets *ts, uid_t uid, unsigned rate_hz, struct so_error *err)
{
	unsigned own = sum_of_rates(ts, uid, rate_hz), all = sum_of_rates(ts, 0, rate_hz);

	if (own <= ENGINE_MAX_USER_RATES_HZ && all <= ENGINE_MAX_USERS_RATES_HZ)
		return 0;
	limits__hit(LIMIT_USER_RATES, 1);
	if (own > ENGINE_MAX_USER_RATES_HZ)
		return so_err(err, -ENOSPC,
			      "the different rates of your recordings would be %u Hz together, and %d Hz is the most: "
			      "record at a lower rate, at one that you use already, or detach a process",
			      own, ENGINE_MAX_USER_RATES_HZ);
	return so_err(err, -ENOSPC,
		      "the different rates of all users' recordings would be %u Hz together, and %d Hz is the most: "
		      "record at a lower rate, or at the usual one of %d Hz",
		      all, ENGINE_MAX_USERS_RATES_HZ, ENGINE_DEFAULT_RATE_HZ);
}

unsigned targets__rate_sum(const struct targets *ts)
{
	const struct target *t;
	unsigned sum = 0;

	TARGETS_EACH(t, ts)
	sum += t->info.state == TARGET_SAMPLING ? t->info.rate_hz : 0;
	return sum;
}

bool targets__use_rate(const struct targets *ts, unsigned rate_hz)
{
	const struct target *t;

	TARGETS_EACH(t, ts)
	{
		if (t->info.state == TARGET_SAMPLING && t->info.rate_hz == rate_hz)
			return true;
	}
	return false;
}

size_t target__bytes(const struct target *t)
{
	return samples__bytes(&t->samples) + target_cuda__bytes(&t->cuda) + call_times__bytes(&t->calls);
}

size_t targets__bytes(const struct targets *ts)
{
	const struct target *t;
	size_t bytes = 0;

	TARGETS_EACH(t, ts)
	bytes += target__bytes(t);
	return bytes;
}

/* Those that can use it stay within it together until the next look. The next division gives all what one leaves. */
void targets__share_bytes(struct targets *ts)
{
	size_t used = targets__bytes(ts), share = 0;
	struct target *t;
	unsigned n = 0;

	TARGETS_EACH(t, ts)
	n += t->info.state != TARGET_ENDED;
	limits__set(LIMIT_SAMPLE_BYTES, used);
	if (n && used < ENGINE_ALL_SAMPLES_BYTES)
		share = (ENGINE_ALL_SAMPLES_BYTES - used) / n;
	TARGETS_EACH(t, ts)
	{
		if (t->info.state != TARGET_ENDED)
			samples__allow(&t->samples, share);
	}
}

void targets__stacks_moved(struct targets *ts)
{
	ts->moves++;
}

uint64_t targets__moves(const struct targets *ts)
{
	return ts->moves;
}

void target__moment(const struct target *t, struct samples_moment *out)
{
	uint64_t now_ns = clock__now_ns();

	samples__lost(&t->samples, &out->slot);
	out->names = target_python__names(&t->python);
	out->wall_lost_ns = samples__wall_lost_ns(&t->samples);
	out->at_ns = t->end_ns ? t->end_ns : now_ns;
	out->wall_ns = (int64_t)(clock__read_ns(CLOCK_REALTIME) - (now_ns - out->at_ns));
}
