/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The flame graph: flamegraph.html with the profile as JSON in it. Numbers that there are many of are strings of
 * variable-length numbers: digits of base 64, least first, five bits in each and a sixth that says whether more follow.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/html_tree.h"
#include "client/render/json_text.h"
#include "client/render/render.h"
#include "page/flame_graph_page.h"

#define NONE         UINT32_MAX
#define COMMENTS     64     /* of the profile, that the page gets */
#define FIRST_KEEP   100000 /* nodes of the first try */
#define FRAME_MERGED 0      /* numbers of frames in the page: merged ones, without and with a Python frame, */
#define FRAME_PYTHON 1
#define FRAME_FIRST  2 /* and all others */

struct writer {
	FILE *out;
	struct html_tree *tree;
	const struct html_cut *cut;
	uint32_t *texts, *text_order; /* number in the page by that in the tree; and the other way round */
	size_t n_texts;
	uint32_t *uses, *frames, *frame_order; /* the same of the frames, those that are used most first */
	size_t n_frames;
};

static void writer__clear(struct writer *w)
{
	free(w->texts);
	free(w->text_order);
	free(w->uses);
	free(w->frames);
	free(w->frame_order);
}
CLEANUP_DEFINE(struct writer *, writer, writer__clear)

static void write_number(FILE *out, uint64_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

	for (; n >= 32; n >>= 5)
		putc_unlocked(digits[32 | (n & 31)], out);
	putc_unlocked(digits[n], out);
}

static void write_number_of(struct writer *w, uint32_t text)
{
	if (w->texts[text] == NONE) {
		w->texts[text] = (uint32_t)w->n_texts;
		w->text_order[w->n_texts++] = text;
	}
	write_number(w->out, w->texts[text]);
}

static int by_uses(const void *a, const void *b, void *writer)
{
	const uint32_t *uses = ((const struct writer *)writer)->uses;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return uses[x] != uses[y] ? (uses[x] < uses[y] ? 1 : -1) : (x > y) - (x < y);
}

static void order_frames(struct writer *w)
{
	for (size_t i = 0; i < w->cut->n_places; i++) {
		uint32_t frame = w->cut->places[i].frame;

		if (frame != NONE && !w->uses[frame]++)
			w->frame_order[w->n_frames++] = frame;
	}
	qsort_r(w->frame_order, w->n_frames, sizeof(*w->frame_order), by_uses, w);
	for (size_t i = 0; i < w->n_frames; i++)
		w->frames[w->frame_order[i]] = (uint32_t)i + FRAME_FIRST;
}

static int writer__init(struct writer *w)
{
	size_t texts = w->tree->texts.n_keys, frames = w->tree->frames.n_keys + 1;

	w->texts = malloc(texts * sizeof(*w->texts));
	w->text_order = malloc(texts * sizeof(*w->text_order));
	w->uses = calloc(frames, sizeof(*w->uses));
	w->frames = calloc(frames, sizeof(*w->frames));
	w->frame_order = calloc(frames, sizeof(*w->frame_order));
	if (!w->texts || !w->text_order || !w->uses || !w->frames || !w->frame_order)
		return -ENOMEM;
	memset(w->texts, 0xff, texts * sizeof(*w->texts));
	order_frames(w);
	return 0;
}

/* Of each: name, file, module, line, kind. */
static void write_frames(struct writer *w)
{
	fputs(",\n\"frames\":\"", w->out);
	for (size_t i = 0; i < w->n_frames; i++) {
		const struct html_frame *frame = html_tree__frame(w->tree, w->frame_order[i]);

		write_number_of(w, frame->name);
		write_number_of(w, frame->file);
		write_number_of(w, frame->module);
		write_number(w->out, (uint64_t)frame->line);
		write_number(w->out, frame->kind);
	}
	putc('"', w->out);
}

/* Of each but the root, in preorder: levels from the one before up to its parent, frame; of a merged one how many. */
static void write_nodes(struct writer *w)
{
	uint32_t depth = 0;

	fputs(",\n\"nodes\":\"", w->out);
	for (size_t i = 1; i < w->cut->n_places; i++) {
		const struct html_place *place = &w->cut->places[i];

		write_number(w->out, depth + 1 - place->depth);
		depth = place->depth;
		if (place->merged) {
			write_number(w->out, place->python ? FRAME_PYTHON : FRAME_MERGED);
			write_number(w->out, place->merged);
		} else {
			write_number(w->out, w->frames[place->frame]);
		}
	}
	putc('"', w->out);
}

