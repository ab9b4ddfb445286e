/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Code objects made by hand in a piece of memory. test_python_code_live.c has those of running interpreters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/python/python_code.h"
#include "tests/unit/python_code_layouts.h"

/* A foreign memory of 64 KiB, with one code object and what belongs to it; `code` and so on are addresses. */
#define BASE 0x7f0000010000ull
#define ROOM 65536u

struct world {
	uint8_t bytes[ROOM];
	size_t used;
	struct python_layout layout;
	struct foreign_memory memory;
	uint64_t type, code, name, filename, table;
	unsigned reads;
	unsigned fail_at;   /* the read of this number, from 1, does not succeed; 0: none */
	unsigned change_at; /* before this one, change_to is put at change */
	uint64_t change, change_to;
};

static uint8_t *at(struct world *w, uint64_t address)
{
	assert_true(address >= BASE && address < BASE + ROOM);
	return w->bytes + (address - BASE);
}

static void put(struct world *w, uint64_t address, uint64_t value, size_t size)
{
	memcpy(at(w, address), &value, size);
}

static bool read_world(void *context, uint64_t address, void *to, size_t bytes)
{
	struct world *w = context;

	w->reads++;
	if (w->reads == w->change_at)
		put(w, w->change, w->change_to, 8);
	if (w->reads == w->fail_at || address < BASE || address > BASE + w->used ||
	    bytes > BASE + w->used - address)
		return false;
	memcpy(to, w->bytes + (address - BASE), bytes);
	return true;
}

static uint64_t allocate(struct world *w, size_t bytes)
{
	uint64_t address = BASE + w->used;

	w->used += (bytes + 15) / 16 * 16;
	assert_true(w->used <= ROOM);
	return address;
}

/* An object of so many bytes, with one reference. */
static uint64_t new_object(struct world *w, size_t bytes)
{
	uint64_t address = allocate(w, bytes);

	put(w, address, 1, 8);
	put(w, address + 8, w->type, 8);
	return address;
}

/* The state of a compact str: not interned, ready where there is such a bit; garbage in the padding. */
static uint32_t state_of(const struct world *w, unsigned kind, bool ascii)
{
	return 0xabcd00u << 8 | kind << 2 | 1 << 5 | (unsigned)ascii << 6 |
	       (w->layout.version < 0x030c ? 1 << 7 : 0);
}

static uint64_t new_str(struct world *w, const void *data, size_t length, unsigned kind, bool ascii)
{
	const struct python_str_layout *str = &w->layout.str;
	uint16_t begin = ascii ? str->ascii_data : str->compact_data;
	uint64_t address = new_object(w, begin + (length + 1) * kind);

	put(w, address + str->length, length, 8);
	put(w, address + str->state, state_of(w, kind, ascii), 4);
	memcpy(at(w, address + begin), data, length * kind);
	return address;
}

static uint64_t new_ascii(struct world *w, const char *text)
{
	return new_str(w, text, strlen(text), 1, true);
}

static uint64_t new_bytes(struct world *w, const void *data, size_t size)
{
	uint64_t address = new_object(w, w->layout.bytes.data + size + 1);

	put(w, address + w->layout.bytes.size, size, 8);
	memcpy(at(w, address + w->layout.bytes.data), data, size);
	return address;
}

static uint16_t name_field(const struct world *w)
{
	return w->layout.code.qualname ? w->layout.code.qualname : w->layout.code.name;
}

static void set_name(struct world *w, uint64_t name)
{
	w->name = name;
	put(w, w->code + name_field(w), name, 8);
}

static void set_table(struct world *w, uint64_t table)
{
	w->table = table;
	put(w, w->code + w->layout.code.linetable, table, 8);
}

static const unsigned minors[] = { 8, 9, 10, 11, 12, 13, 14 };
#define N_MINORS (sizeof(minors) / sizeof(minors[0]))

/* "K.method" in "/a/b.py" from line 7 on; a co_name of "method" where there is a qualified name beside it. */
static void build(struct world *w, unsigned minor)
{
	const struct python_code_layout *code;

	memset(w, 0, sizeof(*w));
	w->layout = python_code_layout_of(minor);
	w->memory = (struct foreign_memory){ read_world, w };
	code = &w->layout.code;
	allocate(w, 64);
	w->type = allocate(w, 32);
	put(w, w->type + 24, allocate(w, 16), 8);
	memcpy(at(w, w->type + 32), "code", 5);
	w->code = new_object(w, 224);
	put(w, w->code + code->argcount, 2, 4);
	put(w, w->code + code->kwonlyargcount, 1, 4);
	put(w, w->code + code->flags, 0x43, 4);
	put(w, w->code + code->firstlineno, 7, 4);
	put(w, w->code + code->name, new_ascii(w, "method"), 8);
	set_name(w, new_ascii(w, "K.method"));
	w->filename = new_ascii(w, "/a/b.py");
	put(w, w->code + code->filename, w->filename, 8);
	set_table(w, new_bytes(w, "\2\3", 2));
}

