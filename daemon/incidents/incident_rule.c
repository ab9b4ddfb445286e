// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/incidents/incident_rule.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS   1000000000ull
#define MAX_FACTOR  1000.0
#define MAX_LIMIT_S 86400.0

static bool take_word(const char **at, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(*at, word, n))
		return false;
	*at += n;
	return true;
}

/* A number from `low` on up to `high`. */
static bool take_number(const char **at, double low, double high, double *out)
{
	char *end;

	if (**at < '0' || **at > '9')
		return false;
	*out = strtod(*at, &end);
	*at = end;
	return *out >= low && *out <= high;
}

/* "x", "ms", "s" */
static bool parse_step(const char **at, struct incident_rule *rule)
{
	double number;

	rule->kind = INCIDENT_STEP;
	if (!take_number(at, 0, 1000 * MAX_LIMIT_S, &number))
		return false;
	if (take_word(at, "x")) {
		rule->factor = number;
		return number >= 1 && number <= MAX_FACTOR;
	}
	if (take_word(at, "ms"))
		number /= 1000;
	else if (!take_word(at, "s"))
		return false;
	rule->limit_ns = (uint64_t)(number * 1e9);
	return rule->limit_ns > 0 && number <= MAX_LIMIT_S;
}

/* "5%", "5%/30s" */
static bool parse_share(const char **at, struct incident_rule *rule)
{
	double hold_s = INCIDENT_HOLD_S;

	if (!take_number(at, 0.1, 100 * 1024, &rule->percent) || !take_word(at, "%"))
		return false;
	if (take_word(at, "/") && (!take_number(at, 1, INCIDENT_MAX_HOLD_S, &hold_s) || !take_word(at, "s")))
		return false;
	rule->hold_ns = (uint64_t)(hold_s * 1e9);
	return true;
}

static bool parse_one(const char **at, struct incident_rule *rule)
{
	*rule = (struct incident_rule){ .kind = INCIDENT_CPU };
	if (take_word(at, "step>"))
		return parse_step(at, rule);
	if (take_word(at, "oom")) {
		rule->kind = INCIDENT_OOM;
		return true;
	}
	if (take_word(at, "gpu<"))
		rule->kind = INCIDENT_GPU;
	else if (!take_word(at, "cpu<"))
		return false;
	return parse_share(at, rule);
}

static bool is_there(const struct incident_rule *rules, size_t n, enum incident_kind kind)
{
	for (size_t i = 0; i < n; i++)
		if (rules[i].kind == kind)
			return true;
	return false;
}

int incident_rules__parse(const char *text, struct incident_rule rules[INCIDENT_RULES_MAX], size_t *n,
			  struct so_error *err)
{
	const char *at = text;
	struct incident_rule rule;

	*n = 0;
	do {
		const char *from = at;

		if (!parse_one(&at, &rule) || (*at && *at != ','))
			return so_err(
				err, -EINVAL,
				"'%.40s' is no rule: step>2x (times the 95th percentile), step>500ms, cpu<5%%/30s, "
				"gpu<20%% or oom",
				from);
		if (*n == INCIDENT_RULES_MAX)
			return so_err(err, -E2BIG, "more than %d rules", INCIDENT_RULES_MAX);
		if (rule.kind == INCIDENT_STEP && is_there(rules, *n, INCIDENT_STEP))
			return so_err(err, -EEXIST, "two rules about steps: one is enough");
		rules[(*n)++] = rule;
	} while (*at++);
	return 0;
}

static bool step_is_slow(const struct engine_activity *activity, char *why)
{
	int n;

	if (!activity->slow_step_ns)
		return false;
	n = snprintf(why, INCIDENT_WHY_TEXT, "a step %s %.1f ms",
		     activity->slow_under_way ? "has been under way for" : "took",
		     (double)activity->slow_step_ns / 1e6);
	if (activity->usual_ns)
		snprintf(why + n, INCIDENT_WHY_TEXT - (size_t)n, ", where 95 in 100 took no more than %.1f ms",
			 (double)activity->usual_ns / 1e6);
	return true;
}

static bool share_is_low(const struct incident_rule *rule, uint64_t from_ns, uint64_t now_ns, double percent,
			 struct incident_memory *m)
{
	if (percent >= rule->percent) {
		m->was_high = true;
		m->low_since_ns = 0;
		return false;
	}
	if (!m->low_since_ns)
		m->low_since_ns = from_ns;
	if (!m->was_high || now_ns - m->low_since_ns < rule->hold_ns)
		return false;
	m->was_high = false;
	return true;
}

static bool memory_was_refused(uint64_t refused, struct incident_memory *m, char *why)
{
	uint64_t times = refused - m->refused;

	if (refused <= m->refused)
		return false;
	m->refused = refused;
	snprintf(why, INCIDENT_WHY_TEXT, "PyTorch was out of memory on a GPU%s", times > 1 ? ", more than once" : "");
	return true;
}

bool incident_rule__is_met(const struct incident_rule *rule, const struct engine_activity *activity,
			   struct incident_memory *m, char *why)
{
	uint64_t from_ns = m->looked_ns;
	double percent = activity->gpu_percent;
	bool met;

	if (rule->kind == INCIDENT_STEP)
		return step_is_slow(activity, why);
	if (rule->kind == INCIDENT_OOM)
		return memory_was_refused(activity->refused, m, why);
	if (rule->kind == INCIDENT_CPU && from_ns && activity->now_ns > from_ns)
		percent = 100.0 * (double)(activity->running_ns - m->running_ns) / (double)(activity->now_ns - from_ns);
	m->looked_ns = activity->now_ns;
	m->running_ns = activity->running_ns;
	if (!from_ns || activity->now_ns <= from_ns || percent < 0)
		return false;
	met = share_is_low(rule, from_ns, activity->now_ns, percent, m);
	if (met)
		snprintf(why, INCIDENT_WHY_TEXT, "it used less than %g %% of %s for %.0f s", rule->percent,
			 rule->kind == INCIDENT_CPU ? "a CPU" : "its GPUs",
			 (double)(activity->now_ns - m->low_since_ns) / 1e9);
	return met;
}
