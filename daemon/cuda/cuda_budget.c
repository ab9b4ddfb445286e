// SPDX-License-Identifier: GPL-2.0-or-later
/* Times are in seconds, costs in seconds of CPU time, unless their names say otherwise. */
#include "daemon/cuda/cuda_budget.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_S     10.0
#define MIN_RECORD_S 0.02 /* shorter figures are put together */
#define MAX_RECORDS  512  /* more than WINDOW_S / MIN_RECORD_S */
#define LEARNING_S   1.0  /* costs of the beginning that no later time pays for */
#define HISTORY_S \
	0.4 /* what the beginning costs is taken for so much of it: the higher, the more the beginning itself costs */
#define LIMIT          0.95 /* of the budget: the emergency keeps the rest */
#define FAST_ON_S      0.02 /* of probes being on, which tell the cost of now */
#define SOON_S         0.2  /* what is left of the limit lasts for so long at least */
#define STEADY_S       2.0  /* after which a rise is taken to last; */
#define CPU_S          0.1  /* CPU time may be counted in ticks: that of less time is no measure */
#define STEADY_ON_S    0.2  /* the probes must have been on for so long, too */
#define CALLS_S        2.0  /* of the average by which stack periods follow the rate of calls */
#define STACK_SHARE    0.1  /* of the probes' cost, for stacks, when even the probes are too many */
#define FALL_BELOW     0.82 /* × the present duty: a goal that is nearer is no reason to fall, */
#define RISE_ABOVE     1.25 /* or to rise, */
#define RISE_AFTER_S   2.0  /* and a higher one only when it lasted so long */
#define RISE_PER_S     1.25 /* × */
#define MORE_STACKS    2.0  /* × per second, at most */
#define PERIOD_CHANGES 1.2  /* a stack period stays unless the new one differs so much */
#define MAX_PERIOD     1000000.0
#define LEAST_TIME_S \
	1e-3 /* of calls, that a stack is taken of: all threads may begin to wait between two looks */
#define MOST_FAVOURED \
	8.0 /* times as many stacks for rare kinds: what is rare may become frequent between two looks */

/* What happened in some time. */
struct record {
	double elapsed, on;
	double probes, stacks; /* costs */
	double steady;         /* cost of the probes that are there all the time */
	double steady_stacks;  /* of `stacks`: those of calls whose probes are there all the time */
	double wanted,
		steady_wanted; /* what the stacks would have cost, had they not been thinned: of the time on, and those */
	double cpu;            /* what the cost is a share of */
	bool learning; /* of the beginning */
};

struct cuda_budget {
	double share; /* the budget: 0.01 for 1 % */
	struct record ring[MAX_RECORDS];
	size_t newest, n;
	double age;                        /* since the first figures */
	double calls_per_s;                /* average of the last few seconds, while the probes were on */
	double parts[SO_CUDA_KIND_COUNT];  /* the kinds' of these calls; 1 until they are told */
	double each_s[SO_CUDA_KIND_COUNT]; /* what one takes */
	double duty;
	double rise_wanted; /* for so long a higher duty would have done */
	uint32_t cycled;
	double steady_thin; /* as thin, of the kinds that are not cycled */
	double thin;        /* stacks wanted / stacks taken, for the sake of the budget; 1 or more */
	uint32_t period[SO_CUDA_KIND_COUNT];
	double time_s[2]; /* one stack in so much time: of the cycled kinds, of those that stay */
	unsigned stretch;
	double rounding_ms; /* off time that past cycles lack */
};

/* Kinds whose calls are many and alike get a bounded number of stacks; each call of the others is worth one. */
static const bool capped[SO_CUDA_KIND_COUNT] = {
	[SO_CUDA_LAUNCH] = true,     [SO_CUDA_GRAPH_LAUNCH] = true, [SO_CUDA_FREE] = true,
	[SO_CUDA_ASYNC_FREE] = true, [SO_CUDA_EVENT] = true,        [SO_CUDA_QUERY] = true,
};

