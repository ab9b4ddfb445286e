// SPDX-License-Identifier: GPL-2.0-or-later
#include "profile/folded_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/arena.h"
#include "stakeout/array.h"
#include "stakeout/intern.h"

#define LOOKED_AT_BYTES 1024
#define MEMORY_PER_BYTE 64
#define MEMORY_MIN      ((size_t)16 << 20)
#define MEMORY_MAX      ((size_t)4 << 30)
#define MAX_DIGITS      18 /* of a count, which fits */
#define KERNEL_SUFFIX   "_[k]"

struct reader {
	struct arena *arena;
	struct profile *profile;
	struct intern frames;       /* by text; the number is the line's */
	struct profile_line *lines; /* by number */
	size_t lines_capacity;
	struct profile_sample *samples;
	size_t samples_capacity;
	uint32_t *stack; /* of the line that is read, outermost first */
	size_t stack_capacity, depth;
	int64_t total;
};

static void reader__clear(struct reader *r)
{
	intern__clear(&r->frames);
	free(r->lines);
	free(r->samples);
	free(r->stack);
}
CLEANUP_DEFINE(struct reader *, reader, reader__clear)

/* A run of the text. */
struct piece {
	const char *at;
	size_t n;
};

bool folded_read__is_text(const void *bytes, size_t length)
{
	const unsigned char *at = bytes;

	for (size_t i = 0; i < length && i < LOOKED_AT_BYTES; i++)
		if ((at[i] < ' ' && !memchr("\t\n\r", at[i], 3)) || at[i] == 0x7f)
			return false;
	return length > 0;
}

static char *copy(struct reader *r, const char *at, size_t n)
{
	char *text = arena__alloc(r->arena, n + 1);

	if (text) {
		memcpy(text, at, n);
		text[n] = '\0';
	}
	return text;
}

static bool ends_in(const char *text, size_t n, const char *end)
{
	size_t m = strlen(end);

	return n >= m && !memcmp(text + n - m, end, m);
}

/* "name (file.py:12)", "name (file.py)", "<module> (<string>:3)": cuts the text into its parts. */
static bool read_python(char *text, size_t n, struct profile_line *out)
{
	char *file = n && text[n - 1] == ')' ? strrchr(text, '(') : NULL, *end = text + n - 1;
	const char *digits = end;

	if (!file || file < text + 2 || file[-1] != ' ')
		return false;
	file++;
	while (digits > file && digits[-1] >= '0' && digits[-1] <= '9')
		digits--;
	if (digits < end && end - digits <= MAX_DIGITS && digits - 1 > file && digits[-1] == ':')
		end = text + (digits - 1 - text);
	if (!ends_in(file, (size_t)(end - file), ".py") && (*file != '<' || *end != ':'))
		return false;
	if (*end == ':')
		out->line = strtoll(digits, NULL, 10);
	file[-2] = *end = '\0';
	out->filename = file;
	out->python = true;
	return true;
}

/* "[libc.so.6]" has no function, "[libc.so.6+0x1234]" one without a name; others are called so. */
static int read_brackets(struct reader *r, char *text, size_t n, struct profile_line *out)
{
	const char *plus = strstr(text, "+0x");
	char *file;

	out->python = !strncmp(text, "[python:", 8);
	if (out->python || !strcmp(text, "[jit]") || !strcmp(text, "[native]") || !strcmp(text, "[no stack]") ||
	    !strcmp(text, PROFILE_OWN_PROBES) || !strncmp(text, "[file ", 6))
		return 0;
	if (!strcmp(text, "[unknown]")) {
		out->function = "";
		return 0;
	}
	file = copy(r, text + 1, plus ? (size_t)(plus - text - 1) : n - 2);
	if (!file)
		return -ENOMEM;
	out->mapping = file;
	if (!plus)
		out->function = "";
	return 0;
}

