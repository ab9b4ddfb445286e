/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What history.c, which writes, and history_read.c share. */
#ifndef STAKEOUT_HISTORY_INTERNAL_H
#define STAKEOUT_HISTORY_INTERNAL_H

#include <pthread.h>

#include "daemon/history/history.h"

/* Of a target's memory, since its last window ended. */
struct memory_readings {
	uint64_t n;
	double anonymous, file, shared, swapped; /* sums of n readings */
	uint64_t most;
	uint64_t next_ns; /* not before then, by clock__now_ns() */
};

/* A target whose windows are taken. Each holds a slot of the engine, so there are no more of them than that has. */
struct watched {
	uint32_t id; /* 0: the place is free */
	uint32_t handle;
	pid_t pid;
	uint64_t start_ticks;
	int64_t end_ns; /* of its last window */
	struct memory_readings memory;
	/* When its history began; hides: it has had processes that its viewer may not see, and is root's. */
	struct target_info info;
};

struct history {
	struct engine *engine;
	struct store *store;
	/* Constant. */
	char *dir;
	uint64_t retain_size_bytes;
	int64_t retain_age_ns, window_ns;
	struct history_listener listener;

	pthread_t thread;
	pthread_mutex_t reading; /* held while windows are added up: the memory that takes is needed once */
	pthread_mutex_t work;    /* held while a window is taken; comes before `lock` */
	pthread_mutex_t lock;    /* guards all below */
	pthread_cond_t wake;
	bool stop;
	struct watched watched[ENGINE_MAX_TARGETS];
	uint64_t n_lost; /* windows */
	bool losing;     /* the last one was lost, which has been said */
};

/* The entry of a target; false when it has none. */
bool history_find(struct history *h, uint32_t id, struct watched *out);
/* The target whose windows are taken of the process with that PID and start; 0: none. */
uint32_t history_watched_id(struct history *h, pid_t pid, uint64_t start_ticks);
/* Writes the open window of the target with that PID and start, if it is not too young nor written up to to_ns. */
void history_flush(struct history *h, pid_t pid, uint64_t start_ticks, int64_t to_ns);

/* Checks the rights, and writes the open window if the range wants it. *first_ns: of its windows; 0: it had none. */
int history_prepare(struct history *h, struct caller caller, int64_t key, int64_t to_ns, int64_t *first_ns,
		    struct so_error *err);

/* history_memory.c */
bool history_memory_due(const struct watched *w);
/* Called with `work` held. What cannot be read is left out. */
void history_memory_read(struct history *h, struct watched *w);
/* Of the readings since the last call. */
struct store_memory history_memory_take(struct watched *w);

#endif
