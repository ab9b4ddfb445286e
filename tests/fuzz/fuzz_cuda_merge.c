/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adding up stored CUDA documents, and the client's reader of what comes out. With libFuzzer:
 *
 *   clang -std=gnu11 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined -I. -Iinclude -o fuzz_cuda_merge \
 *     tests/fuzz/fuzz_cuda_merge.c build/libdaemon.a build/libclient.a -ljansson -lm
 *   ./fuzz_cuda_merge -max_len=8192 tests/fuzz/corpus/cuda_merge
 *
 * The input is one document, or an array of them. Beyond not crashing: what is refused leaves nothing behind; a sum can
 * be added again in both forms and stays the same but for what is summed anew; and the client understands it.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

#include "cuda/cuda_report.h"
#include "daemon/history/cuda_merge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)        \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

static void add(struct cuda_merge *m, const json_t *document)
{
	json_t *before = cuda_merge__finish(m, true), *after;
	int check = cuda_merge__check(document), r = cuda_merge__add(m, document);

	REQUIRE(r == check);
	if (r) {
		after = cuda_merge__finish(m, true);
		REQUIRE(json_equal(before, after));
		json_decref(after);
	}
	json_decref(before);
}

static json_t *again(const json_t *sum, bool stored)
{
	struct cuda_merge *m = cuda_merge__new();
	json_t *out;

	REQUIRE(!cuda_merge__add(m, sum));
	out = cuda_merge__finish(m, stored);
	cuda_merge__free(m);
	return out;
}

/*
 * Means are quotients: once more through the other form they may differ in the last digit, so only their being there
 * counts.
 */
static void check_sum(const struct cuda_merge *m)
{
	json_t *plain = cuda_merge__finish(m, false), *stored = cuda_merge__finish(m, true),
	       *from_stored = again(stored, false), *from_plain = again(plain, false);
	static const char *const exact[] = { "calls", "errors",   "lines",      "allocations", "libraries",
					     "lost",  "problems", "duration_s", "pid",         "comm" };
	struct cuda_report *report = NULL;
	struct so_error err = { "" };

	REQUIRE(plain && stored && from_stored && from_plain);
	for (size_t i = 0; i < sizeof(exact) / sizeof(exact[0]); i++) {
		REQUIRE(json_equal(json_object_get(plain, exact[i]), json_object_get(from_stored, exact[i])));
		REQUIRE(json_equal(json_object_get(plain, exact[i]), json_object_get(from_plain, exact[i])));
	}
	/* Names of functions are more than texts to it. */
	if (cuda_report__read(plain, &report, &err))
		REQUIRE(err.text[0]);
	cuda_report__free(report);
	json_decref(plain);
	json_decref(stored);
	json_decref(from_stored);
	json_decref(from_plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *input = json_loadb((const char *)data, size, JSON_ALLOW_NUL, NULL), *document;
	struct cuda_merge *m = cuda_merge__new();
	size_t i;

	if (input && !json_is_array(input))
		add(m, input);
	json_array_foreach (input, i, document)
		add(m, document);
	check_sum(m);
	cuda_merge__free(m);
	json_decref(input);
	return 0;
}
