/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Incidents on disk: DIR/ID.json, what is said of one, and DIR/ID.pb.gz, its profile with times. Written to the disk
 * before it is listed; what an interrupted write left goes when the store is opened.
 *
 * Bounds: the bytes and the number of all of them together; of these a user other than root has a quarter at most, and
 * all such users together half. Beyond a bound the oldest goes, of whoever within it has most: of incidents where they
 * are too many, else of bytes. Not thread-safe. Times are ns since 1970-01-01 UTC.
 */
#ifndef STAKEOUT_INCIDENT_STORE_H
#define STAKEOUT_INCIDENT_STORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/incidents/incident_rule.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

#define INCIDENT_STORE_DEFAULT_BYTES ((uint64_t)256 << 20)
#define INCIDENT_STORE_MAX           1000 /* incidents */
/* One in so many, of both: of a user other than root, and of all of these. One incident is no larger than the first. */
#define INCIDENT_STORE_USER_PART  4
#define INCIDENT_STORE_USERS_PART 2

struct incident {
	uint32_t id; /* from 1 on, never used again while a later one is there */
	int64_t time_ns;
	pid_t pid;
	char comm[17];
	uid_t uid;      /* who asked for it: it is theirs, and root's */
	double last_s;  /* what is kept of before */
	uint64_t bytes; /* of the profile */
	char why[INCIDENT_WHY_TEXT];
	unsigned left_out; /* others since the one before, that came too soon after it */
};

/* As a list and the file say it. New reference; NULL: no memory. */
json_t *incident__json(const struct incident *incident);

struct incident_store;

/* dir is made (0700) if need be; its parent must be there. max_bytes 0: the default. */
int incident_store__open(const char *dir, uint64_t max_bytes, struct incident_store **out, struct so_error *err);
void incident_store__close(struct incident_store *store);
CLEANUP_DEFINE(struct incident_store *, incident_store, incident_store__close)

/*
 * Fills in incident->id and ->bytes. -EFBIG: it alone is more than a quarter of the room; else from writing. In words.
 */
int incident_store__add(struct incident_store *store, struct incident *incident, const void *profile, size_t length,
			struct so_error *err);
/* The oldest first. Borrowed, until the next change. */
const struct incident *incident_store__list(struct incident_store *store, size_t *n);
/* *out: malloc'ed. -ENOENT: there is none; else from reading. In words. */
int incident_store__read(struct incident_store *store, uint32_t id, uint8_t **out, size_t *length,
			 struct so_error *err);
int incident_store__remove(struct incident_store *store, uint32_t id, struct so_error *err);

#endif
