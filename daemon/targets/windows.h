/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A target's samples in successive windows: one begins where the last one ended. With the engine's lock held. */
#ifndef STAKEOUT_WINDOWS_H
#define STAKEOUT_WINDOWS_H

#include "daemon/targets/samples.h"

/* The first one begins with the target, at that moment. -EEXIST: they are taken already; -EINVAL: a view; -ENOMEM. */
int windows__begin(struct samples *s, uint64_t at_ns, int64_t wall_ns);
void windows__end(struct samples *s);
/* Whether windows are taken. */
bool windows__are_taken(const struct samples *s);

/*
 * The open window's samples up to now, and where it began; *lost: more samples that it had no room for.
 * windows__move_on() or windows__stay() is to follow. -ENOMEM: nothing has changed.
 */
int windows__cut(struct samples *s, const struct samples_moment *now, struct accumulator *out,
		 struct samples_moment *began, uint64_t *lost);
void windows__move_on(struct samples *s);
/* The window goes on. */
void windows__stay(struct samples *s);

/* What the open window and the one being built counted in the younger generation. -ENOMEM: `out` may hold a part. */
int windows__copy_parts(const struct samples *s, struct accumulator out[2]);
/*
 * That generation is to turn old: they carry the parts from now on, which are empty then or have been added up. Of
 * several generations a window carries no more than max_bytes; it has lost what has no room, its target has not.
 */
void windows__turn(struct samples *s, struct accumulator parts[2], size_t max_bytes);
/* What they carry along. */
size_t windows__bytes(const struct samples *s);

#endif
