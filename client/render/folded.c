/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Folded stacks: the interchange format of flame graphs, one line a distinct stack.
 *
 * No text contains ';', so two sequences of texts (stack_table.h) make the same line only if they are the same. The
 * order, that of the lines' bytes, comes from the ranks of the texts (see compare_stacks).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/render.h"
#include "client/render/stack_table.h"

struct folder {
	struct stack_table stacks;
	/* For sorting, by rank or by number of the text. */
	uint32_t *by_rank, *ranks, *prefix_ends;
	uint32_t *order; /* of the stacks */
};

static void folder__clear(struct folder *f)
{
	stack_table__clear(&f->stacks);
	free(f->by_rank);
	free(f->ranks);
	free(f->prefix_ends);
	free(f->order);
}
CLEANUP_DEFINE(struct folder *, folder, folder__clear)

static int compare_texts(const void *a, const void *b, void *folder)
{
	const struct folder *f = folder;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	size_t n = intern__length(&f->stacks.texts, x), m = intern__length(&f->stacks.texts, y);
	int ret = memcmp(intern__key(&f->stacks.texts, x), intern__key(&f->stacks.texts, y), n < m ? n : m);

	return ret ? ret : (n > m) - (n < m);
}

static bool text_begins_with(const struct folder *f, uint32_t text, uint32_t prefix)
{
	size_t n = intern__length(&f->stacks.texts, prefix);

	return n <= intern__length(&f->stacks.texts, text) &&
	       !memcmp(intern__key(&f->stacks.texts, text), intern__key(&f->stacks.texts, prefix), n);
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
	size_t n = f->stacks.texts.n_keys;

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
	const unsigned char *text = intern__key(&f->stacks.texts, longer);
	size_t length = intern__length(&f->stacks.texts, longer), n = intern__length(&f->stacks.texts, shorter),
	       digits_length;
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
	const uint32_t *xs = intern__key(&f->stacks.stacks, x), *ys = intern__key(&f->stacks.stacks, y);
	size_t nx = intern__length(&f->stacks.stacks, x) / sizeof(*xs),
	       ny = intern__length(&f->stacks.stacks, y) / sizeof(*ys), i;

	for (i = 0; i < nx && i < ny && xs[i] == ys[i]; i++)
		;
	/* One is the beginning of the other: a blank against ';'. */
	if (i == nx || i == ny)
		return (nx > ny) - (nx < ny);
	xt = f->ranks[xs[i]];
	yt = f->ranks[ys[i]];
	if (xt < yt && yt <= f->prefix_ends[xt])
		return compare_prefix(f, xs[i], ys[i], i + 1 == nx, f->stacks.counts[x]);
	if (yt < xt && xt <= f->prefix_ends[yt])
		return -compare_prefix(f, ys[i], xs[i], i + 1 == ny, f->stacks.counts[y]);
	return xt < yt ? -1 : 1;
}

static int sort_stacks(struct folder *f)
{
	size_t n = f->stacks.stacks.n_keys;
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
	const uint32_t *texts = intern__key(&f->stacks.stacks, stack);
	size_t n = intern__length(&f->stacks.stacks, stack) / sizeof(*texts);

	for (size_t i = 0; i < n; i++) {
		if (i)
			putc_unlocked(';', out);
		fwrite_unlocked(intern__key(&f->stacks.texts, texts[i]), 1, intern__length(&f->stacks.texts, texts[i]),
				out);
	}
	fprintf(out, " %" PRId64 "\n", f->stacks.counts[stack]);
}

static int write_stacks(const struct folder *f, FILE *out, struct so_error *err)
{
	errno = 0;
	for (size_t i = 0; i < f->stacks.stacks.n_keys && !ferror(out); i++)
		write_stack(f, f->order[i], out);
	/* A full disk may show only now. */
	if (fflush(out) || ferror(out))
		return so_err(err, -EIO, "cannot write the folded stacks: %s", strerror(errno ? errno : EIO));
	return 0;
}

int render__folded(const struct profile *profile, const struct render_options *options, FILE *out, struct so_error *err)
{
	_cleanup_(folder) struct folder *f = &(struct folder){ .order = NULL };
	int ret = stack_table__build(&f->stacks, profile, options);

	ret = ret ?: sort_stacks(f);
	return ret < 0 ? stack_table__say(ret, "folded stacks", err) : write_stacks(f, out, err);
}
