// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From what the maps hold to what was called: everything that was counted is added to the total at the end of each time on,
 * the cycled kinds scaled to the time for which that time on stands.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/cuda/cuda_threads.h"
#include "daemon/cuda/cuda_watch_parts.h"

#define LEAST_PROGRESS \
	0.1 /* a loop that does nothing but call may be stopped by its probes for most of the time */
#define LEAST_USUAL 0.5 /* of what is usually not waited: a time on that tells of others */
#define LEAST_ON_NS \
	2e6 /* a time on that is worth keeping as the last one: another settling may have been just before */

static bool takes(void *context, uint32_t tgid)
{
	return cuda_watch__has_process(context, (pid_t)tgid);
}

static int read_maps(struct cuda_watch *w, struct cuda_snapshot **out)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *now = NULL;
	int ret = cuda_snapshot__new(&now);

	ret = ret ?: cuda_probes__snapshot(w->probes, w->slot, takes, w, now);
	ret = ret ?: cuda_snapshot__merge(now, w->ended_threads, 0);
	if (!ret)
		*out = TAKE_PTR(now);
	return ret;
}

/* Nothing is called after the last process with a library has ended. */
static uint64_t now_of(const struct cuda_watch *w)
{
	return w->ended_ns ?: clock__now_ns();
}

static double start_of(struct cuda_watch *w)
{
	return (double)(cuda_watch_random(w) >> 11) / 0x1p53;
}

void cuda_watch_set_segments(struct cuda_watch *w)
{
	struct so_cuda_control *control = cuda_probes__control(w->probes, w->slot);

	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++)
		control->segment[i] = w->kinds.cycled >> i & 1 ? w->segment : 0;
}

void cuda_watch_begin_segment(struct cuda_watch *w, uint64_t now)
{
	cuda_watch_look_off(w, now);
	w->segment_ns = now;
	w->light.lost_ns = 0;
	if (++w->segment == 0)
		w->segment = 1;
	cuda_watch_set_segments(w);
	cuda_probes__slot(w->probes, w->slot, &w->segment_slot);
}

struct cuda_watch_taken cuda_watch_taken(const struct cuda_watch *w)
{
	struct cuda_probe_cost cost;
	struct so_cuda_slot slot;

	if (cuda_probes__slot(w->probes, w->slot, &slot))
		return (struct cuda_watch_taken){ 0 };
	cost = cuda_watch_cost_of(w, gained(slot.entries, w->segment_slot.entries),
				  gained(slot.entries_ns, w->segment_slot.entries_ns));
	return (struct cuda_watch_taken){
		.ns = (double)gained(slot.returns, w->segment_slot.returns) * cost.pair_ns +
		      (double)gained(slot.nested, w->segment_slot.nested) * cost.nested_ns +
		      (double)gained(slot.stepped, w->segment_slot.stepped) * cost.stepped_ns +
		      (double)gained(slot.stacks_ns, w->segment_slot.stacks_ns),
		.cost = cost,
	};
}

struct progress {
	double ns;    /* what of the segment the target had for itself */
	double error; /* of what a call of it stands for, as a part, 95 % */
};

static double within(double value, double most)
{
	return fmin(fmax(value, 0), most);
}

/*
 * What the probes take the target goes without, unless comparisons (cuda_progress.h) say that it would have looked at a clock, slept or
 * waited for the GPU meanwhile. That it sleeps or waits does not tell: where that comes after the time on, it is no help to what is called in
 * it, and a loop that sleeps for so long never makes up for anything. on: of the time on, that in which calls were made, or all.
 */
static struct progress progress_of(const struct cuda_watch *w, double taken_ns, double on)
{
	struct cuda_loss loss = cuda_watch_loss(w);
	double most = on * (1 - LEAST_PROGRESS);
	double lost = within(loss.factor * taken_ns, most),
	       least_lost = within((loss.factor - 2 * loss.error) * taken_ns, most),
	       most_lost = within((loss.factor + 2 * loss.error) * taken_ns, most);