const char *cuda_budget__word(enum cuda_budget_state state)
{
	static const char *const words[] = {
		[CUDA_BUDGET_ALL] = "all",
		[CUDA_BUDGET_FEWER_STACKS] = "fewer-stacks",
		[CUDA_BUDGET_DUTY_CYCLE] = "duty-cycle",
	};

	return words[state];
}

int cuda_budget__new(double budget_percent, struct cuda_budget **out)
{
	struct cuda_budget *budget = calloc(1, sizeof(*budget));

	if (!budget)
		return -ENOMEM;
	budget->share = budget_percent >= 0.01 ? budget_percent / 100 : 0.0001;
	budget->duty = budget->thin = budget->steady_thin = 1;
	budget->stretch = 1;
	budget->time_s[0] = budget->time_s[1] = 1 / CUDA_BUDGET_STACKS_PER_S;
	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++) {
		/* Until something is known, not a stack for each call of a busy target. */
		budget->period[i] = capped[i] ? 100 : 1;
		budget->parts[i] = 1;
	}
	*out = budget;
	return 0;
}

void cuda_budget__free(struct cuda_budget *budget)
{
	free(budget);
}

void cuda_budget__stretch(struct cuda_budget *budget, unsigned times)
{
	budget->stretch = times;
}

unsigned cuda_budget__check_ms(const struct cuda_budget *budget)
{
	return (unsigned)fmin(fmax(budget->share * 2000, 20), 250);
}

/* The record `back` records before the newest. */
static const struct record *record(const struct cuda_budget *budget, size_t back)
{
	return &budget->ring[(budget->newest + MAX_RECORDS - back) % MAX_RECORDS];
}

static void add_part(struct record *sum, const struct record *r, double part)
{
	sum->elapsed += part * r->elapsed;
	sum->on += part * r->on;
	sum->probes += part * r->probes;
	sum->stacks += part * r->stacks;
	sum->steady += part * r->steady;
	sum->wanted += part * r->wanted;
	sum->steady_stacks += part * r->steady_stacks;
	sum->steady_wanted += part * r->steady_wanted;
	sum->cpu += part * r->cpu;
}

static void add_record(struct cuda_budget *budget, const struct record *new)
{
	struct record *newest = &budget->ring[budget->newest];

	if (budget->n && newest->elapsed < MIN_RECORD_S && newest->learning == new->learning) {
		add_part(newest, new, 1);
		return;
	}
	if (budget->n)
		budget->newest = (budget->newest + 1) % MAX_RECORDS;
	if (budget->n < MAX_RECORDS)
		budget->n++;
	budget->ring[budget->newest] = *new;
}

/* Of the last `span` seconds; of the oldest record a part may count. */
static struct record sum_elapsed(const struct cuda_budget *budget, double span)
{
	struct record sum = { 0 };

	for (size_t i = 0; i < budget->n && sum.elapsed < span; i++) {
		const struct record *r = record(budget, i);

		add_part(&sum, r, fmin(1, (span - sum.elapsed) / r->elapsed));
	}
	return sum;
}

/* Of the newest records that tell of `span` seconds of probes being on. */
static struct record sum_on(const struct cuda_budget *budget, double span)
{
	struct record sum = { 0 };

	for (size_t i = 0; i < budget->n && sum.on < span; i++)
		add_part(&sum, record(budget, i), 1);
	return sum;
}

/* What a second of probes being on costs: the probes, and all stacks that are wanted. */
struct rates {
	double probes, wanted;
};

static struct rates rates_of(const struct record *sum)
{
	return (struct rates){
		.probes = sum->on > 0 ? sum->probes / sum->on : 0,
		.wanted = sum->on > 0 ? sum->wanted / sum->on : 0,
	};
}

/* By how much stacks must be thinned to cost what the probes leave of `goal`, or else a share of what the probes cost. */
static double thinning(const struct rates *rates, double goal)
{
	double allowance = fmax(goal - rates->probes, STACK_SHARE * rates->probes);

	if (rates->wanted <= allowance)
		return 1;
	return allowance > 0 ? fmin(rates->wanted / allowance, MAX_PERIOD) : MAX_PERIOD;
}

