// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/top/top_text.h"

#include <locale.h>
#include <stdbool.h>
#include <wchar.h>

#include "stakeout/utf8.h"

#define ELLIPSIS "…"

void top_text__prepare(void)
{
	/* Built into the C library; without it what is not ASCII becomes '?'. */
	setlocale(LC_CTYPE, "C.UTF-8");
}

static wchar_t decode(const char *bytes, size_t length)
{
	const unsigned char *u = (const unsigned char *)bytes;
	wchar_t code = length == 1 ? u[0] : u[0] & (0x7f >> length);

	for (size_t i = 1; i < length; i++)
		code = code << 6 | (u[i] & 0x3f);
	return code;
}

/* Those that turn the order of what follows (UAX 9), and joiners and marks that are not seen. */
static bool is_invisible(wchar_t code)
{
	return (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2060 && code <= 0x206f) || code == 0xfeff || code == 0x61c;
}

/* One character as it is written. */
struct character {
	size_t bytes; /* of the text */
	int columns;
	bool plain; /* else '?' is written */
};

static struct character character_at(const char *text, size_t length)
{
	struct character c = { .bytes = utf8__sequence(text, length) };
	wchar_t code;

	if (!c.bytes)
		return (struct character){ 1, 1, false };
	code = decode(text, c.bytes);
	c.columns = is_invisible(code) ? -1 : wcwidth(code);
	c.plain = c.columns >= 0;
	c.columns = c.plain ? c.columns : 1;
	return c;
}

size_t top_text__columns(const char *text, size_t length)
{
	size_t columns = 0;

	for (size_t i = 0; i < length;) {
		struct character c = character_at(text + i, length - i);

		columns += (size_t)c.columns;
		i += c.bytes;
	}
	return columns;
}

/* The characters between two columns of the text; *wide: columns written. One that lies across `from` is left out. */
static void write_part(const char *text, size_t length, size_t from, size_t to, size_t *wide, FILE *out)
{
	size_t column = 0;

	for (size_t i = 0; i < length;) {
		struct character c = character_at(text + i, length - i);

		if (column + (size_t)c.columns > to)
			break;
		if (column >= from && (c.columns || column > from || !from)) {
			if (c.plain)
				fwrite(text + i, 1, c.bytes, out);
			else
				fputc('?', out);
			*wide += (size_t)c.columns;
		}
		column += (size_t)c.columns;
		i += c.bytes;
	}
}

size_t top_text__fit(const char *text, size_t length, size_t columns, enum top_cut cut, FILE *out)
{
	size_t all = top_text__columns(text, length), tail, wide = 0;

	if (all <= columns) {
		write_part(text, length, 0, all, &wide, out);
		return wide;
	}
	if (!columns)
		return 0;
	tail = cut == TOP_CUT_MIDDLE ? columns / 3 : 0;
	write_part(text, length, 0, columns - 1 - tail, &wide, out);
	fputs(ELLIPSIS, out);
	wide++;
	if (tail)
		write_part(text, length, all - tail, all, &wide, out);
	return wide;
}