	return (struct progress){ on - lost, fmax((on - lost) / (on - most_lost) - 1,
						  1 - (on - lost) / (on - least_lost)) };
}

bool cuda_watch__is_estimate(const struct cuda_watch *w, uint64_t now)
{
	return cuda_watch_is_on(w) && now > w->segment_ns && w->segment_ns > w->accounted_ns;
}

/* What the maps gained since the last settling. */
struct gain {
	struct cuda_snapshot *seen;
	struct cuda_watch_active on;
	double on_ns;       /* the time on's length */
	double progress_ns; /* what of the time on the target had for making calls, and for itself; 0: nothing */
	double all_ns;      /* and by all time, waits included */
	double stands_ns;   /* of the time off, what this time on stands for */
	double factor;      /* what a call of the cycled kinds stands for */
	double error;       /* of it, as a part (95 %), for want of knowing progress_ns better */
	bool by_all;        /* the time on stands for all time, waits included */
	double off_ns; /* this time on is too short to stand for that time off before it: the last one does */
};

/* What is left of time off, as the last time on stands for it. */
static double left_for_last(const struct cuda_watch *w, double ns)
{
	if (!w->last_is_of_all || !w->active.tid)
		return ns;
	return ns / fmax(cuda_watch_usual_share(w), CUDA_WATCH_LEAST_SHARE);
}

/* Time off from before accounted_ns. */
static double carried_for_last(const struct cuda_watch *w)
{
	return left_for_last(w, w->carried_ns);
}

#define SHORT_ON 0.5 /* of what was planned */

/* Of some kinds that come and go since then it may know nothing. */
static bool knows_last(const struct cuda_watch *w)
{
	return w->last_on && w->last_progress_ns > 0 && !(w->kinds.cycled & ~w->last_seen.kinds);
}

static bool is_short(const struct cuda_watch *w, uint64_t now)
{
	return now <= w->segment_ns ||
	       (double)(now - w->segment_ns) < SHORT_ON * w->cycle.on_ms * CUDA_WATCH_MS;
}

/*
 * What the last time on stands for where this one is cut short by an end that has nothing to do with its calls. (An emergency has: what it
 * ends stands for itself.) A moment would stand for a second, and often for none of its calls.
 */
static double off_of_last(const struct cuda_watch *w, uint64_t now)
{
	uint64_t end = now < w->segment_ns ? now : w->segment_ns;

	if (!cuda_watch_is_on(w) || !knows_last(w) || end <= w->accounted_ns || !is_short(w, now))
		return 0;
	if (w->last_is_of_all)
		return fmax((double)(end - w->accounted_ns) + carried_for_last(w) - w->light.lost_ns, 1);
	return fmax(w->off_ns + cuda_watch_usual_share(w) * w->unknown_ns - w->light.lost_ns, 1);
}

/*
 * The time off before it; where its threads waited meanwhile, less of it, and where those of earlier times on did, more. So each
 * ns in which calls were made stands for as many.
 */
static double stands_for(const struct cuda_watch *w, double share)
{
	/* In the time off the target had all time for itself, but for what light probes took. */
	double off = fmax(w->off_ns - w->light.lost_ns, 0);

	return fmin(off, share * ((double)(w->segment_ns - w->accounted_ns) + w->carried_ns / 2));
}

/* What of the time off before a time on is left for later ones. */
static double left_of(const struct cuda_watch *w, const struct gain *gain)
{
	return gain->off_ns > 0 ? 0 : fmax(w->off_ns - w->light.lost_ns - gain->stands_ns, 0);
}

#define LITTLE 0.4 /* of the time that was not waited */

/*
 * Where the probes take most of what is not waited, a small error of theirs is a large one of what is left. Then times on stand for all
 * time rather, waits included, as long as these do not tell what is lost.
 */
static bool leaves_little(const struct cuda_watch *w)
{
	struct cuda_loss paced;

	return w->active.tid && cuda_pace__taken_of_active(&w->pace) > 1 - LITTLE &&
	       !cuda_pace__loss(&w->pace, &paced);
}

