/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A rule of which processes become targets (.design/targets.md has its syntax): a text of terms, "cmd=PATTERN",
 * "cgroup=PATTERN", "user=NAME", "rate=HZ", "cuda", "wall", or a text without terms, which is a pattern of the command
 * line.
 * Patterns (stakeout/regexp.h) may match anywhere. Rules come from users whom nobody trusts.
 */
#ifndef STAKEOUT_MATCH_RULE_H
#define STAKEOUT_MATCH_RULE_H

#include <stdbool.h>
#include <sys/types.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define MATCH_RULES_MAX         32
#define MATCH_RULE_MAX_BYTES    512  /* of a rule's text */
#define MATCH_COMMAND_MAX_BYTES 4096 /* of a command line that is looked at */
#define MATCH_CGROUP_MAX_BYTES  4096

struct match_rule;

/*
 * owner: whose rule it is; one of a user other than root matches that user's processes alone. -EINVAL: no rule, in
 * words; -EPERM: a user's rule for another user; -ENOMEM.
 */
int match_rule__parse(const char *text, uid_t owner, struct match_rule **out, struct so_error *err);
void match_rule__free(struct match_rule *rule);
CLEANUP_DEFINE(struct match_rule *, match_rule, match_rule__free)

/* As given, without blanks at its ends. Borrowed. */
const char *match_rule__text(const struct match_rule *rule);
uid_t match_rule__owner(const struct match_rule *rule);
unsigned match_rule__rate_hz(const struct match_rule *rule); /* 0: none is named */
bool match_rule__wall(const struct match_rule *rule);
bool match_rule__cuda(const struct match_rule *rule);
/* Whether it looks at cgroups at all. */
bool match_rule__wants_cgroup(const struct match_rule *rule);

struct match_process {
	uid_t uid;           /* real */
	const char *command; /* arguments with a blank between them; "" matches no pattern */
	const char *cgroups; /* a path a line; matched line by line */
};

bool match_rule__matches(const struct match_rule *rule, const struct match_process *process);

#endif