static double least_duty(const struct cuda_budget *budget)
{
	return fmin(budget->share / 2.5, CUDA_BUDGET_MIN_DUTY);
}

static double least_on_ms(const struct cuda_budget *budget)
{
	return (double)CUDA_BUDGET_MIN_ON_MS * budget->stretch;
}

/*
 * Of what may be spent, for what stays on: more than it is chosen to need, but where nearly all of it are waits, and not all: the others have a
 * third in any case, or they would be hardly seen. What stays may cost more than the budget then.
 */
#define STEADY_MOST (1.5 * (CUDA_BUDGET_STEADY_SHARE + CUDA_BUDGET_STACKS_SHARE))

/*
 * What is left of so much for a second, when the probes that are there all the time have theirs: a part in any case, or a
 * burst of theirs would be the end of all others.
 */
static double left_by_steady(const struct cuda_budget *budget, double may_cost)
{
	const struct record sum = sum_elapsed(budget, STEADY_S);
	double steady = sum.elapsed > 0 ? (sum.steady + sum.steady_stacks) / sum.elapsed : 0;

	return fmax(may_cost - steady, may_cost * (1 - STEADY_MOST));
}

/* What counts of it for the past. */
static double steady_of(const struct record *r, double limit)
{
	return fmin(r->steady + r->steady_stacks, STEADY_MOST * limit * r->cpu);
}

/* What a second of wall time may cost so that every 10 s keep within the limit: */
struct allowed {
	double soon;   /* until the next look, if the duty can then fall to its lowest */
	double steady; /* for as long as it takes */
};

/*
 * Each 10 s that are affected are made of some of the past and the rest, which is to come.
 * rate: what a second of probes being on costs. cpu: CPU time that a second brings. ahead: seconds until the next look.
 */
static struct allowed allowed(const struct cuda_budget *budget, double rate, double cpu, double ahead)
{
	double limit = LIMIT * budget->share, past = 0, least = least_duty(budget) * rate;
	double left_of = left_by_steady(budget, limit * cpu);
	/* At a low duty 10 s may hold a good part of a cycle more than the duty says. */
	double over = 1.25e-3 * least_on_ms(budget) * rate;
	struct allowed allowed = { INFINITY, INFINITY };

	for (size_t i = 0;; i++) {
		const struct record *r = record(budget, i);
		double rest = WINDOW_S - past, left = left_of * rest - over, part;

		if (rest < ahead)
			break;
		allowed.soon = fmin(allowed.soon, (left - (rest - ahead) * least) / ahead);
		if (rest >= STEADY_S)
			allowed.steady = fmin(allowed.steady, left / rest);
		if (i >= budget->n || r->learning)
			break;
		part = fmin(1, rest / r->elapsed);
		past += part * r->elapsed;
		over += part *
			(r->probes + r->stacks - r->steady_stacks + steady_of(r, limit) - limit * r->cpu);
	}
	return allowed;
}

/* Fewer stacks first, then less time. */
static void fall(struct cuda_budget *budget, const struct rates *rates, double may_cost)
{
	double cost = rates->probes + rates->wanted / budget->thin;

	may_cost = fmax(may_cost, 0);
	if (cost * budget->duty <= may_cost)
		return;
	budget->thin = fmax(budget->thin, thinning(rates, may_cost / budget->duty));
	cost = rates->probes + rates->wanted / budget->thin;
	/* Stacks that were thinned to the allowance leave nothing, but for the rounding. */
	if (cost * budget->duty > may_cost * (1 + 1e-6)) {
		budget->duty = fmax(may_cost / cost, least_duty(budget));
		budget->rise_wanted = 0;
	}
}

