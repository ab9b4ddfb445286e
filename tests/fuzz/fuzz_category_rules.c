/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A user's file of categories. With libFuzzer, after `make`:
 *
 *   clang -std=gnu11 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined -I. -Iinclude \
 *     -o fuzz_category_rules tests/fuzz/fuzz_category_rules.c include/profile/category_rules.c
 *     include/profile/category_shipped.c \ include/profile/frame_pattern.c
 *   ./fuzz_category_rules -max_len=2000 tests/fuzz/corpus/category_rules
 *
 * Beyond not crashing: what is refused is told in one place and changes nothing; what is taken gives every frame
 * categories of the fitting kind.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "profile/category_rules.h"
#include "tests/fuzz/few_categories.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)        \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

static void check_rank(const struct category_rules *rules, uint32_t rank, enum category_kind kind)
{
	size_t category;

	if (rank == CATEGORY_NO_RANK)
		return;
	category = category_rules__of_rank(rules, rank);
	REQUIRE(category < category_rules__count(rules) && category_rules__kind(rules, category) == kind);
	REQUIRE(*category_rules__name(rules, category));
}

static void match(const struct category_rules *rules, const struct profile_line *line)
{
	struct category_ranks ranks;

	category_rules__match(rules, line, &ranks);
	check_rank(rules, ranks.activity, CATEGORY_ACTIVITY);
	for (int gil = 0; gil < CATEGORY_GIL_STATES; gil++) {
		check_rank(rules, ranks.mechanism[gil], CATEGORY_MECHANISM);
		check_rank(rules, ranks.leaf[gil], CATEGORY_MECHANISM);
		REQUIRE(ranks.leaf[gil] <= ranks.mechanism[gil]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct profile_line lines[] = {
		{ .function = "Logger.info",
		  .filename = "/usr/lib/python3.11/logging/__init__.py",
		  .mapping = "",
		  .python = true },
		{ .function = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		  .filename = "",
		  .mapping = "/lib/libc.so.6" },
		{ .function = "vfs_write", .filename = "", .mapping = "[kernel.kallsyms]", .kernel = true },
		{ .function = "", .filename = "", .mapping = "" },
	};
	_cleanup_(category_rules) struct category_rules *rules = NULL;
	struct so_error err = { "" };
	int r = category_rules__new((const char *)data, size, "file", &rules, &err);

	REQUIRE((r == 0) == !*err.text && (r == 0) == !!rules);
	for (size_t i = 0; !r && i < sizeof(lines) / sizeof(lines[0]); i++)
		match(rules, &lines[i]);
	return 0;
}