/* All time off, waits included, in which the target had all time for itself, but for what the probes took before they counted. */
static double off_before(const struct cuda_watch *w)
{
	return fmax((double)(w->segment_ns - w->accounted_ns) - w->light.lost_ns, 0) +
	       w->carried_ns / fmax(cuda_watch_usual_share(w), CUDA_WATCH_LEAST_SHARE);
}

/*
 * By all time it is chance whether a time on meets a burst, and the probes take all they take from those that do: what they take of all
 * times on is what counts, and a time on that was waited throughout counts as well.
 */
static struct progress progress_of_all(const struct cuda_watch *w, double ns)
{
	return progress_of(w, cuda_pace__taken_of_all(&w->pace) * ns, ns);
}

/* on: the time on, where it is one. ends: the recording ends then, or a process. */
static int gain_since(struct cuda_watch *w, const struct cuda_snapshot *maps, double taken_ns,
		      const struct cuda_watch_active *on, uint64_t now, bool ends, struct gain *out)
{
	struct gain gain = { .on = *on,
			     .on_ns = now > w->segment_ns ? (double)(now - w->segment_ns) : 0,
			     .factor = 1,
			     .off_ns = ends ? off_of_last(w, now) : 0 };
	struct progress progress;
	int ret = cuda_snapshot__subtract(maps, w->last, &gain.seen);

	if (ret)
		return ret;
	gain.by_all = leaves_little(w);
	if (cuda_watch__is_estimate(w, now) && gain.off_ns <= 0 && (on->ns > 0 || gain.by_all)) {
		if (gain.by_all) {
			progress = progress_of_all(w, gain.on_ns);
			gain.all_ns = progress.ns;
			gain.progress_ns = progress.ns * cuda_watch_usual_share(w);
			gain.stands_ns = w->off_ns;
			gain.factor = 1 + off_before(w) / progress.ns;
		} else {
			progress = progress_of(w, cuda_pace__taken(&w->pace, on->ns, taken_ns), on->ns);
			gain.all_ns =
				progress.ns /
				(w->active.tid ? fmax(cuda_watch_usual_share(w), CUDA_WATCH_LEAST_SHARE) : 1);
			gain.progress_ns = progress.ns;
			gain.stands_ns = stands_for(w, on->share);
			gain.factor = 1 + gain.stands_ns / progress.ns;
		}
		gain.error = progress.error;
	} else if (cuda_watch_is_on(w)) {
		gain.all_ns = gain.on_ns;
		gain.progress_ns = on->ns;
	}
	*out = gain;
	return 0;
}

/* Of the kinds in seen->kinds. */
static void count_seen(const struct cuda_snapshot *snapshot, struct cuda_estimate_seen *seen)
{
	const struct cuda_calls_entry *entries;
	enum so_cuda_kind kind;
	size_t n;

	memset(seen->calls, 0, sizeof(seen->calls));
	entries = cuda_snapshot__calls(snapshot, &n);
	for (size_t i = 0; i < n; i++) {
		if (entries[i].key.api >= SO_CUDA_API_COUNT)
			continue;
		kind = cuda_names__kind(entries[i].key.api);
		if (!(seen->kinds >> kind & 1))
			continue;
		seen->calls[kind] += (double)entries[i].calls.calls;
		seen->calls[CUDA_ESTIMATE_ALL] += (double)entries[i].calls.calls;
	}
}

static struct cuda_estimate_seen seen_of(const struct cuda_watch *w, const struct gain *gain)
{
	struct cuda_estimate_seen seen = { .kinds = w->kinds.cycled,
					   .ns = gain->by_all ? gain->on_ns : gain->on.ns,
					   .factor = gain->factor,
					   .error = gain->error };

	count_seen(gain->seen, &seen);
	return seen;
}

#define CALLERS_KEPT  0.9  /* of what was known, for each time on, */
#define OVERLAPS_KEPT 0.97 /* and of how many return during others */

/* The calls of the cycled kinds that were seen in a time on. */
struct seen_calls {
	const struct cuda_calls_entry *entries;
	size_t n;
	struct u64_table of_thread;
	double all, pairs; /* pairs: of two calls of one thread, each twice */
};