/* Of each: PID, TID, name in the kernel, state, name in its program. */
static void write_threads(struct writer *w)
{
	fputs(",\n\"threads\":\"", w->out);
	for (size_t i = 0; i < w->tree->threads.n_keys; i++) {
		const struct html_thread *thread = intern__key(&w->tree->threads, i);

		write_number(w->out, thread->pid > 0 ? (uint64_t)thread->pid : 0);
		write_number(w->out, thread->tid > 0 ? (uint64_t)thread->tid : 0);
		write_number_of(w, thread->comm);
		write_number_of(w, thread->state);
		write_number_of(w, thread->name);
	}
	putc('"', w->out);
}

/* Of each: the node, as a difference from the one before; thread, value. */
static void write_values(struct writer *w)
{
	uint32_t place = 0;

	fputs(",\n\"values\":\"", w->out);
	for (size_t i = 0; i < w->cut->n_values; i++) {
		const struct html_value *value = &w->cut->values[i];

		write_number(w->out, value->place - place);
		write_number(w->out, value->thread);
		write_number(w->out, (uint64_t)value->value);
		place = value->place;
	}
	putc('"', w->out);
}

static void write_texts(struct writer *w)
{
	fputs(",\n\"texts\":[", w->out);
	for (size_t i = 0; i < w->n_texts; i++) {
		if (i)
			putc(',', w->out);
		json_text__write(w->out, intern__key(&w->tree->texts, w->text_order[i]),
				 intern__length(&w->tree->texts, w->text_order[i]));
	}
	putc(']', w->out);
}

/* "KEY=VALUE" of the profile's comments of stakeout. */
static int write_comments(struct writer *w, const struct profile *profile)
{
	static const char prefix[] = "stakeout.";
	size_t written = 0;

	fputs(",\n\"comments\":[", w->out);
	for (size_t i = 0; i < profile->n_comments && written < COMMENTS; i++) {
		_cleanup_(text) struct text *text = &(struct text){ 0 };

		if (strncmp(profile->comments[i], prefix, sizeof(prefix) - 1))
			continue;
		if (frame_text__words(profile->comments[i] + sizeof(prefix) - 1, text))
			return -ENOMEM;
		/* Those that the page knows are short. */
		if (text->length > HTML_NAME_BYTES || !text->length)
			continue;
		if (written++)
			putc(',', w->out);
		json_text__write(w->out, text->bytes, text->length);
	}
	putc(']', w->out);
	return 0;
}

static int write_words(struct writer *w, const char *before, const char *words)
{
	_cleanup_(text) struct text *text = &(struct text){ 0 };

	if (frame_text__words(words, text))
		return -ENOMEM;
	fputs(before, w->out);
	json_text__write(w->out, text->bytes, text->length);
	return 0;
}

/* The options that leave something out. */
static int write_part(struct writer *w, const struct render_options *options)
{
	const char *separator = "";
	int ret = 0;

	fputs(",\n\"part\":[", w->out);
	if (options->gil) {
		fputs("\"--gil\"", w->out);
		separator = ",";
	}
	if (options->python_only) {
		fprintf(w->out, "%s\"--python-only\"", separator);
		separator = ",";
	}
	for (size_t i = 0; !ret && i < options->only.n; i++) {
		fprintf(w->out, "%s\"--only\"", separator);
		ret = write_words(w, ",", options->only.list[i]);
		separator = ",";
	}
	fputc(']', w->out);
	return ret;
}

/* What one count is worth; 0: not known, or no time. */
static double count_ns(const struct profile *profile)
{
	double counts = 0, ns = 0;

	if (profile->wall)
		return PROFILE_WALL_UNIT_NS;
	for (size_t i = 0; i < profile->n_samples; i++) {
		counts += (double)profile->samples[i].count;
		ns += (double)profile->samples[i].value_ns;
	}
	return counts > 0 ? ns / counts : 0;
}

