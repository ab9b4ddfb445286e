// SPDX-License-Identifier: GPL-2.0-or-later
#include "profile/frame_pattern.h"

#include <stdio.h>
#include <string.h>

bool frame_pattern__matches_text(const struct regexp *pattern, const char *text)
{
	return regexp__matches(pattern, text, strnlen(text, FRAME_PATTERN_TEXT_BYTES));
}

static bool matches_with(const struct regexp *pattern, const char *function, const char *file)
{
	char text[FRAME_PATTERN_TEXT_BYTES + 1];

	if (!*file)
		return false;
	snprintf(text, sizeof(text), "%s (%s)", function, file);
	return frame_pattern__matches_text(pattern, text);
}

/* A native frame has a source file only where there is debug information: what is said of its library still holds. */
bool frame_pattern__matches(const struct regexp *pattern, const struct profile_line *line)
{
	return frame_pattern__matches_text(pattern, line->function) ||
	       matches_with(pattern, line->function, line->filename) ||
	       matches_with(pattern, line->function, line->mapping);
}
