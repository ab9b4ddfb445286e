/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>

#include "daemon/os/process_memory.h"
#include "daemon/python/python_debug_offsets.h"
#include "tests/unit/python_target.h"

static struct python_interpreter interpreters[PYTHON_TARGET_MAX];
static size_t n_interpreters;

static int find_interpreters(void **state)
{
	n_interpreters = python_target__list(interpreters, PYTHON_TARGET_MAX);
	return 0;
}

static uint16_t version_of(const struct python_interpreter *interpreter)
{
	return (uint16_t)(interpreter->major << 8 | interpreter->minor);
}

static bool supported(const struct python_interpreter *interpreter)
{
	return version_of(interpreter) >= PYTHON_LAYOUT_OLDEST &&
	       version_of(interpreter) <= PYTHON_LAYOUT_NEWEST;
}

/* Hexadecimal digits, as the scripts print bytes. */
static size_t parse_hex(const char *text, uint8_t *bytes, size_t room)
{
	size_t n = 0;

	for (unsigned byte; n < room && sscanf(text + 2 * n, "%2x", &byte) == 1; n++)
		bytes[n] = (uint8_t)byte;
	return n;
}

/* The layout of an interpreter, from the table or from what its own _PyRuntime says. */
static void layout_of(const struct python_interpreter *interpreter, struct python_layout *out)
{
	static const char script[] = "import ctypes as c\n"
				     "print(c.string_at(c.addressof(c.c_char.in_dll(c.pythonapi, "
				     "'_PyRuntime')), 1024).hex(), flush=True)\n";
	const struct python_layout *compiled_in = python_layout__of_version(version_of(interpreter));
	_cleanup_(python_target) struct python_target target = PYTHON_TARGET_NONE;
	char line[2 * PYTHON_DEBUG_OFFSETS_BYTES + 1];
	uint8_t bytes[PYTHON_DEBUG_OFFSETS_BYTES];
	struct so_error err = { "" };
	size_t n;

	if (compiled_in) {
		*out = *compiled_in;
		return;
	}
	assert_int_equal(python_target__start(interpreter->path, script, &target), 0);
	assert_true(python_target__line(&target, line, sizeof(line)));
	n = parse_hex(line, bytes, sizeof(bytes));
	assert_int_equal(n, sizeof(bytes));
	if (python_debug_offsets__read(bytes, n, out, &err) < 0)
		fail_msg("%s: %s", interpreter->path, err.text);
}

