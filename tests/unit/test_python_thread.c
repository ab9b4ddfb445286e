/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names that programs give their threads, in each CPython of this machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/python/python_thread.h"
#include "tests/unit/python_world.h"

/*
 * Threads stand still and say so: what they are, their descriptor, the name as it is to be read, in hexadecimal. Each
 * waits below frames of its own, so that the first one is not the innermost.
 */
static const char script[] =
	"import os, sys, threading, time, _thread\n"
	"lock, hold = threading.Lock(), threading.Lock()\n"
	"hold.acquire()\n"
	"def say(word, name):\n"
	"    with lock:\n"
	"        print(word, threading.get_ident(), name.encode('utf-8', 'backslashreplace').hex() or '-', "
	"flush=True)\n"
	"def deep(n, word, name):\n"
	"    if n:\n"
	"        return list(map(lambda _: deep(n - 1, word, name), [0]))\n"
	"    say(word, name)\n"
	"    hold.acquire()\n"
	"def start(word, thread, name, target=None):\n"
	"    thread.daemon = True\n"
	"    thread.start()\n"
	"def plain(word, given, shown=None):\n"
	"    t = threading.Thread(target=deep, name=given, args=(3, word, shown if shown is not None else given))\n"
	"    start(word, t, given)\n"
	"    return t\n"
	"plain('ascii', 'loader-3')\n"
	"plain('latin', 'caf\\u00e9')\n"
	"plain('wide', '\\u5909\\u6570 \\U00010400')\n"
	"plain('control', 'a\\nb\\x1b[31m', 'a?b?[31m')\n"
	"plain('long', 'n' * 200, 'n' * 63)\n"
	"plain('cut', '\\u5909' * 30, '\\u5909' * 21)\n"
	"class Early(threading.Thread):\n"
	"    def __init__(self, n):\n"
	"        for i in range(n):\n"
	"            setattr(self, 'before%d' % i, i)\n"
	"        super().__init__(name='early')\n"
	"    def run(self):\n"
	"        deep(2, 'early', 'early')\n"
	"class Many(Early):\n"
	"    pass\n"
	"start('early', Early(2), 'early')\n"
	"start('early', Many(60), 'early')\n"
	"class Slotted(threading.Thread):\n"
	"    __slots__ = ('one', 'two')\n"
	"    def run(self):\n"
	"        deep(2, 'slotted', 'slots')\n"
	"start('slotted', Slotted(name='slots'), 'slots')\n"
	"class Asked(threading.Thread):\n"
	"    def run(self):\n"
	"        self.__dict__['more'] = 1\n"
	"        deep(2, 'dict', 'with a dict')\n"
	"start('dict', Asked(name='with a dict'), '')\n"
	"class Whole(threading.Thread):\n"
	"    def run(self):\n"
	"        self.__dict__ = dict({7: 8}, **self.__dict__)\n"
	"        deep(2, 'general', 'of any keys')\n"
	"start('general', Whole(name='of any keys'), '')\n"
	"class Renamed(threading.Thread):\n"
	"    def run(self):\n"
	"        self.name = 'after'\n"
	"        deep(2, 'renamed', 'after')\n"
	"start('renamed', Renamed(name='before'), 'after')\n"
	"_thread.start_new_thread(deep, (2, 'none', ''))\n"
	"say('none', '')\n"
	"time.sleep(1000)\n";
#define THREADS 14

static void from_hex(const char *hex, char *out)
{
	size_t n = 0;
	unsigned byte;

	for (; *hex && sscanf(hex, "%2x", &byte) == 1; hex += 2)
		out[n++] = (char)byte;
	out[n] = '\0';
}

struct named {
	char word[16], name[512];
	uint64_t thread;
};

static void read_named(struct world *w, struct named *out)
{
	char line[MAX_LINE], hex[1024];

	read_line(w, line, sizeof(line));
	assert_int_equal(sscanf(line, "%15s %" SCNu64 " %1023s", out->word, &out->thread, hex), 3);
	from_hex(hex, out->name);
}

static void expect_name(struct world *w, const struct named *named)
{
	char name[PYTHON_THREAD_NAME_BYTES];
	int ret = python_thread__name(&w->memory, &w->process, named->thread, name);

	if (ret != (*named->name ? 0 : -ENOENT) || strcmp(name, named->name) != 0)
		fail_msg("3.%u, %s: %d '%s', not '%s'", w->process.layout.version & 0xff, named->word, ret, name,
			 named->name);
}

static void test_names(void **state)
{
	struct named named[THREADS];

	if (n_interpreters == 0)
		skip();
	for (size_t i = 0; i < n_interpreters; i++) {
		WORLD(w);

		start(&w, interpreters[i].path, script);
		for (unsigned k = 0; k < THREADS; k++)
			read_named(&w, &named[k]);
		open_world(&w);
		for (unsigned k = 0; k < THREADS; k++)
			expect_name(&w, &named[k]);
	}
}

static struct world *damaged;
static unsigned reads;

/* Now and then a word that leads elsewhere. */
static bool read_damaged(void *context, uint64_t address, void *to, size_t bytes)
{
	uint64_t garbage = (uint64_t)random() << 3;

	reads++;
	if (!foreign_memory__read(&damaged->memory, address, to, bytes))
		return false;
	if (bytes >= sizeof(garbage) && !(random() % 8))
		memcpy((char *)to + (size_t)random() % (bytes / 8) * 8,
		       random() % 2 ? &garbage : &damaged->process.runtime, sizeof(garbage));
	return true;
}

static void test_damaged_memory(void **state)
{
	const struct foreign_memory memory = { read_damaged, NULL };
	char name[PYTHON_THREAD_NAME_BYTES];
	struct named named[THREADS];

	if (n_interpreters == 0)
		skip();
	for (size_t i = 0; i < n_interpreters; i++) {
		WORLD(w);

		damaged = &w;
		start(&w, interpreters[i].path, script);
		for (unsigned k = 0; k < THREADS; k++)
			read_named(&w, &named[k]);
		open_world(&w);
		for (unsigned k = 0; k < 20 * THREADS; k++) {
			int ret;

			reads = 0;
			ret = python_thread__name(&memory, &w.process, named[k % THREADS].thread, name);
			assert_true(ret == 0 || ret == -ENOENT || ret == -EFAULT);
			assert_true(strlen(name) < sizeof(name));
			assert_true(reads < 2000);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_damaged_memory),
	};

	return cmocka_run_group_tests(tests, find_interpreters, NULL);
}
