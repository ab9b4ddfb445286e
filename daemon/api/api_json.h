/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The JSON of the API: requests checked field by field, targets written out. */
#ifndef STAKEOUT_API_JSON_H
#define STAKEOUT_API_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "daemon/engine/engine.h"
#include "daemon/incidents/incidents.h"
#include "stakeout/error.h"

#define API_MAX_PID        4194304 /* PID_MAX_LIMIT of the kernel's include/linux/threads.h */
#define API_MAX_DURATION_S 2592000 /* 30 days */
#define API_MAX_STEPS      1000000000

/* What a request to watch says. */
struct api_attach {
	struct attach_options options;
	struct incident_options incidents;
	char save_on[INCIDENT_RULE_TEXT]; /* the rules in it, as they were given; "": none */
};

/*
 * The body of POST /v1/targets into *out (defaults where a field is absent; the caller is root and the API's to
 * set). -EINVAL, the message naming the field.
 */
int api_json__attach(const char *body, size_t length, struct api_attach *out, struct so_error *err);
/* New references; NULL: no memory. */
json_t *api_json__target(const struct target_info *info);

#endif