/* What the compiler makes of an interpreter's own headers: "name offset" lines. */
static const char probe[] = "#define Py_BUILD_CORE 1\n"
			    "#include <Python.h>\n"
			    "#include <stddef.h>\n"
			    "#include <stdio.h>\n"
			    "#if PY_VERSION_HEX < 0x03090000\n"
			    "#include <internal/pycore_pystate.h>\n"
			    "#else\n"
			    "#include <internal/pycore_runtime.h>\n"
			    "#include <internal/pycore_interp.h>\n"
			    "#endif\n"
			    "#if PY_VERSION_HEX < 0x030b0000\n"
			    "#include <frameobject.h>\n"
			    "#else\n"
			    "#include <internal/pycore_frame.h>\n"
			    "#endif\n"
			    "#define AT(name, type, field) printf(#name \" %zu\\n\", offsetof(type, field))\n"
			    "#define IS(name, value) printf(#name \" %zu\\n\", (size_t)(value))\n"
			    "int main(void) {\n"
			    "AT(head, _PyRuntimeState, interpreters.head);\n"
			    "AT(initialized, _PyRuntimeState, initialized);\n"
			    "AT(interp_next, PyInterpreterState, next);\n"
			    "AT(thread_prev, PyThreadState, prev);\n"
			    "AT(thread_next, PyThreadState, next);\n"
			    "AT(interp, PyThreadState, interp);\n"
			    "AT(thread_id, PyThreadState, thread_id);\n"
			    "AT(holder, struct _gil_runtime_state, last_holder);\n"
			    "AT(locked, struct _gil_runtime_state, locked);\n"
			    "AT(object_type, PyObject, ob_type);\n"
			    "AT(type_name, PyTypeObject, tp_name);\n"
			    "AT(argcount, PyCodeObject, co_argcount);\n"
			    "AT(kwonlyargcount, PyCodeObject, co_kwonlyargcount);\n"
			    "AT(flags, PyCodeObject, co_flags);\n"
			    "AT(firstlineno, PyCodeObject, co_firstlineno);\n"
			    "AT(filename, PyCodeObject, co_filename);\n"
			    "AT(name, PyCodeObject, co_name);\n"
			    "AT(length, PyASCIIObject, length);\n"
			    "AT(state, PyASCIIObject, state);\n"
			    "IS(ascii_data, sizeof(PyASCIIObject));\n"
			    "IS(compact_data, sizeof(PyCompactUnicodeObject));\n"
			    "AT(bytes_size, PyBytesObject, ob_base.ob_size);\n"
			    "AT(bytes_data, PyBytesObject, ob_sval);\n"
			    "#if PY_VERSION_HEX < 0x030a0000\n"
			    "AT(linetable, PyCodeObject, co_lnotab);\n"
			    "#else\n"
			    "AT(linetable, PyCodeObject, co_linetable);\n"
			    "#endif\n"
			    "#if PY_VERSION_HEX < 0x030c0000\n"
			    "AT(tss, _PyRuntimeState, gilstate.autoTSSkey);\n"
			    "AT(gil, _PyRuntimeState, ceval.gil);\n"
			    "#else\n"
			    "#if PY_VERSION_HEX < 0x030e0000\n"
			    "AT(tss, _PyRuntimeState, autoTSSkey);\n"
			    "IS(entry_owner, FRAME_OWNED_BY_CSTACK);\n"
			    "#else\n"
			    "IS(entry_owner, FRAME_OWNED_BY_INTERPRETER);\n"
			    "#endif\n"
			    "AT(interp_gil, PyInterpreterState, ceval.gil);\n"
			    "AT(entry, _PyInterpreterFrame, owner);\n"
			    "#endif\n"
			    "#if PY_VERSION_HEX < 0x030b0000\n"
			    "AT(threads_head, PyInterpreterState, tstate_head);\n"
			    "AT(frame, PyThreadState, frame);\n"
			    "AT(frame_code, PyFrameObject, f_code);\n"
			    "AT(frame_back, PyFrameObject, f_back);\n"
			    "AT(instruction, PyFrameObject, f_lasti);\n"
			    "#else\n"
			    "AT(threads_head, PyInterpreterState, threads.head);\n"
			    "AT(native_id, PyThreadState, native_thread_id);\n"
			    "AT(frame_back, _PyInterpreterFrame, previous);\n"
			    "AT(code_first, PyCodeObject, co_code_adaptive);\n"
			    "AT(qualname, PyCodeObject, co_qualname);\n"
			    "#if PY_VERSION_HEX < 0x030d0000\n"
			    "AT(frame, PyThreadState, cframe);\n"
			    "AT(cframe_frame, _PyCFrame, current_frame);\n"
			    "AT(frame_code, _PyInterpreterFrame, f_code);\n"
			    "AT(instruction, _PyInterpreterFrame, prev_instr);\n"
			    "#else\n"
			    "AT(frame, PyThreadState, current_frame);\n"
			    "AT(frame_code, _PyInterpreterFrame, f_executable);\n"
			    "AT(instruction, _PyInterpreterFrame, instr_ptr);\n"
			    "#endif\n"
			    "#if PY_VERSION_HEX < 0x030c0000\n"
			    "AT(entry, _PyInterpreterFrame, is_entry);\n"
			    "#endif\n"
			    "#endif\n"
			    "return 0;\n"
			    "}\n";

