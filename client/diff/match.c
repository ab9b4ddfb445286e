// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/diff/match.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stakeout/array.h"
#include "stakeout/cleanup.h"

/*
 * What a function is called without its file: "step" of "step (env.py)", and without what a compiler appends to a copy
 * of its own (".constprop.0"). Code without a symbol has its file's name alone.
 */
static size_t bare_length(const char *text)
{
	static const char *const copies[] = { ".constprop.", ".isra.", ".part.", ".cold", ".lto_priv." };
	const char *file = NULL, *at = text;
	size_t length;

	while ((at = strstr(at, " (")))
		file = at++;
	length = file && text[strlen(text) - 1] == ')' ? (size_t)(file - text) : strlen(text);
	for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
		const char *copy = strstr(text, copies[i]);

		if (copy && copy > text && copy < text + length)
			length = (size_t)(copy - text);
	}
	return length;
}

/* Texts of one kind of both sides; of each the text on the other side. */
struct names_of_kind {
	struct intern texts[2]; /* with their end */
	uint32_t *partner[2];
};

static void names_of_kind__clear(struct names_of_kind *n)
{
	for (size_t i = 0; i < 2; i++) {
		intern__clear(&n->texts[i]);
		free(n->partner[i]);
	}
}
CLEANUP_DEFINE(struct names_of_kind *, names_of_kind, names_of_kind__clear)

static int collect(const struct side *side, enum row_kind kind, struct intern *texts)
{
	uint32_t number;

	for (size_t i = 0; i < side->n; i++)
		if (side->rows[i].kind == kind &&
		    intern__add(texts, side->rows[i].text, strlen(side->rows[i].text) + 1, &number) < 0)
			return -ENOMEM;
	return 0;
}

static void pair_equal(struct names_of_kind *n)
{
	for (uint32_t i = 0, other; i < n->texts[1].n_keys; i++)
		if (intern__find(&n->texts[0], intern__key(&n->texts[1], i), intern__length(&n->texts[1], i), &other)) {
			n->partner[1][i] = other;
			n->partner[0][other] = i;
		}
}

/* The one text without a partner that has a bare name; MATCH_NONE: several. */
struct loner {
	uint32_t text[2];
	unsigned n[2];
};

static int pair_loners(struct names_of_kind *n)
{
	struct intern bare = { 0 };
	_cleanup_free_ struct loner *loners = NULL;
	size_t capacity = 0;
	int ret = 0;

	for (size_t side = 0; side < 2 && ret >= 0; side++)
		for (uint32_t i = 0; i < n->texts[side].n_keys && ret >= 0; i++) {
			const char *text = intern__key(&n->texts[side], i);
			uint32_t number;

			if (n->partner[side][i] != MATCH_NONE)
				continue;
			ret = intern__add(&bare, text, bare_length(text), &number);
			if (ret < 0 || ARRAY_RESERVE(loners, capacity, bare.n_keys)) {
				ret = -ENOMEM;
				break;
			}
			if (ret)
				loners[number] = (struct loner){ .n = { 0 } };
			loners[number].text[side] = i;
			loners[number].n[side]++;
		}
	for (size_t i = 0; ret >= 0 && i < bare.n_keys; i++)
		if (loners[i].n[0] == 1 && loners[i].n[1] == 1) {
			n->partner[0][loners[i].text[0]] = loners[i].text[1];
			n->partner[1][loners[i].text[1]] = loners[i].text[0];
		}
	intern__clear(&bare);
	return ret < 0 ? ret : 0;
}

static int pair_names(const struct side *const sides[2], enum row_kind kind, struct names_of_kind *out)
{
	int ret = 0;

	for (size_t i = 0; i < 2; i++) {
		if (collect(sides[i], kind, &out->texts[i]))
			return -ENOMEM;
		out->partner[i] = malloc((out->texts[i].n_keys + 1) * sizeof(*out->partner[i]));
		if (!out->partner[i])
			return -ENOMEM;
		memset(out->partner[i], 0xff, (out->texts[i].n_keys + 1) * sizeof(*out->partner[i]));
	}
	pair_equal(out);
	/* Categories, phases and CUDA APIs are what they are called. */
	if (kind != ROW_CATEGORY && kind != ROW_PHASE && kind != ROW_CUDA)
		ret = pair_loners(out);
	return ret;
}

