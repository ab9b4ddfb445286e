/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The merger of stored profiles: the input, as a message, added twice. Beyond not crashing: what was taken once can be
 * taken again unless a sum passes its limit, the sum is twice the first, and the result can itself be merged.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "daemon/profile/profile_merge.h"
#include "stakeout/profile.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)        \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

/* Of the first values, up to INT64_MAX. */
static int64_t samples_of(struct profile_merge *merge)
{
	_cleanup_free_ uint8_t *out = NULL;
	Stakeout__Pprof__Profile *message;
	int64_t sum = 0;
	size_t length;

	REQUIRE(profile_merge__finish(merge, false, &out, &length) == 0);
	message = stakeout__pprof__profile__unpack(NULL, length, out);
	REQUIRE(message);
	for (size_t i = 0; i < message->n_sample && sum != INT64_MAX; i++)
		if (__builtin_add_overflow(sum, message->sample[i]->value[0], &sum))
			sum = INT64_MAX;
	stakeout__pprof__profile__free_unpacked(message, NULL);
	return sum;
}

static void merge_again(const uint8_t *message, size_t length, int64_t samples)
{
	_cleanup_(profile_merge) struct profile_merge *again = profile_merge__new();

	REQUIRE(again && profile_merge__add(again, message, length, NULL) == 0);
	REQUIRE(samples_of(again) == samples);
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
	samples = samples_of(merge);
	r = profile_merge__add(merge, data, size, &err);
	REQUIRE(r == 0 || r == -EOVERFLOW);
	if (r)
		return 0;
	sum = samples_of(merge);
	REQUIRE(sum == INT64_MAX || sum == 2 * samples);
	REQUIRE(profile_merge__finish(merge, false, &out, &length) == 0);
	merge_again(out, length, sum);
	return 0;
}
