/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code objects in whatever bytes are taken for a process's memory. The input begins with what to do: version, which
 * field of the layout is wrong and how, where the code object is, and what changes in the memory before which read.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/python/python_names.h"
#include "tests/unit/python_code_layouts.h"

#define BASE         0x7f0000010000ull
#define HEAD         12u
#define MAX_READS    16u /* for one code object */
#define CACHE_BYTES  4096u
#define CACHE_ROUNDS 8u

struct memory {
	uint8_t *bytes;
	size_t size;
	unsigned reads;
	unsigned change_at; /* 0: never */
	size_t change;
	uint8_t change_by;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_memory(void *context, uint64_t address, void *to, size_t bytes)
{
	struct memory *memory = context;
	uint64_t at = address - BASE;

	if (++memory->reads == memory->change_at && memory->change < memory->size)
		memory->bytes[memory->change] ^= memory->change_by;
	if (address < BASE || at > memory->size || bytes > memory->size - at)
		return false;
	memcpy(to, memory->bytes + at, bytes);
	return true;
}

static unsigned two(const uint8_t *data)
{
	return data[0] | (unsigned)data[1] << 8;
}

/* The layout of the version, with one field replaced. */
static struct python_layout layout_of(const uint8_t *head)
{
	struct python_layout layout = python_code_layout_of(8 + head[0] % 7);
	uint16_t *fields[] = {
		&layout.code.argcount,    &layout.code.kwonlyargcount, &layout.code.flags,
		&layout.code.firstlineno, &layout.code.filename,       &layout.code.name,
		&layout.code.qualname,    &layout.code.linetable,      &layout.str.length,
		&layout.str.state,        &layout.str.ascii_data,      &layout.str.compact_data,
		&layout.bytes.size,       &layout.bytes.data,          &layout.walker.code_sum,
		&layout.walker.sum_words,
	};

	if (head[1] & 1)
		*fields[head[4] % (sizeof(fields) / sizeof(fields[0]))] = (uint16_t)two(head + 5);
	return layout;
}

static bool is_continued(const char *text, unsigned n)
{
	while (n && (*text & 0xc0) == 0x80)
		text++, n--;
	return !n;
}

/* One character of valid UTF-8 that is shown; returns its bytes. */
static unsigned check_character(const char *text)
{
	uint8_t c = (uint8_t)*text, next = (uint8_t)text[1];

	if (c >= 0x20 && c < 0x7f)
		return 1;
	if (c >= 0xc2 && c < 0xe0 && is_continued(text + 1, 1) && !(c == 0xc2 && next < 0xa0))
		return 2;
	if (c >= 0xe0 && c < 0xf0 && is_continued(text + 1, 2) && !(c == 0xe0 && next < 0xa0) &&
	    !(c == 0xed && next >= 0xa0))
		return 3;
	if (c >= 0xf0 && c < 0xf5 && is_continued(text + 1, 3) && !(c == 0xf0 && next < 0x90) &&
	    !(c == 0xf4 && next >= 0x90))
		return 4;
	abort();
}

static void check_name(const char *name)
{
	if (strlen(name) > PYTHON_NAME_MAX_BYTES)
		abort();
	while (*name)
		name += check_character(name);
}

static void check_code(const struct python_code *code, uint16_t version)
{
	check_name(code->name);
	check_name(code->filename);
	if (code->first_line < 0 || code->linetable_bytes > PYTHON_LINETABLE_MAX_BYTES)
		abort();
	for (uint32_t i = 0; i < 300; i++)
		if (python_code__line(code, version, i) < 0)
			abort();
	if (python_code__line(code, version, SO_PYTHON_NO_INSTRUCTION) != code->first_line)
		abort();
	python_code__line(code, version, SO_PYTHON_NO_INSTRUCTION - 1);
}

static void check_same(const struct python_code *x, const struct python_code *y)
{
	if (x->sum != y->sum || strcmp(x->name, y->name) || strcmp(x->filename, y->filename) ||
	    x->first_line != y->first_line || x->linetable_bytes != y->linetable_bytes ||
	    (x->linetable_bytes && memcmp(x->linetable, y->linetable, x->linetable_bytes)))
		abort();
}

static void check_cache(const struct foreign_memory *foreign, const struct python_layout *layout,
			uint64_t address, uint64_t sum)
{
	_cleanup_(python_names) struct python_names *names = NULL;

	if (python_names__new(CACHE_BYTES, &names) < 0)
		return;
	for (unsigned i = 0; i < CACHE_ROUNDS; i++) {
		int why = 0;
		const struct python_code *code = python_names__get(names, foreign, layout, address + i / 2 * 16,
								   i / 2 ? sum + i % 3 : sum, &why);

		if (!code && why != -ESTALE && why != -EFAULT)
			abort();
		if (code)
			check_code(code, layout->version);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(python_code) struct python_code *code = NULL, *again = NULL;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct foreign_memory foreign;
	struct python_layout layout;
	struct memory memory;
	uint64_t address;
	int r;

	if (size < HEAD)
		return 0;
	bytes = malloc(size - HEAD ? size - HEAD : 1);
	if (!bytes)
		return 0;
	memcpy(bytes, data + HEAD, size - HEAD);
	memory = (struct memory){
		.bytes = bytes,
		.size = size - HEAD,
		.change_at = data[1] & 2 ? data[7] % MAX_READS : 0,
		.change = two(data + 8),
		.change_by = data[10],
	};
	layout = layout_of(data);
	foreign = (struct foreign_memory){ read_memory, &memory };
	address = BASE + two(data + 2);
	r = python_code__read(&foreign, &layout, address, 0, &code);
	if (memory.reads > MAX_READS || (r < 0 && r != -ESTALE && r != -EFAULT) || (r < 0) != !code)
		abort();
	memory.change_at = 0;
	if (code) {
		check_code(code, layout.version);
		r = python_code__read(&foreign, &layout, address, code->sum, &again);
		/* A change before the last read may have been seen by none. */
		if (r == 0 && !(data[1] & 2))
			check_same(code, again);
		if (r < 0 && !(data[1] & 2))
			abort();
		if (code->sum + 1 &&
		    python_code__read(&foreign, &layout, address, code->sum + 1, &again) != -ESTALE)
			abort();
	}
	check_cache(&foreign, &layout, address, code ? code->sum : 1);
	return 0;
}
