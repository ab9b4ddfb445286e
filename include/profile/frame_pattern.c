// SPDX-License-Identifier: GPL-2.0-or-later
#include "profile/frame_pattern.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Behind the bracket expression that begins at s ("[…]"); NULL if it has no end. */
static const char *skip_bracket(const char *s)
{
	s++;
	if (*s == '^')
		s++;
	if (*s == ']')
		s++;
	for (; *s && *s != ']'; s++) {
		char kind = s[1];

		if (*s != '[' || (kind != ':' && kind != '.' && kind != '='))
			continue;
		for (s += 2; *s && !(*s == kind && s[1] == ']'); s++)
			;
		if (!*s)
			return NULL;
		s++;
	}
	return *s ? s + 1 : NULL;
}

/* How often the C library writes out what "{n,m}" at s repeats, at least once. */
static long repeat_of(const char *s)
{
	long repeat = 0, number = 0;

	for (s++; *s && *s != '}'; s++) {
		number = *s >= '0' && *s <= '9' ? 10 * number + (*s - '0') : 0;
		if (number > FRAME_PATTERN_MAX_SIZE)
			return number;
		repeat = number > repeat ? number : repeat;
	}
	return repeat + 1;
}

/* A pattern's size with its repetitions written out, while it is read from left to right. */
struct size {
	long open[FRAME_PATTERN_MAX_DEPTH + 1]; /* of each group that is open */
	int depth;
	long last; /* of what a repetition would repeat */
};

static void size__add(struct size *size, long n)
{
	size->open[size->depth] += n;
	size->last = n;
}

static void size__repeat(struct size *size, long times)
{
	size->open[size->depth] += size->last * (times - 1);
	size->last *= times;
}

/* One piece of a pattern; returns what is behind it, or NULL with the reason in err. */
static const char *check_piece(const char *s, struct size *size, struct so_error *err)
{
	const char *end;

	switch (*s) {
	case '[':
		end = skip_bracket(s);
		size__add(size, 1);
		if (!end)
			so_err(err, 0, "the pattern has a '[' without its ']'");
		return end;
	case '\\':
		if (s[1] >= '1' && s[1] <= '9') {
			so_err(err, 0, "back-references (\\%c) are not supported", s[1]);
			return NULL;
		}
		size__add(size, 1);
		return s + (s[1] ? 2 : 1);
	case '(':
		if (size->depth == FRAME_PATTERN_MAX_DEPTH) {
			so_err(err, 0, "the pattern has more than %d parentheses in each other",
			       FRAME_PATTERN_MAX_DEPTH);
			return NULL;
		}
		size->open[++size->depth] = 1;
		return s + 1;
	case ')':
		/* regcomp() takes it literally, which would change what the pattern becomes a part of. */
		if (!size->depth) {
			so_err(err, 0, "the pattern has a ')' without its '('");
			return NULL;
		}
		size->depth--;
		size__add(size, size->open[size->depth + 1]);
		return s + 1;
	case '{':
		size__repeat(size, repeat_of(s));
		return s + 1;
	case '+':
		size__repeat(size, 2);
		return s + 1;
	case '*':
	case '?':
		return s + 1;
	default:
		size__add(size, 1);
		return s + 1;
	}
}

/* What regcomp() would take, and should not. */
static int check(const char *pattern, struct so_error *err)
{
	struct size size = { .depth = 0 };

	if (!*pattern)
		return so_err(err, -EINVAL, "the pattern is empty");
	if (strlen(pattern) > FRAME_PATTERN_MAX_BYTES)
		return so_err(err, -EINVAL, "the pattern is longer than %d bytes", FRAME_PATTERN_MAX_BYTES);
	for (const char *s = pattern; *s;) {
		s = check_piece(s, &size, err);
		if (!s)
			return -EINVAL;
		if (size.open[size.depth] > FRAME_PATTERN_MAX_SIZE)
			return so_err(err, -EINVAL, "the pattern repeats too much: more than %d characters",
				      FRAME_PATTERN_MAX_SIZE);
	}
	return 0;
}

int frame_pattern__compile(const char *pattern, regex_t *out, struct so_error *err)
{
	regex_t compiled;
	char words[128];
	int r = check(pattern, err);

	if (r < 0)
		return r;
	r = regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB);
	if (r) {
		regerror(r, &compiled, words, sizeof(words));
		return so_err(err, r == REG_ESPACE ? -ENOMEM : -EINVAL, "not a regular expression: %s", words);
	}
	*out = compiled;
	return 0;
}

bool frame_pattern__matches_text(const regex_t *pattern, const char *text)
{
	regmatch_t range = { .rm_eo = (regoff_t)strnlen(text, FRAME_PATTERN_TEXT_BYTES) };

	return !regexec(pattern, text, 1, &range, REG_STARTEND);
}

static bool matches_with(const regex_t *pattern, const char *function, const char *file)
{
	char text[FRAME_PATTERN_TEXT_BYTES + 1];

	if (!*file)
		return false;
	snprintf(text, sizeof(text), "%s (%s)", function, file);
	return frame_pattern__matches_text(pattern, text);
}

/* A native frame has a source file only where there is debug information: what is said of its library holds all the same. */
bool frame_pattern__matches(const regex_t *pattern, const struct profile_line *line)
{
	return frame_pattern__matches_text(pattern, line->function) ||
	       matches_with(pattern, line->function, line->filename) ||
	       matches_with(pattern, line->function, line->mapping);
}
