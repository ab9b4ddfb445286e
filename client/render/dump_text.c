// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/render/dump_text.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/render.h"
#include "stakeout/short_path.h"
#include "stakeout/utf8.h"

#define VERSION_COMMENT "stakeout.python.version="

enum frame_kind { FRAME_PYTHON, FRAME_NATIVE, FRAME_KERNEL };

static const char *const kind_words[] = {
	[FRAME_PYTHON] = "python",
	[FRAME_NATIVE] = "native",
	[FRAME_KERNEL] = "kernel",
};

/* Clean texts; "" and 0 are what is not known. */
struct frame {
	enum frame_kind kind;
	char *function, *file, *module;
	int64_t line;
};

static void cleanup__frame(struct frame *frame)
{
	free(frame->function);
	free(frame->file);
	free(frame->module);
}

/* C0, DEL, and C1 in its two-byte form. */
static bool is_control(const unsigned char *s, size_t sequence)
{
	return (sequence == 1 && (s[0] < 0x20 || s[0] == 0x7f)) || (sequence == 2 && s[0] == 0xc2 && s[1] < 0xa0);
}

/* A foreign text without blanks at its ends, which nobody would see. Malloc'ed; NULL: out of memory. */
static char *clean(const char *foreign)
{
	const char *s = foreign + strspn(foreign, " ");
	size_t n = strlen(s), sequence;
	char *text, *out;

	while (n && s[n - 1] == ' ')
		n--;
	text = out = malloc(n + 1); /* no character gets longer */
	if (!text)
		return NULL;
	for (; n; n -= sequence, s += sequence) {
		sequence = utf8__sequence(s, n);
		if (sequence && !is_control((const unsigned char *)s, sequence)) {
			out = mempcpy(out, s, sequence);
			continue;
		}
		sequence = sequence ? sequence : 1;
		*out++ = '?';
	}
	*out = '\0';
	return text;
}

static enum frame_kind kind_of(const struct profile_line *line)
{
	return line->kernel ? FRAME_KERNEL : line->python ? FRAME_PYTHON : FRAME_NATIVE;
}

/* Released by the caller, also on failure. */
static int read_frame(const struct profile_line *line, struct frame *out)
{
	*out = (struct frame){
		.kind = kind_of(line),
		.function = clean(line->function),
		.file = clean(line->filename),
		.module = clean(line->mapping),
		.line = line->line,
	};
	return out->function && out->file && out->module ? 0 : -ENOMEM;
}

static bool is_moved(const struct profile_line *line)
{
	return kind_of(line) == FRAME_NATIVE && !*line->mapping && !strcmp(line->function, DUMP_MOVED);
}

static bool takes_line(const struct dump_part *part, const struct profile_line *line)
{
	switch (kind_of(line)) {
	case FRAME_KERNEL:
		return part->kernel && !part->python_only;
	case FRAME_NATIVE:
		/* What is not known must not read as if there were no Python frames. */
		return !part->python_only || is_moved(line);
	case FRAME_PYTHON:
		break;
	}
	return true;
}

static bool takes_thread(const struct dump_part *part, const struct profile_sample *sample)
{
	return !part->gil || sample->gil == PROFILE_GIL_HELD;
}