/* Of two sides: how their totals read, and what of either one sample is worth. */
static void write_diff(struct writer *w, const struct render_diff *diff)
{
	fputs(",\n\"diff\":{\"per\":", w->out);
	json_text__write(w->out, diff->per, strlen(diff->per));
	for (size_t i = 0; i < 2; i++) {
		fprintf(w->out, ",\"%s\":{\"total\":%.9g,\"observation\":%.9g,\"words\":", i ? "new" : "base",
			diff->totals[i], diff->observation[i]);
		json_text__write(w->out, diff->words[i], strlen(diff->words[i]));
		putc('}', w->out);
	}
	putc('}', w->out);
}

static int write_profile(struct writer *w, const struct profile *profile, const struct render_options *options)
{
	const struct html_tree *tree = w->tree;

	fprintf(w->out,
		"{\"total\":%" PRId64 ",\"time_ms\":%" PRId64 ",\"duration_s\":%.6f,\"count_ns\":%.9g,\"wall\":%s",
		tree->totals[0], profile->time_ns / 1000000, (double)profile->duration_ns / 1e9, count_ns(profile),
		profile->wall ? "true" : "false");
	fprintf(w->out, ",\"observation\":%.9g,\"split_threads\":%s,\"lines\":%s,\"value\":",
		options->value ? 0 : profile->observation, options->threads ? "true" : "false",
		options->functions ? "false" : "true");
	json_text__write(w->out, options->value ?: "", strlen(options->value ?: ""));
	fprintf(w->out, ",\"merged\":%" PRIu64 ",\"merged_value\":%" PRId64, w->cut->merged, w->cut->merged_value);
	write_frames(w);
	write_nodes(w);
	write_threads(w);
	write_values(w);
	write_texts(w);
	if (options->diff)
		write_diff(w, options->diff);
	if (write_part(w, options) || write_comments(w, profile))
		return -ENOMEM;
	fputs("}\n", w->out);
	return 0;
}

/* With so many nodes; its length in bytes, or -ENOMEM. */
static ssize_t try_profile(struct html_tree *tree, const struct profile *profile, const struct render_options *options,
			   size_t keep, char **out)
{
	_cleanup_(html_cut) struct html_cut *cut = &(struct html_cut){ 0 };
	_cleanup_(writer) struct writer *w = &(struct writer){ .tree = tree, .cut = cut };
	size_t length = 0;
	int ret = html_tree__cut(tree, keep, cut);

	ret = ret ?: writer__init(w);
	w->out = ret ? NULL : open_memstream(out, &length);
	if (!w->out)
		return -ENOMEM;
	ret = write_profile(w, profile, options);
	if (fclose(w->out) || ret)
		return -ENOMEM;
	return (ssize_t)length;
}

/* With as many nodes as fit. */
static ssize_t fit_profile(struct html_tree *tree, const struct profile *profile, const struct render_options *options,
			   size_t most_bytes, char **out)
{
	size_t keep = tree->nodes.n_keys < FIRST_KEEP ? tree->nodes.n_keys : FIRST_KEEP;

	for (;;) {
		_cleanup_free_ char *text = NULL;
		ssize_t length = try_profile(tree, profile, options, keep, &text);

		if (length < 0 || (size_t)length <= most_bytes || keep == 1) {
			*out = TAKE_PTR(text);
			return length;
		}
		/* Smaller ones are shorter than proportion has it: their numbers are, too. */
		keep = (size_t)((double)keep * (double)most_bytes / (double)length * 0.98);
		keep = keep ?: 1;
	}
}

int render__html(const struct profile *profile, const struct render_options *options, FILE *out, struct so_error *err)
{
	static const struct render_options all = { .threads = false };
	_cleanup_(html_tree) struct html_tree *tree = &(struct html_tree){ 0 };
	struct flame_graph_page page = flame_graph_page__get();
	size_t around = page.before_length + page.after_length;
	_cleanup_free_ char *text = NULL;
	ssize_t length;
	int ret = html_tree__build(profile, options ?: &all, tree);

	length = ret ?: fit_profile(tree, profile, options ?: &all, RENDER_HTML_BYTES - around, &text);
	if (length < 0)
		return so_err(err, -ENOMEM, "cannot write the flame graph: not enough memory");
	errno = 0;
	fwrite(page.before, 1, page.before_length, out);
	fwrite(text, 1, (size_t)length, out);
	fwrite(page.after, 1, page.after_length, out);
	/* A full disk may show only now. */
	if (fflush(out) || ferror(out))
		return so_err(err, -EIO, "cannot write the flame graph: %s", strerror(errno ? errno : EIO));
	return 0;
}
