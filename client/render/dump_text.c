// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/render/dump_text.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/dump_internal.h"
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

char *dump_clean(const char *foreign)
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

/* As Python calls it: no object of the module threading is on the main thread's stack. */
static const char *name_of(const struct profile_sample *sample)
{
	if (sample->thread && *sample->thread)
		return sample->thread;
	return sample->tid == sample->pid && sample->gil != PROFILE_GIL_NONE ? "MainThread" : "";
}

static char *full_name(const struct profile_sample *sample, const char *called)
{
	_cleanup_free_ char *comm = dump_clean(sample->comm), *name = dump_clean(called);
	char *text = NULL;

	if (!comm || !name || asprintf(&text, *name ? "%s (%s)" : "%s", *comm ? comm : "[unknown]", name) < 0)
		return NULL;
	return text;
}

char *dump_thread_name(const struct profile_sample *sample)
{
	return full_name(sample, sample->thread ?: "");
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
		.function = dump_clean(line->function),
		.file = dump_clean(line->filename),
		.module = dump_clean(line->mapping),
		.line = line->line,
	};
	return out->function && out->file && out->module ? 0 : -ENOMEM;
}

static bool is_moved(const struct profile_line *line)
{
	return kind_of(line) == FRAME_NATIVE && !*line->mapping && !strcmp(line->function, DUMP_MOVED);
}

bool dump_takes_line(const struct dump_part *part, const struct profile_line *line)
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

int dump_order_threads(const struct dump *dump, const struct dump_part *part, const struct profile_sample ***out,
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

int dump_print_doing(const struct profile_sample *sample, FILE *out)
{
	_cleanup_free_ char *state = dump_clean(sample->state);
	const char *gil = sample->gil == PROFILE_GIL_HELD ? "holds the GIL" : "";

	if (!state)
		return -ENOMEM;
	if (*state || *gil)
		fprintf(out, " (%s%s%s)", state, *state && *gil ? ", " : "", gil);
	return 0;
}

/* "Thread 4711 (sleeping, holds the GIL): python3 (loader-3)" */
int dump_print_thread_head(const struct profile_sample *sample, FILE *out)
{
	_cleanup_free_ char *name = full_name(sample, name_of(sample));
	int ret;

	if (!name)
		return -ENOMEM;
	fprintf(out, "\nThread %" PRId64, sample->tid);
	ret = dump_print_doing(sample, out);
	fprintf(out, ": %s\n", name);
	return ret;
}

int dump_print_frames(const struct profile *profile, const struct dump_part *part, const struct profile_sample *sample,
		      FILE *out)
{
	size_t n = 0;
	int ret = 0;

	for (size_t i = 0; !ret && i < sample->n_lines; i++) {
		const struct profile_line *line = &profile->lines[sample->lines[i]];

		if (!dump_takes_line(part, line))
			continue;
		ret = print_frame(line, out);
		n++;
	}
	if (!ret && !n)
		fprintf(out, "    %s\n", part->python_only ? PROFILE_NATIVE : "[no frames]");
	return ret;
}

int dump_print_words(const char *before, const char *foreign, FILE *out)
{
	_cleanup_free_ char *text = dump_clean(foreign);

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
			ret = dump_print_words(n++ ? ", " : "CPython ", profile->comments[i] + skip, out);
	if (!ret && n)
		fputc('\n', out);
	if (ret || !problem)
		return ret;
	ret = dump_print_words("Python: ", problem, out);
	fputc('\n', out);
	return ret;
}

const char *dump_rank(const struct dump *dump)
{
	const struct profile *profile = dump->profile;

	return (profile->n_samples && profile->samples[0].rank) ? profile->samples[0].rank : "";
}

int dump_print_head(const struct dump *dump, FILE *out)
{
	char number[32];
	int ret;

	snprintf(number, sizeof(number), "Process %d: ", dump->pid);
	ret = dump_print_words(number, dump->command, out);
	if (!ret && *dump_rank(dump))
		ret = dump_print_words(", rank ", dump_rank(dump), out);
	fputc('\n', out);
	return ret ? ret : print_python_line(dump->profile, out);
}

int dump_finish(int ret, FILE *out, struct so_error *err)
{
	if (ret)
		return so_err(err, ret, "out of memory");
	return fflush(out) || ferror(out) ? so_err(err, -EIO, "cannot write: %s", strerror(errno)) : 0;
}

int dump_text__print(const struct dump *dump, const struct dump_part *part, FILE *out, struct so_error *err)
{
	_cleanup_free_ const struct profile_sample **threads = NULL;
	size_t n = 0;
	int ret = dump_order_threads(dump, part, &threads, &n);

	ret = ret ?: dump_print_head(dump, out);
	for (size_t i = 0; !ret && i < n; i++) {
		ret = dump_print_thread_head(threads[i], out);
		ret = ret ?: dump_print_frames(dump->profile, part, threads[i], out);
	}
	return dump_finish(ret, out, err);
}

json_t *dump_text_or_null(const char *clean_text)
{
	return *clean_text ? json_string(clean_text) : json_null();
}

/* NULL: out of memory. */
static json_t *frame_json(const struct profile_line *line)
{
	_cleanup_(frame) struct frame frame;

	if (read_frame(line, &frame))
		return NULL;
	return json_pack("{s:o, s:o, s:o, s:o, s:s}", "function", dump_text_or_null(frame.function), "file",
			 dump_text_or_null(frame.file), "line", frame.line ? json_integer(frame.line) : json_null(),
			 "module", dump_text_or_null(frame.module), "kind", kind_words[frame.kind]);
}

/* NULL: out of memory. */
static json_t *frames_json(const struct profile *profile, const struct dump_part *part,
			   const struct profile_sample *sample)
{
	json_t *frames = json_array();

	for (size_t i = 0; frames && i < sample->n_lines; i++) {
		const struct profile_line *line = &profile->lines[sample->lines[i]];

		if (dump_takes_line(part, line) && json_array_append_new(frames, frame_json(line))) {
			json_decref(frames);
			return NULL;
		}
	}
	return frames;
}

static json_t *gil_json(enum profile_gil gil)
{
	return gil <= PROFILE_GIL_DISABLED ? json_null() : json_boolean(gil == PROFILE_GIL_HELD);
}

json_t *dump_thread_json(const struct profile *profile, const struct dump_part *part,
			 const struct profile_sample *sample)
{
	_cleanup_free_ char *comm = dump_clean(sample->comm), *state = dump_clean(sample->state),
			    *name = dump_clean(name_of(sample));

	if (!comm || !state || !name)
		return NULL;
	/* A NULL among them makes the whole NULL, and the others are given back. */
	return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o}", "tid", (json_int_t)sample->tid, "comm",
			 dump_text_or_null(comm), "thread", dump_text_or_null(name), "state", dump_text_or_null(state),
			 "gil", gil_json(sample->gil), "frames", frames_json(profile, part, sample));
}