static int read_frame(struct reader *r, const struct piece *piece, struct profile_line *out)
{
	size_t n = piece->n;
	char *text = copy(r, piece->at, n);

	if (!text)
		return -ENOMEM;
	*out = (struct profile_line){ .function = text, .filename = "", .mapping = "" };
	out->kernel = ends_in(text, n, KERNEL_SUFFIX);
	if (out->kernel) {
		text[n - strlen(KERNEL_SUFFIX)] = '\0';
		out->mapping = "[kernel.kallsyms]";
		return 0;
	}
	if (read_python(text, n, out) || n < 3 || *text != '[' || text[n - 1] != ']')
		return 0;
	return read_brackets(r, text, n, out);
}

/* -EFBIG, -ENOMEM */
static int add_frame(struct reader *r, const struct piece *piece)
{
	struct profile_line line;
	uint32_t number = 0;
	int ret;

	if (ARRAY_RESERVE(r->stack, r->stack_capacity, r->depth + 1) ||
	    ARRAY_RESERVE(r->lines, r->lines_capacity, r->frames.n_keys + 1))
		return -ENOMEM;
	ret = intern__add(&r->frames, piece->at, piece->n, &number);
	if (ret > 0) {
		ret = read_frame(r, piece, &line);
		if (!ret)
			r->lines[number] = line;
	}
	r->stack[r->depth++] = number;
	return ret;
}

/* MAX_DIGITS at most; the bytes may end with them. */
static int64_t number_of(const char *digit, const char *end)
{
	int64_t number = 0;

	for (; digit < end && *digit >= '0' && *digit <= '9'; digit++)
		number = 10 * number + (*digit - '0');
	return number;
}

/* The number in front of `end`, behind `sign`. 0: there is none. */
static int64_t number_before(const char *begin, const char *end, char sign, const char **at)
{
	const char *digit = end;

	while (digit > begin && digit[-1] >= '0' && digit[-1] <= '9')
		digit--;
	if (digit == end || end - digit > MAX_DIGITS || digit - 1 <= begin || digit[-1] != sign)
		return 0;
	*at = digit - 1;
	return number_of(digit, end);
}

/* "comm", or "comm-PID/TID". A Python frame is none: other tools may have no thread in front. */
static int read_thread(struct reader *r, const struct piece *piece, struct profile_sample *out, bool *taken)
{
	const char *end = piece->at + piece->n, *slash, *dash;
	int64_t tid = number_before(piece->at, end, '/', &slash), pid = 0;

	*taken = piece->n && end[-1] != ')';
	if (!*taken)
		return 0;
	if (tid)
		pid = number_before(piece->at, slash, '-', &dash);
	if (pid) {
		out->pid = pid;
		out->tid = tid;
		end = dash;
	}
	out->comm = copy(r, piece->at, (size_t)(end - piece->at));
	return out->comm ? 0 : -ENOMEM;
}

static int read_stack(struct reader *r, const char *at, const char *end, struct profile_sample *out)
{
	bool first = true, taken;
	uint32_t *lines;
	int ret = 0;

	r->depth = 0;
	while (!ret && at <= end) {
		const char *semicolon = at < end ? memchr(at, ';', (size_t)(end - at)) : NULL;
		const struct piece piece = { at, (size_t)((semicolon ? semicolon : end) - at) };

		taken = false;
		if (first)
			ret = read_thread(r, &piece, out, &taken);
		if (!ret && !taken && piece.n)
			ret = add_frame(r, &piece);
		first = false;
		at += piece.n + 1;
	}
	lines = ret ? NULL : arena__array(r->arena, r->depth, sizeof(*lines));
	if (!lines)
		return ret ? ret : -ENOMEM;
	for (size_t i = 0; i < r->depth; i++)
		lines[i] = r->stack[r->depth - 1 - i];
	out->lines = lines;
	out->n_lines = r->depth;
	return 0;
}