/* A row of one kind by the number of its text, among those of the base. */
struct placed {
	uint32_t text, row;
	struct line_amount line;
};

static int by_place(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;

	if (x->text != y->text)
		return x->text < y->text ? -1 : 1;
	return (x->line.line > y->line.line) - (x->line.line < y->line.line);
}

/* Rows in the order of the base's texts and lines; new ones without a partner are left out. unit: of the amounts. */
static struct placed *place_rows(const struct side *side, enum row_kind kind, const struct names_of_kind *names,
				 size_t which, double unit, size_t *n)
{
	struct placed *out = calloc(side->n + 1, sizeof(*out));

	*n = 0;
	for (uint32_t i = 0; out && i < side->n; i++) {
		const struct side_row *row = &side->rows[i];
		uint32_t text;

		if (row->kind != kind || !intern__find(&names->texts[which], row->text, strlen(row->text) + 1, &text))
			continue;
		text = which ? names->partner[1][text] : text;
		if (text != MATCH_NONE)
			out[(*n)++] = (struct placed){ text, i, { row->line, row->amount / unit } };
	}
	if (out)
		qsort(out, *n, sizeof(*out), by_place);
	return out;
}

static size_t group_end(const struct placed *rows, size_t n, size_t begin)
{
	size_t end = begin;

	while (end < n && rows[end].text == rows[begin].text)
		end++;
	return end;
}

/* The rows of one text: one of each side, or lines. */
static int match_group(const struct placed *base, size_t n_base, const struct placed *now, size_t n_now,
		       uint32_t *match)
{
	_cleanup_free_ struct line_amount *lines = calloc(n_base + n_now, sizeof(*lines));
	_cleanup_free_ uint32_t *found = calloc(n_now, sizeof(*found));
	int ret;

	if (!lines || !found)
		return -ENOMEM;
	for (size_t i = 0; i < n_base; i++)
		lines[i] = base[i].line;
	for (size_t i = 0; i < n_now; i++)
		lines[n_base + i] = now[i].line;
	ret = match__lines(lines, n_base, lines + n_base, n_now, found);
	for (size_t i = 0; !ret && i < n_now; i++)
		if (found[i] != MATCH_NONE)
			match[now[i].row] = base[found[i]].row;
	return ret;
}

static int match_kind(const struct side *const sides[2], enum row_kind kind, uint32_t *match)
{
	_cleanup_(names_of_kind) struct names_of_kind *names = &(struct names_of_kind){ .partner = { NULL } };
	_cleanup_free_ struct placed *base = NULL, *now = NULL;
	size_t n_base = 0, n_now = 0, end_base, end_now;
	bool steps = sides[0]->steps > 0 && sides[1]->steps > 0;
	int ret = pair_names(sides, kind, names);

	if (ret)
		return ret;
	base = place_rows(sides[0], kind, names, 0, steps ? sides[0]->steps : sides[0]->all.amount, &n_base);
	now = place_rows(sides[1], kind, names, 1, steps ? sides[1]->steps : sides[1]->all.amount, &n_now);
	if (!base || !now)
		return -ENOMEM;
	for (size_t i = 0, j = 0; !ret && i < n_base && j < n_now; i = end_base, j = end_now) {
		end_base = group_end(base, n_base, i);
		end_now = group_end(now, n_now, j);
		if (base[i].text < now[j].text)
			end_now = j;
		else if (base[i].text > now[j].text)
			end_base = i;
		else
			ret = match_group(base + i, end_base - i, now + j, end_now - j, match);
	}
	return ret;
}

uint32_t *match__rows(const struct side *base, const struct side *now)
{
	const struct side *const sides[2] = { base, now };
	uint32_t *match = malloc((now->n + 1) * sizeof(*match));
	int ret = match ? 0 : -ENOMEM;

	if (match)
		memset(match, 0xff, (now->n + 1) * sizeof(*match));
	for (enum row_kind kind = 0; !ret && kind < ROW_KINDS; kind++)
		ret = match_kind(sides, kind, match);
	if (ret) {
		free(match);
		return NULL;
	}
	return match;
}
