// SPDX-License-Identifier: GPL-2.0-or-later
/* How much of the times on and off the thread that makes the calls was not away for (cuda_active.h). */
#include <math.h>

#include "daemon/cuda/cuda_watch_parts.h"

#define ENOUGH_KNOWN_NS 1e9 /* of waits, to tell how much is usual */

static enum cuda_active_told read_waits(void *context, pid_t tid, uint64_t now, struct cuda_active_waits *waits)
{
	const struct cuda_watch *w = context;
	struct so_cuda_call call;
	uint64_t after_ns = 0;
	uint32_t api;

	if (cuda_probes__thread(w->probes, tid, &call))
		return CUDA_ACTIVE_NEVER;
	*waits = (struct cuda_active_waits){ call.away_ns, call.others, call.waits };
	/* The last of them may have returned after the time that is asked for. */
	if (call.back_ns > now) {
		after_ns = call.back_ns - (call.gone_ns > now ? call.gone_ns : now);
		waits->n -= waits->n > 0;
	}
	waits->ns -= after_ns <= waits->ns ? after_ns : 0;
	api = SO_CUDA_COOKIE_CALL(call.cookie);
	/* Where it makes cycled calls it is not away; and if it makes them unseen, it is in no other. */
	if (!call.active || api >= SO_CUDA_API_COUNT || SO_CUDA_COOKIE_SLOT(call.cookie) != w->slot ||
	    w->kinds.cycled >> cuda_names__kind(api) & 1)
		return CUDA_ACTIVE_KNOWN;
	if (!cuda_watch_is_under_way(w, &call))
		return CUDA_ACTIVE_LATER;
	waits->ns += now > call.begin_ns ? now - call.begin_ns : 0;
	waits->others += cuda_probes__tally(w->probes, w->slot) - call.others_before;
	return CUDA_ACTIVE_KNOWN;
}

static struct cuda_watch_active look(struct cuda_watch *w, uint64_t now, bool keep)
{
	double ns = now > w->active.looked_ns ? (double)(now - w->active.looked_ns) : 0;
	double share = cuda_active__share(&w->active, now, keep, read_waits, w);

	return share < 0 ? (struct cuda_watch_active){ share, 0, ns }
			 : (struct cuda_watch_active){ share, share * ns, 0 };
}

double cuda_watch_usual_share(const struct cuda_watch *w)
{
	double usual = cuda_active__usual(&w->active);

	return usual < 0 ? 1 : usual;
}

void cuda_watch_tell_unknown(struct cuda_watch *w)
{
	w->off_ns += cuda_watch_usual_share(w) * w->unknown_ns;
	w->unknown_ns = 0;
}

/* Nobody's waits are known any more: time off is all time from now on, what is left of it as well, and so is what the last time on stands for. */
static void lose_thread(struct cuda_watch *w)
{
	double usual = fmax(cuda_watch_usual_share(w), CUDA_WATCH_LEAST_SHARE);

	w->off_ns = (w->off_ns + usual * w->unknown_ns) / usual;
	w->carried_ns /= usual;
	w->unknown_ns = 0;
	w->last_progress_ns = w->last_all_ns;
	w->last_is_of_all = true;
}

/*
 * Somebody's waits are known from now on, but not how much of the last time on was waited: it stands for all time on. By all time it was chance
 * whether it met a burst, so it stands for as much as it has calls by the average of times on.
 */
static void find_thread(struct cuda_watch *w)
{
	const struct cuda_active *a = &w->active;
	double calls = fmin(w->last_seen.calls[CUDA_ESTIMATE_ALL], CUDA_ACTIVE_CALLS_MOST);
	double usual = a->on_ns > 0 ? a->on_calls / a->on_ns * (double)w->last_on_ns : 0;

	/* Once: it may be lost and found again before another time on takes the last one's place. */
	if (!w->last_is_of_all && calls > 0 && usual > 0)
		w->last_progress_ns = w->last_all_ns *= calls / usual;
	w->last_is_of_all = true;
}

double cuda_watch_look_off(struct cuda_watch *w, uint64_t now)
{
	pid_t before = w->active.tid;
	struct cuda_watch_active active = look(w, now, true);

	if (before && !w->active.tid)
		lose_thread(w);
	else if (!before && w->active.tid)
		find_thread(w);
	/* Nothing is called after the last process with a library has ended. */
	if (w->ended_ns)
		return active.share;
	w->off_ns += active.ns;
	w->unknown_ns += active.unknown_ns;
	if (w->active.known_ns >= ENOUGH_KNOWN_NS || !w->active.tid)
		cuda_watch_tell_unknown(w);
	return active.share;
}

double cuda_watch_off_to(struct cuda_watch *w, uint64_t now)
{
	struct cuda_watch_active active = look(w, now, false);

	return w->off_ns + active.ns + cuda_watch_usual_share(w) * (w->unknown_ns + active.unknown_ns);
}

struct cuda_watch_active cuda_watch_look_on(struct cuda_watch *w, uint64_t now, bool keep)
{
	struct cuda_watch_active on = look(w, now, keep);

	if (on.share >= 0)
		return on;
	if (keep)
		cuda_watch_tell_unknown(w);
	return (struct cuda_watch_active){ cuda_watch_usual_share(w), cuda_watch_usual_share(w) * on.unknown_ns,
					   0 };
}

void cuda_watch_end_quiet(struct cuda_watch *w, uint64_t now)
{
	cuda_watch_look_off(w, now);
	if (!w->ended_ns)
		cuda_pace__add_off(&w->pace, w->active.last.ns, w->active.last.waits);
}

void cuda_watch_begin_waits(struct cuda_watch *w, uint64_t now)
{
	/* Where all calls count, nobody asks. */
	if (w->kinds.cycled)
		cuda_active__begin_on(&w->active, now, read_waits, w);
}

void cuda_watch_look_waits(struct cuda_watch *w, uint64_t now)
{
	cuda_active__look_on(&w->active, now, read_waits, w);
}
