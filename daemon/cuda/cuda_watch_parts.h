/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of cuda_watch.h share. */
#ifndef STAKEOUT_CUDA_WATCH_PARTS_H
#define STAKEOUT_CUDA_WATCH_PARTS_H

#include "daemon/cuda/cuda_watch.h"

static inline bool cuda_watch_is_on(const struct cuda_watch *w)
{
	return w->phase == CUDA_WATCH_ON;
}

/* The probes of the cycled kinds are there. */
static inline bool cuda_watch_has_cycled(const struct cuda_watch *w)
{
	return w->phase == CUDA_WATCH_LIGHT || w->phase == CUDA_WATCH_SETTLING || w->phase == CUDA_WATCH_ON;
}

#define CUDA_WATCH_MS          1000000ull /* ns */
#define CUDA_WATCH_LEAST_SHARE 0.01       /* of time that is not waited */

/* cuda_watch.c */

/* Its CPU time, ns; 0: it has ended. */
uint64_t cuda_watch_cpu_of(const struct cuda_process *process);
/* Places what is not there: the probes that stay, and those that come and go, or of these the light ones. */
void cuda_watch_attach_steady(struct cuda_watch *w, struct cuda_mapped *m);
void cuda_watch_attach_cycled(struct cuda_watch *w, struct cuda_mapped *m, bool light);
/* And on libraries that waited until fewer probes are being taken away. */
void cuda_watch_attach_waiting(struct cuda_watch *w);

/* 64 random bits that do not follow the target. */
uint64_t cuda_watch_random(struct cuda_watch *w);

/*
 * CPUs that the target has kept busy in the last seconds. The clock of a process that runs on another CPU lags by a tick, 4 to 10 ms: of
 * short times that is made up for, lest a target that works seem not to.
 */
#define CUDA_WATCH_CLOCK_LAG_NS 8e6
static inline double cuda_watch_busy(const struct cuda_watch *w)
{
	return w->busy_cpu_ns > 0 ? (w->busy_cpu_ns + CUDA_WATCH_CLOCK_LAG_NS) / w->busy_elapsed_ns : 0;
}

/* To place a probe stops the target for a moment, which it may make up for by calls in quick succession. */
#define CUDA_WATCH_SETTLE_MS 2
/* What is compared with a time on, and the settling before. */
#define CUDA_WATCH_LIGHT_MS (CUDA_WATCH_SETTLE_MS + 5)

/* cuda_watch_phases.c */

/* Calls of these kinds (1 << enum so_cuda_kind) that were entered before this time are not seen to return. */
void cuda_watch_begin_anew(struct cuda_watch *w, uint32_t kinds, uint64_t at_ns);

/* These kinds do not count from now on, and all others do. */
void cuda_watch_set_off(struct cuda_watch *w, uint32_t kinds);

/* cuda_watch_costs.c */

/* Tells the budget what happened, and the kernel what it decides. */
void cuda_watch_check(struct cuda_watch *w, uint64_t now_ns);
/* Tells the kernel which calls have their stacks taken, by the budget's plan. */
void cuda_watch_set_stacks(struct cuda_watch *w);
/* Calls a second whose probes may stay on in a duty cycle. */
double cuda_watch_most_steady(const struct cuda_watch *w);
/* Whether hits while the cycled kinds are off cost so much that it is worth while to place the probes anew. */
bool cuda_watch_has_strays(const struct cuda_watch *w);
/* What a probe costs in this target: now, and where so many entries' programs took so long, if they are enough to tell. */
struct cuda_probe_cost cuda_watch_cost(const struct cuda_watch *w);
struct cuda_probe_cost cuda_watch_cost_of(const struct cuda_watch *w, uint64_t entries, uint64_t entries_ns);
/* What the probes of a call have cost on average, those of calls that it nested included; lately. 0: none was seen. */
double cuda_watch_cost_of_call(const struct cuda_watch *w);

/* cuda_in_progress.c */

/* Whether the thread whose entry this is is in that call now. */
bool cuda_watch_is_under_way(const struct cuda_watch *w, const struct so_cuda_call *call);

/* cuda_watch_loss.c */

/* What the target goes without of what probes take, of all threads: what comparisons say, and what is believed without them. */
struct cuda_loss cuda_watch_loss(const struct cuda_watch *w);

