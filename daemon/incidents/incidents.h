/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Incidents: what a program did up to a moment that a rule says is worth keeping (.design/incidents.md). A thread looks
 * at each target that has rules once a second, and writes its latest seconds where one is met. Thread-safe,
 * incidents__free() excepted.
 */
#ifndef STAKEOUT_INCIDENTS_H
#define STAKEOUT_INCIDENTS_H

#include <jansson.h>

#include "daemon/engine/engine.h"
#include "daemon/incidents/incident_rule.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define INCIDENTS_DEFAULT_LAST_S  30
#define INCIDENTS_MAX_LAST_S      3600
#define INCIDENTS_DEFAULT_PAUSE_S 600
#define INCIDENTS_LEAST_PAUSE_S   60 /* of a user other than root */
#define INCIDENTS_MAX_PAUSE_S     (7 * 86400)

struct incident_options {
	struct incident_rule rules[INCIDENT_RULES_MAX];
	size_t n_rules; /* 0: none is waited for */
	double last_s;  /* what is kept of before; 0: INCIDENTS_DEFAULT_LAST_S */
	double pause_s; /* that a target has no further one for; 0: INCIDENTS_DEFAULT_PAUSE_S */
};

struct incidents;

/* dir: as incident_store__open(). The engine stays the caller's and must live longer. */
int incidents__new(struct engine *engine, const char *dir, struct incidents **out, struct so_error *err);
void incidents__free(struct incidents *incidents);
CLEANUP_DEFINE(struct incidents *, incidents, incidents__free)

/* What the engine has to know of the rules when the target is attached. */
void incidents__prepare(const struct incident_options *options, struct attach_options *attach);
/* Looks at the target from now on, until it has ended. What is kept is the caller's. -ENOMEM. */
int incidents__watch(struct incidents *incidents, uint32_t id, struct caller caller,
		     const struct incident_options *options);
/* Keeps the target's latest seconds now. *out: new reference, as the list has it. Errors as engine__profile()'s. */
int incidents__save(struct incidents *incidents, uint32_t id, struct caller caller, double last_s, json_t **out,
		    struct so_error *err);

/*
 * Those of the caller, of all for root: an array of what incident_store.h says of each. New reference; NULL: no memory.
 */
json_t *incidents__list(struct incidents *incidents, struct caller caller);
/* *out: malloc'ed. -ENOENT: there is none, or it is not the caller's. */
int incidents__read(struct incidents *incidents, struct caller caller, uint32_t id, uint8_t **out, size_t *length,
		    struct so_error *err);
int incidents__remove(struct incidents *incidents, struct caller caller, uint32_t id, struct so_error *err);

#endif
