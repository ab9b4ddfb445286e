/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The words of --fail-on: 'total > 3 %', 'category:logging > 1 %'. A significant change above the limit is a hit. */
#ifndef STAKEOUT_CLIENT_DIFF_FAIL_RULES_H
#define STAKEOUT_CLIENT_DIFF_FAIL_RULES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "client/diff/compare.h"
#include "stakeout/options.h"

struct fail_rule {
	const char *words; /* as it was given */
	bool total;
	enum row_kind kind;
	char name[256];
	double limit; /* percent of the row's own time, or points of the share */
	bool points;
	const struct compared *row; /* that decides it; NULL: neither side has it */
	bool hit;
};

struct fail_rules {
	struct fail_rule list[OPTION_TEXTS_MAX];
	size_t n;
};

/*
 * WHAT > LIMIT, where WHAT is total or KIND:NAME (a row's kind, and its name, or a function's without its file) and
 * LIMIT a number with % (of what it was) or pp (points of the share). rules, phases: what categories and phases there
 * can be. -EINVAL, in words.
 */
int fail_rules__parse(const struct option_texts *words, const struct category_rules *rules, const struct phases *phases,
		      struct fail_rules *out, struct so_error *err);
/*
 * A rule is tested at STATISTICS_ALPHA by itself, divided by their number. The rows stay the comparison's. -EINVAL, in
 * words: one cannot be decided by these data, and would never fail.
 */
int fail_rules__decide(struct fail_rules *rules, const struct comparison *comparison, struct so_error *err);
bool fail_rules__hit(const struct fail_rules *rules);
void fail_rules__print(const struct fail_rules *rules, bool markdown, FILE *out);
/* New reference; NULL: no memory. */
json_t *fail_rules__json(const struct fail_rules *rules);

#endif
