// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/learner/learn_notes.h"

void learn_notes__add(struct learn_notes *notes, pid_t tgid, uint32_t file, uint64_t start)
{
	for (unsigned i = 0; i < notes->n; i++) {
		const struct learn_note *note = &notes->list[i];

		if (note->file == file && (file || note->start == start) && note->tgid == tgid)
			return;
	}
	/* What finds no room here is noted again by the next sample that meets it. */
	if (notes->n < LEARN_MAX_NOTES)
		notes->list[notes->n++] = (struct learn_note){ tgid, file, start };
}

void learn_notes__publish(struct learn_notes *notes)
{
	for (unsigned i = 0; i < notes->n; i++) {
		const struct learn_note *note = &notes->list[i];
		struct process *p = process_table__find(notes->processes, note->tgid);

		if (note->file)
			file_registry__publish_learned(notes->files, note->file);
		else if (p && !p->gone)
			process_table__publish_learned(notes->processes, p, process__learned(p, note->start, 0));
		scan_queue__request(notes->scans, note->tgid);
	}
	notes->n = 0;
}

void learn_notes__mark(const struct learn_notes *notes, struct file_set *set)
{
	for (unsigned i = 0; i < notes->n; i++)
		file_set__add(set, notes->list[i].file);
}
