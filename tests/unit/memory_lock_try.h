/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STAKEOUT_TESTS_MEMORY_LOCK_TRY_H
#define STAKEOUT_TESTS_MEMORY_LOCK_TRY_H

#include "daemon/os/bounded_call.c"
#include "daemon/os/memory_lock.c"

/* What tries a process in place of a read of its memory, and how long it is waited for. NULL, 0: as ever. */
static void set_try(void (*try_process)(pid_t pid), unsigned patience_ms)
{
	pthread_mutex_lock(&checks.lock);
	checks.try_process = try_process;
	checks.patience_ms = patience_ms ?: MEMORY_LOCK_PATIENCE_MS;
	memset(checks.fresh, 0, sizeof(checks.fresh));
	pthread_mutex_unlock(&checks.lock);
}

/* Calls that hang now, and users that are slow for it. */
static unsigned n_stuck(void)
{
	unsigned n;

	pthread_mutex_lock(&pool.lock);
	n = pool.n_stuck;
	pthread_mutex_unlock(&pool.lock);
	return n;
}

static void forgive(void)
{
	pthread_mutex_lock(&pool.lock);
	pool.n_users = 0;
	pthread_mutex_unlock(&pool.lock);
}

#endif