static int read_code(struct world *w, uint64_t sum, struct python_code **out)
{
	struct python_code *mark = (struct python_code *)w, *code = mark;
	int r;

	w->reads = 0;
	r = python_code__read(&w->memory, &w->layout, w->code, sum, &code);
	if (r < 0)
		assert_ptr_equal(code, mark);
	else
		*out = code;
	return r;
}

static void expect(struct world *w, int wanted)
{
	struct python_code *code = NULL;
	int r = read_code(w, 0, &code);

	if (r == 0)
		python_code__free(code);
	assert_int_equal(r, wanted);
}

static void expect_name(struct world *w, uint64_t name, const char *wanted)
{
	_cleanup_(python_code) struct python_code *code = NULL;

	set_name(w, name);
	assert_int_equal(read_code(w, 0, &code), 0);
	assert_string_equal(code->name, wanted);
}

static void test_a_code_object(void **state)
{
	for (size_t i = 0; i < N_MINORS; i++) {
		_cleanup_(python_code) struct python_code *code = NULL, *again = NULL;
		static struct world w;

		build(&w, minors[i]);
		assert_int_equal(read_code(&w, 0, &code), 0);
		assert_string_equal(code->name, "K.method");
		assert_string_equal(code->filename, "/a/b.py");
		assert_int_equal(code->first_line, 7);
		assert_int_equal(code->linetable_bytes, 2);
		assert_memory_equal(code->linetable, "\2\3", 2);
		assert_int_equal(python_code__bytes(code), sizeof(*code) + 9 + 8 + 2);
		assert_int_equal(python_code__line(code, w.layout.version, SO_PYTHON_NO_INSTRUCTION), 7);
		assert_int_not_equal(code->sum, 0);
		assert_int_equal(read_code(&w, code->sum, &again), 0);
		assert_int_equal(again->sum, code->sum);
		python_code__free(again);
		again = NULL;
		assert_int_equal(read_code(&w, code->sum + 1, &again), -ESTALE);
		/* One word of those that count. */
		put(&w, w.code + w.layout.code.firstlineno, 8, 4);
		assert_int_equal(read_code(&w, code->sum, &again), -ESTALE);
	}
}

static void test_lines(void **state)
{
	static struct world w;
	_cleanup_(python_code) struct python_code *lnotab = NULL, *pairs = NULL, *locations = NULL;

	build(&w, 8);
	assert_int_equal(read_code(&w, 0, &lnotab), 0);
	assert_int_equal(python_code__line(lnotab, 0x0308, 0), 7);
	assert_int_equal(python_code__line(lnotab, 0x0308, 1), 10);
	build(&w, 10);
	assert_int_equal(read_code(&w, 0, &pairs), 0);
	assert_int_equal(python_code__line(pairs, 0x030a, 0), 10);
	assert_int_equal(python_code__line(pairs, 0x030a, 1), 7);
	build(&w, 14);
	set_table(&w, new_bytes(&w, "\xe0\1\2", 3));
	assert_int_equal(read_code(&w, 0, &locations), 0);
	assert_int_equal(python_code__line(locations, 0x030e, 0), 9);
}

static void test_names_as_utf8(void **state)
{
	static const uint8_t latin1[] = { 'n', 0xe9, 0xff, 'a' };
	static const uint16_t two[] = {
		0x5909, 'x', 0xe9, 0xd800, 0xdcff, 0xd83d, 0xde00, 0xffff, 0x7ff, 0x800
	};
	static const uint32_t four[] = { 0x1d4cd, 0x10ffff, 'y', 0xdfff, 0x10000 };
	static const uint16_t controls[] = { 'a',  0,    '\n', 0x1b,   0x1f,   0x7f, 0x80,
					     0x85, 0x9f, 0xa0, 0x2028, 0x2029, ' ' };

	for (size_t i = 0; i < N_MINORS; i++) {
		static struct world w;

		build(&w, minors[i]);
		expect_name(&w, new_ascii(&w, ""), "");
		expect_name(&w, new_str(&w, latin1, 4, 1, false), "n\u00e9\u00ffa");
		expect_name(&w, new_str(&w, two, 10, 2, false),
			    "\u5909x\u00e9\\ud800\\udcff\\ud83d\\ude00\uffff\u07ff\u0800");
		expect_name(&w, new_str(&w, four, 5, 4, false), "\U0001d4cd\U0010ffffy\\udfff\U00010000");
		expect_name(&w, new_str(&w, controls, 13, 2, false), "a????????\u00a0?? ");
	}
}

