// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * speedscope's own format, https://www.speedscope.app/file-format-schema.json: frames once, and for each thread (of one
 * name, unless threads are told apart) its stacks with their weights.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/json_text.h"
#include "client/render/render.h"
#include "client/render/stack_table.h"
#include "stakeout/short_path.h"

#define NONE UINT32_MAX

struct writer {
	struct stack_table stacks;
	struct stack_groups threads;
	uint32_t *frames; /* by text: its number as a frame */
	size_t n_frames;
	FILE *out;
};

static void writer__clear(struct writer *w)
{
	stack_table__clear(&w->stacks);
	stack_groups__clear(&w->threads);
	free(w->frames);
}
CLEANUP_DEFINE(struct writer *, writer, writer__clear)

static int find_threads(struct writer *w)
{
	size_t texts = w->stacks.texts.n_keys + 1;

	w->frames = malloc(texts * sizeof(*w->frames));
	if (!w->frames)
		return -ENOMEM;
	memset(w->frames, 0xff, texts * sizeof(*w->frames));
	return stack_groups__of(&w->stacks, &w->threads);
}

static void write_text(struct writer *w, uint32_t text)
{
	json_text__write(w->out, intern__key(&w->stacks.texts, text), intern__length(&w->stacks.texts, text));
}

static int write_words(struct writer *w, const char *words)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	int ret = frame_text__words(words, text);

	if (!ret)
		json_text__write(w->out, text->bytes, text->length);
	return ret;
}

/* With its source file, or without one the file that it is in. */
static int write_frame(struct writer *w, uint32_t text)
{
	const struct profile_line *line = w->stacks.of[text].line;
	const char *file = *line->filename ? line->filename : line->mapping;
	int ret = 0;

	fprintf(w->out, "%s\n{\"name\":", w->n_frames ? "," : "");
	write_text(w, text);
	if (*file) {
		fputs(",\"file\":", w->out);
		ret = write_words(w, file);
	}
	if (*line->filename && line->line > 0 && !w->stacks.options->functions)
		fprintf(w->out, ",\"line\":%" PRId64, line->line);
	putc('}', w->out);
	w->frames[text] = (uint32_t)w->n_frames++;
	return ret;
}

static int write_frames(struct writer *w)
{
	int ret = 0;

	fputs("\"shared\":{\"frames\":[", w->out);
	for (size_t i = 0; !ret && i < w->stacks.stacks.n_keys; i++) {
		size_t n;
		const uint32_t *stack = stack_table__stack(&w->stacks, i, &n);

		for (size_t k = 1; !ret && k < n; k++)
			ret = w->frames[stack[k]] == NONE ? write_frame(w, stack[k]) : 0;
	}
	fputs("]},\n", w->out);
	return ret;
}

static const char *unit_of(const struct profile *profile, const struct render_options *options)
{
	const char *value = options ? options->value : NULL;

	if (value)
		return strstr(value, "bytes") || strstr(value, "space") ? "bytes"
		       : strstr(value, "time")                          ? "nanoseconds"
									: "none";
	return profile->wall ? "microseconds" : "none";
}

static void write_stack(struct writer *w, uint32_t number)
{
	size_t n;
	const uint32_t *stack = stack_table__stack(&w->stacks, number, &n);

	putc('[', w->out);
	for (size_t k = 1; k < n; k++)
		fprintf(w->out, "%s%" PRIu32, k > 1 ? "," : "", w->frames[stack[k]]);
	putc(']', w->out);
}

static void write_thread(struct writer *w, const struct stack_group *thread, const char *unit)
{
	const uint32_t *stacks = w->threads.stacks + thread->first;

	fputs("{\"type\":\"sampled\",\"name\":", w->out);
	write_text(w, thread->thread);
	fprintf(w->out, ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%" PRId64 ",\"samples\":[", unit,
		thread->total);
	for (size_t i = 0; i < thread->n; i++) {
		fputs(i ? "," : "", w->out);
		write_stack(w, stacks[i]);
	}
	fputs("],\"weights\":[", w->out);
	for (size_t i = 0; i < thread->n; i++)
		fprintf(w->out, "%s%" PRId64, i ? "," : "", w->stacks.counts[stacks[i]]);
	fputs("]}", w->out);
}

static int write_all(struct writer *w, const char *unit)
{
	int ret;

	fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"version\":\"0.0.1\",\n", w->out);
	fputs("\"exporter\":\"stakeout " STAKEOUT_VERSION "\",\"name\":\"stakeout\",\"activeProfileIndex\":0,\n",
	      w->out);
	ret = write_frames(w);
	fputs("\"profiles\":[", w->out);
	for (size_t i = 0; i < w->threads.n; i++) {
		fputs(i ? ",\n" : "\n", w->out);
		write_thread(w, &w->threads.list[i], unit);
	}
	fputs("]}\n", w->out);
	return ret;
}

int render__speedscope(const struct profile *profile, const struct render_options *options, FILE *out,
		       struct so_error *err)
{
	_cleanup_(writer) struct writer *w = &(struct writer){ .out = out };
	int ret = stack_table__build(&w->stacks, profile, options);

	ret = ret ?: find_threads(w);
	errno = 0;
	ret = ret ?: write_all(w, unit_of(profile, options));
	if (ret < 0)
		return stack_table__say(ret, "the speedscope file", err);
	/* A full disk may show only now. */
	if (fflush(out) || ferror(out))
		return so_err(err, -EIO, "cannot write the speedscope file: %s", strerror(errno ? errno : EIO));
	return 0;
}