static bool is_cycled(const struct cuda_watch *w, const struct cuda_calls_entry *entry)
{
	return entry->key.api < SO_CUDA_API_COUNT && w->kinds.cycled >> cuda_names__kind(entry->key.api) & 1;
}

static void count_threads(const struct cuda_watch *w, struct seen_calls *seen)
{
	for (size_t i = 0; i < seen->n; i++) {
		uint64_t thread = cuda_threads__key(seen->entries[i].key.tgid, seen->entries[i].key.tid);
		double calls = (double)seen->entries[i].calls.calls;
		uint32_t before = 0;

		if (!is_cycled(w, &seen->entries[i]))
			continue;
		u64_table__get(&seen->of_thread, thread, &before);
		seen->pairs += calls * (calls - 1 + 2 * (double)before);
		seen->all += calls;
		calls = fmin(calls + (double)before, UINT32_MAX);
		/* For want of memory its others are taken for other threads'. */
		(void)u64_table__set(&seen->of_thread, thread, (uint32_t)calls);
	}
}

/* How many would have returned during another thread's, if threads did not care for one another. */
static double overlaps_of(const struct cuda_watch *w, const struct seen_calls *seen, double on_ns)
{
	double sum = 0;

	for (size_t i = 0; i < seen->n; i++) {
		const struct cuda_calls_entry *entry = &seen->entries[i];
		uint32_t own = 0;

		if (!is_cycled(w, entry))
			continue;
		u64_table__get(&seen->of_thread, cuda_threads__key(entry->key.tgid, entry->key.tid), &own);
		sum += (double)entry->calls.total_ns * (seen->all - (double)own) / on_ns;
	}
	return sum;
}

/* Only where the kernel counted them all the time (cuda_watch_begin_waits()). */
static void note_overlaps(struct cuda_watch *w, const struct seen_calls *seen, double weight)
{
	uint64_t began = w->active.on_began_ns, ended = w->active.on_ended_ns;
	struct so_cuda_slot slot;
	double expected;

	if (ended <= began || cuda_probes__slot(w->probes, w->slot, &slot))
		return;
	expected = weight * overlaps_of(w, seen, (double)(ended - began));
	w->callers.times = OVERLAPS_KEPT * w->callers.times + (expected >= 1);
	w->callers.expected = OVERLAPS_KEPT * w->callers.expected + expected;
	w->callers.overlapped = OVERLAPS_KEPT * w->callers.overlapped +
				weight * (double)gained(slot.overlapped, w->segment_slot.overlapped);
}

static void note_callers(struct cuda_watch *w, const struct seen_calls *seen, double weight)
{
	for (size_t i = 0; i < seen->n; i++) {
		const struct cuda_calls_entry *entry = &seen->entries[i];

		/* Those that only wait make none of them, and may be the ones that others wait for. */
		if (entry->key.api < SO_CUDA_API_COUNT)
			cuda_active__add_calls(&w->active, (pid_t)entry->key.tid,
					       is_cycled(w, entry) ? weight * (double)entry->calls.calls : 0);
	}
	if (seen->all < 2)
		return;
	w->callers.all = CALLERS_KEPT * w->callers.all + weight * seen->all;
	w->callers.same = CALLERS_KEPT * w->callers.same + weight * seen->pairs / (seen->all - 1);
}

/* Which threads make calls: of two calls how often both are of one, and what the others do while one is in a call. */
static void note_threads(struct cuda_watch *w, const struct cuda_snapshot *snapshot)
{
	struct seen_calls seen = { 0 };
	double weight;

	seen.entries = cuda_snapshot__calls(snapshot, &seen.n);
	count_threads(w, &seen);
	/* The first time on may be that of all before a duty cycle. */
	weight = seen.all > CUDA_ACTIVE_CALLS_MOST ? CUDA_ACTIVE_CALLS_MOST / seen.all : 1;
	note_overlaps(w, &seen, weight);
	cuda_active__age(&w->active);
	note_callers(w, &seen, weight);
	cuda_active__end_on(&w->active, seen.all, weight);
	u64_table__release(&seen.of_thread);
}

