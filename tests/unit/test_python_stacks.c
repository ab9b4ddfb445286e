/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The frames that struct so_python leads to against those that the interpreter itself tells of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/python_world.h"

/*
 * Since 3.13 a constructor that is called often runs in a frame of the interpreter's own, which it does not show to its
 * users (_Py_InitCleanup in Python/specialize.c); it says that its file is called "__init__".
 */
static int drop_hidden_frames(struct python_walked *frames, int n)
{
	int kept = 0;

	for (int i = 0; i < n; i++) {
		if (strcmp(frames[i].filename, "__init__") != 0)
			frames[kept++] = frames[i];
	}
	return kept;
}

/*
 * Names of functions that C calls end in "_c": a frame of those begins a call of the interpreter's loop, and so does
 * the outermost. Before 3.11 each frame does. A constructor may or may not. Since 3.14 threading calls a thread's
 * function, here work(), by Context.run(), which is C.
 */
static void expect_entry(const struct world *w, const struct python_walked *frame, bool outermost)
{
	size_t length = strlen(frame->name);
	bool by_c = outermost || (length > 2 && !strcmp(frame->name + length - 2, "_c"));

	if (!strcmp(frame->name, "__init__"))
		return;
	if (w->process.layout.version >= 0x030e && !strcmp(frame->name, "work"))
		by_c = true;
	if (frame->entry != (by_c || w->process.layout.version < 0x030b))
		fail_msg("3.%u: %s %s a call of the loop", w->process.layout.version & 0xff, frame->name,
			 frame->entry ? "begins" : "does not begin");
}

/* The innermost frame has gone on since it was printed: only its name is compared. */
static void expect_frames(const struct world *w, uint64_t thread, const char *text)
{
	struct python_walked frames[PYTHON_WALK_MAX];
	uint64_t state = python_walk__thread(&w->memory, &w->process, thread);
	char name[64];
	int n = 0, used = 0, i = 0;
	unsigned offset;

	assert_true(state != 0);
	/* It may still be on its way out of show(). */
	for (unsigned k = 0; k < 2000; k++) {
		n = python_walk__frames(&w->memory, &w->process.layout, &w->process.walker, state, frames);
		if (n > 0 && strcmp(frames[0].name, "show") != 0)
			break;
		usleep(1000);
	}
	n = drop_hidden_frames(frames, n);
	for (; sscanf(text, " %63[^:]:%u%n", name, &offset, &used) == 2; text += used, i++) {
		if (i >= n || strcmp(frames[i].name, name) != 0)
			fail_msg("3.%u: frame %d of %d is %s, not %s", w->process.layout.version & 0xff, i, n,
				 i < n ? frames[i].name : "missing", name);
		if (i > 0 && frames[i].instruction * 2 != offset)
			fail_msg("3.%u: %s is at %u, not at %u", w->process.layout.version & 0xff, name,
				 frames[i].instruction * 2, offset);
		expect_entry(w, &frames[i], i == n - 1);
	}
	assert_true(i > 0);
	assert_int_equal(i, n);
}

static const char stack_script[] = SHOW "class Hot:\n"
					"    def __init__(self, n):\n"
					"        if n == 3000:\n"
					"            show('main')\n"
					"            os.read(0, 1)\n"
					"def generator_c():\n"
					"    yield 1\n"
					"    for i in range(3001): Hot(i)\n"
					"def key_c(x):\n"
					"    list(generator_c())\n"
					"def middle():\n"
					"    class Body_c:\n"
					"        sorted([1], key=key_c)\n"
					"def again(n):\n"
					"    return middle() if n == 0 else again(n - 1)\n"
					"again(20)\n";

static void test_stacks(void **state)
{
	if (n_interpreters == 0)
		skip();
	for (size_t i = 0; i < n_interpreters; i++) {
		struct shown shown;
		WORLD(w);

		start(&w, interpreters[i].path, stack_script);
		read_shown(&w, &shown);
		open_world(&w);
		expect_frames(&w, shown.thread, shown.frames);
	}
}

