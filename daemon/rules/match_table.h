/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rules in force, and who may have which. All functions are thread-safe, match_table__free() excepted. */
#ifndef STAKEOUT_MATCH_TABLE_H
#define STAKEOUT_MATCH_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/os/process_access.h"
#include "daemon/rules/match_rule.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define MATCH_RULES_MAX_USER 8 /* of one user other than root, so that one cannot shut out the others */

struct match_table;

struct match_rule_info {
	uint32_t id; /* from 1, in the order in which they came; never used twice */
	uid_t owner;
	gid_t group;      /* that the owner had */
	bool configured;  /* of a flag or the configuration file: it comes back with the daemon */
	unsigned rate_hz; /* ENGINE_DEFAULT_RATE_HZ where the rule names none */
	bool cuda, wall;
	uint64_t attached; /* processes, ever */
	char text[MATCH_RULE_MAX_BYTES + 1];
	char problem[256]; /* why it could not attach one, the last time; "": it could */
};

int match_table__new(struct match_table **out);
void match_table__free(struct match_table *table);
CLEANUP_DEFINE(struct match_table *, match_table, match_table__free)

/* As match_rule__parse(); -EEXIST: the owner has this one; -ENOSPC: too many. */
int match_table__add(struct match_table *table, const char *text, struct caller owner, bool configured, uint32_t *id,
		     struct so_error *err);
/* uid: the caller's; root may remove all. -ENOENT: no rule that the caller may see. */
int match_table__remove(struct match_table *table, uid_t uid, uint32_t id, struct so_error *err);
/* Those that uid may see, in order of id; returns how many. */
size_t match_table__list(struct match_table *table, uid_t uid, struct match_rule_info out[MATCH_RULES_MAX]);
/* One of these. -ENOENT. */
int match_table__get(struct match_table *table, uid_t uid, uint32_t id, struct match_rule_info *out);

/* The highest id in force, 0 without a rule, and how many were ever removed: whether there is anything to look for. */
void match_table__state(struct match_table *table, uint32_t *last_id, uint64_t *removed, bool *wants_cgroups);
/* The first rule behind `after` that matches. -ENOENT: none. */
int match_table__find(struct match_table *table, const struct match_process *process, uint32_t after,
		      struct match_rule_info *out);
/* A process was attached; false: the rule has been removed meanwhile. */
bool match_table__attached(struct match_table *table, uint32_t id);
/* One could not be. */
void match_table__failed(struct match_table *table, uint32_t id, const char *why);

#endif