/* On a rise that the average of 10 s would follow too late. */
static void brake(struct cuda_budget *budget)
{
	const struct record newest = sum_on(budget, FAST_ON_S), tenth = sum_elapsed(budget, CPU_S);
	const struct record two = sum_elapsed(budget, STEADY_S), enough = sum_on(budget, STEADY_ON_S);
	const struct record *last = two.on < STEADY_ON_S ? &enough : &two;
	const struct rates now = rates_of(&newest), recent = rates_of(last);
	double ahead = fmax(1.5 * record(budget, 0)->elapsed, SOON_S);
	/* With the calls comes CPU time. */
	double cpu = fmax(newest.cpu / newest.elapsed, tenth.cpu / tenth.elapsed);

	fall(budget, &now, allowed(budget, now.probes * (1 + STACK_SHARE), cpu, ahead).soon);
	cpu = last->cpu / last->elapsed;
	fall(budget, &recent, allowed(budget, recent.probes * (1 + STACK_SHARE), cpu, ahead).steady);
}

/* goal: the duty by the costs of the last 10 s; it may be more than 1. */
static void follow(struct cuda_budget *budget, double goal, double elapsed)
{
	if (goal < FALL_BELOW * budget->duty)
		budget->duty = fmax(goal, least_duty(budget));
	if (goal <= RISE_ABOVE * budget->duty) {
		budget->rise_wanted = 0;
		return;
	}
	budget->rise_wanted += elapsed;
	if (budget->rise_wanted > RISE_AFTER_S)
		budget->duty = fmin(fmin(budget->duty * pow(RISE_PER_S, elapsed), goal), 1);
}

static bool is_steady(const struct cuda_budget *budget, unsigned kind)
{
	return budget->cycled && !(budget->cycled >> kind & 1);
}

/* Calls a second while the probes are on, or of kinds whose probes always are. */
static double rate_of(const struct cuda_budget *budget, unsigned kind)
{
	return budget->calls_per_s * budget->parts[kind] * (is_steady(budget, kind) ? 1 : budget->duty);
}

/* Stacks of a kind that are wanted a second, whatever they cost. */
static double wanted_of(const struct cuda_budget *budget, unsigned kind)
{
	double rate = rate_of(budget, kind);

	return capped[kind] ? fmin(rate, CUDA_BUDGET_STACKS_PER_S) : rate;
}

/* Of stacks that claim a share of what may be taken: each of the kinds, and calls that take long. */
#define CLAIMS    (SO_CUDA_KIND_COUNT + 1)
#define LONG_ONES SO_CUDA_KIND_COUNT

/* Seconds that calls of the kinds that stay, or of the others, take in a second: those that are seen, of all threads. */
static double time_in_calls(const struct cuda_budget *budget, bool steady)
{
	double sum = 0;

	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++)
		sum += is_steady(budget, i) == steady ? rate_of(budget, i) * budget->each_s[i] : 0;
	return sum;
}

/* Stacks a second that are wanted of the kinds that stay, or of the others; 0 of those. */
static void claims_of(const struct cuda_budget *budget, bool steady, double claims[CLAIMS])
{
	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++)
		claims[i] = is_steady(budget, i) == steady ? wanted_of(budget, i) : 0;
	claims[LONG_ONES] = fmin(time_in_calls(budget, steady) / LEAST_TIME_S, CUDA_BUDGET_STACKS_PER_S);
}

/*
 * The most stacks a second that each may have for all of them to be a `thin`th of what is wanted: what is rare keeps most of its
 * stacks, and what is frequent gives way.
 */
static double level_of(const double claims[CLAIMS], double thin)
{
	double left = 0, level = 0;

	for (unsigned i = 0; i < CLAIMS; i++)
		left += claims[i] / thin;
	/* Each round leaves out those that the level before was enough for, and so it rises; after as many rounds as claims it stays. */
	for (unsigned round = 0; round < CLAIMS; round++) {
		double rest = left;
		unsigned n = 0;

		for (unsigned i = 0; i < CLAIMS; i++) {
			bool is_below = claims[i] <= level;

			rest -= is_below ? claims[i] : 0;
			n += !is_below;
		}
		if (n)
			level = rest / n;
	}
	return level;
}

