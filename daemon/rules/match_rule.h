/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A rule of which processes become targets (.design/targets.md has its syntax): a text of terms, "cmd=PATTERN",
 * "cgroup=PATTERN", "user=NAME", "rate=HZ", "cuda", or a text without terms, which is a pattern of the command line.
 * Patterns are POSIX extended regular expressions and may match anywhere.
 *
 * Rules may come from users whom nobody trusts, and matching runs in the daemon: what regcomp() and regexec() of the C
 * library take without bounds is refused (back-references, repetitions of repetitions, many repeated groups), and what a compiled pattern
 * has learned is dropped now and then.
 */
#ifndef STAKEOUT_MATCH_RULE_H
#define STAKEOUT_MATCH_RULE_H

#include <stdbool.h>
#include <sys/types.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define MATCH_RULES_MAX          32
#define MATCH_RULE_MAX_BYTES     512  /* of a rule's text */
#define MATCH_COMMAND_MAX_BYTES  4096 /* of a command line that is looked at */
#define MATCH_CGROUP_MAX_BYTES   4096
#define MATCH_PATTERN_MAX_COUNTS 256 /* sum of the numbers in a pattern's braces */
#define MATCH_PATTERN_MAX_GROUPS 3   /* groups with '+' in a pattern: each doubles what it holds */

struct match_rule;

/*
 * owner: whose rule it is; one of a user other than root matches that user's processes alone. -EINVAL: no rule, in words;
 * -EPERM: a user's rule for another user; -ENOMEM.
 */
int match_rule__parse(const char *text, uid_t owner, struct match_rule **out, struct so_error *err);
void match_rule__free(struct match_rule *rule);
CLEANUP_DEFINE(struct match_rule *, match_rule, match_rule__free)

/* As given, without blanks at its ends. Borrowed. */
const char *match_rule__text(const struct match_rule *rule);
uid_t match_rule__owner(const struct match_rule *rule);
unsigned match_rule__rate_hz(const struct match_rule *rule); /* 0: none is named */
bool match_rule__cuda(const struct match_rule *rule);
/* Whether it looks at cgroups at all. */
bool match_rule__wants_cgroup(const struct match_rule *rule);

struct match_process {
	uid_t uid;           /* real */
	const char *command; /* arguments with a blank between them; "" matches no pattern */
	const char *cgroups; /* a path a line; matched line by line */
};

/* For one thread at a time. False also when out of memory. */
bool match_rule__matches(struct match_rule *rule, const struct match_process *process);

#endif