/* A name of n times the character, which takes `bytes` of UTF-8 (or as an escape), is cut between characters. */
static void expect_cut(uint32_t c, unsigned kind, size_t bytes)
{
	static struct world w;
	_cleanup_(python_code) struct python_code *code = NULL;
	static uint8_t data[4 * 3000];

	for (size_t i = 0; i < 3000; i++)
		memcpy(data + i * kind, &c, kind);
	build(&w, 12);
	set_name(&w, new_str(&w, data, 3000, kind, c < 0x80));
	assert_int_equal(read_code(&w, 0, &code), 0);
	assert_int_equal(strlen(code->name), PYTHON_NAME_MAX_BYTES / bytes * bytes);
	for (size_t i = bytes; i < strlen(code->name); i++)
		assert_int_equal(code->name[i], code->name[i - bytes]);
}

static void test_long_names_are_cut(void **state)
{
	expect_cut('x', 1, 1);
	expect_cut(0xe9, 1, 2);
	expect_cut(0x5909, 2, 3);
	expect_cut(0x1d4cd, 4, 4);
	expect_cut(0xdc80, 2, 6);
}

static void test_implausible_str(void **state)
{
	for (size_t i = 0; i < N_MINORS; i++) {
		static struct world w;
		static const uint8_t zeros[2048];
		uint64_t state_at, length_at;

		build(&w, minors[i]);
		state_at = w.name + w.layout.str.state;
		length_at = w.name + w.layout.str.length;
		expect(&w, 0);
		put(&w, state_at, state_of(&w, 1, true) & ~(1u << 5), 4); /* not compact */
		expect(&w, -EFAULT);
		for (unsigned kind = 0; kind < 8; kind++) {
			put(&w, state_at, state_of(&w, kind, true), 4);
			expect(&w, kind == 1 ? 0 : -EFAULT);
		}
		for (unsigned kind = 0; kind < 8; kind += 3) { /* 0, 3, 6 */
			put(&w, state_at, state_of(&w, kind, false), 4);
			expect(&w, -EFAULT);
		}
		/* Not ready before 3.12, not static since. */
		put(&w, state_at, state_of(&w, 1, true) ^ 1 << 7, 4);
		expect(&w, minors[i] < 12 ? -EFAULT : 0);
		put(&w, state_at, state_of(&w, 1, true) | 3, 4);
		expect(&w, minors[i] < 12 ? -EFAULT : 0);
		put(&w, state_at, state_of(&w, 1, true), 4);
		put(&w, length_at, UINT64_MAX, 8);
		expect(&w, -EFAULT);
		put(&w, length_at, 1ull << 40, 8);
		expect(&w, -EFAULT);
		put(&w, length_at, ROOM, 8); /* 1024 of them can be read */
		expect(&w, -EFAULT);
		put(&w, length_at, 3, 8);
		expect(&w, 0);
		*at(&w, w.name + w.layout.str.ascii_data) = 0x80;
		expect(&w, -EFAULT);
		/* Lengths that cannot be, though what would be read of them is there. */
		set_name(&w, new_bytes(&w, zeros, sizeof(zeros)));
		put(&w, w.name + w.layout.str.state, state_of(&w, 1, true), 4);
		put(&w, w.name + w.layout.str.length, 1 << 24, 8);
		expect(&w, 0);
		put(&w, w.name + w.layout.str.length, (1 << 24) + 1, 8);
		expect(&w, -EFAULT);
		put(&w, w.name + w.layout.str.length, UINT64_MAX, 8);
		expect(&w, -EFAULT);
		set_name(&w, new_str(&w, (uint32_t[]){ 0x110000 }, 1, 4, false));
		expect(&w, -EFAULT);
	}
}