/* Of the kinds that stay, or of the others. */
static void set_periods_of(struct cuda_budget *budget, bool steady)
{
	double thin = steady ? budget->steady_thin : budget->thin, claims[CLAIMS], level, time_s;

	claims_of(budget, steady, claims);
	level = level_of(claims, thin);
	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++) {
		double period = 1;

		if (is_steady(budget, i) != steady)
			continue;
		if (capped[i])
			period = fmax(rate_of(budget, i) / CUDA_BUDGET_STACKS_PER_S, 1);
		period *= claims[i] > 0 ? fmax(claims[i] / level, fmax(thin / MOST_FAVOURED, 1)) : thin;
		period = fmin(ceil(period - 1e-9), MAX_PERIOD);
		if (period == 1 || period > budget->period[i] * PERIOD_CHANGES ||
		    period * PERIOD_CHANGES < budget->period[i])
			budget->period[i] = (uint32_t)period;
	}
	/*
	 * Not bounded by MOST_FAVOURED: calls may come to any number between two looks, their time to that of the threads. A call counts
	 * with no more time than one stack is for, so the sum is that of the stacks.
	 */
	time_s = claims[LONG_ONES] > 0 ? time_in_calls(budget, steady) / fmin(claims[LONG_ONES], level)
				       : LEAST_TIME_S;
	if (time_s > budget->time_s[steady] * PERIOD_CHANGES ||
	    time_s * PERIOD_CHANGES < budget->time_s[steady])
		budget->time_s[steady] = time_s;
}

static void set_periods(struct cuda_budget *budget)
{
	set_periods_of(budget, false);
	set_periods_of(budget, true);
}

static void decide(struct cuda_budget *budget, double elapsed)
{
	const struct record sum = sum_elapsed(budget, WINDOW_S);
	double all = CUDA_BUDGET_GOAL * budget->share * sum.cpu / sum.elapsed,
	       goal = left_by_steady(budget, all);
	double history = fmin(sum.elapsed / HISTORY_S, 1), cost;
	struct rates slow = rates_of(&sum);

	/* All of the target's time: whatever it costs. */
	if (budget->share >= 1)
		return;
	budget->steady_thin = fmax(sum.steady_wanted / sum.elapsed / (CUDA_BUDGET_STACKS_SHARE * all),
				   fmax(budget->steady_thin / pow(MORE_STACKS, elapsed), 1));
	if (sum.on <= 0)
		return;
	/* A burst at the very beginning tells little: what went before is taken to have cost nothing. */
	slow.probes *= history;
	slow.wanted *= history;
	budget->thin = fmax(thinning(&slow, goal), budget->thin / pow(MORE_STACKS, elapsed));
	cost = slow.probes + slow.wanted / budget->thin;
	follow(budget, cost > 0 ? goal / cost : INFINITY, elapsed);
	if (!record(budget, 0)->learning)
		brake(budget);
}

static double seconds(uint64_t ns)
{
	return (double)ns * 1e-9;
}

