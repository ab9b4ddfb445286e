// SPDX-License-Identifier: GPL-2.0-or-later
/* Unwind rules from whatever bytes are taken for machine code: the first two say where to begin. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/unwind/stack_effect.h"

#define BASE 0x7ffff7a00f00ull

struct code {
	const uint8_t *bytes;
	size_t size;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t read_code(void *context, uint64_t address, void *buf, size_t size)
{
	const struct code *code = context;
	uint64_t at = address - BASE;

	if (at >= code->size)
		return 0;
	if (size > code->size - at)
		size = code->size - at;
	memcpy(buf, code->bytes + at, size);
	return size;
}

static void check(const struct effect_rows *rows, uint64_t pc, uint64_t end)
{
	if (!effect_rows__find(rows, pc))
		abort();
	for (size_t i = 0; i < rows->n; i++) {
		const struct effect_row *row = &rows->rows[i];

		if (!row->length || row->address < BASE - 1 || row->address + row->length > end)
			abort();
		if (i && row[-1].address + row[-1].length > row->address)
			abort();
		if (row->rule.cfa_kind != SO_CFA_REG && row->rule.cfa_kind != SO_CFA_DEREF)
			abort();
		if (row->rule.cfa_reg >= SO_NREGS || row->rule.ra != SO_RA_CFA8)
			abort();
	}
}

static bool same(const struct effect_rows *x, const struct effect_rows *y)
{
	if (x->n != y->n)
		return false;
	for (size_t i = 0; i < x->n; i++)
		if (x->rows[i].address != y->rows[i].address || x->rows[i].length != y->rows[i].length ||
		    memcmp(&x->rows[i].rule, &y->rows[i].rule, sizeof(x->rows[i].rule)))
			return false;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct effect_reader *reader;
	struct effect_rows rows = { 0 }, again = { 0 };
	struct code code;
	uint64_t pc;

	if (!reader && effect_reader__new(&reader))
		abort();
	if (size < 3)
		return 0;
	code = (struct code){ data + 2, size - 2 };
	pc = BASE + (data[0] | data[1] << 8) % code.size;
	if (!stack_effect__follow(reader, read_code, &code, pc, BASE, BASE + code.size, &rows)) {
		check(&rows, pc, BASE + code.size);
		if (stack_effect__follow(reader, read_code, &code, pc, BASE, BASE + code.size, &again) ||
		    !same(&rows, &again))
			abort();
		effect_rows__release(&again);
		effect_rows__release(&rows);
	}
	if (!stack_effect__follow_return(reader, read_code, &code, pc, BASE, BASE + code.size, &rows)) {
		check(&rows, pc - 1, BASE + code.size);
		effect_rows__release(&rows);
	}
	return 0;
}
