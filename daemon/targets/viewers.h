/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which processes of a target its viewer may not see. Root's targets follow programs with rights of their own, as sudo,
 * and what these start; the user whose process the target is sees the others. A process that has once been hidden stays
 * so, since its samples do. With the engine's lock held.
 */
#ifndef STAKEOUT_VIEWERS_H
#define STAKEOUT_VIEWERS_H

#include "daemon/targets/targets.h"

/* Hides the process if the viewer may not look into what it executes now. Reads /proc. */
void viewers__check(struct target *t, pid_t pid);
void viewers__hide(struct target *t, pid_t pid);
/* A new child of a hidden process is hidden. */
void viewers__inherit(struct target *t, pid_t child, pid_t parent);
/* Whether there is any. Of a view: in its target. */
bool viewers__hide_any(const struct target *t);
/*
 * What the caller may not see, by process number, into an empty table; root sees all. -EPERM: the caller sees nothing
 * of the target; -ENOMEM.
 */
int viewers__hidden_from(const struct target *t, struct caller caller, struct u64_table *out);
/* A view that ends keeps what its target hides. */
void viewers__keep(struct target *view);

#endif
