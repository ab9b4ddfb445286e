/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Targets by rule: a thread that looks each second which processes are new, or execute another program, and attaches
 * those that a rule matches (.design/targets.md). Without a rule it sleeps.
 *
 * What is never attached: a process that somebody watches already, what descends from a process that a rule attached
 * (it is followed there), this daemon and the processes that it descends from, other stakeout programs, kernel threads;
 * and, as long as it lives, a process whose target somebody detached or stopped, with all that descends from it, by the
 * rules of that time.
 */
#ifndef STAKEOUT_MATCH_SCAN_H
#define STAKEOUT_MATCH_SCAN_H

#include <stdint.h>
#include <sys/types.h>

#include "daemon/engine/engine.h"
#include "daemon/history/history.h"
#include "daemon/rules/match_table.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

struct match_scan;

/* engine, history (NULL: none is kept): the caller's, must live longer. proc: where processes are; NULL: "/proc". */
int match_scan__new(struct engine *engine, struct history *history, const char *proc, struct match_scan **out,
		    struct so_error *err);
/* Starts the thread. */
int match_scan__start(struct match_scan *scan, struct so_error *err);
/* Ends the thread, once what it attaches is attached. The targets stay. */
void match_scan__free(struct match_scan *scan);
CLEANUP_DEFINE(struct match_scan *, match_scan, match_scan__free)

/* The rules in force, to be looked at; changes go through the functions below. */
struct match_table *match_scan__table(struct match_scan *scan);
/* As match_table__add(); the thread looks at once. */
int match_scan__add(struct match_scan *scan, const char *text, struct caller owner, bool configured, uint32_t *id,
		    struct so_error *err);
/* As match_table__remove(); what the rule attached is detached, *detached targets. */
int match_scan__remove(struct match_scan *scan, uid_t uid, uint32_t id, unsigned *detached, struct so_error *err);

/* One round of what the thread does, for tests. Not while it runs. */
void match_scan__round(struct match_scan *scan);

#endif
