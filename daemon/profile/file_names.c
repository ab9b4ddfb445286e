// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/profile/file_names.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/os/user_shares.h"
#include "stakeout/intern.h"

struct file_names {
	pthread_mutex_t lock;
	struct intern texts;
	char **names; /* by number, from 1: copies, which do not move */
	struct user_shares shares;
};

int file_names__new(struct file_names **out)
{
	struct file_names *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->names = calloc(FILE_NAMES_MAX + 1, sizeof(*f->names));
	if (!f->names) {
		free(f);
		return -ENOMEM;
	}
	pthread_mutex_init(&f->lock, NULL);
	f->shares = user_shares__of(FILE_NAMES_MAX);
	*out = f;
	return 0;
}

void file_names__reset(struct file_names *f)
{
	pthread_mutex_lock(&f->lock);
	for (size_t i = 1; i <= f->texts.n_keys; i++)
		free(TAKE_PTR(f->names[i]));
	intern__clear(&f->texts);
	f->texts = (struct intern){ 0 };
	user_shares__reset(&f->shares);
	limits__set(LIMIT_FILE_NAMES, 0);
	pthread_mutex_unlock(&f->lock);
}

void file_names__free(struct file_names *f)
{
	if (!f)
		return;
	file_names__reset(f);
	free(f->names);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* With the lock. */
static uint32_t add(struct file_names *f, const char *path, size_t bytes, uid_t uid)
{
	uint32_t number;
	char *copy;

	if (f->texts.n_keys >= FILE_NAMES_MAX || !user_shares__take(&f->shares, uid, 1)) {
		limits__hit(LIMIT_FILE_NAMES, 1);
		return 0;
	}
	copy = strdup(path);
	if (!copy || intern__add(&f->texts, path, bytes, &number) < 0) {
		free(copy);
		user_shares__give(&f->shares, uid, 1);
		return 0;
	}
	f->names[number + 1] = copy;
	limits__set(LIMIT_FILE_NAMES, f->texts.n_keys);
	return number + 1;
}

uint32_t file_names__number(struct file_names *f, const char *path, uid_t uid)
{
	size_t bytes = strlen(path) + 1;
	uint32_t number;

	pthread_mutex_lock(&f->lock);
	number = intern__find(&f->texts, path, bytes, &number) ? number + 1 : add(f, path, bytes, uid);
	pthread_mutex_unlock(&f->lock);
	return number;
}

const char *file_names__get(struct file_names *f, uint32_t number)
{
	const char *name = NULL;

	pthread_mutex_lock(&f->lock);
	if (number && number <= FILE_NAMES_MAX)
		name = f->names[number];
	pthread_mutex_unlock(&f->lock);
	return name;
}