static void test_implausible_code(void **state)
{
	static const uint64_t bad_pointers[] = { 0,           1,          BASE + 1,      BASE - 16,
						 BASE + ROOM, 1ull << 47, UINT64_MAX - 7 };
	static struct world w;
	uint64_t moved;

	for (size_t i = 0; i < N_MINORS; i++) {
		const struct python_code_layout code = python_code_layout_of(minors[i]).code;
		const uint16_t ints[] = { code.argcount, code.kwonlyargcount, code.firstlineno, code.flags };
		uint16_t pointers[] = { code.filename, code.linetable, 0 };

		for (size_t j = 0; j < 4; j++) {
			build(&w, minors[i]);
			put(&w, w.code + ints[j], 0xffffffff, 4);
			expect(&w, -EFAULT);
		}
		pointers[2] = name_field(&w);
		for (size_t j = 0; j < 3; j++)
			for (size_t k = 0; k < sizeof(bad_pointers) / sizeof(bad_pointers[0]); k++) {
				build(&w, minors[i]);
				put(&w, w.code + pointers[j], bad_pointers[k], 8);
				expect(&w, -EFAULT);
			}
	}
	for (size_t k = 0; k < sizeof(bad_pointers) / sizeof(bad_pointers[0]); k++) {
		build(&w, 12);
		w.code = bad_pointers[k];
		expect(&w, -EFAULT);
	}
	/* Of another type. */
	build(&w, 12);
	memcpy(at(&w, w.type + 32), "coder", 6);
	expect(&w, -EFAULT);
	/* Layouts that reach too far, though the memory does not end there. */
	build(&w, 12);
	moved = new_object(&w, 1024);
	memcpy(at(&w, moved), at(&w, w.code), 224);
	w.code = moved;
	w.layout.code.filename = 504;
	put(&w, w.code + 504, w.filename, 8);
	expect(&w, 0);
	w.layout.code.filename = 512;
	put(&w, w.code + 512, w.filename, 8);
	expect(&w, -EFAULT);
	build(&w, 12);
	w.layout.code.filename = 0xfff8;
	expect(&w, -EFAULT);
	build(&w, 12);
	w.layout.str.state = 0xfff8;
	expect(&w, -EFAULT);
	build(&w, 12);
	w.layout.bytes.size = 0xfff8;
	expect(&w, -EFAULT);
}

static void test_a_freed_object(void **state)
{
	static const uint64_t links[] = { 0, 0x7f0000012340, 0x555555559ull, 0xab00000000000000 };

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		static struct world w;

		build(&w, 13);
		put(&w, w.code, links[i], 8);
		expect(&w, -ESTALE);
	}
	for (size_t i = 0; i < 3; i++) {
		/* Immortal objects of 3.12 and 3.13, of 3.14, and static ones of 3.14. */
		static const uint64_t counts[] = { 0xffffffff, 0xc0000000, 0x0004000070000000 };
		static struct world w;

		build(&w, 14);
		put(&w, w.code, counts[i], 8);
		expect(&w, 0);
	}
}

static void test_line_tables(void **state)
{
	static struct world w;
	_cleanup_(python_code) struct python_code *code = NULL;

	build(&w, 11);
	put(&w, w.table + w.layout.bytes.size, PYTHON_LINETABLE_MAX_BYTES + 1, 8);
	assert_int_equal(read_code(&w, 0, &code), 0);
	assert_null(code->linetable);
	assert_int_equal(code->linetable_bytes, 0);
	assert_int_equal(python_code__line(code, 0x030b, 3), 7);
	put(&w, w.table + w.layout.bytes.size, PYTHON_LINETABLE_MAX_BYTES, 8);
	expect(&w, -EFAULT); /* there are not that many */
	put(&w, w.table + w.layout.bytes.size, UINT64_MAX, 8);
	expect(&w, -EFAULT);
	put(&w, w.table + w.layout.bytes.size, 1ull << 50, 8);
	expect(&w, -EFAULT);
	put(&w, w.table + w.layout.bytes.size, 0, 8);
	expect(&w, 0);
}

/* Memory that goes away, or changes, between any two reads. */
static void test_changes_meanwhile(void **state)
{
	static struct world w;
	unsigned reads;

	build(&w, 12);
	expect(&w, 0);
	reads = w.reads;
	/*
	 * The object, its type and the type's name; twice two for the names, two for the table; and the object twice.
	 */
	assert_int_equal(reads, 11);
	for (unsigned i = 1; i <= reads; i++) {
		build(&w, 12);
		w.fail_at = i;
		expect(&w, -EFAULT);
		/* The last read sees a new object, whatever was made of the old one's rest. */
		build(&w, 12);
		w.change_at = i;
		w.change = w.code + w.layout.code.name;
		w.change_to = w.filename;
		expect(&w, i == 1 ? 0 : -ESTALE);
		build(&w, 12);
		w.change_at = i;
		w.change = w.code + 8;
		w.change_to = w.filename;
		expect(&w, i == 1 ? -EFAULT : -ESTALE);
		/* It was freed, and nothing else happened to it. */
		build(&w, 12);
		w.change_at = i;
		w.change = w.code;
		w.change_to = 0;
		expect(&w, -ESTALE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_code_object),     cmocka_unit_test(test_lines),
		cmocka_unit_test(test_names_as_utf8),     cmocka_unit_test(test_long_names_are_cut),
		cmocka_unit_test(test_implausible_str),   cmocka_unit_test(test_implausible_code),
		cmocka_unit_test(test_a_freed_object),    cmocka_unit_test(test_line_tables),
		cmocka_unit_test(test_changes_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
