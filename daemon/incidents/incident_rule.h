/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When what a program just did is worth keeping: "step>2x", "step>500ms", "cpu<5%/30s", "gpu<20%", "oom". */
#ifndef STAKEOUT_INCIDENT_RULE_H
#define STAKEOUT_INCIDENT_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engine/engine.h"
#include "stakeout/error.h"

#define INCIDENT_RULES_MAX  4
#define INCIDENT_RULE_TEXT  256 /* bytes of a list of them */
#define INCIDENT_WHY_TEXT   128 /* bytes of what is said of one that was met */
#define INCIDENT_HOLD_S     10  /* how long a share must be low, where the rule does not say */
#define INCIDENT_MAX_HOLD_S 3600

enum incident_kind {
	INCIDENT_STEP, /* a step took long */
	INCIDENT_CPU,  /* its processes' CPU time, in percent of one CPU, fell below a bound and stayed there */
	INCIDENT_GPU,  /* the same of the utilisation of the GPUs that it uses; known where CUDA calls are timed */
	INCIDENT_OOM,  /* PyTorch had no memory on a GPU; known where that is watched */
};

struct incident_rule {
	enum incident_kind kind;
	double factor; /* step: so many times the 95th percentile; 0: by limit_ns */
	uint64_t limit_ns;
	double percent;   /* cpu, gpu */
	uint64_t hold_ns; /* the same */
};

/* A list with commas. -EINVAL, in words; -E2BIG: more than INCIDENT_RULES_MAX; -EEXIST: two about steps. */
int incident_rules__parse(const char *text, struct incident_rule rules[INCIDENT_RULES_MAX], size_t *n,
			  struct so_error *err);

/* What is remembered of a rule between two looks at its target. All zero at first. */
struct incident_memory {
	uint64_t looked_ns, running_ns; /* at the last look */
	uint64_t low_since_ns;          /* 0: it is not low */
	bool was_high;                  /* since it was met last: only what falls is met */
	uint64_t refused;               /* at the last look */
};

/*
 * Whether the rule is met. why: of INCIDENT_WHY_TEXT bytes, "no more than 3 % of a CPU for 10 s". Of a step that is
 * under way it is, too.
 */
bool incident_rule__is_met(const struct incident_rule *rule, const struct engine_activity *activity,
			   struct incident_memory *memory, char *why);

#endif
