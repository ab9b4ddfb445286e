// SPDX-License-Identifier: GPL-2.0-or-later
#include "profile/step_begins.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COMMENT "stakeout.steps="
#define ENTRIES "stakeout.entries="
#define COUNTED "stakeout.counted="

const char *step_begins__text(const char *comment)
{
	return strncmp(comment, COMMENT, strlen(COMMENT)) ? NULL : comment + strlen(COMMENT);
}

const char *step_begins__entries(const char *comment, const char **name)
{
	const char *end;

	if (strncmp(comment, ENTRIES, strlen(ENTRIES)) != 0)
		return NULL;
	end = strchr(comment + strlen(ENTRIES), '=');
	if (!end)
		return NULL;
	*name = end + 1;
	return comment + strlen(ENTRIES);
}

const char *step_begins__counted(const char *comment)
{
	return strncmp(comment, COUNTED, strlen(COUNTED)) ? NULL : comment + strlen(COUNTED);
}

size_t step_begins__count(const char *text)
{
	size_t n = 1;

	for (; *text && *text != '='; text++)
		n += *text == ',';
	return n;
}

int step_begins__read(const char *text, struct step_begins *out)
{
	size_t n = step_begins__count(text), at = 0;
	_cleanup_free_ int64_t *ns = calloc(n + 1, sizeof(*ns));
	const char *list = strchr(text, ':');
	int64_t pid, tid, when = 0;

	if (!ns)
		return -ENOMEM;
	if (!list || sscanf(text, "%" SCNd64 "/%" SCNd64 ":", &pid, &tid) != 2)
		return -EINVAL;
	for (const char *c = list + 1; *c && *c != '=' && at < n;) {
		char *end;
		long long more = strtoll(c, &end, 10);

		if (end == c || more < 0 || __builtin_add_overflow(when, more, &when) || when >= STEP_BEGINS_MOST_NS)
			return -EINVAL;
		ns[at++] = when;
		c = *end == ',' ? end + 1 : end;
	}
	*out = (struct step_begins){ pid, tid, TAKE_PTR(ns), at };
	return 0;
}