#define KNOWN(X)                                   \
	X("head", runtime_interpreters_head)       \
	X("tss", runtime_autotss_key)              \
	X("gil", runtime_gil)                      \
	X("initialized", runtime_initialized)      \
	X("interp_next", interp_next)              \
	X("threads_head", interp_threads_head)     \
	X("thread_prev", thread_prev)              \
	X("thread_next", thread_next)              \
	X("native_id", thread_native_id)           \
	X("object_type", object_type)              \
	X("type_name", type_name)                  \
	X("thread_id", walker.thread_id)           \
	X("frame", walker.frame)                   \
	X("cframe_frame", walker.cframe_frame)     \
	X("interp", walker.interp)                 \
	X("interp_gil", walker.interp_gil)         \
	X("holder", walker.gil_holder)             \
	X("locked", walker.gil_locked)             \
	X("frame_code", walker.frame_code)         \
	X("frame_back", walker.frame_back)         \
	X("instruction", walker.frame_instruction) \
	X("entry", walker.frame_entry)             \
	X("entry_owner", walker.entry_owner)       \
	X("code_first", walker.code_first)         \
	X("argcount", code.argcount)               \
	X("kwonlyargcount", code.kwonlyargcount)   \
	X("flags", code.flags)                     \
	X("firstlineno", code.firstlineno)         \
	X("filename", code.filename)               \
	X("name", code.name)                       \
	X("qualname", code.qualname)               \
	X("linetable", code.linetable)             \
	X("length", str.length)                    \
	X("state", str.state)                      \
	X("ascii_data", str.ascii_data)            \
	X("compact_data", str.compact_data)        \
	X("bytes_size", bytes.size)                \
	X("bytes_data", bytes.data)

#define COUNT_ONE(name, field) +1
enum { N_KNOWN = KNOWN(COUNT_ONE) };

/* Each name that the probe prints is one of ours and says the same; those that it does not print are 0 here. */
static void compare(const struct python_interpreter *interpreter, const struct python_layout *layout,
		    FILE *offsets)
{
	bool seen[N_KNOWN] = { false };
	char name[64];
	size_t value, at;

	while (fscanf(offsets, "%63s %zu", name, &value) == 2) {
		bool known = false;

		at = 0;
#define X(text, field)                                                                    \
	if (!strcmp(name, text)) {                                                        \
		if (layout->field != value)                                               \
			fail_msg("%s: %s is %zu, not %u", interpreter->path, text, value, \
				 (unsigned)layout->field);                                \
		known = seen[at] = true;                                                  \
	}                                                                                 \
	at++;
		KNOWN(X)
#undef X
		if (!known)
			fail_msg("what is %s?", name);
	}
	at = 0;
#define X(text, field)                    \
	if (!seen[at++] && layout->field) \
		fail_msg("%s: %s is not there, and here %u", interpreter->path, text, (unsigned)layout->field);
	KNOWN(X)
#undef X
}

static bool compile_probe(const struct python_interpreter *interpreter, const char *program)
{
	static const char script[] = "import sysconfig; print(sysconfig.get_path('include'), flush=True)";
	_cleanup_(python_target) struct python_target target = PYTHON_TARGET_NONE;
	char include[PATH_MAX], command[2 * PATH_MAX + 128];
	FILE *compiler;

	assert_int_equal(python_target__start(interpreter->path, script, &target), 0);
	if (!python_target__line(&target, include, sizeof(include)))
		return false;
	snprintf(command, sizeof(command), "%s/internal/pycore_interp.h", include);
	if (access(command, R_OK) < 0) {
		snprintf(command, sizeof(command), "%s/internal/pycore_pystate.h", include);
		if (access(command, R_OK) < 0)
			return false;
	}
	snprintf(command, sizeof(command), "cc -w -x c -I'%s' -o '%s' -", include, program);
	compiler = popen(command, "w");
	assert_non_null(compiler);
	fputs(probe, compiler);
	return pclose(compiler) == 0;
}

static void test_against_headers(void **state)
{
	char program[] = "/tmp/stakeout-python-probe-XXXXXX";
	unsigned compared = 0;
	int fd = mkstemp(program);

	assert_true(fd >= 0);
	close(fd);
	for (size_t i = 0; i < n_interpreters; i++) {
		struct python_layout layout;
		FILE *offsets;

		if (!supported(&interpreters[i]) || !compile_probe(&interpreters[i], program))
			continue;
		layout_of(&interpreters[i], &layout);
		assert_int_equal(layout.version, version_of(&interpreters[i]));
		assert_int_equal(layout.walker.version, layout.version);
		offsets = popen(program, "r");
		assert_non_null(offsets);
		compare(&interpreters[i], &layout, offsets);
		assert_int_equal(pclose(offsets), 0);
		compared++;
	}
	unlink(program);
	if (!compared)
		skip();
}