/* A time on of which enough was not waited, but a moment at a burst's edge. */
static bool tells_of_others(const struct cuda_watch *w, const struct gain *gain)
{
	if (!cuda_watch_is_on(w) || gain->on_ns <= LEAST_ON_NS)
		return false;
	return gain->by_all ||
	       (gain->on.ns > 0 && gain->on.ns >= LEAST_USUAL * cuda_watch_usual_share(w) * gain->on_ns);
}

/* A time on ends, and has this gain. */
static void note_estimate(struct cuda_watch *w, const struct gain *gain, uint64_t now)
{
	struct cuda_estimate_seen seen;

	/* Of a process that ended before, or so soon after that it tells nothing. */
	if (now <= w->segment_ns || gain->off_ns > 0)
		return;
	/* What is by all time has no neighbour in what is not. */
	if (gain->by_all != w->by_all)
		w->rates = (struct cuda_estimate_rates){ 0 };
	w->by_all = gain->by_all;
	seen = seen_of(w, gain);
	if (cuda_watch__is_estimate(w, now))
		cuda_estimates__add(&w->estimates, &w->rates, &seen);
	/* The mean of all the time before a duty cycle is no neighbour. */
	if (seen.kinds && tells_of_others(w, gain))
		cuda_estimate_rates__add(&w->rates, &seen, w->cycle.duty < 1);
}

/* A time off: what the last time on has of the cycled kinds stands for it, or nothing. */
static int add_off(struct cuda_watch *w, double off_ns, struct cuda_snapshot *into,
		   struct cuda_estimates *estimates)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *off = NULL;
	struct cuda_estimate_seen seen = w->last_seen;
	double factor = 0;
	int ret = 0;

	if (off_ns <= 0)
		return 0;
	seen.kinds = w->kinds.cycled;
	memset(seen.calls, 0, sizeof(seen.calls));
	if (w->last_on && w->last_progress_ns > 0) {
		factor = off_ns / w->last_progress_ns;
		count_seen(w->last_on, &seen);
		ret = cuda_snapshot__new(&off);
		ret = ret ?: cuda_snapshot__merge(off, w->last_on, 0);
		ret = ret ?: cuda_snapshot__scale(off, seen.kinds, factor, w->last_on_ns, start_of(w));
		if (!ret)
			cuda_snapshot__take_memory(off, into);
		ret = ret ?: cuda_snapshot__merge(into, off, 0);
	}
	if (!ret)
		cuda_estimates__add_off(estimates, &w->rates, &seen, factor);
	return ret;
}

static int tell_off(struct cuda_watch *w, double ns)
{
	int ret;

	w->off_ns = w->carried_ns = w->unknown_ns = 0;
	if (ns <= 0)
		return 0;
	ret = add_off(w, ns, w->total, &w->estimates);
	if (w->last_progress_ns > 0)
		w->last_seen.factor += ns / w->last_progress_ns;
	if (ret)
		w->lost = true;
	return ret;
}

int cuda_watch_end_off(struct cuda_watch *w)
{
	cuda_watch_tell_unknown(w);
	return tell_off(w, left_for_last(w, w->off_ns));
}

void cuda_watch_change_waits(struct cuda_watch *w)
{
	w->last_progress_ns = w->last_all_ns;
	w->last_is_of_all = true;
	cuda_active__change_kinds(&w->active);
}

/* All the time off since the last time on, as that one stands for it. */
static double off_for_last(struct cuda_watch *w, uint64_t now)
{
	return w->last_is_of_all ? (double)(now - w->accounted_ns) + carried_for_last(w)
				 : cuda_watch_off_to(w, now);
}

/* Scales the gain, and adds it to `into`. */
static int add_gain(struct cuda_watch *w, struct gain *gain, uint64_t now, struct cuda_snapshot *into)
{
	int ret = 0;

	if (gain->factor > 1)
		ret = cuda_snapshot__scale(gain->seen, w->kinds.cycled, gain->factor, now - w->segment_ns,
					   start_of(w));
	return ret ?: cuda_snapshot__merge(into, gain->seen, 0);
}

