/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A daemon's rules of which processes become targets, as its API tells them (.design/targets.md). */
#ifndef STAKEOUT_CLIENT_RULES_H
#define STAKEOUT_CLIENT_RULES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/session/api_client.h"
#include "stakeout/error.h"

#define RULE_TEXT_BYTES 520 /* a daemon's rules have 512 at most */

struct rule {
	uint32_t id;
	char match[RULE_TEXT_BYTES];
	char problem[256]; /* why it could not attach a process; "": it could */
	bool configured;   /* it comes back with the daemon */
	uint64_t targets;  /* living ones that it attached */
	uint64_t attached; /* ever */
};

/* From the API's JSON; absent fields are zero. */
int rules__add(struct api_client *api, const char *match, struct rule *out, struct so_error *err);
/* By its number, or its whole text. -ENOENT. */
int rules__find(struct api_client *api, const char *word, struct rule *out, struct so_error *err);
/* *detached: targets that it had attached, and that end with it. */
int rules__remove(struct api_client *api, uint32_t id, uint64_t *detached, struct so_error *err);
/* A table, nothing without rules or from a daemon that knows none. */
int rules__print(struct api_client *api, struct so_error *err);

#endif