/* A code object, run often and under all that watches code; its address is printed before and after. */
static const char busy_script[] = "import sys, os, weakref, gc\n"
				  "def f(a, b=1, *c, d=2, **e):\n"
				  "    x = [a for a in (1, 2)]\n"
				  "    return len(x) + b + d\n"
				  "def g():\n"
				  "    for i in range(20000):\n"
				  "        f(i, d=3)\n"
				  "def h(*a):\n"
				  "    return h\n"
				  "print(id(f.__code__), flush=True)\n"
				  "os.read(0, 1)\n"
				  "g()\n"
				  "sys.setprofile(h); g(); sys.setprofile(None)\n"
				  "sys.settrace(h); g(); sys.settrace(None)\n"
				  "if hasattr(sys, 'monitoring'):\n"
				  "    m = sys.monitoring\n"
				  "    m.use_tool_id(3, 'x')\n"
				  "    m.register_callback(3, m.events.LINE, h)\n"
				  "    m.register_callback(3, m.events.CALL, h)\n"
				  "    m.set_events(3, m.events.LINE | m.events.CALL)\n"
				  "    g()\n"
				  "    m.set_local_events(3, f.__code__, m.events.PY_START)\n"
				  "    g()\n"
				  "    m.set_events(3, 0)\n"
				  "    m.free_tool_id(3)\n"
				  "r = weakref.ref(f.__code__)\n"
				  "f.__code__.co_code, f.__code__.co_varnames, f.__code__.co_lines if "
				  "hasattr(f.__code__, 'co_lines') else 0\n"
				  "hash(f.__code__)\n"
				  "k = {f.__code__: 1}\n"
				  "f.__defaults__ = (7,)\n"
				  "gc.collect()\n"
				  "g(); g(); g()\n"
				  "print(id(f.__code__), flush=True)\n"
				  "os.read(0, 1)\n";

struct seen_code {
	uint64_t address, sum;
	uint8_t bytes[256];
};

static void read_code(struct python_target *target, const struct so_python *walker, struct seen_code *out)
{
	uint64_t words[SO_PYTHON_SUM_WORDS];
	char line[64];

	assert_true(python_target__line(target, line, sizeof(line)));
	out->address = strtoull(line, NULL, 10);
	assert_int_equal(process_memory__read(target->pid, out->address + walker->code_sum, words, sizeof(words)),
			 sizeof(words));
	assert_int_equal(process_memory__read(target->pid, out->address, out->bytes, sizeof(out->bytes)),
			 sizeof(out->bytes));
	out->sum = so_python_sum((const __u64 *)words, walker->sum_words);
}

static void test_checksum_stays(void **state)
{
	unsigned looked_at = 0;

	for (size_t i = 0; i < n_interpreters; i++) {
		_cleanup_(python_target) struct python_target target = PYTHON_TARGET_NONE;
		struct seen_code before, after;
		struct python_layout layout;

		if (!supported(&interpreters[i]))
			continue;
		layout_of(&interpreters[i], &layout);
		assert_int_equal(python_target__start(interpreters[i].path, busy_script, &target), 0);
		read_code(&target, &layout.walker, &before);
		assert_true(python_target__say(&target, "."));
		read_code(&target, &layout.walker, &after);
		assert_true(before.address == after.address);
		if (before.sum != after.sum)
			fail_msg("%s: the checksum has changed", interpreters[i].path);
		/* Something did change in the object, so not all of it could have been taken. */
		assert_memory_not_equal(before.bytes + 16, after.bytes + 16, sizeof(before.bytes) - 16);
		looked_at++;
	}
	if (!looked_at)
		skip();
}

