/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A library that reloader loads: compiled twice, to files of equal size whose mappings are alike and whose functions
 * lie at the same places, with frames of different sizes.
 */
#include "work.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

uint64_t reloaded_run(double deadline);

const char reloaded_letter[] = TEXT(LETTER);

FRAME uint64_t JOIN(burn_, LETTER)(uint64_t x)
{
	volatile uint64_t frame[FRAME_WORDS];

	frame[x % 2] = work__mix(x, 2000);
	return frame[x % 2] + 1;
}

uint64_t reloaded_run(double deadline)
{
	uint64_t first = 0;

	while (work__now_s() < deadline)
		work__same(&first, JOIN(burn_, LETTER)(17));
	return first;
}
