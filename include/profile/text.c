// SPDX-License-Identifier: GPL-2.0-or-later
#include "profile/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stakeout/array.h"
#include "stakeout/utf8.h"

void text__clear(struct text *text)
{
	free(text->bytes);
	memset(text, 0, sizeof(*text));
}

int text__append(struct text *text, const char *bytes, size_t n)
{
	if (ARRAY_RESERVE(text->bytes, text->capacity, text->length + n))
		return -ENOMEM;
	memcpy(text->bytes + text->length, bytes, n);
	text->length += n;
	return 0;
}

/* C0, DEL, and C1 in its two-byte form. */
static bool is_control(const char *s, size_t sequence)
{
	const unsigned char *u = (const unsigned char *)s;

	return (sequence == 1 && (u[0] < 0x20 || u[0] == 0x7f)) || (sequence == 2 && u[0] == 0xc2 && u[1] < 0xa0);
}

int text__append_clean(struct text *text, const char *name, char blank)
{
	size_t n, sequence;

	name += strspn(name, " ");
	n = strlen(name);
	while (n && name[n - 1] == ' ')
		n--;
	/* No character gets longer. */
	if (ARRAY_RESERVE(text->bytes, text->capacity, text->length + n))
		return -ENOMEM;
	for (; n; n -= sequence, name += sequence) {
		char *out = text->bytes + text->length;

		sequence = utf8__sequence(name, n);
		if (!sequence || is_control(name, sequence)) {
			sequence = sequence ? sequence : 1;
			*out = '?';
			text->length++;
			continue;
		}
		memcpy(out, name, sequence);
		if (*out == ' ')
			*out = blank;
		else if (*out == ';')
			*out = ':';
		text->length += sequence;
	}
	return 0;
}
