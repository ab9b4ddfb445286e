// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/diff/fail_rules.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/category_verdict.h"
#include "stakeout/cuda_names.h"

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

static int parse_limit(const char *text, struct fail_rule *rule, struct so_error *err)
{
	char *end;

	rule->limit = strtod(text, &end);
	if (end == text || !isfinite(rule->limit) || rule->limit < 0)
		return refuse(rule->words, "the limit is a number, 0 or more", err);
	while (isspace((unsigned char)*end))
		end++;
	rule->points = !strcmp(end, "pp");
	if (!rule->points && strcmp(end, "%"))
		return refuse(rule->words, "behind the limit stands % (of what it was) or pp (points of its share)",
			      err);
	return 0;
}

static int parse_what(const char *what, size_t length, struct fail_rule *rule, struct so_error *err)
{
	const char *colon = memchr(what, ':', length);
	size_t name = colon ? (size_t)(what + length - colon - 1) : 0;

	rule->total = length == strlen("total") && !strncmp(what, "total", length);
	if (rule->total)
		return rule->points ? refuse(rule->words, "a total has no share: % it is", err) : 0;
	if (!colon || !name || !find_kind(what, (size_t)(colon - what), &rule->kind))
		return refuse(rule->words,
			      "what may grow is total, or category:, phase:, cuda:, line:, function: or inclusive: "
			      "with a name",
			      err);
	if (name >= sizeof(rule->name))
		return refuse(rule->words, "the name is too long", err);
	memcpy(rule->name, colon + 1, name);
	rule->name[name] = '\0';
	return 0;
}

/* A name that does not exist would never fail. Rows have CUDA functions by their base names. */
static int check_name(struct fail_rule *rule, const struct category_rules *rules, const struct phases *phases,
		      struct so_error *err)
{
	struct cuda_name cuda;

	if (rule->total || (rule->kind != ROW_CATEGORY && rule->kind != ROW_PHASE && rule->kind != ROW_CUDA))
		return 0;
	if (rule->kind == ROW_CUDA) {
		if (!cuda_names__find(rule->name, strlen(rule->name), &cuda) || cuda.type != CUDA_NAME_API)
			return refuse(rule->words, "no CUDA function that stakeout watches is called so", err);
		snprintf(rule->name, sizeof(rule->name), "%s", cuda_names__base(cuda));
		return 0;
	}
	for (size_t i = 0; rule->kind == ROW_CATEGORY && i < category_verdict__count(rules); i++)
		if (!strcmp(category_verdict__name(rules, i), rule->name))
			return 0;
	for (size_t i = 0; rule->kind == ROW_PHASE && i < phases__count(phases); i++)
		if (!strcmp(phases__name(phases, i), rule->name))
			return 0;
	return refuse(rule->words,
		      rule->kind == ROW_PHASE ? "there is no such --phase"
					      : "there is no such category ('stakeout summary --print-categories')",
		      err);
}

static int parse(const char *words, struct fail_rule *rule, struct so_error *err)
{
	const char *sign = strrchr(words, '>');
	size_t length;
	int ret;

	rule->words = words;
	if (!sign)
		return refuse(words, "not of the form 'total > 3 %' or 'category:logging > 1 %'", err);
	while (isspace((unsigned char)*words))
		words++;
	length = sign > words ? (size_t)(sign - words) : 0;
	while (length && isspace((unsigned char)words[length - 1]))
		length--;
	ret = parse_limit(sign + 1, rule, err);
	return ret ?: parse_what(words, length, rule, err);
}

int fail_rules__parse(const struct option_texts *words, const struct category_rules *rules, const struct phases *phases,
		      struct fail_rules *out, struct so_error *err)
{
	int ret = 0;

	out->n = 0;
	for (size_t i = 0; !ret && i < words->n; i++) {
		struct fail_rule *rule = &out->list[out->n++];

		*rule = (struct fail_rule){ .words = words->list[i] };
		ret = parse(words->list[i], rule, err);
		ret = ret ?: check_name(rule, rules, phases, err);
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

static bool is_above(const struct fail_rule *rule, const struct compared *row)
{
	return rule->points ? 100 * (row->share_now - row->share_base) > rule->limit
			    : row->change.percent > rule->limit;
}

/* Of several rows with the name that which is hit, or else the largest. */
static void decide_row(struct fail_rule *rule, const struct comparison *c, double alpha)
{
	for (size_t i = 0; i < c->n && !rule->hit; i++) {
		const struct compared *row = &c->rows[i];

		if (row->kind != rule->kind || !is_called(row, rule->name))
			continue;
		rule->hit = row->tested && is_above(rule, row) && row->change.p <= alpha;
		if (rule->hit || !rule->row || row->share_now > rule->row->share_now)
			rule->row = row;
	}
}

int fail_rules__decide(struct fail_rules *rules, const struct comparison *c, struct so_error *err)
{
	for (size_t i = 0; i < rules->n; i++) {
		struct fail_rule *rule = &rules->list[i];
		double alpha = STATISTICS_ALPHA / (double)rules->n;

		if (!rule->total) {
			decide_row(rule, c, alpha);
			continue;
		}
		if (c->unit == COMPARE_SHARE)
			return refuse(rule->words,
				      "of shares there is no total: record both with --timeline --step, or choose "
				      "--per run or "
				      "--per second",
				      err);
		if (!c->total.tested)
			return refuse(rule->words,
				      "of these data no variation is known: record with --timeline, or give three "
				      "files a side",
				      err);
		rule->row = &c->total;
		rule->hit = is_above(rule, rule->row) && rule->row->change.p <= alpha;
	}
	return 0;
}

bool fail_rules__hit(const struct fail_rules *rules)
{
	for (size_t i = 0; i < rules->n; i++)
		if (rules->list[i].hit)
			return true;
	return false;
}

void fail_rules__print(const struct fail_rules *rules, bool markdown, FILE *out)
{
	char change[COMPARE_CHANGE_BYTES];

	if (rules->n)
		fputc('\n', out);
	for (size_t i = 0; i < rules->n; i++) {
		const struct fail_rule *rule = &rules->list[i];

		fprintf(out, "%s--fail-on '%s': %s", markdown ? "- " : "", rule->words, rule->hit ? "HIT" : "not hit");
		if (!rule->row) {
			fputs(", neither side has it\n", out);
			continue;
		}
		compare__change(&rule->row->change, change);
		fprintf(out, ", %s", change);
		if (rule->points)
			fprintf(out, ", %+.1f pp", 100 * (rule->row->share_now - rule->row->share_base));
		fputs(rule->row->tested ? "\n" : ", too few samples\n", out);
	}
}

json_t *fail_rules__json(const struct fail_rules *rules)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < rules->n; i++) {
		const struct fail_rule *rule = &rules->list[i];
		const struct change *change = rule->row ? &rule->row->change : NULL;

		if (json_array_append_new(
			    list,
			    json_pack("{s:s, s:b, s:o, s:o}", "rule", rule->words, "hit", rule->hit, "change_percent",
				      change && isfinite(change->percent) ? json_real(change->percent) : json_null(),
				      "p", change ? json_real(change->p) : json_null()))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}
