// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/metrics/metrics.h"
#include "daemon/metrics/metrics_text.h"

#define NAME "stakeout_target_category_cpu_seconds_total"

#define STATES "stakeout_target_state_seconds_total"

static void print_states(struct category_counters *counters, const struct metrics_target *targets, size_t n, FILE *out)
{
	int64_t ns[WALL_STATE_COUNT];

	metrics_text__family(out, STATES, "counter",
			     "Wall time of all threads by what they did, of targets that are watched with 'wall'.");
	for (size_t i = 0; i < n; i++) {
		const struct metrics_target *t = &targets[i];

		if (!category_counters__get_states(counters, t->info.id, ns))
			continue;
		for (size_t s = 0; s < WALL_STATE_COUNT; s++) {
			const struct metrics_label labels[] = {
				{ "id", t->id },
				{ "pid", t->pid },
				{ "comm", t->comm },
				{ "state", wall_states[s] },
			};

			metrics_text__sample(out, STATES, labels, sizeof(labels) / sizeof(labels[0]),
					     (double)ns[s] / 1e9);
		}
	}
}

void metrics_categories__print(struct category_counters *counters, const struct metrics_target *targets, size_t n,
			       FILE *out)
{
	int64_t ns[CATEGORY_COUNTERS_MAX];

	metrics_text__family(out, NAME, "counter",
			     "CPU time by category, samples times sampling period, of the samples sorted so far. "
			     "Categories of a target add up to its sampled CPU time.");
	for (size_t i = 0; i < n; i++) {
		const struct metrics_target *t = &targets[i];

		if (!category_counters__get(counters, t->info.id, ns))
			continue;
		for (size_t c = 0; c < category_counters__count(counters); c++) {
			const struct metrics_label labels[] = {
				{ "id", t->id },
				{ "pid", t->pid },
				{ "comm", t->comm },
				{ "category", category_counters__name(counters, c) },
			};

			metrics_text__sample(out, NAME, labels, sizeof(labels) / sizeof(labels[0]),
					     (double)ns[c] / 1e9);
		}
	}
	print_states(counters, targets, n, out);
}