/* The count at the end of the line, "12" or "12.0" behind a blank; *end becomes the stack's. false: there is none. */
static bool read_count(const char *begin, const char **end, int64_t *count)
{
	const char *at = *end, *digits;

	while (at > begin && at[-1] >= '0' && at[-1] <= '9')
		at--;
	if (at > begin && at < *end && at[-1] == '.' && at - 1 > begin) {
		for (at--; at > begin && at[-1] >= '0' && at[-1] <= '9';)
			at--;
	}
	digits = at;
	if (digits == *end || *digits == '.' || *end - digits > MAX_DIGITS || at - 1 <= begin ||
	    (at[-1] != ' ' && at[-1] != '\t'))
		return false;
	while (at > begin && (at[-1] == ' ' || at[-1] == '\t'))
		at--;
	*count = number_of(digits, *end);
	*end = at;
	return at > begin;
}

static int read_line(struct reader *r, const char *at, const char *end, size_t number, struct so_error *err)
{
	struct profile *p = r->profile;
	struct profile_sample sample = { .comm = "", .state = "", .rank = "", .local_rank = "", .container = "" };
	int ret;

	while (end > at && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t'))
		end--;
	if (at == end || *at == '#')
		return 0;
	if (!read_count(at, &end, &sample.count))
		return so_err(err, -EINVAL, "line %zu has no count behind a stack", number);
	if (__builtin_add_overflow(r->total, sample.count, &r->total))
		return so_err(err, -EINVAL, "its counts add up to more than 2^63");
	if (ARRAY_RESERVE(r->samples, r->samples_capacity, p->n_samples + 1))
		return -ENOMEM;
	ret = read_stack(r, at, end, &sample);
	if (!ret)
		r->samples[p->n_samples++] = sample;
	return ret;
}

static int read_lines(struct reader *r, const char *at, size_t length, struct so_error *err)
{
	const char *end = at + length;
	int ret = 0;

	for (size_t number = 1; !ret && at < end; number++) {
		const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;

		ret = read_line(r, at, stop, number, err);
		at = stop + 1;
	}
	if (!ret && !r->profile->n_samples)
		return so_err(err, -EINVAL, "it has no stack");
	return ret;
}

/* What was collected in arrays that move. */
static int settle(struct reader *r)
{
	struct profile *p = r->profile;

	p->n_lines = r->frames.n_keys;
	p->lines = arena__array(r->arena, p->n_lines, sizeof(*p->lines));
	p->samples = arena__array(r->arena, p->n_samples, sizeof(*p->samples));
	if (!p->lines || !p->samples)
		return -ENOMEM;
	if (p->n_lines)
		memcpy(p->lines, r->lines, p->n_lines * sizeof(*p->lines));
	memcpy(p->samples, r->samples, p->n_samples * sizeof(*p->samples));
	return 0;
}

static size_t memory_limit(size_t length)
{
	size_t limit;

	if (__builtin_mul_overflow(length, MEMORY_PER_BYTE, &limit) || limit > MEMORY_MAX)
		return MEMORY_MAX;
	return limit > MEMORY_MIN ? limit : MEMORY_MIN;
}

int folded_read(const void *bytes, size_t length, struct profile **out, struct so_error *err)
{
	_cleanup_(arena) struct arena *arena = arena__new(memory_limit(length));
	_cleanup_(reader) struct reader *r = &(struct reader){ .arena = arena };
	struct so_error why = { .text = "" };
	int ret;

	r->profile = arena ? arena__alloc(arena, sizeof(*r->profile)) : NULL;
	if (!r->profile)
		return so_err(err, -ENOMEM, "not enough memory to read the folded stacks");
	*r->profile = (struct profile){ .observation = 1 };
	ret = read_lines(r, bytes, length, &why);
	ret = ret ?: settle(r);
	if (ret == -ENOMEM && arena__error(arena) == -EFBIG)
		return so_err(err, -EFBIG, "the folded stacks need more memory than their size can justify");
	if (ret == -ENOMEM)
		return so_err(err, ret, "not enough memory to read the folded stacks");
	if (ret)
		return so_err(err, ret, "%s", why.text);
	r->profile->arena = TAKE_PTR(arena);
	*out = r->profile;
	return 0;
}
