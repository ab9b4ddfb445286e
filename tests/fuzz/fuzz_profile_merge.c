/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The merger of stored profiles: the input, as a message, added twice. Beyond not crashing: what was taken once can be taken
 * again unless a sum passes its limit, the sum is twice the first, and the result can itself be merged.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "daemon/profile/profile_merge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)        \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

static void merge_again(const uint8_t *message, size_t length, int64_t samples)
{
	_cleanup_(profile_merge) struct profile_merge *again = profile_merge__new();

	REQUIRE(again && profile_merge__add(again, message, length, NULL) == 0);
	REQUIRE(profile_merge__samples(again) == samples);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(profile_merge) struct profile_merge *merge = profile_merge__new();
	_cleanup_free_ uint8_t *out = NULL;
	struct so_error err = { "" };
	int64_t samples, sum;
	size_t length;
	int r;

	REQUIRE(merge);
	r = profile_merge__add(merge, data, size, &err);
	REQUIRE((r == 0) == !*err.text);
	if (r)
		return 0;
	samples = profile_merge__samples(merge);
	r = profile_merge__add(merge, data, size, &err);
	REQUIRE(r == 0 || r == -EOVERFLOW);
	if (r)
		return 0;
	sum = profile_merge__samples(merge);
	REQUIRE(sum == INT64_MAX || sum == 2 * samples);
	REQUIRE(profile_merge__finish(merge, &out, &length) == 0);
	merge_again(out, length, sum);
	return 0;
}
