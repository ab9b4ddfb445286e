/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "client/render/frame_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "stakeout/array.h"
#include "stakeout/short_path.h"
#include "stakeout/utf8.h"

#define KERNEL_SUFFIX "_[k]"

void text__clear(struct text *text)
{
	free(text->bytes);
	memset(text, 0, sizeof(*text));
}

static int append(struct text *text, const char *bytes, size_t n)
{
	if (ARRAY_RESERVE(text->bytes, text->capacity, text->length + n))
		return -ENOMEM;
	memcpy(text->bytes + text->length, bytes, n);
	text->length += n;
	return 0;
}

static int append_string(struct text *text, const char *string)
{
	return append(text, string, strlen(string));
}

__attribute__((format(printf, 2, 3))) static int append_format(struct text *text, const char *format, ...)
{
	char buffer[64];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(buffer, sizeof(buffer), format, ap);
	va_end(ap);
	return append(text, buffer, n < (int)sizeof(buffer) ? (size_t)n : sizeof(buffer) - 1);
}

/* C0, DEL, and C1 in its two-byte form. */
static bool is_control(const char *s, size_t sequence)
{
	const unsigned char *u = (const unsigned char *)s;

	return (sequence == 1 && (u[0] < 0x20 || u[0] == 0x7f)) || (sequence == 2 && u[0] == 0xc2 && u[1] < 0xa0);
}

/* Appends a foreign name, cleaned. blank: what a blank inside becomes. */
static int append_name(struct text *text, const char *name, char blank)
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

/*
 * Readers of folded lines take the count off with /\s+?(\d+(?:\.\d*)?)$/, and some look for a second column the same
 * way. `from`: where the name begins in the text.
 */
static void protect_number(struct text *text, size_t from)
{
	size_t i = text->length, end;

	while (i > from && text->bytes[i - 1] >= '0' && text->bytes[i - 1] <= '9')
		i--;
	if (i > from && text->bytes[i - 1] == '.') {
		i--;
		end = i;
		while (i > from && text->bytes[i - 1] >= '0' && text->bytes[i - 1] <= '9')
			i--;
	} else {
		end = text->length;
	}
	if (i < end && i > from && text->bytes[i - 1] == ' ')
		text->bytes[i - 1] = '_';
}

/* "[libname.so]", or as it is when it stands in brackets already ("[vdso]"). */
static int append_mapping(struct text *text, const char *mapping)
{
	const char *name = short_path(mapping);
	bool bare = *name != '[';

	if ((bare && append_string(text, "[")) || append_name(text, name, ' '))
		return -ENOMEM;
	return bare ? append_string(text, "]") : 0;
}

/* A frame without a symbol. */
static int append_unknown(struct text *text, const struct profile_line *line)
{
	size_t from = text->length;
	int ret = 0;

	if (!line->kernel && *line->mapping)
		ret = append_mapping(text, line->mapping);
	/* A path may end in '/', or consist of blanks. */
	if (!ret && text->length - from <= 2) {
		text->length = from;
		ret = append_string(text, "[unknown]");
	}
	return ret;
}

static bool has_suffix(const struct text *text, size_t from, const char *suffix)
{
	size_t n = strlen(suffix);

	return text->length - from >= n && !memcmp(text->bytes + text->length - n, suffix, n);
}

bool frame_text__is_unnamed(const struct profile_line *line)
{
	if (line->python || line->kernel || *line->filename)
		return false;
	if (!*line->mapping)
		return !strcmp(line->function, "[jit]");
	return *line->mapping != '[' && (!*line->function || *line->function == '[');
}

int frame_text__folded(const struct profile_line *line, bool without_line, struct text *text)
{
	size_t from = text->length;
	int ret = append_name(text, line->function, ' ');

	if (ret < 0)
		return ret;
	if (text->length == from) {
		ret = append_unknown(text, line);
	} else if (line->python && *line->filename) {
		ret = append_string(text, " (");
		ret = ret ?: append_name(text, short_path__python(line->filename), ' ');
		if (!ret)
			ret = line->line && !without_line ? append_format(text, ":%" PRId64 ")", line->line)
							  : append_string(text, ")");
	}
	if (!ret && line->kernel && !has_suffix(text, from, KERNEL_SUFFIX))
		ret = append_string(text, KERNEL_SUFFIX);
	if (!ret)
		protect_number(text, from);
	return ret;
}

int frame_text__function(const struct profile_line *line, struct text *text)
{
	const char *file = line->kernel   ? "kernel"
			   : line->python ? short_path__python(line->filename)
					  : short_path(line->mapping);
	size_t from = text->length;
	int ret = append_name(text, line->function, ' ');

	if (ret < 0)
		return ret;
	if (text->length == from) {
		ret = append_unknown(text, line);
		file = line->kernel ? "kernel" : "";
	} else if (frame_text__is_unnamed(line) || !strcmp(line->function, line->mapping)) {
		file = "";
	}
	if (ret || !*file)
		return ret;
	ret = append_string(text, " (");
	ret = ret ?: append_name(text, file, ' ');
	return ret ? ret : append_string(text, ")");
}

int frame_text__line(const struct profile_line *line, struct text *text)
{
	int ret;

	if (line->python || !*line->function || !*line->filename || line->line <= 0)
		return frame_text__function(line, text);
	ret = append_name(text, line->function, ' ') ?: append_string(text, " (");
	ret = ret ?: append_name(text, short_path(line->filename), ' ');
	ret = ret ?: append_format(text, ":%" PRId64, line->line);
	if (!ret && *line->mapping)
		ret = append_string(text, " in ") ?: append_name(text, short_path(line->mapping), ' ');
	return ret ?: append_string(text, ")");
}

int frame_text__words(const char *words, struct text *text)
{
	return append_name(text, words, ' ');
}

int frame_text__between(const char *before, const char *words, const char *after, struct text *text)
{
	int ret = append_string(text, before) ?: append_name(text, words, ' ');

	return ret ?: append_string(text, after);
}

int frame_text__thread(const struct profile_sample *sample, bool ids, struct text *text)
{
	size_t from = text->length;
	int ret = append_name(text, sample->comm, '_');

	if (!ret && text->length == from)
		ret = append_string(text, "[unknown]");
	if (!ret && ids && sample->pid)
		ret = append_format(text, "-%" PRId64, sample->pid);
	if (!ret && ids && sample->tid)
		ret = append_format(text, "/%" PRId64, sample->tid);
	return ret;
}

int frame_text__thread_name(const struct profile_sample *sample, char blank, struct text *text)
{
	int ret;

	if (!sample->thread || !*sample->thread)
		return 0;
	ret = append_format(text, "%c(", blank);
	ret = ret ?: append_name(text, sample->thread, blank);
	return ret ?: append_string(text, ")");
}
