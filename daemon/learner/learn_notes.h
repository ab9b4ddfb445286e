/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where rules have been learned that the kernel does not have yet. With the engine's lock held. */
#ifndef STAKEOUT_LEARN_NOTES_H
#define STAKEOUT_LEARN_NOTES_H

#include "daemon/processes/scan_queue.h"

#define LEARN_MAX_NOTES 64

struct learn_notes {
	struct file_registry *files;
	struct process_table *processes;
	struct scan_queue *scans;
	struct learn_note {
		pid_t tgid;
		uint32_t file;
		uint64_t start;
	} list[LEARN_MAX_NOTES];
	unsigned n;
};

/* A process lacks rules that are known of a file; file 0: of its anonymous mapping at `start`. */
void learn_notes__add(struct learn_notes *notes, pid_t tgid, uint32_t file, uint64_t start);
/* Gives the kernel what was noted since the last call. */
void learn_notes__publish(struct learn_notes *notes);
/* The files that are noted. */
void learn_notes__mark(const struct learn_notes *notes, struct file_set *set);

#endif
