/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Folded stacks: the interchange format of flame graphs, one line a distinct stack.
 *
 * Each distinct frame text gets a number, and a stack is a sequence of such numbers. No text contains ';', so two
 * sequences make the same line only if they are the same: merging lines needs no text, and a million stacks take
 * four bytes a frame. The order, that of the lines' bytes, comes from the ranks of the texts (see compare_stacks).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/frame_text.h"
#include "client/render/render.h"
#include "client/render/selection.h"
#include "stakeout/array.h"
#include "stakeout/intern.h"

/* Of names read, repetitions included: a file of a few MB could otherwise ask for terabytes of text. */
#define TEXT_BUDGET_BYTES ((size_t)4 << 30)
#define NO_TEXT           UINT32_MAX

struct folder {
	const struct render_options *options;
	struct intern texts;  /* frames and threads */
	struct intern stacks; /* uint32_t text numbers, outermost first */
	int64_t *counts;      /* by stack */
	size_t counts_capacity;
	uint32_t *line_texts; /* by line of the profile, NO_TEXT until needed; behind them RENDER_NATIVE's */
	uint32_t *sequence;
	size_t sequence_capacity;
	struct text text;
	size_t text_bytes;
	/* For sorting, by rank or by number of the text. */
	uint32_t *by_rank, *ranks, *prefix_ends;
	uint32_t *order; /* of the stacks */
};

static void folder__clear(struct folder *f)
{
	intern__clear(&f->texts);
	intern__clear(&f->stacks);
	text__clear(&f->text);
	free(f->counts);
	free(f->line_texts);
	free(f->sequence);
	free(f->by_rank);
	free(f->ranks);
	free(f->prefix_ends);
	free(f->order);
}
CLEANUP_DEFINE(struct folder *, folder, folder__clear)

static int take_text(struct folder *f, uint32_t *number)
{
	int ret;

	f->text_bytes += f->text.length;
	if (f->text_bytes > TEXT_BUDGET_BYTES)
		return -EFBIG;
	ret = intern__add(&f->texts, f->text.bytes, f->text.length, number);
	return ret < 0 ? ret : 0;
}

static int thread_text(struct folder *f, const struct profile_sample *sample, uint32_t *number)
{
	int ret;

	f->text.length = 0;
	ret = frame_text__thread(sample, f->options->threads, &f->text);
	if (!ret && f->options->threads)
		ret = frame_text__thread_name(sample, '_', &f->text);
	return ret ? ret : take_text(f, number);
}

static int line_text(struct folder *f, const struct profile_line *line, uint32_t *number)
{
	int ret;

	if (*number != NO_TEXT)
		return 0;
	f->text.length = 0;
	ret = frame_text__folded(line, f->options->functions, &f->text);
	return ret ? ret : take_text(f, number);
}

/* The frames that shall be seen, outermost first, into the sequence from [1] on. */
static int add_frames(struct folder *f, const struct profile *profile, const struct profile_sample *sample, size_t *n)
{
	static const struct profile_line native = { .function = RENDER_NATIVE, .filename = "", .mapping = "" };
	int ret = 0;

	for (size_t i = sample->n_lines; !ret && i-- > 0;) {
		uint32_t line = sample->lines[i];

		if (f->options->python_only && !profile->lines[line].python)
			continue;
		ret = line_text(f, &profile->lines[line], &f->line_texts[line]);
		f->sequence[++*n] = f->line_texts[line];
	}
	if (ret || *n || !f->options->python_only)
		return ret;
	ret = line_text(f, &native, &f->line_texts[profile->n_lines]);
	f->sequence[++*n] = f->line_texts[profile->n_lines];
	return ret;
}

static int add_sample(struct folder *f, const struct profile *profile, const struct profile_sample *sample)
{
	uint32_t stack;
	size_t n = 0;
	int ret;

	if (!selection__takes(f->options, sample))
		return 0;
	if (ARRAY_RESERVE(f->sequence, f->sequence_capacity, sample->n_lines + 2) ||
	    ARRAY_RESERVE(f->counts, f->counts_capacity, f->stacks.n_keys + 1))
		return -ENOMEM;
	ret = thread_text(f, sample, &f->sequence[0]);
	ret = ret ?: add_frames(f, profile, sample, &n);
	if (ret < 0)
		return ret;
	ret = intern__add(&f->stacks, f->sequence, (n + 1) * sizeof(*f->sequence), &stack);
	if (ret < 0)
		return ret;
	/* The sum fits: the profile's reader has checked the total. */
	f->counts[stack] = (ret ? 0 : f->counts[stack]) + sample->count;
	return 0;
}

static int add_samples(struct folder *f, const struct profile *profile)
{
	int ret = 0;

	f->line_texts = malloc((profile->n_lines + 1) * sizeof(*f->line_texts));
	if (!f->line_texts)
		return -ENOMEM;
	for (size_t i = 0; i <= profile->n_lines; i++)
		f->line_texts[i] = NO_TEXT;
	for (size_t i = 0; !ret && i < profile->n_samples; i++)
		ret = add_sample(f, profile, &profile->samples[i]);
	return ret;
}

static int compare_texts(const void *a, const void *b, void *folder)
{
	const struct folder *f = folder;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	size_t n = intern__length(&f->texts, x), m = intern__length(&f->texts, y);
	int ret = memcmp(intern__key(&f->texts, x), intern__key(&f->texts, y), n < m ? n : m);

	return ret ? ret : (n > m) - (n < m);
}

static bool text_begins_with(const struct folder *f, uint32_t text, uint32_t prefix)
{
	size_t n = intern__length(&f->texts, prefix);

	return n <= intern__length(&f->texts, text) &&
	       !memcmp(intern__key(&f->texts, text), intern__key(&f->texts, prefix), n);
}