/* cuda_watch_light.c */

/* Plans the next time on: whether it begins with light probes. */
bool cuda_watch_plan_light(struct cuda_watch *w);
/* Whether this library is among them. */
bool cuda_watch_is_light(const struct cuda_watch *w, const struct cuda_mapped *m);
/* They are there now. */
void cuda_watch_begin_light(struct cuda_watch *w, uint64_t now_ns);
/* The others come. */
void cuda_watch_end_light(struct cuda_watch *w, uint64_t now_ns);
/* The next time on has nothing to be compared with: other processes make the calls, or it was compared. */
void cuda_watch_drop_light(struct cuda_watch *w);
/* The first probes of a time on are about to come. */
void cuda_watch_begin_hits(struct cuda_watch *w);
/* What the target went without while the probes of this time on did not count yet: when they begin to. */
double cuda_watch_lost_before_ns(const struct cuda_watch *w);
struct cuda_watch_taken;
/* At the end of a time on, before what it counted is scaled. share: of it, in which calls were made. */
void cuda_watch_compare(struct cuda_watch *w, const struct cuda_watch_taken *taken, double share,
			uint64_t now_ns);

/* cuda_watch_active.c */

/* A time ends in which no probe of the cycled kinds was there. */
void cuda_watch_end_quiet(struct cuda_watch *w, uint64_t now_ns);
/* A time on begins, in which nothing is counted yet; it has ended. */
void cuda_watch_begin_waits(struct cuda_watch *w, uint64_t now_ns);
void cuda_watch_look_waits(struct cuda_watch *w, uint64_t now_ns);

/* Of the time since the last look, that in which calls were made. */
struct cuda_watch_active {
	double share; /* negative: not known yet */
	double ns, unknown_ns;
};

/* In a time off: it counts up to now. Returns the share of the time since the last look in which calls were made; negative: not known yet. */
double cuda_watch_look_off(struct cuda_watch *w, uint64_t now_ns);
/* A time on, which stands for time off of which as much is known. keep: it ends. */
struct cuda_watch_active cuda_watch_look_on(struct cuda_watch *w, uint64_t now_ns, bool keep);
/* Of the time off since the last time on, up to now, that in which calls were made, ns. */
double cuda_watch_off_to(struct cuda_watch *w, uint64_t now_ns);
/* The share of time of which nothing else is known; and that of time off, which is told by it. */
double cuda_watch_usual_share(const struct cuda_watch *w);
void cuda_watch_tell_unknown(struct cuda_watch *w);

/* cuda_watch_settle.c */

/* Counters of threads that are preempted between reading and writing may go back a little. */
static inline uint64_t gained(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

/*
 * cuda_watch__settle() for calls up to that time: those of kinds that were switched off then. ends: a process did, so a time on may be cut
 * short by what has nothing to do with its calls.
 */
int cuda_watch_settle_at(struct cuda_watch *w, uint64_t now_ns, bool ends);
/* What is left of times off is told by the last time on, and no later one stands for it. -ENOMEM: it is lost, as w->lost says. */
int cuda_watch_end_off(struct cuda_watch *w);
/* Other kinds come and go, so other calls are waits: what was known of these says nothing of times off from now on. */
void cuda_watch_change_waits(struct cuda_watch *w);
/* The probes of the cycled kinds count from now on. */
void cuda_watch_begin_segment(struct cuda_watch *w, uint64_t now_ns);
/* Tells the kernel which kinds of calls stand for others, and by which segment's factor. To be called when the kinds change. */
void cuda_watch_set_segments(struct cuda_watch *w);
/* What the probes have taken from the target's threads since the segment began. */
struct cuda_watch_taken {
	double ns;
	struct cuda_probe_cost cost; /* of each, in that time */
};
struct cuda_watch_taken cuda_watch_taken(const struct cuda_watch *w);
/* What a call whose stack was taken in that segment stands for. */
double cuda_watch_line_factor(const struct cuda_watch *w, uint32_t segment);

/*
 * The last process with a library has ended at that time; the first library after it is there: nothing is called in between. -ENOMEM, or what reading
 * the maps gave: counts of some time are lost.
 */
int cuda_watch_pause(struct cuda_watch *w, uint64_t now_ns);
void cuda_watch_resume(struct cuda_watch *w);

#endif
