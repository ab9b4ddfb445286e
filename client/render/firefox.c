// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The Firefox Profiler's processed profile format, version 62, with the members that fxprof-processed-profile writes
 * (its profile_without_js.snap, https://github.com/mstange/samply): one table of strings, functions, frames and stacks,
 * and for each thread the stacks that it had with their weights. A profile does not tell when each sample was taken:
 * they stand in a row.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "client/render/json_text.h"
#include "client/render/render.h"
#include "client/render/stack_table.h"
#include "stakeout/array.h"

#define FORMAT_VERSION 62 /* preprocessedProfileVersion */
#define GECKO_VERSION  24 /* of what it would have been made from */
#define NONE           UINT32_MAX

/* Kinds of frames, of which each has a color. */
#define CATEGORIES                                                                  \
	"[{\"name\":\"Native\",\"color\":\"blue\",\"subcategories\":[\"Other\"]},"  \
	"{\"name\":\"Python\",\"color\":\"yellow\",\"subcategories\":[\"Other\"]}," \
	"{\"name\":\"Kernel\",\"color\":\"orange\",\"subcategories\":[\"Other\"]}," \
	"{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]}]"

enum category {
	NATIVE,
	PYTHON,
	KERNEL,
	OTHER,
};

/* A node of the tree of stacks; its key in the table of nodes. */
struct node {
	uint32_t prefix; /* NONE: an outermost frame */
	uint32_t frame;
};

struct writer {
	struct stack_table stacks;
	struct intern nodes;
	uint32_t *nodes_of;         /* by stack: its innermost node; NONE: it has no frame */
	uint32_t *frames, *strings; /* by text: its number as a frame; by frame: its text */
	size_t n_frames;
	struct intern files; /* of Python frames */
	uint32_t *file_of;   /* by frame: a file, or NONE */
	struct stack_groups threads;
	double step_ms; /* from one sample to the next */
	bool wall;
	const char *weight;
	FILE *out;
};

static void writer__clear(struct writer *w)
{
	stack_table__clear(&w->stacks);
	intern__clear(&w->nodes);
	intern__clear(&w->files);
	free(w->nodes_of);
	free(w->frames);
	free(w->strings);
	free(w->file_of);
	stack_groups__clear(&w->threads);
}
CLEANUP_DEFINE(struct writer *, writer, writer__clear)

static int add_frame(struct writer *w, uint32_t text)
{
	_cleanup_(text) struct text *file = &(struct text){ .length = 0 };
	const char *path = w->stacks.of[text].line->filename;
	uint32_t number = (uint32_t)w->n_frames++;
	int ret;

	w->frames[text] = number;
	w->strings[number] = text;
	w->file_of[number] = NONE;
	if (!*path)
		return 0;
	ret = frame_text__words(path, file);
	if (!ret && file->length)
		ret = intern__add(&w->files, file->bytes, file->length, &w->file_of[number]);
	return ret < 0 ? ret : 0;
}

static int add_stack(struct writer *w, size_t number)
{
	struct node node = { .prefix = NONE };
	size_t n;
	const uint32_t *stack = stack_table__stack(&w->stacks, number, &n);
	int ret = 0;

	w->nodes_of[number] = NONE;
	for (size_t k = 1; ret >= 0 && k < n; k++) {
		if (w->frames[stack[k]] == NONE)
			ret = add_frame(w, stack[k]);
		node.frame = w->frames[stack[k]];
		if (ret >= 0)
			ret = intern__add(&w->nodes, &node, sizeof(node), &w->nodes_of[number]);
		node.prefix = w->nodes_of[number];
	}
	return ret < 0 ? ret : 0;
}

static int add_all(struct writer *w)
{
	size_t texts = w->stacks.texts.n_keys + 1, stacks = w->stacks.stacks.n_keys + 1;
	int ret = 0;

	w->nodes_of = malloc(stacks * sizeof(*w->nodes_of));
	w->frames = malloc(texts * sizeof(*w->frames));
	w->strings = malloc(texts * sizeof(*w->strings));
	w->file_of = malloc(texts * sizeof(*w->file_of));
	if (!w->nodes_of || !w->frames || !w->strings || !w->file_of)
		return -ENOMEM;
	memset(w->frames, 0xff, texts * sizeof(*w->frames));
	for (size_t i = 0; !ret && i + 1 < stacks; i++)
		ret = add_stack(w, i);
	return ret ?: stack_groups__of(&w->stacks, &w->threads);
}

/* "NAME":[VALUE,VALUE...], of n values. */
#define COLUMN(w, name, n, ...)                      \
	({                                           \
		fputs("\"" name "\":[", (w)->out);   \
		for (size_t i = 0; i < (n); i++) {   \
			if (i)                       \
				putc(',', (w)->out); \
			__VA_ARGS__;                 \
		}                                    \
		putc(']', (w)->out);                 \
	})

/* The same with one value for all. */
static void write_same(struct writer *w, const char *name, size_t n, const char *value)
{
	fprintf(w->out, ",\"%s\":[", name);
	for (size_t i = 0; i < n; i++)
		fprintf(w->out, "%s%s", i ? "," : "", value);
	putc(']', w->out);
}

static void write_number(struct writer *w, uint32_t number)
{
	if (number == NONE)
		fputs("null", w->out);
	else
		fprintf(w->out, "%" PRIu32, number);
}

static const struct profile_line *line_of(const struct writer *w, size_t frame)
{
	return w->stacks.of[w->strings[frame]].line;
}

static void write_line(struct writer *w, size_t frame)
{
	const struct profile_line *line = line_of(w, frame);

	if (*line->filename && line->line > 0 && !w->stacks.options->functions)
		fprintf(w->out, "%" PRId64, line->line);
	else
		fputs("null", w->out);
}

static enum category category_of(const struct profile_line *line)
{
	return line->kernel ? KERNEL : line->python ? PYTHON : *line->mapping ? NATIVE : OTHER;
}

static void write_frame_table(struct writer *w)
{
	size_t n = w->n_frames;

	fprintf(w->out, "\"frameTable\":{\"length\":%zu,", n);
	COLUMN(w, "func", n, fprintf(w->out, "%zu", i));
	putc(',', w->out);
	COLUMN(w, "line", n, write_line(w, i));
	putc(',', w->out);
	COLUMN(w, "category", n, fprintf(w->out, "%d", category_of(line_of(w, i))));
	write_same(w, "subcategory", n, "0");
	write_same(w, "address", n, "-1");
	write_same(w, "inlineDepth", n, "0");
	write_same(w, "column", n, "null");
	write_same(w, "nativeSymbol", n, "null");
	write_same(w, "innerWindowID", n, "0");
	fputs("},\n", w->out);
}

/* Strings are first those of the frames, then the files. */
static void write_func_table(struct writer *w)
{
	size_t n = w->n_frames;

	fprintf(w->out, "\"funcTable\":{\"length\":%zu,", n);
	COLUMN(w, "name", n, fprintf(w->out, "%zu", i));
	putc(',', w->out);
	COLUMN(w, "source", n, write_number(w, w->file_of[i]));
	write_same(w, "isJS", n, "false");
	write_same(w, "relevantForJS", n, "false");
	write_same(w, "resource", n, "-1");
	write_same(w, "lineNumber", n, "null");
	write_same(w, "columnNumber", n, "null");
	fputs("},\n", w->out);
}

static void write_sources(struct writer *w)
{
	size_t n = w->files.n_keys;

	fprintf(w->out, "\"sources\":{\"length\":%zu,", n);
	COLUMN(w, "filename", n, fprintf(w->out, "%zu", w->n_frames + i));
	write_same(w, "id", n, "null");
	write_same(w, "startLine", n, "1");
	write_same(w, "startColumn", n, "1");
	write_same(w, "sourceMapURL", n, "null");
	fputs("},\n", w->out);
}

static const struct node *node_at(const struct writer *w, size_t number)
{
	return intern__key(&w->nodes, number);
}

static void write_string(struct writer *w, size_t number)
{
	const struct intern *from = number < w->n_frames ? &w->stacks.texts : &w->files;
	size_t key = number < w->n_frames ? w->strings[number] : number - w->n_frames;

	json_text__write(w->out, intern__key(from, key), intern__length(from, key));
}

static void write_shared(struct writer *w)
{
	size_t n = w->nodes.n_keys;

	fputs("\"shared\":{\n", w->out);
	write_frame_table(w);
	write_func_table(w);
	write_sources(w);
	fprintf(w->out, "\"stackTable\":{\"length\":%zu,", n);
	COLUMN(w, "prefix", n, write_number(w, node_at(w, i)->prefix));
	putc(',', w->out);
	COLUMN(w, "frame", n, write_number(w, node_at(w, i)->frame));
	fputs("},\n\"nativeSymbols\":{\"length\":0,\"address\":[],\"functionSize\":[],\"libIndex\":[],\"name\":[]},\n",
	      w->out);
	fputs("\"resourceTable\":{\"length\":0,\"host\":[],\"lib\":[],\"name\":[],\"type\":[]},\n", w->out);
	COLUMN(w, "stringArray", w->n_frames + w->files.n_keys, write_string(w, i));
	fputs("},\n", w->out);
}

/* Wall time is told in milliseconds. */
static void write_weight(struct writer *w, int64_t count)
{
	if (w->wall)
		fprintf(w->out, "%" PRId64 ".%03d", count / 1000, (int)(count % 1000));
	else
		fprintf(w->out, "%" PRId64, count);
}

/* of: numbers of its stacks, n of them. */
static void write_samples(struct writer *w, const uint32_t *of, size_t n)
{
	fprintf(w->out, "\"samples\":{\"length\":%zu,\"weightType\":\"%s\",", n, w->weight);
	COLUMN(w, "stack", n, write_number(w, w->nodes_of[of[i]]));
	putc(',', w->out);
	COLUMN(w, "weight", n, write_weight(w, w->stacks.counts[of[i]]));
	putc(',', w->out);
	COLUMN(w, "timeDeltas", n, fprintf(w->out, "%.6f", i ? w->step_ms : 0.0));
	write_same(w, "threadCPUDelta", n, "null");
	fputs("}", w->out);
}

static int write_thread(struct writer *w, const struct stack_group *thread)
{
	uint32_t text = thread->thread;
	const struct profile_sample *sample = w->stacks.of[text].thread;
	_cleanup_(text) struct text *process = &(struct text){ .length = 0 };
	int ret = frame_text__thread(sample, false, process);

	fputs("{\"name\":", w->out);
	json_text__write(w->out, intern__key(&w->stacks.texts, text), intern__length(&w->stacks.texts, text));
	fputs(",\"processName\":", w->out);
	json_text__write(w->out, process->bytes, process->length);
	fprintf(w->out, ",\"pid\":\"%" PRId64 "\",\"tid\":\"%" PRId64 "\",\"isMainThread\":%s,", sample->pid,
		sample->tid, sample->pid == sample->tid ? "true" : "false");
	fputs("\"processType\":\"default\",\"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":0,"
	      "\"unregisterTime\":null,\"pausedRanges\":[],\"showMarkersInTimeline\":false,\n\"markers\":{\"length\":0,"
	      "\"category\":[],\"data\":[],\"endTime\":[],\"name\":[],\"phase\":[],\"startTime\":[]},\n",
	      w->out);
	write_samples(w, w->threads.stacks + thread->first, thread->n);
	putc('}', w->out);
	return ret;
}

static int write_threads(struct writer *w)
{
	int ret = 0;

	fputs("\"threads\":[", w->out);
	for (size_t i = 0; !ret && i < w->threads.n; i++) {
		fputs(i ? ",\n" : "\n", w->out);
		ret = write_thread(w, &w->threads.list[i]);
	}
	fputs("]}\n", w->out);
	return ret;
}

static void write_meta(struct writer *w, const struct profile *profile)
{
	double interval_ms = profile->period_ns > 0 ? (double)profile->period_ns / 1e6 : 1;

	fprintf(w->out,
		"{\"meta\":{\"version\":%d,\"preprocessedProfileVersion\":%d,\"product\":\"stakeout\",\"interval\":%."
		"6f,"
		"\"startTime\":%.3f,\n",
		GECKO_VERSION, FORMAT_VERSION, interval_ms, (double)profile->time_ns / 1e6);
	fputs("\"processType\":0,\"debug\":false,\"symbolicated\":true,\"usesOnlyOneStackType\":true,"
	      "\"sourceCodeIsNotOnSearchfox\":true,\"pausedRanges\":[],\"markerSchema\":[],\n"
	      "\"extensions\":{\"length\":0,\"baseURL\":[],\"id\":[],\"name\":[]},\n"
	      "\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"µs\"},\n"
	      "\"categories\":" CATEGORIES "},\n"
	      "\"libs\":[],\"pages\":[],\"counters\":[],\"profilerOverhead\":[],\n",
	      w->out);
}

static const char *weight_of(const struct profile *profile, const char *value)
{
	if (value && (strstr(value, "bytes") || strstr(value, "space")))
		return "bytes";
	return profile->wall && !value ? "tracing-ms" : "samples";
}

static int write_all(struct writer *w, const struct profile *profile, const struct render_options *options)
{
	struct render_options part = options ? *options : (struct render_options){ .threads = true };
	int ret;

	part.threads = true; /* a row for each */
	ret = stack_table__build(&w->stacks, profile, &part);
	ret = ret ?: add_all(w);
	if (ret)
		return ret;
	w->wall = profile->wall && !part.value;
	w->weight = weight_of(profile, part.value);
	w->step_ms = (double)profile->duration_ns / 1e6 / (double)(w->stacks.stacks.n_keys + 1);
	write_meta(w, profile);
	write_shared(w);
	return write_threads(w);
}

int render__firefox(const struct profile *profile, const struct render_options *options, FILE *out,
		    struct so_error *err)
{
	_cleanup_(writer) struct writer *w = &(struct writer){ .out = out };
	int ret;

	errno = 0;
	ret = write_all(w, profile, options);
	if (ret < 0)
		return stack_table__say(ret, "the Firefox profile", err);
	/* A full disk may show only now. */
	if (fflush(out) || ferror(out))
		return so_err(err, -EIO, "cannot write the Firefox profile: %s", strerror(errno ? errno : EIO));
	return 0;
}

static int write_gzip(const char *text, size_t length, FILE *out)
{
	z_stream z = { .next_in = (unsigned char *)text };
	unsigned char chunk[65536];
	size_t left = length;
	int ret;

	/* 16: a gzip header, zlib.h */
	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	do {
		/* zlib counts in 32 bits. */
		if (!z.avail_in) {
			z.avail_in = left > 1u << 30 ? 1u << 30 : (unsigned)left;
			left -= z.avail_in;
		}
		z.next_out = chunk;
		z.avail_out = sizeof(chunk);
		ret = deflate(&z, left ? Z_NO_FLUSH : Z_FINISH);
		fwrite(chunk, 1, sizeof(chunk) - z.avail_out, out);
	} while (ret == Z_OK && !ferror(out));
	deflateEnd(&z);
	return ret == Z_STREAM_END && !ferror(out) ? 0 : -EIO;
}

int render__firefox_gzip(const struct profile *profile, const struct render_options *options, FILE *out,
			 struct so_error *err)
{
	_cleanup_free_ char *text = NULL;
	size_t length = 0;
	FILE *plain = open_memstream(&text, &length);
	int ret = plain ? render__firefox(profile, options, plain, err) : -ENOMEM;

	if (plain && fclose(plain) && !ret)
		ret = -ENOMEM;
	errno = 0;
	ret = ret ?: write_gzip(text, length, out);
	if (ret == -ENOMEM)
		return stack_table__say(ret, "the Firefox profile", err);
	if (!ret && fflush(out))
		ret = -EIO;
	if (ret == -EIO)
		return so_err(err, -EIO, "cannot write the Firefox profile: %s", strerror(errno ? errno : EIO));
	return ret;
}