int dump_text__json(const struct dump *dump, const struct dump_part *part, FILE *out, struct so_error *err)
{
	_cleanup_free_ const struct profile_sample **threads = NULL;
	json_t *array = json_array();
	size_t n = 0;
	int ret = array ? dump_order_threads(dump, part, &threads, &n) : -ENOMEM;

	for (size_t i = 0; !ret && i < n; i++)
		if (json_array_append_new(array, dump_thread_json(dump->profile, part, threads[i])))
			ret = -ENOMEM;
	if (!ret && json_dumpf(array, out, JSON_INDENT(2)) && !ferror(out))
		ret = -ENOMEM;
	fputc('\n', out);
	json_decref(array);
	return dump_finish(ret, out, err);
}

void dump_text__count(const struct profile *profile, const struct dump_part *part, struct dump_left_out *sum)
{
	for (size_t i = 0; i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];

		sum->threads++;
		if (takes_thread(part, sample))
			continue;
		sum->left_out++;
		sum->moved += sample->n_lines == 1 && is_moved(&profile->lines[sample->lines[0]]);
	}
}

bool dump_text__note(const struct dump_left_out *sum, char *text, size_t size)
{
	int n;

	if (!sum->left_out)
		return false;
	n = snprintf(text, size, "%zu of %zu threads left out: ", sum->left_out, sum->threads);
	if (n < 0 || (size_t)n >= size)
		return true;
	if (sum->moved)
		snprintf(text + n, size - (size_t)n, "%zu did not hold the GIL, %zu could not be caught",
			 sum->left_out - sum->moved, sum->moved);
	else
		snprintf(text + n, size - (size_t)n, "they did not hold the GIL");
	return true;
}
