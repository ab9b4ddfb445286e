/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long the engine keeps files. What no process has mapped for a while is retired (file_registry.h). Now and then
 * the stacks that are kept are gone through, and retired files that none of them names are closed. All with the
 * engine's lock held, but for the last two.
 */
#ifndef STAKEOUT_FILE_LIFE_H
#define STAKEOUT_FILE_LIFE_H

#include "daemon/targets/collector.h"

#define FILE_LIFE_IDLE_MS 600000

enum files_state {
	FILES_REST,
	FILES_MARK, /* stacks are gone through, some targets at a time */
	FILES_WAIT, /* for calls that work without the lock and may have copied a stack before */
};

struct file_life {
	struct file_registry *files;
	struct table_pool *pool;
	struct process_table *processes;
	struct targets *targets;
	struct pending_stacks *pending;
	struct learn_notes *notes;
	struct learn_ahead *ahead;
	struct scan_queue *scans;
	struct cuda_targets *cuda;
	struct collector *collector;
	uint64_t idle_ns, look_ns, mark_ns;
	uint64_t next_look_ns, next_step_ns;
	enum files_state state;
	struct file_set live;
	uint64_t moment;                   /* files retired by then can be collected */
	unsigned next_slot;                /* of the target to be gone through */
	uint64_t marked_ns;                /* when the last marking began */
	unsigned left;                     /* files that it found to be named */
	uint64_t marked_moves, seen_moves; /* targets__moves() then, and when the first target was begun with */
	uint64_t refused_seen, files_hit_seen, shares_hit_seen, tables_hit_seen, rules_hit_seen;
	struct dead_files *dead; /* to be closed */
};

/* idle_ms: after which an unused file is retired; 0: FILE_LIFE_IDLE_MS. */
void file_life__begin(struct file_life *f, unsigned idle_ms);
/* Returns when it wants to be called again; UINT64_MAX: when something has changed. */
uint64_t file_life__tick(struct file_life *f, uint64_t now_ns);
/* All files were forgotten. */
void file_life__forgotten(struct file_life *f);
/* Tells limits.h how much of files and tables is in use, and how often there was no room. */
void file_life__count(struct file_life *f);

/* For the thread of file_life__tick(), after it let the lock go: closes what that has taken out. */
void file_life__close(struct file_life *f);

#endif
