/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "client/render/frame_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "stakeout/array.h"
#include "stakeout/short_path.h"

#define KERNEL_SUFFIX "_[k]"

static int append_string(struct text *text, const char *string)
{
	return text__append(text, string, strlen(string));
}

__attribute__((format(printf, 2, 3))) static int append_format(struct text *text, const char *format, ...)
{
	char buffer[64];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(buffer, sizeof(buffer), format, ap);
	va_end(ap);
	return text__append(text, buffer, n < (int)sizeof(buffer) ? (size_t)n : sizeof(buffer) - 1);
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

	if ((bare && append_string(text, "[")) || text__append_clean(text, name, ' '))
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

/* Code that a just-in-time compiler has named, and its source. */
static bool is_script(const struct profile_line *line)
{
	return !line->python && !line->kernel && !*line->mapping && *line->filename;
}

int frame_text__folded(const struct profile_line *line, bool without_line, struct text *text)
{
	size_t from = text->length;
	int ret = text__append_clean(text, line->function, ' ');

	if (ret < 0)
		return ret;
	if (text->length == from) {
		ret = append_unknown(text, line);
	} else if ((line->python && *line->filename) || is_script(line)) {
		ret = append_string(text, " (");
		ret = ret ?: text__append_clean(text, short_path__python(line->filename), ' ');
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
					  : short_path(is_script(line) ? line->filename : line->mapping);
	size_t from = text->length;
	int ret = text__append_clean(text, line->function, ' ');

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
	ret = ret ?: text__append_clean(text, file, ' ');
	return ret ? ret : append_string(text, ")");
}

int frame_text__line(const struct profile_line *line, struct text *text)
{
	int ret;

	if (line->python || !*line->function || !*line->filename || line->line <= 0)
		return frame_text__function(line, text);
	ret = text__append_clean(text, line->function, ' ') ?: append_string(text, " (");
	ret = ret ?: text__append_clean(text, short_path(line->filename), ' ');
	ret = ret ?: append_format(text, ":%" PRId64, line->line);
	if (!ret && *line->mapping)
		ret = append_string(text, " in ") ?: text__append_clean(text, short_path(line->mapping), ' ');
	return ret ?: append_string(text, ")");
}

int frame_text__words(const char *words, struct text *text)
{
	return text__append_clean(text, words, ' ');
}

int frame_text__between(const char *before, const char *words, const char *after, struct text *text)
{
	int ret = append_string(text, before) ?: text__append_clean(text, words, ' ');

	return ret ?: append_string(text, after);
}

int frame_text__thread(const struct profile_sample *sample, bool ids, struct text *text)
{
	size_t from = text->length;
	int ret = text__append_clean(text, sample->comm, '_');

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
	ret = ret ?: text__append_clean(text, sample->thread, blank);
	return ret ?: append_string(text, ")");
}
