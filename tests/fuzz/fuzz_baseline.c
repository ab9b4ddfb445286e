// SPDX-License-Identifier: GPL-2.0-or-later
/* A baseline's file: whatever it holds, it is refused in words, or it can be compared with itself and written again. */
#include <stdlib.h>
#include <string.h>

#include "client/diff/baseline.h"
#include "client/diff/compare.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(baseline) struct baseline b = { .side = NULL };
	_cleanup_(comparison) struct comparison *comparison = NULL;
	_cleanup_free_ char *text = NULL;
	struct so_error err = { .text = "" };
	size_t length = 0;
	FILE *out;

	if (baseline__parse("a file", data, size, &b, &err)) {
		if (!*err.text)
			abort();
		return 0;
	}
	out = open_memstream(&text, &length);
	if (!out)
		return 0;
	if (!compare__new(b.side, b.side, b.unit, &comparison, &err) && compare__print(comparison, SIZE_MAX, true, out))
		abort();
	baseline__write(&b, out);
	fclose(out);
	return 0;
}
