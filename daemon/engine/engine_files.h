/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long the engine keeps files. What no process has mapped for a while is retired (file_registry.h). Now and then the
 * stacks that are kept are gone through, and retired files that none of them names are closed. All with the engine's lock
 * held, but for the last two.
 */
#ifndef STAKEOUT_ENGINE_FILES_H
#define STAKEOUT_ENGINE_FILES_H

#include "daemon/engine/engine_internal.h"

/* idle_ms: after which an unused file is retired; 0: ENGINE_FILES_IDLE_MS. -ENOMEM. */
#define ENGINE_FILES_IDLE_MS 600000
int engine_files_new(struct engine *e, unsigned idle_ms);
/* For the loop. Returns when it wants to be called again; UINT64_MAX: when something has changed. */
uint64_t engine_files_tick(struct engine *e, uint64_t now_ns);
/* Stacks have gone from one target to another, or a target with all that it had: what was gone through may not be all. */
void engine_files_changed(struct engine *e);
/* All files were forgotten. */
void engine_files_forgotten(struct engine *e);
/* Tells limits.h how much of files and tables is in use, and how often there was no room. */
void engine_files_count(struct engine *e);
/* The calls on a target that may name files without the lock: what holds it for its windows does not. */
static inline unsigned engine_readers(const struct target *t)
{
	return t->users - (t->windows && t->users);
}

/* For the loop's thread, after it let the lock go: closes what engine_files_tick() has taken out. */
void engine_files_close(struct engine *e);
/* With nothing else running. */
void engine_files_free(struct engine *e);

#endif
