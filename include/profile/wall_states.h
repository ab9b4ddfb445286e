/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The values of a sample's label "state" in a profile in wall time (.design/waiting.md). */
#ifndef STAKEOUT_PROFILE_WALL_STATES_H
#define STAKEOUT_PROFILE_WALL_STATES_H

#include <string.h>

#define WALL_STATES(X)                                                                                            \
	X("running")                                                                                              \
	X("runnable") X("gil") X("object-lock") X("stop-the-world") X("lock") X("sleep") X("io-disk") X("io-net") \
		X("pipe") X("poll") X("gpu") X("page-fault") X("child") X("signal") X("stopped") X("idle")        \
			X("waiting")

static const char *const wall_states[] = {
#define X(word) word,
	WALL_STATES(X)
#undef X
};

#define WALL_STATE_COUNT (sizeof(wall_states) / sizeof(wall_states[0]))

/* Its place among them; that of the last one, "waiting", for any other word. */
static inline size_t wall_state__index(const char *word)
{
	for (size_t i = 0; i < WALL_STATE_COUNT; i++)
		if (!strcmp(wall_states[i], word))
			return i;
	return WALL_STATE_COUNT - 1;
}

#endif