static int compare_threads(const void *a, const void *b)
{
	const struct profile_sample *x = *(const struct profile_sample *const *)a;
	const struct profile_sample *y = *(const struct profile_sample *const *)b;
	bool x_main = x->tid == x->pid, y_main = y->tid == y->pid;

	if (x_main != y_main)
		return x_main ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* The threads of the part in their order; malloc'ed. */
static int order_threads(const struct dump *dump, const struct dump_part *part, const struct profile_sample ***out,
			 size_t *n)
{
	const struct profile *profile = dump->profile;
	const struct profile_sample **threads = calloc(profile->n_samples + 1, sizeof(struct profile_sample *));

	if (!threads)
		return -ENOMEM;
	*n = 0;
	for (size_t i = 0; i < profile->n_samples; i++)
		if (takes_thread(part, &profile->samples[i]))
			threads[(*n)++] = &profile->samples[i];
	qsort(threads, *n, sizeof(*threads), compare_threads);
	*out = threads;
	return 0;
}

/* Mappings that are no file stand in brackets already: "[vdso]". */
static void print_unknown(const char *module, FILE *out)
{
	if (!*module)
		fprintf(out, "[unknown]");
	else if (*module == '[')
		fprintf(out, "%s", module);
	else
		fprintf(out, "[%s]", module);
}

static void print_native(const struct frame *frame, FILE *out)
{
	const char *module = short_path(frame->module);

	if (!*frame->function) {
		print_unknown(module, out);
		return;
	}
	fprintf(out, "%s", frame->function);
	if (*frame->file && frame->line)
		fprintf(out, " (%s:%" PRId64 "%s%s)", short_path(frame->file), frame->line, *module ? " in " : "",
			module);
	else if (*module)
		fprintf(out, " (%s)", module);
}

static void print_python(const struct frame *frame, FILE *out)
{
	fprintf(out, "%s", *frame->function ? frame->function : "[unknown]");
	if (!*frame->file)
		return;
	fprintf(out, " (%s", frame->file);
	if (frame->line)
		fprintf(out, ":%" PRId64, frame->line);
	fputc(')', out);
}

static int print_frame(const struct profile_line *line, FILE *out)
{
	_cleanup_(frame) struct frame frame;
	int ret = read_frame(line, &frame);

	if (ret)
		return ret;
	fprintf(out, "    ");
	switch (frame.kind) {
	case FRAME_PYTHON:
		print_python(&frame, out);
		break;
	case FRAME_NATIVE:
		print_native(&frame, out);
		break;
	case FRAME_KERNEL:
		fprintf(out, "%s%s[kernel]", frame.function, *frame.function ? " " : "");
		break;
	}
	fputc('\n', out);
	return 0;
}

/* "Thread 4711 (sleeping, holds the GIL): python3" */
static int print_thread_head(const struct profile_sample *sample, FILE *out)
{
	_cleanup_free_ char *comm = clean(sample->comm), *state = clean(sample->state);
	const char *gil = sample->gil == PROFILE_GIL_HELD ? "holds the GIL" : "";

	if (!comm || !state)
		return -ENOMEM;
	fprintf(out, "\nThread %" PRId64, sample->tid);
	if (*state || *gil)
		fprintf(out, " (%s%s%s)", state, *state && *gil ? ", " : "", gil);
	fprintf(out, ": %s\n", *comm ? comm : "[unknown]");
	return 0;
}

static int print_thread(const struct profile *profile, const struct dump_part *part,
			const struct profile_sample *sample, FILE *out)
{
	int ret = print_thread_head(sample, out);
	size_t n = 0;

	for (size_t i = 0; !ret && i < sample->n_lines; i++) {
		const struct profile_line *line = &profile->lines[sample->lines[i]];

		if (!takes_line(part, line))
			continue;
		ret = print_frame(line, out);
		n++;
	}
	if (!ret && !n)
		fprintf(out, "    %s\n", part->python_only ? RENDER_NATIVE : "[no frames]");
	return ret;
}

static int print_words(const char *before, const char *foreign, FILE *out)
{
	_cleanup_free_ char *text = clean(foreign);

	if (!text)
		return -ENOMEM;
	fprintf(out, "%s%s", before, text);
	return 0;
}

/* "CPython 3.11", and what could not be read of an interpreter; nothing without one. */
static int print_python_line(const struct profile *profile, FILE *out)
{
	const char *problem = profile__comment(profile, "python.problem");
	const size_t skip = strlen(VERSION_COMMENT);
	size_t n = 0;
	int ret = 0;

	for (size_t i = 0; !ret && i < profile->n_comments; i++)
		if (!strncmp(profile->comments[i], VERSION_COMMENT, skip))
			ret = print_words(n++ ? ", " : "CPython ", profile->comments[i] + skip, out);
	if (!ret && n)
		fputc('\n', out);
	if (ret || !problem)
		return ret;
	ret = print_words("Python: ", problem, out);
	fputc('\n', out);
	return ret;
}

/* In its distributed job; "" where it is in none. All threads are of one process. */
static const char *rank_of(const struct dump *dump)
{
	const struct profile *profile = dump->profile;

	return (profile->n_samples && profile->samples[0].rank) ? profile->samples[0].rank : "";
}

static int print_head(const struct dump *dump, FILE *out)
{
	char number[32];
	int ret;

	snprintf(number, sizeof(number), "Process %d: ", dump->pid);
	ret = print_words(number, dump->command, out);
	if (!ret && *rank_of(dump))
		ret = print_words(", rank ", rank_of(dump), out);
	fputc('\n', out);
	return ret ? ret : print_python_line(dump->profile, out);
}

static int finish(int ret, FILE *out, struct so_error *err)
{
	if (ret)
		return so_err(err, ret, "out of memory");
	return fflush(out) || ferror(out) ? so_err(err, -EIO, "cannot write: %s", strerror(errno)) : 0;
}

int dump_text__print(const struct dump *dump, const struct dump_part *part, FILE *out, struct so_error *err)
{
	_cleanup_free_ const struct profile_sample **threads = NULL;
	size_t n = 0;
	int ret = order_threads(dump, part, &threads, &n);

	ret = ret ?: print_head(dump, out);
	for (size_t i = 0; !ret && i < n; i++)
		ret = print_thread(dump->profile, part, threads[i], out);
	return finish(ret, out, err);
}

static json_t *text_or_null(const char *clean_text)
{
	return *clean_text ? json_string(clean_text) : json_null();
}

/* NULL: out of memory. */
static json_t *frame_json(const struct profile_line *line)
{
	_cleanup_(frame) struct frame frame;

	if (read_frame(line, &frame))
		return NULL;
	return json_pack("{s:o, s:o, s:o, s:o, s:s}", "function", text_or_null(frame.function), "file",
			 text_or_null(frame.file), "line", frame.line ? json_integer(frame.line) : json_null(),
			 "module", text_or_null(frame.module), "kind", kind_words[frame.kind]);
}

/* NULL: out of memory. */
static json_t *frames_json(const struct profile *profile, const struct dump_part *part,
			   const struct profile_sample *sample)
{
	json_t *frames = json_array();

	for (size_t i = 0; frames && i < sample->n_lines; i++) {
		const struct profile_line *line = &profile->lines[sample->lines[i]];

		if (takes_line(part, line) && json_array_append_new(frames, frame_json(line))) {
			json_decref(frames);
			return NULL;
		}
	}
	return frames;
}

static json_t *gil_json(enum profile_gil gil)
{
	return gil == PROFILE_GIL_NONE ? json_null() : json_boolean(gil == PROFILE_GIL_HELD);
}

/* NULL: out of memory. */
static json_t *thread_json(const struct profile *profile, const struct dump_part *part,
			   const struct profile_sample *sample)
{
	_cleanup_free_ char *comm = clean(sample->comm), *state = clean(sample->state);

	if (!comm || !state)
		return NULL;
	/* A NULL among them makes the whole NULL, and the others are given back. */
	return json_pack("{s:I, s:o, s:o, s:o, s:o}", "tid", (json_int_t)sample->tid, "comm", text_or_null(comm),
			 "state", text_or_null(state), "gil", gil_json(sample->gil), "frames",
			 frames_json(profile, part, sample));
}

int dump_text__json(const struct dump *dump, const struct dump_part *part, FILE *out, struct so_error *err)
{
	_cleanup_free_ const struct profile_sample **threads = NULL;
	json_t *array = json_array();
	size_t n = 0;
	int ret = array ? order_threads(dump, part, &threads, &n) : -ENOMEM;

	for (size_t i = 0; !ret && i < n; i++)
		if (json_array_append_new(array, thread_json(dump->profile, part, threads[i])))
			ret = -ENOMEM;
	if (!ret && json_dumpf(array, out, JSON_INDENT(2)) && !ferror(out))
		ret = -ENOMEM;
	fputc('\n', out);
	json_decref(array);
	return finish(ret, out, err);
}

bool dump_text__note(const struct profile *profile, const struct dump_part *part, char *text, size_t size)
{
	size_t left_out = 0, moved = 0;
	int n;

	for (size_t i = 0; i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];

		if (takes_thread(part, sample))
			continue;
		left_out++;
		moved += sample->n_lines == 1 && is_moved(&profile->lines[sample->lines[0]]);
	}
	if (!left_out)
		return false;
	n = snprintf(text, size, "%zu of %zu threads left out: ", left_out, profile->n_samples);
	if (n < 0 || (size_t)n >= size)
		return true;
	if (moved)
		snprintf(text + n, size - (size_t)n, "%zu did not hold the GIL, %zu could not be caught",
			 left_out - moved, moved);
	else
		snprintf(text + n, size - (size_t)n, "they did not hold the GIL");
	return true;
}