void cuda_budget__add(struct cuda_budget *budget, const struct cuda_budget_figures *figures)
{
	uint64_t alone = figures->nested + figures->light;
	uint64_t entries = figures->hits > alone ? figures->hits - alone : 0;
	uint64_t pairs = entries > figures->returns ? entries : figures->returns;
	double probes = ((double)pairs * figures->pair_ns + (double)figures->light * figures->light_ns +
			 (double)figures->nested * figures->nested_ns +
			 (double)figures->stepped * figures->stepped_ns) *
			1e-9;
	double steady = fmin(seconds(figures->steady_ns), probes);
	double steady_stacks =
		seconds(figures->cycled ? fmin(figures->steady_stacks_ns, figures->stacks_ns) : 0);
	struct record new = {
		.elapsed = seconds(figures->elapsed_ns),
		.on = seconds(figures->on_ns < figures->elapsed_ns ? figures->on_ns : figures->elapsed_ns),
		.probes = probes - steady,
		.steady = steady,
		.stacks = seconds(figures->stacks_ns),
		.steady_stacks = steady_stacks,
		.wanted = (seconds(figures->stacks_ns) - steady_stacks) * budget->thin,
		.steady_wanted = steady_stacks * budget->steady_thin,
		.learning = budget->age < LEARNING_S,
	};

	if (!figures->elapsed_ns)
		return;
	/* Until their own cost is known. */
	if (!budget->cycled && figures->cycled)
		budget->steady_thin = budget->thin;
	budget->cycled = figures->cycled;
	new.cpu = fmax(seconds(figures->cpu_ns), new.elapsed / 100);
	add_record(budget, &new);
	budget->age += new.elapsed;
	if (new.on >= FAST_ON_S / 2)
		budget->calls_per_s += fmax(1 - exp(-new.elapsed / CALLS_S), new.elapsed / budget->age) *
				       ((double)entries / new.on - budget->calls_per_s);
	decide(budget, new.elapsed);
	set_periods(budget);
}

void cuda_budget__add_calls(struct cuda_budget *budget, const struct cuda_kind_calls *calls)
{
	double all = 0;

	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++)
		all += (double)calls->calls[i];
	if (all <= 0)
		return;
	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++) {
		budget->parts[i] = (double)calls->calls[i] / all;
		budget->each_s[i] = calls->calls[i] ? seconds(calls->ns[i]) / (double)calls->calls[i] : 0;
	}
	set_periods(budget);
}

void cuda_budget__plan(const struct cuda_budget *budget, struct cuda_budget_plan *out)
{
	const struct record sum = sum_elapsed(budget, WINDOW_S);

	*out = (struct cuda_budget_plan){
		.state = budget->duty < 1                              ? CUDA_BUDGET_DUTY_CYCLE
			 : budget->thin > 1 || budget->steady_thin > 1 ? CUDA_BUDGET_FEWER_STACKS
								       : CUDA_BUDGET_ALL,
		.duty = budget->duty,
		.overhead_percent = sum.cpu > 0 ? 100 * (sum.probes + sum.steady + sum.stacks) / sum.cpu : 0,
	};
	memcpy(out->stack_period, budget->period, sizeof(out->stack_period));
	for (unsigned i = 0; i < SO_CUDA_KIND_COUNT; i++)
		out->stack_time_ns[i] = (uint64_t)(budget->time_s[is_steady(budget, i)] * 1e9);
}

/* A number from 0 to 1 out of the lower 32 bits. */
static double unit(uint64_t random)
{
	return (double)(uint32_t)random / 0x1p32;
}

void cuda_budget__cycle(struct cuda_budget *budget, uint64_t random, struct cuda_budget_cycle *out)
{
	double shortest = fmax(least_on_ms(budget) / budget->duty,
			       fmax(CUDA_BUDGET_MIN_CYCLE_MS, 2.5 * least_on_ms(budget)));
	double length = shortest * (1 + unit(random) / 2), off;
	uint32_t before;

	if (budget->duty >= 1) {
		budget->rounding_ms = 0;
		*out = (struct cuda_budget_cycle){ .on_ms = CUDA_BUDGET_STEADY_ON_MS, .duty = 1, .factor = 1 };
		return;
	}
	out->on_ms = (uint32_t)fmax(round(length * budget->duty), least_on_ms(budget));
	off = out->on_ms * (1 - budget->duty) / budget->duty + budget->rounding_ms;
	budget->rounding_ms = off - round(off);
	off = round(off);
	before = (uint32_t)floor(unit(random >> 32) * (off + 1));
	out->off_before_ms = before;
	out->off_after_ms = (uint32_t)off - before;
	out->duty = budget->duty;
	out->factor = 1 + off / out->on_ms;
}

bool cuda_budget__must_end(const struct cuda_budget *budget, const struct cuda_budget_cycle *cycle)
{
	return budget->duty < (cycle->duty < 1 ? cycle->duty / 2 : 1);
}
