// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The reader of folded stacks, and what is rendered from it, which it reads again: no count is lost but those of lines
 * that then look like comments. How to build with libFuzzer: fuzz_profile.c.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/render.h"
#include "profile/folded_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)        \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

static char *fold(const struct profile *profile, size_t *length)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, length);

	REQUIRE(out && render__folded(profile, &(struct render_options){ .threads = true }, out, NULL) == 0);
	fclose(out);
	return text;
}

static int64_t total(const struct profile *profile)
{
	int64_t sum = 0;

	for (size_t i = 0; i < profile->n_samples; i++)
		sum += profile->samples[i].count;
	return sum;
}

static void there_and_back(const struct profile *profile)
{
	_cleanup_(profile) struct profile *again = NULL;
	size_t length;
	_cleanup_free_ char *text = fold(profile, &length);

	/* A sum of many lines may have more digits than are read. */
	if (!folded_read(text, length, &again, NULL))
		REQUIRE(total(again) == total(profile) || memchr(text, '#', length));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(profile) struct profile *profile = NULL;
	struct so_error err = { "" };
	int ret = folded_read(data, size, &profile, &err);

	folded_read__is_text(data, size);
	REQUIRE((ret == 0) == !*err.text && (ret == 0) == !!profile);
	if (!ret)
		there_and_back(profile);
	return 0;
}
