/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The profile's reader and everything that is rendered from it, under libFuzzer:
 *
 *   clang -g -O1 -fsanitize=fuzzer,address,undefined … tests/fuzz/fuzz_profile.c client/{profile,arena,gunzip,
 *   id_index,folded,frame_text,summary,interval}.c build/stakeout/profile.pb-c.c -lprotobuf-c -lz -ljansson -lm
 *   ./fuzz_profile -max_len=4096 tests/fuzz/corpus/profile
 *
 * Beyond not crashing, the folded text must be what it promises: lines of the form "STACK COUNT", sorted, unique,
 * without control characters, whose counts add up to the profile's.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/profile.h"
#include "client/render.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)        \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

static void check_folded(const char *text, size_t length, int64_t expected)
{
	const char *previous = NULL, *end;
	size_t previous_length = 0;
	int64_t total = 0;

	for (const char *line = text; line < text + length; line = end + 1) {
		const char *blank;
		size_t n;

		end = memchr(line, '\n', length - (size_t)(line - text));
		REQUIRE(end);
		n = (size_t)(end - line);
		blank = memrchr(line, ' ', n);
		REQUIRE(blank && blank > line && strspn(blank + 1, "0123456789") == (size_t)(end - blank - 1));
		for (const char *c = line; c < end; c++)
			REQUIRE((unsigned char)*c >= 0x20);
		if (previous) {
			int r = memcmp(previous, line, previous_length < n ? previous_length : n);

			REQUIRE(r < 0 || (r == 0 && previous_length < n));
		}
		total += atoll(blank + 1);
		previous = line;
		previous_length = n;
	}
	REQUIRE(total == expected);
}

static void render(const struct profile *profile, bool threads)
{
	struct render_options options = { .threads = threads };
	int64_t expected = 0;
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	REQUIRE(out);
	for (size_t i = 0; i < profile->n_samples; i++)
		expected += profile->samples[i].count;
	REQUIRE(render__folded(profile, &options, out, NULL) == 0);
	fclose(out);
	check_folded(text, length, expected);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(profile) struct profile *profile = NULL;
	struct so_error err = { "" };
	char *text = NULL;
	size_t length = 0;
	FILE *out;
	int r = profile__read(data, size, &profile, &err);

	REQUIRE((r == 0) == !*err.text && (r == 0) == !!profile);
	if (r)
		return 0;
	render(profile, false);
	render(profile, true);
	out = open_memstream(&text, &length);
	REQUIRE(out && render__summary(profile, NULL, out, &err) == 0);
	fclose(out);
	free(text);
	return 0;
}
