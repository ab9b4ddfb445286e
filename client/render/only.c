// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/render/only.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_SHOWN    8
#define CONTAINER_CHARS 12 /* as container tools cut ids */

enum key {
	KEY_PID,
	KEY_TID,
	KEY_COMM,
	KEY_RANK,
	KEY_CONTAINER,
	KEYS,
};

static const char *const keys[KEYS] = { "pid", "tid", "comm", "rank", "container" };

/* KEYS: no word of --only. */
static enum key key_of(const char *word, const char **value)
{
	for (enum key key = 0; key < KEYS; key++) {
		size_t length = strlen(keys[key]);

		if (!strncmp(word, keys[key], length) && word[length] == '=' && word[length + 1]) {
			*value = word + length + 1;
			return key;
		}
	}
	return KEYS;
}

int only__check(const struct option_texts *only, struct so_error *err)
{
	for (size_t i = 0; i < only->n; i++) {
		const char *word = only->list[i], *value;
		enum key key = key_of(word, &value);

		if (key == KEYS)
			return so_err(err, -EINVAL,
				      "--only '%s': not of the form KEY=VALUE, KEY being pid, tid, comm, "
				      "rank or container",
				      word);
		if (key != KEY_COMM && key != KEY_CONTAINER && value[strspn(value, "0123456789")])
			return so_err(err, -EINVAL, "--only '%s': '%s' is not a number", word, value);
	}
	return 0;
}

static bool has(const struct profile_sample *sample, enum key key, const char *value)
{
	switch (key) {
	case KEY_PID:
		return sample->pid && sample->pid == strtoll(value, NULL, 10);
	case KEY_TID:
		return sample->tid && sample->tid == strtoll(value, NULL, 10);
	case KEY_COMM:
		return !strcmp(sample->comm, value);
	case KEY_RANK:
		return sample->rank && *sample->rank && strtoll(sample->rank, NULL, 10) == strtoll(value, NULL, 10);
	case KEY_CONTAINER:
		return sample->container && !strncmp(sample->container, value, strlen(value));
	case KEYS:
		break;
	}
	return false;
}

bool only__takes(const struct option_texts *only, const struct profile_sample *sample)
{
	bool asked[KEYS] = { false }, found[KEYS] = { false };

	for (size_t i = 0; i < only->n; i++) {
		const char *value;
		enum key key = key_of(only->list[i], &value);

		if (key == KEYS)
			continue;
		asked[key] = true;
		found[key] |= has(sample, key, value);
	}
	return !memcmp(asked, found, sizeof(asked));
}

static void write_value(const struct profile_sample *sample, enum key key, char *text, size_t size)
{
	const char *label = key == KEY_COMM ? sample->comm : key == KEY_RANK ? sample->rank : sample->container;

	if (key == KEY_PID || key == KEY_TID)
		snprintf(text, size, "%" PRId64, key == KEY_PID ? sample->pid : sample->tid);
	else
		snprintf(text, size, "%.*s", key == KEY_CONTAINER ? CONTAINER_CHARS : 64, label ? label : "");
}

/* "0, 1, 2, ...", of what the profile has. */
static void list_values(const struct profile *profile, enum key key, char *text, size_t size)
{
	char found[VALUES_SHOWN][80];
	size_t n = 0, length = 0;

	text[0] = '\0';
	for (size_t i = 0; i < profile->n_samples; i++) {
		char value[80];
		size_t at = 0;

		if (!profile->samples[i].count)
			continue;
		write_value(&profile->samples[i], key, value, sizeof(value));
		while (at < n && strcmp(found[at], value) != 0)
			at++;
		if (at < n || !value[0] || (!strcmp(value, "0") && (key == KEY_PID || key == KEY_TID)))
			continue;
		if (n == VALUES_SHOWN) {
			snprintf(text + length, size - length, ", ...");
			return;
		}
		memcpy(found[n], value, sizeof(value));
		length += (size_t)snprintf(text + length, size - length, "%s%s", n++ ? ", " : "", value);
	}
}

int only__refuse(const struct option_texts *only, const struct profile *profile, struct so_error *err)
{
	char values[VALUES_SHOWN * 84];

	for (size_t i = 0; i < only->n; i++) {
		const char *value;
		enum key key = key_of(only->list[i], &value);
		bool found = false;

		for (size_t j = 0; j < profile->n_samples && !found; j++)
			found = profile->samples[j].count > 0 && has(&profile->samples[j], key, value);
		if (found)
			continue;
		list_values(profile, key, values, sizeof(values));
		if (!values[0])
			return so_err(err, -ENODATA, "--only %s: no sample here has a %s", only->list[i], keys[key]);
		return so_err(err, -ENODATA, "--only %s: no sample here has it; there are %s", only->list[i], values);
	}
	return so_err(err, -ENODATA, "no sample here has all that --only asks for");
}
