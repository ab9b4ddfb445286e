// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The report on memory, of any file that claims to be one: what it says is text in lines, and JSON, whatever the
 * series, the figures and the names are.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/memory/memory_report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)        \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

static void print(const struct memory_report *report, unsigned top)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	REQUIRE(out);
	memory_report__print(report, top, out);
	REQUIRE(!fclose(out));
	for (size_t i = 0; i < length; i++)
		REQUIRE(text[i] == '\n' || ((unsigned char)text[i] >= 0x20 && text[i] != 0x7f));
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(memory_report) struct memory_report report = { .pid = 0 };
	struct so_error err = { "" };
	int ret = memory_report__read(data, size, &report, &err);
	json_t *json;
	char *text;

	REQUIRE((ret == 0) == !*err.text);
	if (ret)
		return 0;
	print(&report, 1);
	print(&report, 100000);
	json = memory_report__json(&report);
	text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	REQUIRE(text);
	free(text);
	json_decref(json);
	return 0;
}
