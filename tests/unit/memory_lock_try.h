/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STAKEOUT_TESTS_MEMORY_LOCK_TRY_H
#define STAKEOUT_TESTS_MEMORY_LOCK_TRY_H

#include "daemon/os/memory_lock.c"

/* What tries a process in place of a read of its memory, and how long it is waited for. NULL, 0: as ever. */
static void set_try(void (*try_process)(pid_t pid), unsigned patience_ms)
{
	pthread_mutex_lock(&pool.lock);
	pool.try_process = try_process;
	pool.patience_ns = patience_ms ? patience_ms * 1000000ull : PATIENCE_NS;
	memset(pool.fresh, 0, sizeof(pool.fresh));
	pthread_mutex_unlock(&pool.lock);
}

#endif