static const char threads_script[] = SHOW "def wait():\n"
					  "    show('thread')\n"
					  "    time.sleep(1000)\n"
					  "def work(): wait()\n"
					  "for i in range(3):\n"
					  "    t = threading.Thread(daemon=True)\n"
					  "    t.run = work\n"
					  "    t.start()\n"
					  "def leaf():\n"
					  "    show('main')\n"
					  "    os.read(0, 1)\n"
					  "time.sleep(0.2)\n"
					  "leaf()\n";

/* None of them holds the lock: all sleep, and all are found nevertheless. */
static void test_threads(void **state)
{
	if (n_interpreters == 0)
		skip();
	for (size_t i = 0; i < n_interpreters; i++) {
		struct python_thread threads[16];
		struct shown shown[4];
		WORLD(w);
		int n;

		start(&w, interpreters[i].path, threads_script);
		for (unsigned k = 0; k < 4; k++)
			read_shown(&w, &shown[k]);
		open_world(&w);
		n = python_process__threads(&w.memory, &w.process, threads, 16);
		assert_int_equal(n, 4);
		for (unsigned k = 0; k < 4; k++) {
			unsigned same = 0;

			for (int j = 0; j < n; j++) {
				if (threads[j].thread_id != shown[k].thread)
					continue;
				assert_true(threads[j].native_id ==
					    (interpreters[i].minor < 11 ? 0 : shown[k].native_id));
				assert_true(threads[j].state ==
					    python_walk__thread(&w.memory, &w.process, shown[k].thread));
				same++;
			}
			assert_int_equal(same, 1);
		}
		/* Threads begin in C, so the loop's first frame is their outermost. */
		for (unsigned k = 0; k < 4; k++)
			expect_frames(&w, shown[k].thread, shown[k].frames);
		assert_int_equal(python_process__threads(&w.memory, &w.process, threads, 2), 2);
	}
}

static const char other_script[] = "try: import _interpreters as i\n"
				   "except ImportError: import _xxsubinterpreters as i\n"
				   "import os, threading\n"
				   "def caller():\n"
				   "    i.run_string(i.create(), 'import os, threading\\n'\n"
				   "        'def inner():\\n'\n"
				   "        '    print(threading.get_ident(), flush=True)\\n'\n"
				   "        '    os.read(0, 1)\\n'\n"
				   "        'inner()\\n')\n"
				   "caller()\n";

/*
 * Two thread states for one thread, one in each interpreter. The thread's own pointer is, since 3.12, to the one that
 * is running; before, to the one of the interpreter that the thread began in.
 */
static void test_other_interpreters(void **state)
{
	if (n_interpreters == 0)
		skip();
	for (size_t i = 0; i < n_interpreters; i++) {
		struct python_walked frames[PYTHON_WALK_MAX];
		struct python_thread threads[16];
		const char *innermost[2] = { "", "" };
		uint64_t thread, own;
		char line[MAX_LINE];
		WORLD(w);

		start(&w, interpreters[i].path, other_script);
		read_line(&w, line, sizeof(line));
		thread = strtoull(line, NULL, 10);
		open_world(&w);
		assert_int_equal(python_process__threads(&w.memory, &w.process, threads, 16), 2);
		assert_true(threads[0].interpreter != threads[1].interpreter);
		own = python_walk__thread(&w.memory, &w.process, thread);
		for (unsigned k = 0; k < 2; k++) {
			int n = python_walk__frames(&w.memory, &w.process.layout, &w.process.walker,
						    threads[k].state, frames);

			assert_int_equal(n, 2);
			assert_true(threads[k].thread_id == thread);
			innermost[k] = !strcmp(frames[0].name, "inner") ? "inner" : "caller";
			assert_string_equal(frames[0].name, innermost[k]);
			if (threads[k].state == own)
				assert_string_equal(innermost[k],
						    interpreters[i].minor < 12 ? "caller" : "inner");
		}
		assert_string_not_equal(innermost[0], innermost[1]);
		assert_true(own == threads[0].state || own == threads[1].state);
	}
}