/* Each word that counts tells one object from another; the others do not count. */
static void test_checksum_takes_its_words(void **state)
{
	for (uint16_t version = 0x0308; version <= 0x030c; version++) {
		const struct python_layout *layout = python_layout__of_version(version);
		__u64 words[SO_PYTHON_SUM_WORDS] = { 0 };
		unsigned counted = 0;
		uint64_t sum;

		assert_non_null(layout);
		sum = so_python_sum(words, layout->walker.sum_words);
		for (unsigned i = 0; i < SO_PYTHON_SUM_WORDS; i++) {
			bool counts = layout->walker.sum_words >> i & 1;

			words[i] = 1;
			assert_int_equal(so_python_sum(words, layout->walker.sum_words) != sum, counts);
			words[i] = 0;
			counted += counts;
		}
		assert_true(counted >= 13);
		assert_true(layout->walker.sum_words < 1 << SO_PYTHON_SUM_WORDS);
		/* All that names a code object is among them. */
		for (unsigned k = 0; k < 5; k++) {
			const uint16_t fields[] = { layout->code.argcount, layout->code.firstlineno,
						    layout->code.filename, layout->code.name,
						    layout->code.linetable };
			unsigned word = (fields[k] - layout->walker.code_sum) / 8u;

			assert_true(fields[k] >= layout->walker.code_sum && word < SO_PYTHON_SUM_WORDS);
			assert_true(layout->walker.sum_words >> word & 1);
		}
	}
}

static void test_frames_fit(void **state)
{
	for (uint16_t version = 0x0308; version <= 0x030c; version++) {
		const struct so_python *w = &python_layout__of_version(version)->walker;
		unsigned instruction = w->flags & SO_PYTHON_LASTI ? 4 : 8;

		assert_true(w->frame_bytes <= SO_PYTHON_FRAME_BYTES);
		assert_true(w->frame_code + 8 <= w->frame_bytes && w->frame_code % 8 == 0);
		assert_true(w->frame_back + 8 <= w->frame_bytes && w->frame_back % 8 == 0);
		assert_true(w->frame_instruction + instruction <= w->frame_bytes &&
			    w->frame_instruction % instruction == 0);
		assert_true(w->frame_entry < w->frame_bytes);
	}
	assert_null(python_layout__of_version(0x0307));
	assert_null(python_layout__of_version(0x030d));
	assert_null(python_layout__of_version(0));
}

static void test_frame_words(void **state)
{
	static const uint64_t codes[] = { 0x7fffffffffe8, 0x7f0000000008, 0x1000, 0x555555554010 };

	for (unsigned i = 0; i < 4; i++) {
		for (unsigned entry = 0; entry < 2; entry++) {
			uint64_t word = SO_PYTHON_FRAME(codes[i], entry, 0x12345u);

			assert_true(SO_PYTHON_FRAME_CODE(word) == codes[i]);
			assert_int_equal(SO_PYTHON_FRAME_ENTRY(word), entry);
			assert_int_equal(SO_PYTHON_FRAME_INSTRUCTION(word), 0x12345);
			word = SO_PYTHON_FRAME(codes[i], entry, SO_PYTHON_NO_INSTRUCTION);
			assert_true(SO_PYTHON_FRAME_CODE(word) == codes[i]);
			assert_int_equal(SO_PYTHON_FRAME_INSTRUCTION(word), SO_PYTHON_NO_INSTRUCTION);
		}
	}
}

static void expect_version(uint32_t version, const char *wanted)
{
	struct so_error err = { "" };

	if (!wanted) {
		assert_int_equal(python_layout__check_version(version, &err), 0);
		return;
	}
	assert_int_equal(python_layout__check_version(version, &err), -ENOTSUP);
	if (!strstr(err.text, wanted))
		fail_msg("\"%s\" does not name \"%s\"", err.text, wanted);
}

static void test_versions(void **state)
{
	expect_version(0x030812f0, NULL);
	expect_version(0x03080000, NULL);
	expect_version(0x030e00f0, NULL);
	expect_version(0x030710f0, "CPython 3.7.16 is not");
	expect_version(0x03070000, "CPython 3.7 is not");
	expect_version(0x020712f0, "CPython 2.7.18 is not");
	expect_version(0x030f00a2, "CPython 3.15.0a2 (pre-release)");
	expect_version(0x030f00f0, NULL);
	expect_version(0x031000f0, "CPython 3.16.0 is not");
	expect_version(0x030e00b4, "CPython 3.14.0b4 (pre-release)");
	expect_version(0x030b00c1, "CPython 3.11.0rc1 (pre-release)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_headers),
		cmocka_unit_test(test_checksum_stays),
		cmocka_unit_test(test_checksum_takes_its_words),
		cmocka_unit_test(test_frames_fit),
		cmocka_unit_test(test_frame_words),
		cmocka_unit_test(test_versions),
	};

	return cmocka_run_group_tests(tests, find_interpreters, NULL);
}
