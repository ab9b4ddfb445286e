/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rules for code that has none: learned from the code itself when a sample first stands in it, then given to the
 * kernel (learn_notes.h), so that later samples there are unwound like any others. With the engine's lock held.
 */
#ifndef STAKEOUT_LEARN_H
#define STAKEOUT_LEARN_H

#include "daemon/learner/learn_ahead.h"

struct learner {
	struct file_registry *files;
	struct learn_notes *notes;
	struct learn_ahead *ahead;
	struct effect_reader *effects; /* made when first needed */
	uint64_t attempts;             /* to read code, which takes long */
};

/*
 * The rule of code without unwind information, learned if need be; NULL when it cannot be had. address: the interrupted
 * instruction's (exact), or a return address minus one.
 */
const struct so_unwind_rule *learner__rule(struct learner *l, struct process *process, const struct so_mapping *mapping,
					   uint64_t address, bool exact);
#endif