/* A child that was forked by a thread that is not the main one has that thread only. */
static void test_forked_child(void **state)
{
	static const char script[] = SHOW "def work():\n"
					  "    if os.fork() == 0:\n"
					  "        show('child')\n"
					  "        os.read(0, 1)\n"
					  "        os._exit(0)\n"
					  "t = threading.Thread()\n"
					  "t.run = work\n"
					  "t.start()\n"
					  "t.join()\n"
					  "os.read(0, 1)\n";

	if (n_interpreters == 0)
		skip();
	for (size_t i = 0; i < n_interpreters; i++) {
		struct python_thread threads[16];
		struct shown shown;
		struct python_process process;
		WORLD(w);
		pid_t child;

		start(&w, interpreters[i].path, script);
		read_shown(&w, &shown);
		child = shown.pid;
		assert_true(child != w.target.pid);
		open_world(&w);
		process = w.process;
		w.memory.context = &child;
		assert_int_equal(
			python_process__open(&w.memory, &w.found.image, w.found.bias, &w.process, &w.err), 0);
		/* What was found out about the parent holds for the child. */
		assert_memory_equal(&w.process.walker, &process.walker, sizeof(process.walker));
		assert_int_equal(python_process__threads(&w.memory, &w.process, threads, 16), 1);
		expect_frames(&w, shown.thread, shown.frames);
	}
}

static bool compile_embedding(const struct python_interpreter *interpreter, const char *program)
{
	static const char source[] = "#include <Python.h>\n"
				     "int main(int argc, char **argv) {\n"
				     "    Py_Initialize();\n"
				     "    PyRun_SimpleString(argv[1]);\n"
				     "    return Py_FinalizeEx();\n"
				     "}\n";
	static const char script[] =
		"import sysconfig as s\n"
		"v = s.get_config_var\n"
		"print('-I' + s.get_path('include'), '-L' + v('LIBDIR'), '-Wl,-rpath,' + v('LIBDIR'),\n"
		"      '-lpython' + v('LDVERSION'), flush=True)\n";
	_cleanup_(python_target) struct python_target target = PYTHON_TARGET_NONE;
	char line[MAX_LINE], command[MAX_LINE + PATH_MAX];
	FILE *compiler;

	assert_int_equal(python_target__start(interpreter->path, script, &target), 0);
	if (!python_target__line(&target, line, sizeof(line)))
		return false;
	snprintf(command, sizeof(command), "cc -w -o '%s' -x c - -x none %s 2>/dev/null", program, line);
	compiler = popen(command, "w");
	assert_non_null(compiler);
	fputs(source, compiler);
	return pclose(compiler) == 0;
}

static void test_embedded(void **state)
{
	char program[] = "/tmp/stakeout-embedding-XXXXXX";
	unsigned seen = 0;
	int fd = mkstemp(program);

	assert_true(fd >= 0);
	close(fd);
	for (size_t i = 0; i < n_interpreters; i++) {
		char *argv[] = { program, (char *)stack_script, NULL };
		struct shown shown;
		WORLD(w);

		if (!compile_embedding(&interpreters[i], program))
			continue;
		assert_int_equal(python_target__run(argv, &w.target), 0);
		w.memory = (struct foreign_memory){ python_memory__read, &w.target.pid };
		read_shown(&w, &shown);
		open_world(&w);
		expect_frames(&w, shown.thread, shown.frames);
		seen++;
	}
	unlink(program);
	if (!seen)
		skip();
	print_message("embedded: %u interpreters\n", seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_other_interpreters),
		cmocka_unit_test(test_forked_child),
		cmocka_unit_test(test_embedded),
	};

	return cmocka_run_group_tests(tests, find_interpreters, NULL);
}