/*
 * Texts that begin with a given one follow it without a gap in sorted order: prefix_ends[] holds the rank of the
 * last of them. `open` is the chain of those whose run has not ended yet, each a prefix of the next.
 */
static int find_prefixes(struct folder *f, size_t n)
{
	_cleanup_free_ uint32_t *open = malloc((n + 1) * sizeof(*open));
	size_t depth = 0;

	if (!open)
		return -ENOMEM;
	for (uint32_t rank = 0; rank < n; rank++) {
		while (depth && !text_begins_with(f, f->by_rank[rank], f->by_rank[open[depth - 1]]))
			f->prefix_ends[open[--depth]] = rank - 1;
		open[depth++] = rank;
	}
	while (depth)
		f->prefix_ends[open[--depth]] = (uint32_t)n - 1;
	return 0;
}

static int rank_texts(struct folder *f)
{
	size_t n = f->texts.n_keys;

	f->by_rank = malloc((n + 1) * sizeof(*f->by_rank));
	f->ranks = malloc((n + 1) * sizeof(*f->ranks));
	f->prefix_ends = malloc((n + 1) * sizeof(*f->prefix_ends));
	if (!f->by_rank || !f->ranks || !f->prefix_ends)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		f->by_rank[i] = (uint32_t)i;
	qsort_r(f->by_rank, n, sizeof(*f->by_rank), compare_texts, f);
	for (size_t i = 0; i < n; i++)
		f->ranks[f->by_rank[i]] = (uint32_t)i;
	return find_prefixes(f, n);
}

/*
 * The order of two lines where the text `shorter` in one stands against `longer` in the other, which begins with it:
 * the separator after the shorter one decides. Only a last frame is followed by a blank, and then the count stands
 * against the rest of the longer text, which is never a number itself (frame_text.h).
 */
static int compare_prefix(const struct folder *f, uint32_t shorter, uint32_t longer, bool last, int64_t count)
{
	const unsigned char *text = intern__key(&f->texts, longer);
	size_t length = intern__length(&f->texts, longer), n = intern__length(&f->texts, shorter), digits_length;
	unsigned char separator = last ? ' ' : ';';
	char digits[24];
	int ret;

	if (separator != text[n])
		return separator < text[n] ? -1 : 1;
	text += n + 1;
	length -= n + 1;
	digits_length = (size_t)snprintf(digits, sizeof(digits), "%" PRId64, count);
	ret = memcmp(digits, text, digits_length < length ? digits_length : length);
	return ret ? ret : digits_length <= length ? -1 : 1;
}

/* By the bytes of the whole line, as `LC_ALL=C sort` would. */
static int compare_stacks(const void *a, const void *b, void *folder)
{
	const struct folder *f = folder;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b, xt, yt;
	const uint32_t *xs = intern__key(&f->stacks, x), *ys = intern__key(&f->stacks, y);
	size_t nx = intern__length(&f->stacks, x) / sizeof(*xs), ny = intern__length(&f->stacks, y) / sizeof(*ys), i;

	for (i = 0; i < nx && i < ny && xs[i] == ys[i]; i++)
		;
	/* One is the beginning of the other: a blank against ';'. */
	if (i == nx || i == ny)
		return (nx > ny) - (nx < ny);
	xt = f->ranks[xs[i]];
	yt = f->ranks[ys[i]];
	if (xt < yt && yt <= f->prefix_ends[xt])
		return compare_prefix(f, xs[i], ys[i], i + 1 == nx, f->counts[x]);
	if (yt < xt && xt <= f->prefix_ends[yt])
		return -compare_prefix(f, ys[i], xs[i], i + 1 == ny, f->counts[y]);
	return xt < yt ? -1 : 1;
}

static int sort_stacks(struct folder *f)
{
	size_t n = f->stacks.n_keys;
	int ret = rank_texts(f);

	if (ret < 0)
		return ret;
	f->order = malloc((n + 1) * sizeof(*f->order));
	if (!f->order)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		f->order[i] = (uint32_t)i;
	qsort_r(f->order, n, sizeof(*f->order), compare_stacks, f);
	return 0;
}

static void write_stack(const struct folder *f, uint32_t stack, FILE *out)
{
	const uint32_t *texts = intern__key(&f->stacks, stack);
	size_t n = intern__length(&f->stacks, stack) / sizeof(*texts);

	for (size_t i = 0; i < n; i++) {
		if (i)
			putc_unlocked(';', out);
		fwrite_unlocked(intern__key(&f->texts, texts[i]), 1, intern__length(&f->texts, texts[i]), out);
	}
	fprintf(out, " %" PRId64 "\n", f->counts[stack]);
}

static int write_stacks(const struct folder *f, FILE *out, struct so_error *err)
{
	errno = 0;
	for (size_t i = 0; i < f->stacks.n_keys && !ferror(out); i++)
		write_stack(f, f->order[i], out);
	/* A full disk may show only now. */
	if (fflush(out) || ferror(out))
		return so_err(err, -EIO, "cannot write the folded stacks: %s", strerror(errno ? errno : EIO));
	return 0;
}

int render__folded(const struct profile *profile, const struct render_options *options, FILE *out, struct so_error *err)
{
	static const struct render_options all = { .threads = false };
	struct folder storage = { .options = options ? options : &all };
	_cleanup_(folder) struct folder *f = &storage;
	int ret = add_samples(f, profile);

	ret = ret ?: sort_stacks(f);
	if (ret == -EFBIG)
		return so_err(err, ret, "cannot write folded stacks: the profile's names add up to more than %zu GiB",
			      TEXT_BUDGET_BYTES >> 30);
	if (ret < 0)
		return so_err(err, ret, "cannot write folded stacks: not enough memory");
	return write_stacks(f, out, err);
}
