/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What learn.c and learn_ahead.c share. The engine's lock is held, but for learn__read_code(). */
#ifndef STAKEOUT_LEARN_H
#define STAKEOUT_LEARN_H

#include "daemon/engine/engine_internal.h"

/* Code of a file is read from the file: what is learned serves every process that maps it. */
struct learn_reader {
	struct file_registry *files;
	uint32_t file; /* 0: a process's anonymous memory */
	pid_t tgid;
	uint64_t bias; /* process address minus the table's */
};

/* An effect_read_fn; context: a struct learn_reader. */
size_t learn__read_code(void *context, uint64_t address, void *buf, size_t size);
/* A process lacks rules that are known: engine_publish_learned() will give them to the kernel. */
void learn__note(struct engine *e, pid_t tgid, uint32_t file, uint64_t start);
/* Has the functions around a file's address learned when the scanner has time. */
void learn__plan_ahead(struct engine *e, pid_t tgid, uint32_t file, uint64_t vaddr);

#endif
