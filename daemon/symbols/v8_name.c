// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/symbols/v8_name.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DIGITS 9 /* of a line */

static char anonymous[] = "(anonymous)";

/* Behind the kind of code, which ends in ':'; NULL: none that has a source. */
static char *skip_kind(char *text)
{
	static const char *const kinds[] = { "LazyCompile:", "Function:", "Eval:", "Script:", "JS:" };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strncmp(text, kinds[i], strlen(kinds[i])))
			return text + strlen(kinds[i]);
	return NULL;
}

/* The ':' of ":NUMBER" at the end of text[0 … end); NULL: there is none. */
static char *number_at_end(char *text, char *end)
{
	char *at = end;

	while (at > text && at[-1] >= '0' && at[-1] <= '9')
		at--;
	return at < end && end - at <= MAX_DIGITS && at > text && at[-1] == ':' ? at - 1 : NULL;
}

/* The blank before the file: a name may have blanks ("get size"), and so may a path. */
static char *before_file(char *name)
{
	static const char *const begins[] = { " /", " node:", " file://" };

	for (char *blank = strchr(name, ' '); blank; blank = strchr(blank + 1, ' '))
		for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
			if (!strncmp(blank, begins[i], strlen(begins[i])))
				return blank;
	return NULL;
}

bool v8_name__split(char *text, struct v8_name *out)
{
	char *name = skip_kind(text), *blank = name ? before_file(name) : NULL;
	char *last = blank ? number_at_end(blank, blank + strlen(blank)) : NULL;
	char *line = last ? number_at_end(blank, last) ?: last : NULL;
	const char *file;

	if (!line)
		return false;
	if (*name && strchr("~^+*", *name))
		name++;
	*blank = *line = '\0';
	file = blank + 1;
	if (!strncmp(file, "file://", 7))
		file += 7;
	*out = (struct v8_name){ .function = *name ? name : anonymous,
				 .file = file,
				 .line = strtol(line + 1, NULL, 10) };
	return true;
}
