/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Line tables written by hand, and those of real interpreters: each CPython found compiles big modules of its library
 * and odd sources, and prints the table of every code object with the line that it gives itself to each instruction.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/python/python_lines.h"
#include "stakeout/cleanup.h"
#include "tests/unit/python_target.h"

#define LEAST_INSTRUCTIONS 300000u /* fewer from one interpreter: the script did not do its work */

#define BYTES(...) (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })

static int find(uint16_t version, const uint8_t *table, size_t bytes, uint32_t instruction)
{
	/* On the heap, of its exact size: a read beyond its end is seen by the sanitizer. */
	_cleanup_free_ uint8_t *copy = malloc(bytes ? bytes : 1);

	assert_non_null(copy);
	if (bytes)
		memcpy(copy, table, bytes);
	return python_lines__find(version, copy, bytes, 100, instruction);
}

static void test_lnotab(void **state)
{
	/* Line 100 at byte 0, 101 at 6, 228 at 306 (two pairs, as the byte is full), 97 at 308. */
	static const uint8_t table[] = { 6, 1, 255, 0, 45, 127, 2, 0x80, 0, 0xfd };
	static const struct {
		uint32_t instruction;
		int line;
	} wanted[] = { { 0, 100 },   { 2, 100 },  { 3, 101 },    { 152, 101 },
		       { 153, 228 }, { 154, 97 }, { 100000, 97 } };

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		assert_int_equal(find(0x0308, table, sizeof(table), wanted[i].instruction), wanted[i].line);
		assert_int_equal(find(0x0309, table, sizeof(table), wanted[i].instruction), wanted[i].line);
	}
	assert_int_equal(find(0x0309, NULL, 0, 7), 100);
	assert_int_equal(find(0x0309, BYTES(0, 5, 0), 0), 105);
	/* Below the first line of any file. */
	assert_int_equal(find(0x0309, BYTES(0, 0x80), 0), 100);
}