/* Keeps what the time on that ends has seen of the cycled kinds: the next may be long in coming. */
static int keep_last_on(struct cuda_watch *w, const struct gain *gain, uint64_t now)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *seen = NULL;
	int ret = cuda_snapshot__new(&seen);

	ret = ret ?: cuda_snapshot__merge(seen, gain->seen, 0);
	ret = ret ?: cuda_snapshot__scale(seen, ~w->kinds.cycled, 0, 0, 0);
	if (ret)
		return ret;
	cuda_snapshot__free(w->last_on);
	w->last_on = TAKE_PTR(seen);
	w->last_seen = seen_of(w, gain);
	w->last_progress_ns = gain->progress_ns;
	w->last_all_ns = gain->all_ns;
	w->last_is_of_all = false;
	w->last_on_ns = now - w->segment_ns;
	return 0;
}

double cuda_watch_line_factor(const struct cuda_watch *w, uint32_t segment)
{
	unsigned at = segment % CUDA_WATCH_SEGMENTS;

	if (!segment)
		return 1;
	if (w->factors[at].segment == segment)
		return w->factors[at].factor;
	if (segment != w->segment || !w->cycle.on_ms)
		return w->cycle.factor;
	if (w->segment_ns <= w->accounted_ns)
		return 1;
	/* It is not over yet: as long as was planned. */
	return 1 + ((double)(w->segment_ns - w->accounted_ns) + w->carried_ns / 2) / (w->cycle.on_ms * 1e6);
}

static void keep_factor(struct cuda_watch *w, double factor)
{
	unsigned at = w->segment % CUDA_WATCH_SEGMENTS;

	w->factors[at].segment = w->segment;
	w->factors[at].factor = factor;
}

/*
 * Where the maps cannot be read, nothing has changed: what they hold is counted the next time. What was read and cannot be
 * added up is lost.
 */
int cuda_watch_settle_at(struct cuda_watch *w, uint64_t now, bool ends)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *maps = NULL;
	struct cuda_watch_taken taken = cuda_watch_taken(w);
	struct cuda_active before = w->active;
	struct cuda_pace before_pace = w->pace;
	bool was_estimate = cuda_watch__is_estimate(w, now);
	struct cuda_watch_active on = { 0 };
	struct gain gain = { 0 };
	int ret;

	if (cuda_watch_is_on(w)) {
		on = cuda_watch_look_on(w, now, true);
		/* Of what is counted on while the maps are read it is not known when it was. */
		if (ends)
			w->active.on_began_ns = 0;
		cuda_watch_look_waits(w, now);
	}
	ret = read_maps(w, &maps);
	if (cuda_watch_is_on(w) && now > w->segment_ns + LEAST_ON_NS)
		w->taken = taken.ns / (double)(now - w->segment_ns);
	if (cuda_watch_is_on(w) && taken.ns > 0)
		w->coldness = taken.cost.coldness;
	/* What is not settled now is looked at again with what comes next. */
	if (!ret && was_estimate) {
		cuda_watch_compare(w, &taken, on.share, now);
		if (w->active.last.ns > 0 || on.share == 0)
			cuda_pace__add_on(&w->pace, w->active.last.ns, w->active.last.waits, taken.ns,
					  (double)(now - w->segment_ns));
	}
	ret = ret ?: gain_since(w, maps, taken.ns, &on, now, ends, &gain);
	if (ret) {
		w->active = before;
		w->pace = before_pace;
		return ret;
	}
	if (gain.off_ns > 0) {
		ret = add_off(w, gain.off_ns, w->total, &w->estimates);
		w->last_seen.factor += gain.off_ns / w->last_progress_ns;
	} else if (w->kinds.cycled && tells_of_others(w, &gain)) {
		ret = keep_last_on(w, &gain, now);
	}
	if (cuda_watch_is_on(w)) {
		note_estimate(w, &gain, now);
		note_threads(w, gain.seen);
	}
	ret = ret ?: add_gain(w, &gain, now, w->total);
	cuda_snapshot__free(gain.seen);
	cuda_snapshot__free(w->last);
	w->last = TAKE_PTR(maps);
	if (ret)
		w->lost = true;
	if (cuda_watch_is_on(w)) {
		keep_factor(w, gain.factor);
		w->carried_ns = left_of(w, &gain);
		w->unknown_ns = gain.off_ns > 0 || gain.by_all ? 0 : w->unknown_ns;
		w->off_ns = w->carried_ns;
		w->accounted_ns = now;
		cuda_watch_begin_segment(w, now);
		/* All is counted: no later time on stands for it. */
		if (!was_estimate)
			ret = cuda_watch_end_off(w) ?: ret;
	}
	return ret;
}

