// SPDX-License-Identifier: GPL-2.0-or-later
#include <inttypes.h>

#include "daemon/metrics/metrics.h"
#include "daemon/metrics/metrics_text.h"

/* Not there where it is not known. */
static struct metrics_label known(const char *name, const char *value)
{
	return (struct metrics_label){ value[0] ? name : NULL, value };
}

void metrics_labels__print(const struct metrics_target *targets, size_t n, FILE *out)
{
	metrics_text__family(out, "stakeout_target_info", "gauge",
			     "Always 1; what is known of the target's root process, and the rule that attached it.");
	for (size_t i = 0; i < n; i++) {
		const struct metrics_target *t = &targets[i];
		const struct process_labels *l = &t->info.labels;
		char rule[16] = "";

		if (t->info.rule)
			snprintf(rule, sizeof(rule), "%" PRIu32, t->info.rule);

		const struct metrics_label labels[] = {
			{ "id", t->id },
			{ "pid", t->pid },
			{ "comm", t->comm },
			known("rank", l->rank),
			known("local_rank", l->local_rank),
			known("world_size", l->world_size),
			known("container", l->container),
			known("pod", l->pod),
			known("rule", rule),
		};

		metrics_text__sample(out, "stakeout_target_info", labels, sizeof(labels) / sizeof(labels[0]), 1);
	}
}

void metrics_labels__print_rules(const struct match_rule_info *rules, size_t n, FILE *out)
{
	metrics_text__family(out, "stakeout_rules", "gauge", "Rules in force that the caller may see.");
	metrics_text__sample(out, "stakeout_rules", NULL, 0, (double)n);
	metrics_text__family(out, "stakeout_rule_attached_total", "counter",
			     "Processes that a rule has attached, by the number of the rule.");
	for (size_t i = 0; i < n; i++) {
		char id[16];

		snprintf(id, sizeof(id), "%" PRIu32, rules[i].id);
		metrics_text__sample(out, "stakeout_rule_attached_total", &(struct metrics_label){ "rule", id }, 1,
				     (double)rules[i].attached);
	}
}