static void test_pairs(void **state)
{
	/* 4 bytes of line 101, 2 without a line, 6 of 99; a change of line that covers nothing; 2 without a line. */
	static const uint8_t table[] = { 4, 1, 2, 0x80, 6, 0xfe, 0, 5, 2, 0x80, 2, 0 };
	static const int wanted[] = { 101, 101, 101, 99, 99, 99, 99, 104, 100, 100 };

	for (uint32_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		assert_int_equal(find(0x030a, table, sizeof(table), i), wanted[i]);
	assert_int_equal(find(0x030a, BYTES(2, 0x80, 2, 3), 0), 100);
	assert_int_equal(find(0x030a, BYTES(0, 3, 2, 0x80), 0), 100);
	assert_int_equal(find(0x030a, BYTES(2, 3, 9), 1), 100);
	assert_int_equal(find(0x030a, NULL, 0, 0), 100);
}

#define ENTRY(kind, length) (0x80 | (kind) << 3 | ((length)-1))

static void test_locations(void **state)
{
	static const uint8_t table[] = {
		ENTRY(15, 1),                /* 0: nothing before it */
		ENTRY(12, 2), 1,    2,       /* 1, 2: 102 */
		ENTRY(15, 8),                /* 3 to 10 */
		ENTRY(0, 1),  7,             /* 11: 102 */
		ENTRY(13, 1), 0x50, 0x06,    /* 12: 200 more, 302 */
		ENTRY(14, 1), 0x51, 0x06,    /* 13: 200 fewer, */
		0x02,         0x40, 1,    3, /*   102; last line, columns */
		ENTRY(11, 1), 1,    2,       /* 14: 103 */
	};
	static const int wanted[] = { 100, 102, 102, 102, 102, 102, 102, 102, 102,
				      102, 102, 102, 302, 102, 103, 100, 100 };

	for (uint32_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		assert_int_equal(find(0x030b, table, sizeof(table), i), wanted[i]);
	assert_int_equal(find(0x030e, table, sizeof(table), 12), 302);
	assert_int_equal(find(0x030c, table, sizeof(table), UINT32_MAX), 100);
}

static void test_damaged_locations(void **state)
{
	assert_int_equal(find(0x030b, NULL, 0, 0), 100);
	/* No entry begins here. */
	assert_int_equal(find(0x030b, BYTES(12 << 3, ENTRY(11, 1), 0, 0), 0), 100);
	/* Numbers that end too early, never, or not within 32 bits. */
	assert_int_equal(find(0x030b, BYTES(ENTRY(13, 1)), 0), 100);
	assert_int_equal(find(0x030b, BYTES(ENTRY(13, 1), 0x42), 0), 100);
	assert_int_equal(find(0x030b, BYTES(ENTRY(13, 1), 0x42, ENTRY(12, 1), 0, 0), 1), 100);
	assert_int_equal(find(0x030b, BYTES(ENTRY(13, 1), 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0), 0),
			 100);
	assert_int_equal(find(0x030b, BYTES(ENTRY(13, 1), 0x40, 0x40, 0x40, 0x40, 0x40, 5), 0), 100);
	/* Lines that no int holds, then one that it does. */
	assert_int_equal(find(0x030b,
			      BYTES(ENTRY(13, 1), 0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 3, ENTRY(10, 1), 0, 0,
				    ENTRY(13, 1), 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 3, ENTRY(11, 1), 0, 0),
			      0),
			 100);
	assert_int_equal(find(0x030b,
			      BYTES(ENTRY(13, 1), 0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 3, ENTRY(13, 1), 0x7f, 0x7f,
				    0x7f, 0x7f, 0x7f, 3, ENTRY(11, 1), 0, 0),
			      2),
			 101);
	assert_int_equal(find(0x030b, BYTES(ENTRY(13, 1), 0x51, 0x06), 0), 100);
}

/*
 * Prints for each code object: first line, number of code units, table in hexadecimal, and where a line begins
 * UNIT:LINE; "-" for no line, "*" for a unit beyond the table's end. Before it a line with the code object's name.
 */
static const char script[] =
	"import dis, os, random, sys\n"
	"old = sys.version_info < (3, 10)\n"
	"def lines_of(code):\n"
	"    n = len(code.co_code) // 2\n"
	"    lines = ['*'] * n\n"
	"    if old:\n"
	"        starts = list(dis.findlinestarts(code)) + [(2 * n, 0)]\n"
	"        ranges = [(a[0], b[0], a[1]) for a, b in zip(starts, starts[1:])]\n"
	"    else:\n"
	"        ranges = list(code.co_lines())\n"
	"    for start, end, line in ranges:\n"
	"        for unit in range((start + 1) // 2, min((end + 1) // 2, n)):\n"
	"            lines[unit] = '-' if line is None else line\n"
	"    return lines\n"
	"def show(code):\n"
	"    lines = lines_of(code)\n"
	"    table = code.co_lnotab if old else code.co_linetable\n"
	"    runs = ['%d:%s' % (i, l) for i, l in enumerate(lines) if i == 0 or l != lines[i - 1]]\n"
	"    print(code.co_name.encode('ascii', 'backslashreplace').decode()[:60].replace(' ', '_'))\n"
	"    print(code.co_firstlineno, len(lines), table.hex() or '-', *runs)\n"
	"def walk(code):\n"
	"    show(code)\n"
	"    for const in code.co_consts:\n"
	"        if hasattr(const, 'co_code'):\n"
	"            walk(const)\n"
	"def from_source(source):\n"
	"    walk(compile(source, 'odd', 'exec'))\n"
	"library = os.path.dirname(os.__file__)\n"
	"for name in ('typing argparse inspect _pydecimal tarfile turtle pydoc difflib pickletools zipfile "
	"doctest ssl '\n"
	"             'asyncio/base_events email/_header_value_parser unittest/mock logging/handlers optparse "
	"locale '\n"
	"             'encodings/cp437 html/entities').split():\n"
	"    try:\n"
	"        with open(os.path.join(library, name + '.py'), encoding='utf-8') as f:\n"
	"            from_source(f.read())\n"
	"    except FileNotFoundError:\n"
	"        pass\n";

static const char odd_sources[] =
	"from_source('''\n"
	"def f(a,\n"
	"      b=[x\n"
	"         for x in range(10)\n"
	"         if x]):\n"
	"    g(a,\n"
	"      h(b,\n"
	"        1),\n"
	"      2)(\n"
	"        lambda q:\n"
	"          q +\n"
	"          1)\n"
	"    try:\n"
	"        with a as b, c(\n"
	"            1) as d:\n"
	"            yield {k: v for k,\n"
	"                   v in b}\n"
	"    except (A,\n"
	"            B) as e:\n"
	"        raise C from e\n"
	"    except D as d:\n"
	"        pass\n"
	"    else:\n"
	"        return\n"
	"    finally:\n"
	"        for i in b:\n"
	"            if i: continue\n"
	"            break\n"
	"        else:\n"
	"            del a\n"
	"\n"
	"@decorator(\n"
	"    1)\n"
	"@other\n"
	"class K(B,\n"
	"        metaclass=M):\n"
	"    @property\n"
	"    def p(self): return (self.\n"
	"        a.\n"
	"        b)\n"
	"    async def q(self):\n"
	"        async with self as s:\n"
	"            async for t in s:\n"
	"                await t\n"
	"        return [await u async for u in s]\n"
	"''')\n"
	"from_source('''\n"
	"def \\u00fcber(\\u5909\\u6570, \\U0001d4cd):\n"
	"    class \\u7c7b:\n"
	"        def \\u00e9(self): return lambda: self\n"
	"    return \\u5909\\u6570\n"
	"def ''' + 'n' * 2000 + '''():\n"
	"    pass\n"
	"''')\n"
	"if sys.version_info >= (3, 10):\n"
	"    from_source('''\n"
	"def m(x):\n"
	"    match x:\n"
	"        case [1,\n"
	"              2, *rest] if rest:\n"
	"            return rest\n"
	"        case {'a': b,\n"
	"              **c} | {'b': b, **c}:\n"
	"            pass\n"
	"        case K(a=1) as k:\n"
	"            return k\n"
	"        case _:\n"
	"            raise E\n"
	"''')\n"
	/* Many lines, many bytes on one line, lines far apart, lines that go back by little and by much. */
	"from_source('def long():\\n' + ''.join('    a%d = b.c(%d)\\n' % (i, i) for i in range(3000)))\n"
	"from_source('x = ' + ' + '.join('a%d' % i for i in range(400)) + '\\ny = 1\\n')\n"
	"for gap in (100, 127, 128, 129, 254, 255, 256, 300, 1000, 5000, 40000, 300000):\n"
	"    from_source('a = 1\\n' + '\\n' * gap + 'b = 2\\n' + '\\n' * gap + 'def c():' + '\\n' * gap + '  "
	"d\\n')\n"
	"    from_source('f(a,' + '\\n' * gap + 'b,' + '\\n' * gap + 'c' + '\\n' * gap + ')(d)\\n')\n"
	"    from_source('x = [' + ''.join('f(' + '\\n' * (gap % 700) + 'a),' for i in range(20)) + ']\\ny = "
	"1\\n')\n";

/*
 * Tables that no compiler wrote; the interpreter still says what they mean. Addresses are even, as those of
 * instructions are; the last pair covers something, since 3.10 itself reads on behind one that does not.
 */
static const char made_up_tables[] =
	"random.seed(1)\n"
	"def varint(n):\n"
	"    return [n] if n < 64 else [n & 63 | 64] + varint(n >> 6)\n"
	"def entry():\n"
	"    kind, length, column = random.randrange(16), random.randrange(8), [random.randrange(128)]\n"
	"    line = varint(random.getrandbits(random.randrange(1, 24)))\n"
	"    end = varint(random.getrandbits(8)) + varint(random.getrandbits(12)) + "
	"varint(random.getrandbits(12))\n"
	"    rest = {10: 2 * column, 11: 2 * column, 12: 2 * column, 13: line, 14: line + end, 15: []}\n"
	"    return [128 | kind << 3 | length] + rest.get(kind, column)\n"
	"code = compile('a\\n' * 1000, 'made up', 'exec')\n"
	"for i in range(100):\n"
	"    if sys.version_info >= (3, 11):\n"
	"        table = bytes(b for j in range(random.randrange(400)) for b in entry())\n"
	"    else:\n"
	"        table = bytes(random.choice((0, 2, 4, 6, random.getrandbits(7) * 2)) if j % 2 == 0 else\n"
	"                      random.choice((0, 1, 128, random.getrandbits(8)))\n"
	"                      for j in range(2 * random.randrange(500))) + b'\\2\\1'\n"
	"    name = 'co_lnotab' if old else 'co_linetable'\n"
	"    show(code.replace(co_firstlineno=1 << 30, **{name: table}))\n"
	"print('end')\n";

struct referee {
	FILE *output;
	uint16_t version;
	char name[80];
	size_t codes, instructions, without_line;
};

static size_t parse_table(char *hex, uint8_t *table)
{
	size_t n = 0;

	if (hex[0] != '-')
		for (char *at = hex; at[0] && at[1]; at += 2, n++)
			assert_int_equal(sscanf(at, "%2hhx", &table[n]), 1);
	return n;
}

/* The instructions [from, to), which the interpreter says to have this line, or one of the words for none. */
static void compare(struct referee *referee, const uint8_t *table, size_t bytes, int first_line,
		    unsigned long from, unsigned long to, int wanted)
{
	for (unsigned long i = from; i < to; i++) {
		int found = python_lines__find(referee->version, table, bytes, first_line, (uint32_t)i);

		if (found != wanted)
			fail_msg("3.%u, %s, first line %d, instruction %lu: line %d, not %d",
				 referee->version & 0xff, referee->name, first_line, i, found, wanted);
	}
	referee->instructions += to - from;
}

static void check_code(struct referee *referee, char *text)
{
	_cleanup_free_ uint8_t *table = malloc(strlen(text));
	char *save, *token = strtok_r(text, " \n", &save);
	int first_line = atoi(token), last_line = first_line;
	unsigned long units = strtoul(strtok_r(NULL, " \n", &save), NULL, 10);
	size_t bytes = parse_table(strtok_r(NULL, " \n", &save), table);

	assert_non_null(table);
	table = realloc(table, bytes ? bytes : 1);
	token = strtok_r(NULL, " \n", &save);
	while (token) {
		unsigned long from = strtoul(token, &token, 10), to;
		char *line = token + 1;
		int wanted;

		token = strtok_r(NULL, " \n", &save);
		to = token ? strtoul(token, NULL, 10) : units;
		if (*line == '*') {
			wanted = first_line;
		} else if (*line == '-') {
			wanted = last_line;
			referee->without_line += to - from;
		} else {
			wanted = last_line = atoi(line);
		}
		compare(referee, table, bytes, first_line, from, to, wanted);
	}
	referee->codes++;
}

static void compare_with(const struct python_interpreter *interpreter)
{
	_cleanup_(python_target) struct python_target target = PYTHON_TARGET_NONE;
	_cleanup_free_ char *line = NULL, *whole = NULL;
	struct referee referee = { .version = (uint16_t)(0x0300 | interpreter->minor) };
	_cleanup_fclose_ FILE *output = NULL;
	size_t room = 0;
	bool ended = false;

	assert_true(asprintf(&whole, "%s%s%s", script, odd_sources, made_up_tables) > 0);
	assert_int_equal(python_target__start(interpreter->path, whole, &target), 0);
	output = fdopen(dup(target.output), "re");
	assert_non_null(output);
	while (getline(&line, &room, output) > 0) {
		ended = strcmp(line, "end\n") == 0;
		if (ended)
			break;
		snprintf(referee.name, sizeof(referee.name), "%.*s", (int)strcspn(line, "\n"), line);
		assert_true(getline(&line, &room, output) > 0);
		check_code(&referee, line);
	}
	assert_true(ended);
	assert_true(referee.instructions >= LEAST_INSTRUCTIONS);
	if (interpreter->minor >= 10)
		assert_true(referee.without_line > 0);
	print_message(
		"CPython 3.%u.%u: %zu code objects, %zu instructions compared, %zu of them without a line\n",
		interpreter->minor, interpreter->micro, referee.codes, referee.instructions,
		referee.without_line);
}

static void test_against_interpreters(void **state)
{
	struct python_interpreter found[PYTHON_TARGET_MAX];
	size_t n = python_target__list(found, PYTHON_TARGET_MAX);
	unsigned compared = 0;

	for (size_t i = 0; i < n; i++) {
		if (found[i].minor < 8 || found[i].minor > 14)
			continue;
		compare_with(&found[i]);
		compared++;
	}
	if (!compared)
		skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lnotab),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_locations),
		cmocka_unit_test(test_damaged_locations),
		cmocka_unit_test(test_against_interpreters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