int cuda_watch__settle(struct cuda_watch *w)
{
	return cuda_watch_settle_at(w, now_of(w), w->ended_ns != 0);
}

/* The time off since the last time on, by that one. */
static int add_tail(struct cuda_watch *w, uint64_t now, struct cuda_snapshot *into,
		    struct cuda_estimates *estimates)
{
	if (cuda_watch_is_on(w) || now <= w->accounted_ns)
		return 0;
	return add_off(w, off_for_last(w, now), into, estimates);
}

/* Nothing counts while the maps are read: it would stand for the time before as well, and be missing of what is to come. */
static int cut_on(struct cuda_watch *w)
{
	int ret;

	cuda_watch_set_off(w, w->kinds.cycled);
	ret = cuda_watch_settle_at(w, clock__now_ns(), true);
	/* Else it goes on as it was. */
	if (!ret) {
		if (knows_last(w))
			ret = cuda_watch_end_off(w);
		cuda_watch_begin_segment(w, clock__now_ns());
	}
	cuda_watch_set_off(w, 0);
	return ret;
}

static int cut_off(struct cuda_watch *w, uint64_t now)
{
	int ret = cuda_watch_settle_at(w, now, true);

	if (ret || cuda_watch_is_on(w) || now <= w->accounted_ns || (w->kinds.cycled && !knows_last(w)))
		return ret;
	cuda_watch_look_off(w, now);
	ret = tell_off(w, off_for_last(w, now));
	w->accounted_ns = now;
	return ret;
}

/* A time off of which nothing is known waits for the next time on: rather has the recording a part of it than nobody. */
int cuda_watch__cut(struct cuda_watch *w, struct cuda_snapshot **out)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *copy = NULL;
	uint64_t now = now_of(w);
	int ret = 0;

	if (!cuda_watch__is_estimate(w, now))
		ret = cut_off(w, now);
	else if (knows_last(w) || !is_short(w, now))
		ret = cut_on(w);
	ret = ret ?: cuda_snapshot__new(&copy);
	ret = ret ?: cuda_snapshot__merge(copy, w->total, 0);
	if (!ret)
		*out = TAKE_PTR(copy);
	return ret;
}

int cuda_watch_pause(struct cuda_watch *w, uint64_t now)
{
	int ret;

	w->ended_ns = now;
	ret = cuda_watch__settle(w);
	if (cuda_watch_is_on(w))
		ret = ret ?: cuda_watch_end_off(w);
	ret = ret ?: add_tail(w, now, w->total, &w->estimates);
	/* Of the next one nothing is known. */
	cuda_snapshot__free(TAKE_PTR(w->last_on));
	w->last_progress_ns = w->last_all_ns = 0;
	w->last_is_of_all = false;
	w->rates = (struct cuda_estimate_rates){ 0 };
	w->taken = 0;
	w->progress = (struct cuda_progress){ 0 };
	w->pace = (struct cuda_pace){ 0 };
	memset(&w->callers, 0, sizeof(w->callers));
	w->active = (struct cuda_active){ .looked_ns = now };
	w->off_ns = w->unknown_ns = w->carried_ns = 0;
	w->accounted_ns = now;
	return ret;
}

