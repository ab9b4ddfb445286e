/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The reader of the daemon's answer about CUDA calls, and all that is rendered from it. With libFuzzer:
 *
 *   clang -std=gnu11 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined -I. -Iinclude -o fuzz_cuda_report \
 *     tests/fuzz/fuzz_cuda_report.c build/libclient.a -ljansson -lm
 *   ./fuzz_cuda_report -max_len=8192 tests/fuzz/corpus/cuda_report
 *
 * Beyond not crashing: what is refused has words and no output; what is rendered is valid UTF-8 in lines without other
 * control characters, or JSON that can be read back.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/cuda/cuda_view.h"
#include "stakeout/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)        \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

static void check_text(const char *text, size_t length)
{
	size_t n;

	for (size_t i = 0; i < length; i += n) {
		n = utf8__sequence(text + i, length - i);
		REQUIRE(n);
		REQUIRE(n > 1 || text[i] == '\n' || (text[i] >= ' ' && text[i] != 0x7f));
		REQUIRE(n != 2 || (unsigned char)text[i] != 0xc2 || (unsigned char)text[i + 1] >= 0xa0);
	}
}

static void check_json(const char *text, size_t length)
{
	json_t *json = json_loadb(text, length, JSON_ALLOW_NUL, NULL);

	REQUIRE(json_is_object(json_object_get(json, "summary")));
	json_decref(json);
}

static __attribute__((noinline)) void render(json_t *answer, const struct cuda_view *view)
{
	struct so_error err = { "" };
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	int r;

	REQUIRE(out);
	r = cuda_report__render(answer, view, out, &err);
	fclose(out);
	if (r)
		REQUIRE(err.text[0] && !length);
	else if (view->json)
		check_json(text, length);
	else
		check_text(text, length);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct cuda_view views[] = {
		{ .json = true },
		{ .probes = true, .width = 40 },
		{ .stacks = true, .width = 1 },
		{ .stacks = true, .python_only = true, .rows = 1 },
	};
	json_t *answer = json_loadb((const char *)data, size, JSON_ALLOW_NUL, NULL);

	for (size_t i = 0; answer && i < sizeof(views) / sizeof(views[0]); i++)
		render(answer, &views[i]);
	json_decref(answer);
	return 0;
}
