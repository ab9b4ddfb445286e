// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/diff/side.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/diff/side_internal.h"
#include "stakeout/array.h"

static const struct {
	const char *name, *title;
} kinds[ROW_KINDS] = {
#define X(id, name, title) [ROW_##id] = { name, title },
	ROW_KIND_LIST(X)
#undef X
};

const char *row_kind__name(enum row_kind kind)
{
	return kinds[kind].name;
}

const char *row_kind__title(enum row_kind kind)
{
	return kinds[kind].title;
}

void side__free(struct side *side)
{
	if (!side)
		return;
	intern__clear(&side->keys);
	free(side->rows);
	free(side->cells);
	free(side->blocks);
	free(side->value);
	free(side->program);
	free(side->event);
	free(side);
}

/* The key of a row: kind and line, then the text. */
struct row_head {
	int64_t line;
	uint32_t kind, unused;
};

int side__row(struct side *side, enum row_kind kind, const char *text, size_t length, int64_t line, uint32_t *out)
{
	_cleanup_free_ char *key = malloc(sizeof(struct row_head) + length);
	struct row_head head = { .line = line, .kind = kind };
	int ret;

	if (!key)
		return -ENOMEM;
	memcpy(key, &head, sizeof(head));
	memcpy(key + sizeof(head), text, length);
	ret = intern__add(&side->keys, key, sizeof(head) + length, out);
	if (ret <= 0)
		return ret;
	if (ARRAY_RESERVE(side->rows, side->rows_capacity, side->n + 1) ||
	    ARRAY_RESERVE(side->cells, side->cells_capacity, (side->n + 1) * side->n_blocks))
		return -ENOMEM;
	side->rows[side->n] = (struct side_row){ .kind = kind, .line = line };
	memset(side__cells(side, side->n), 0, side->n_blocks * sizeof(*side->cells));
	side->n++;
	return 0;
}

/* Texts end where the next key begins, so each is copied with its end behind it. */
static int copy_texts(struct side *side)
{
	struct intern texts = { 0 };
	int ret = 0;

	for (size_t i = 0; ret >= 0 && i < side->n; i++) {
		size_t length = intern__length(&side->keys, i);
		_cleanup_free_ char *key = calloc(1, length + 1);
		uint32_t number;

		if (!key) {
			ret = -ENOMEM;
			break;
		}
		memcpy(key, intern__key(&side->keys, i), length);
		ret = intern__add(&texts, key, length + 1, &number);
	}
	if (ret < 0) {
		intern__clear(&texts);
		return ret;
	}
	intern__clear(&side->keys);
	side->keys = texts;
	return 0;
}

int side__settle(struct side *side)
{
	int ret = copy_texts(side);

	for (size_t i = 0; !ret && i < side->n; i++) {
		const double *cells = side__cells(side, i);

		side->rows[i].text = (const char *)intern__key(&side->keys, i) + sizeof(struct row_head);
		side->rows[i].amount = 0;
		for (size_t j = 0; j < side->n_blocks; j++)
			side->rows[i].amount += cells[j];
	}
	side->all.amount = side->wall_ns = side->steps = side->step_ns = 0;
	for (size_t j = 0; j < side->n_blocks; j++) {
		side->all.amount += side->blocks[j].amount;
		side->wall_ns += side->blocks[j].wall_ns;
		side->steps += side->blocks[j].steps;
		side->step_ns += side->blocks[j].step_ns;
	}
	return ret;
}

/* Runs and blocks. */

bool side__has_blocks(const struct side *side)
{
	size_t n = 0;

	for (size_t i = 0; i < side->n_blocks; i++) {
		n = i && side->blocks[i].run == side->blocks[i - 1].run ? n + 1 : 1;
		if ((i + 1 == side->n_blocks || side->blocks[i + 1].run != side->blocks[i].run) && n < SIDE_LEAST)
			return false;
	}
	return true;
}

/* What the profiles have in common; those of one side must. */
static int check_alike(const struct side_input *inputs, size_t n, struct so_error *err)
{
	const struct profile *first = inputs[0].profile;
	const char *event = profile__comment(first, "event") ?: "";

	for (size_t i = 1; i < n; i++) {
		const struct profile *p = inputs[i].profile;

		if (p->wall != first->wall)
			return so_err(err, -EINVAL, "%s is of %s time and %s of %s time: they are not one side's",
				      inputs[0].name, first->wall ? "wall" : "CPU", inputs[i].name,
				      p->wall ? "wall" : "CPU");
		if (strcmp(profile__comment(p, "event") ?: "", event))
			return so_err(err, -EINVAL, "%s and %s are of different events: they are not one side's",
				      inputs[0].name, inputs[i].name);
	}
	return 0;
}

static bool has_time(const struct side_input *inputs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < inputs[i].profile->n_samples; j++)
			if (inputs[i].profile->samples[j].value_ns > 0)
				return true;
	return false;
}

static double rate_of(const struct side_input *inputs, size_t n)
{
	double rate = 0;

	for (size_t i = 0; i < n; i++) {
		const char *text = profile__comment(inputs[i].profile, "sample_hz");
		double hz = text ? strtod(text, NULL) : 0;

		if (!(hz > 0) || (rate > 0 && hz != rate))
			return 0;
		rate = hz;
	}
	return rate;
}

static int describe(struct side *side, const struct side_input *inputs, size_t n)
{
	const struct profile *first = inputs[0].profile;
	const char *event = profile__comment(first, "event") ?: "";

	side->measure = !has_time(inputs, n) ? SIDE_COUNT : first->wall ? SIDE_WALL : SIDE_CPU;
	side->event = strdup(event);
	side->value = strdup(*event ? "calls" : "samples");
	side->rate_hz = rate_of(inputs, n);
	side->n_runs = inputs[n - 1].run + 1;
	return side->event && side->value ? 0 : -ENOMEM;
}

int side__new(const struct side_input *inputs, size_t n, const struct summary_request *request, struct side **out,
	      struct so_error *err)
{
	_cleanup_(side) struct side *side = calloc(1, sizeof(*side));
	int ret = side ? check_alike(inputs, n, err) : so_err(err, -ENOMEM, "out of memory");

	if (ret)
		return ret;
	ret = describe(side, inputs, n);
	ret = ret ?: side__fill(side, inputs, n, request);
	ret = ret ?: side__settle(side);
	if (ret == -EINVAL)
		return so_err(err, ret, "damaged profile: its steps cannot be read");
	if (ret)
		return so_err(err, ret, ret == -EFBIG ? "too many names" : "out of memory");
	if (!(side->all.amount > 0))
		return so_err(err, -ENODATA, "%s has no samples to compare", inputs[0].name);
	*out = TAKE_PTR(side);
	return 0;
}
