// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/diff/gates.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/category_verdict.h"

static int refuse(const char *words, const char *why, struct so_error *err)
{
	return so_err(err, -EINVAL, "--fail-on '%.100s': %s", words, why);
}

static bool find_kind(const char *word, size_t length, enum row_kind *out)
{
	for (enum row_kind kind = 0; kind < ROW_KINDS; kind++)
		if (strlen(row_kind__name(kind)) == length && !strncmp(row_kind__name(kind), word, length)) {
			*out = kind;
			return true;
		}
	return false;
}

static int parse_limit(const char *text, struct gate *gate, struct so_error *err)
{
	char *end;

	gate->limit = strtod(text, &end);
	if (end == text || !isfinite(gate->limit) || gate->limit < 0)
		return refuse(gate->words, "the limit is a number, 0 or more", err);
	while (isspace((unsigned char)*end))
		end++;
	gate->points = !strcmp(end, "pp");
	if (!gate->points && strcmp(end, "%"))
		return refuse(gate->words, "behind the limit stands % (of what it was) or pp (points of its share)",
			      err);
	return 0;
}

static int parse_what(const char *what, size_t length, struct gate *gate, struct so_error *err)
{
	const char *colon = memchr(what, ':', length);
	size_t name = colon ? (size_t)(what + length - colon - 1) : 0;

	gate->total = length == strlen("total") && !strncmp(what, "total", length);
	if (gate->total)
		return gate->points ? refuse(gate->words, "a total has no share: % it is", err) : 0;
	if (!colon || !name || !find_kind(what, (size_t)(colon - what), &gate->kind))
		return refuse(
			gate->words,
			"what may grow is total, or category:, phase:, line:, function: or inclusive: with a name",
			err);
	if (name >= sizeof(gate->name))
		return refuse(gate->words, "the name is too long", err);
	memcpy(gate->name, colon + 1, name);
	gate->name[name] = '\0';
	return 0;
}

/* A name that does not exist would never fail. */
static int check_name(const struct gate *gate, const struct category_rules *rules, const struct phases *phases,
		      struct so_error *err)
{
	if (gate->total || (gate->kind != ROW_CATEGORY && gate->kind != ROW_PHASE))
		return 0;
	for (size_t i = 0; gate->kind == ROW_CATEGORY && i < category_verdict__count(rules); i++)
		if (!strcmp(category_verdict__name(rules, i), gate->name))
			return 0;
	for (size_t i = 0; gate->kind == ROW_PHASE && i < phases__count(phases); i++)
		if (!strcmp(phases__name(phases, i), gate->name))
			return 0;
	return refuse(gate->words,
		      gate->kind == ROW_PHASE ? "there is no such --phase"
					      : "there is no such category ('stakeout summary --print-categories')",
		      err);
}

static int parse(const char *words, struct gate *gate, struct so_error *err)
{
	const char *sign = strrchr(words, '>');
	size_t length;
	int ret;

	gate->words = words;
	if (!sign)
		return refuse(words, "not of the form 'total > 3 %' or 'category:logging > 1 %'", err);
	while (isspace((unsigned char)*words))
		words++;
	length = sign > words ? (size_t)(sign - words) : 0;
	while (length && isspace((unsigned char)words[length - 1]))
		length--;
	ret = parse_limit(sign + 1, gate, err);
	return ret ?: parse_what(words, length, gate, err);
}

int gates__parse(const struct option_texts *words, const struct category_rules *rules, const struct phases *phases,
		 struct gates *out, struct so_error *err)
{
	int ret = 0;

	out->n = 0;
	for (size_t i = 0; !ret && i < words->n; i++) {
		struct gate *gate = &out->list[out->n++];

		*gate = (struct gate){ .words = words->list[i] };
		ret = parse(words->list[i], gate, err);
		ret = ret ?: check_name(gate, rules, phases, err);
	}
	return ret;
}

/* "step (env.py)" is also called "step", and a line "step (env.py:12)". */
static bool is_called(const struct compared *row, const char *name)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	size_t length = strlen(name);

	if (!strncmp(row->text, name, length) && (!row->text[length] || !strncmp(row->text + length, " (", 2)))
		return row->kind != ROW_LINE || !row->text[length];
	return !compared__text(row, text) && text->length >= length && !memcmp(text->bytes, name, length) &&
	       (text->length == length || !strncmp(text->bytes + length, ", now ", 6));
}

static bool is_above(const struct gate *gate, const struct compared *row)
{
	return gate->points ? 100 * (row->share_now - row->share_base) > gate->limit
			    : row->change.percent > gate->limit;
}

/* Of several rows with the name that which is hit, or else the largest. */
static void decide_row(struct gate *gate, const struct comparison *c, double alpha)
{
	for (size_t i = 0; i < c->n && !gate->hit; i++) {
		const struct compared *row = &c->rows[i];

		if (row->kind != gate->kind || !is_called(row, gate->name))
			continue;
		gate->hit = row->tested && is_above(gate, row) && row->change.p <= alpha;
		if (gate->hit || !gate->row || row->share_now > gate->row->share_now)
			gate->row = row;
	}
}

int gates__decide(struct gates *gates, const struct comparison *c, struct so_error *err)
{
	for (size_t i = 0; i < gates->n; i++) {
		struct gate *gate = &gates->list[i];
		double alpha = STATISTICS_ALPHA / (double)gates->n;

		if (!gate->total) {
			decide_row(gate, c, alpha);
			continue;
		}
		if (c->unit == COMPARE_SHARE)
			return refuse(gate->words,
				      "of shares there is no total: record both with --timeline --step, or choose "
				      "--per run or "
				      "--per second",
				      err);
		if (!c->total.tested)
			return refuse(gate->words,
				      "of these data no variation is known: record with --timeline, or give three "
				      "files a side",
				      err);
		gate->row = &c->total;
		gate->hit = is_above(gate, gate->row) && gate->row->change.p <= alpha;
	}
	return 0;
}

bool gates__hit(const struct gates *gates)
{
	for (size_t i = 0; i < gates->n; i++)
		if (gates->list[i].hit)
			return true;
	return false;
}

void gates__print(const struct gates *gates, bool markdown, FILE *out)
{
	char change[COMPARE_CHANGE_BYTES];

	if (gates->n)
		fputc('\n', out);
	for (size_t i = 0; i < gates->n; i++) {
		const struct gate *gate = &gates->list[i];

		fprintf(out, "%s--fail-on '%s': %s", markdown ? "- " : "", gate->words, gate->hit ? "HIT" : "not hit");
		if (!gate->row) {
			fputs(", neither side has it\n", out);
			continue;
		}
		compare__change(&gate->row->change, change);
		fprintf(out, ", %s", change);
		if (gate->points)
			fprintf(out, ", %+.1f pp", 100 * (gate->row->share_now - gate->row->share_base));
		fputs(gate->row->tested ? "\n" : ", too few samples\n", out);
	}
}

json_t *gates__json(const struct gates *gates)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < gates->n; i++) {
		const struct gate *gate = &gates->list[i];
		const struct change *change = gate->row ? &gate->row->change : NULL;

		if (json_array_append_new(
			    list,
			    json_pack("{s:s, s:b, s:o, s:o}", "gate", gate->words, "hit", gate->hit, "change_percent",
				      change && isfinite(change->percent) ? json_real(change->percent) : json_null(),
				      "p", change ? json_real(change->p) : json_null()))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}