void cuda_watch_resume(struct cuda_watch *w)
{
	uint64_t now = clock__now_ns();

	w->ended_ns = 0;
	w->active.looked_ns = now;
	w->off_ns = w->unknown_ns = w->carried_ns = 0;
	w->accounted_ns = now;
	if (cuda_watch_is_on(w))
		cuda_watch_begin_segment(w, now);
}

int cuda_watch__result(struct cuda_watch *w, struct cuda_snapshot **out, struct cuda_estimates *estimates)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *maps = NULL, *result = NULL;
	struct cuda_estimates near = w->estimates;
	uint64_t now = now_of(w);
	struct cuda_estimate_seen seen;
	struct cuda_watch_active on = { 0 };
	struct gain gain = { 0 };
	int ret;

	if (cuda_watch_is_on(w))
		on = cuda_watch_look_on(w, now, false);
	ret = read_maps(w, &maps);
	ret = ret ?: cuda_snapshot__new(&result);
	ret = ret ?: cuda_snapshot__merge(result, w->total, 0);
	ret = ret ?: gain_since(w, maps, cuda_watch_taken(w).ns, &on, now, true, &gain);
	if (!ret && gain.factor > 1) {
		seen = seen_of(w, &gain);
		cuda_estimates__add(&near, &w->rates, &seen);
	}
	ret = ret ?: add_gain(w, &gain, now, result);
	if (cuda_watch_is_on(w) && gain.off_ns <= 0)
		gain.off_ns = left_for_last(
			w, left_of(w, &gain) + (gain.by_all ? 0 : cuda_watch_usual_share(w) * w->unknown_ns));
	ret = ret ?: add_off(w, gain.off_ns, result, &near);
	ret = ret ?: add_tail(w, now, result, &near);
	cuda_snapshot__free(gain.seen);
	if (ret)
		return ret;
	if (estimates)
		*estimates = near;
	*out = TAKE_PTR(result);
	return 0;
}

bool cuda_watch__has_threads(const struct cuda_watch *w, const struct u64_table *threads)
{
	for (size_t i = 0; i < threads->capacity; i++) {
		const struct u64_entry *entry = &threads->entries[i];

		if (entry->used && cuda_watch__has_process(w, (pid_t)(entry->key >> 32)))
			return true;
	}
	return false;
}

/*
 * What the kernel's map holds of them, taken out of it. A thread's entries are written by itself alone, so none changes any more. Its
 * number may be another thread's by then: that one's calls up to the removal are in what is taken, and later ones make new entries.
 */
static int take_entries(struct cuda_watch *w, const struct u64_table *threads, struct cuda_snapshot *taken)
{
	const struct cuda_calls_entry *entries;
	struct so_cuda_calls calls;
	uint32_t value;
	size_t n;
	int ret = 0;

	entries = cuda_snapshot__calls(w->last, &n);
	for (size_t i = 0; !ret && i < n; i++) {
		const struct so_cuda_key *key = &entries[i].key;

		if (u64_table__get(threads, cuda_threads__key(key->tgid, key->tid), &value) &&
		    !cuda_probes__take_calls(w->probes, key, &calls))
			ret = cuda_snapshot__add_calls(taken, key, &calls);
	}
	return ret;
}

void cuda_watch__fold_threads(struct cuda_watch *w, const struct u64_table *threads)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *taken = NULL;
	int ret = cuda_snapshot__new(&taken);

	ret = ret ?: take_entries(w, threads, taken);
	ret = ret ?: cuda_snapshot__fold_threads(taken, threads);
	ret = ret ?: cuda_snapshot__merge(w->ended_threads, taken, 0);
	ret = ret ?: cuda_snapshot__fold_threads(w->last, threads);
	ret = ret ?: cuda_snapshot__fold_threads(w->total, threads);
	if (ret)
		w->lost = true;
}

int cuda_watch__add_line(struct cuda_watch *w, const struct so_cuda_line_key *key,
			 const struct so_cuda_line *line)
{
	return cuda_lines__add(&w->lines, key, line, cuda_watch_line_factor(w, key->segment), clock__now_ns());
}
