// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The clock that windows grow old by. A wall clock that is wrong by years for a minute must not cost all history, so
 * this one follows it forward no faster than CLOCK_SPEED times the time that passes, and back no faster than time
 * passes. It stands still while no daemon runs, and is behind by a time of rest until it has caught up. What the wall
 * clock has said without a step for as long as windows are kept is right: all that is younger was written under it.
 */
#include <errno.h>

#include "daemon/history/store_internal.h"

#define CLOCK_SPEED 2
#define STEP_NS     (60 * STORE_SECOND_NS) /* between two looks; less is a clock that is brought into line */

static int64_t clamp(int64_t x, int64_t least, int64_t most)
{
	return x < least ? least : x > most ? most : x;
}

static void look_for_step(struct store_clock *clock, int64_t wall_ns, int64_t elapsed_ns)
{
	int64_t step_ns = wall_ns - elapsed_ns - clock->offset_ns;

	if (step_ns < -STEP_NS || step_ns > STEP_NS)
		clock->steady_ns = elapsed_ns;
	clock->offset_ns += step_ns;
}

int64_t store_clock__now(struct store *store)
{
	struct store_clock *clock = &store->clock;
	int64_t wall_ns = store->now_ns(), elapsed_ns = store->elapsed_ns();
	int64_t passed_ns = elapsed_ns - clock->elapsed_ns;

	look_for_step(clock, wall_ns, elapsed_ns);
	clock->elapsed_ns = elapsed_ns;
	if (!clock->now_ns)
		return wall_ns;
	if (elapsed_ns - clock->steady_ns >= store->retain_age_ns)
		clock->now_ns = wall_ns;
	else
		clock->now_ns += clamp(wall_ns - clock->now_ns, -passed_ns, CLOCK_SPEED * passed_ns);
	return clock->now_ns < wall_ns ? clock->now_ns : wall_ns;
}

/* A store without windows has nothing that could grow old too early. */
int store_clock__load(struct store *store)
{
	int ret;

	if (store->clock.now_ns)
		return 0;
	ret = sql__get_number(store->db, "SELECT now_ns FROM clock WHERE now_ns > 0", 0, NULL, &store->clock.now_ns);
	store->clock.elapsed_ns = store->elapsed_ns();
	return ret == -ENOENT ? 0 : ret;
}

int store_clock__save(struct store *store)
{
	int64_t wall_ns = store_clock__now(store), any;
	int ret = sql__get_number(store->db, "SELECT EXISTS(SELECT 1 FROM windows)", 0, NULL, &any);

	if (ret)
		return ret;
	if (!any)
		store->clock.now_ns = 0;
	else if (!store->clock.now_ns)
		store->clock.now_ns = wall_ns;
	return SQL_RUN(store->db, "UPDATE clock SET now_ns = ?1", store->clock.now_ns);
}
