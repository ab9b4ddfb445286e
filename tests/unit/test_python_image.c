/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>

#include "daemon/python/python_version.h"
#include "tests/unit/python_memory.h"
#include "tests/unit/python_target.h"

static struct python_interpreter interpreters[PYTHON_TARGET_MAX];
static size_t n_interpreters;
static char folder[] = "/tmp/stakeout-python-image-XXXXXX";

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int set_up(void **state)
{
	n_interpreters = python_target__list(interpreters, PYTHON_TARGET_MAX);
	return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
	return nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static const struct debug_root everywhere = { "/", NULL, 0 };

static int read_path(const char *path, const char *name, const char *debug_root, struct python_image *image,
		     struct so_error *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return python_image__read(fd, name ? name : path,
				  debug_root ? &(struct debug_root){ debug_root, NULL, 0 } : NULL, image, err);
}

static __attribute__((format(printf, 1, 2))) bool run(const char *format, ...)
{
	char command[4 * PATH_MAX];
	va_list ap;

	va_start(ap, format);
	vsnprintf(command, sizeof(command), format, ap);
	va_end(ap);
	return system(command) == 0;
}

/* The path of the file that holds an interpreter, as the interpreter's own process has it. */
static bool find_file(const struct python_interpreter *interpreter, char *path, size_t size)
{
	static const char script[] = "import ctypes as c, os\n"
				     "a = c.addressof(c.c_char.in_dll(c.pythonapi, 'PyType_Type'))\n"
				     "for line in open('/proc/self/maps'):\n"
				     "    low, high = (int(x, 16) for x in line.split()[0].split('-'))\n"
				     "    if low <= a < high:\n"
				     "        print(line.split()[-1], flush=True)\n";
	_cleanup_(python_target) struct python_target target = PYTHON_TARGET_NONE;

	assert_int_equal(python_target__start(interpreter->path, script, &target), 0);
	return python_target__line(&target, path, size);
}

/* The first one of that minor version, as its file. */
static bool find_version(unsigned minor, char *path, size_t size)
{
	for (size_t i = 0; i < n_interpreters; i++) {
		if (interpreters[i].minor == minor && find_file(&interpreters[i], path, size))
			return true;
	}
	return false;
}

static const char addresses_script[] = "import ctypes as c, os\n"
				       "def at(name): return c.addressof(c.c_char.in_dll(c.pythonapi, name))\n"
				       "print(at('_PyRuntime'), at('_PyEval_EvalFrameDefault'), flush=True)\n"
				       "os.read(0, 1)\n";

static void test_in_processes(void **state)
{
	unsigned found_any = 0;

	for (size_t i = 0; i < n_interpreters; i++) {
		const struct python_interpreter *interpreter = &interpreters[i];
		_cleanup_(python_target) struct python_target target = PYTHON_TARGET_NONE;
		struct python_found found = { .files = 0 };
		uint64_t runtime, loop;
		unsigned holds = 0;
		char line[256];
		int r;

		if (interpreter->minor < 8)
			continue;
		assert_int_equal(python_target__start(interpreter->path, addresses_script, &target), 0);
		assert_true(python_target__line(&target, line, sizeof(line)));
		assert_int_equal(sscanf(line, "%" SCNu64 " %" SCNu64, &runtime, &loop), 2);
		r = python_memory__find(target.pid, &found);
		if (r < 0)
			fail_msg("%s: %d %s", interpreter->path, r, found.err.text);
		assert_int_equal(found.files, 1);
		assert_true(found.image.runtime + found.bias == runtime);
		assert_int_equal(found.image.version,
				 interpreter->major << 24 | interpreter->minor << 16 | interpreter->micro << 8 | 0xf0);
		assert_true(found.image.n_loops >= 1);
		for (unsigned k = 0; k < found.image.n_loops; k++) {
			assert_true(found.image.loops[k].low < found.image.loops[k].high);
			holds += loop - found.bias >= found.image.loops[k].low &&
				 loop - found.bias < found.image.loops[k].high;
		}
		assert_int_equal(holds, 1);
		found_any++;
	}
	if (!found_any)
		skip();
}

static void test_old_versions_are_refused(void **state)
{
	unsigned refused = 0;

	for (size_t i = 0; i < n_interpreters; i++) {
		_cleanup_(python_target) struct python_target target = PYTHON_TARGET_NONE;
		struct python_found found;
		char line[256], wanted[64];

		if (interpreters[i].minor >= 8)
			continue;
		assert_int_equal(
			python_target__start(interpreters[i].path, "print('ready', flush=True); input()", &target), 0);
		assert_true(python_target__line(&target, line, sizeof(line)));
		assert_int_equal(python_memory__find(target.pid, &found), -ENOTSUP);
		assert_int_equal(found.files, 1);
		snprintf(wanted, sizeof(wanted), "CPython 3.%u.%u is not supported", interpreters[i].minor,
			 interpreters[i].micro);
		if (!strstr(found.err.text, wanted))
			fail_msg("\"%s\" does not say \"%s\"", found.err.text, wanted);
		refused++;
	}
	if (!refused)
		skip();
}

static void test_other_files(void **state)
{
	static const char *const paths[] = { "/proc/self/exe", "/etc/passwd", "/dev/null", "/usr/bin/env" };
	struct python_image image = { .runtime = 0x1234 };
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };
	unsigned files = 0;
	struct so_error err;

	for (unsigned i = 0; i < 4; i++) {
		if (access(paths[i], R_OK) == 0)
			assert_int_equal(read_path(paths[i], NULL, "/", &image, &err), -ENOENT);
	}
	assert_int_equal(proc_maps__read(getpid(), true, &maps, &err), 0);
	for (size_t i = 0; i < maps.n; i++) {
		_cleanup_close_ int fd = maps.maps[i].inode ? proc_maps__open_file(getpid(), &maps.maps[i]) : -1;

		if (fd < 0)
			continue;
		assert_int_equal(python_image__read(fd, maps.maps[i].path, &everywhere, &image, &err), -ENOENT);
		files++;
	}
	assert_true(files > 3);
	assert_true(image.runtime == 0x1234);
}

/* 3.8 to 3.10 are told by a text in them: neither a name that says nothing nor one that says something else counts. */
static void test_names_do_not_count(void **state)
{
	unsigned seen = 0;

	for (unsigned minor = 8; minor <= 10; minor++) {
		struct python_image image;
		struct so_error err = { "" };
		char path[PATH_MAX];

		if (!find_version(minor, path, sizeof(path)))
			continue;
		assert_int_equal(read_path(path, "/opt/app/engine", NULL, &image, &err), 0);
		assert_int_equal(image.version >> 16, 0x0300 | minor);
		assert_int_equal(image.version & 0xff, 0xf0);
		assert_int_equal(read_path(path, "/opt/lib/libpython3.7m.so.1.0", NULL, &image, &err), 0);
		assert_int_equal(image.version >> 16, 0x0300 | minor);
		seen++;
	}
	if (!seen)
		skip();
}

static void expect_same_loops(const struct python_image *a, const struct python_image *b)
{
	assert_int_equal(a->n_loops, b->n_loops);
	for (unsigned i = 0; i < a->n_loops; i++) {
		unsigned same = 0;

		for (unsigned k = 0; k < b->n_loops; k++)
			same += a->loops[i].low == b->loops[k].low && a->loops[i].high == b->loops[k].high;
		assert_int_equal(same, 1);
	}
}

/*
 * Without names a part is found by the branches that lead to it. To remains of a few bytes, which gcc leaves behind
 * where it has found that no case of a switch gets there, none leads.
 */
static void expect_parts(const struct python_image *found, const struct python_image *named)
{
	uint64_t missing = 0;

	for (unsigned i = 0; i < named->n_loops; i++)
		missing += named->loops[i].high - named->loops[i].low;
	for (unsigned i = 0; i < found->n_loops; i++) {
		unsigned same = 0;

		for (unsigned k = 0; k < named->n_loops; k++)
			same += found->loops[i].low == named->loops[k].low &&
				found->loops[i].high == named->loops[k].high;
		assert_int_equal(same, 1);
		missing -= found->loops[i].high - found->loops[i].low;
	}
	assert_in_range(missing, 0, 15);
}

/* What is left without .symtab, and what a separate debug file gives back: the loop's .cold part among it. */
static void test_stripped(void **state)
{
	unsigned seen = 0, in_parts = 0;

	for (size_t i = 0; i < n_interpreters; i++) {
		struct python_image whole, stripped, found;
		char path[PATH_MAX], copy[PATH_MAX], root[PATH_MAX];
		struct so_error err = { "" };
		struct elf_file elf;
		int fd;

		if (interpreters[i].minor < 8 || !find_file(&interpreters[i], path, sizeof(path)))
			continue;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(elf_file__read(fd, &elf, NULL), 0);
		close(fd);
		assert_int_equal(read_path(path, NULL, NULL, &whole, &err), 0);
		snprintf(copy, sizeof(copy), "%s/libpython.so", folder);
		snprintf(root, sizeof(root), "%s/root", folder);
		if (!elf.build_id[0] || !run("strip -o '%s' '%s'", copy, path) ||
		    !run("mkdir -p '%s/usr/lib/debug/.build-id/%.2s' && objcopy --only-keep-debug '%s' "
			 "'%s/usr/lib/debug/.build-id/%.2s/%s.debug'",
			 root, elf.build_id, path, root, elf.build_id, elf.build_id + 2))
			continue;
		assert_int_equal(read_path(copy, path, NULL, &stripped, &err), 0);
		assert_true(stripped.runtime == whole.runtime);
		assert_int_equal(stripped.version, whole.version);
		expect_parts(&stripped, &whole);
		assert_int_equal(read_path(copy, path, root, &found, &err), 0);
		expect_same_loops(&found, &whole);
		in_parts += found.n_loops > 1;
		seen++;
		run("rm -rf '%s' '%s'", copy, root);
	}
	if (!seen)
		skip();
	print_message("%u interpreters stripped, %u of them with a loop in parts\n", seen, in_parts);
}

static const char *const embedding = "#include <Python.h>\n"
				     "int main(int argc, char **argv) {\n"
				     "    Py_Initialize();\n"
				     "    PyRun_SimpleString(argv[1]);\n"
				     "    return Py_FinalizeEx();\n"
				     "}\n";

/* Compiles a program with an interpreter linked in; false where the static library, or another one, is not there. */
static bool link_statically(const struct python_interpreter *interpreter, const char *program)
{
	static const char script[] =
		"import sysconfig as s\n"
		"v = s.get_config_var\n"
		"print('-I' + s.get_path('include'), '-o', '%s', '-x', 'c', '-', '-x', 'none',\n"
		"      v('LIBPL') + '/' + v('LIBRARY'), v('LIBS') or '', v('SYSLIBS') or '', v('MODLIBS') or "
		"'',\n"
		"      '-lm -ldl -lutil -lpthread', flush=True)\n";
	_cleanup_(python_target) struct python_target target = PYTHON_TARGET_NONE;
	char text[sizeof(script) + PATH_MAX], line[4096], command[4200];
	FILE *compiler;

	snprintf(text, sizeof(text), script, program);
	assert_int_equal(python_target__start(interpreter->path, text, &target), 0);
	if (!python_target__line(&target, line, sizeof(line)))
		return false;
	snprintf(command, sizeof(command), "cc -w -no-pie %s 2>/dev/null", line);
	compiler = popen(command, "w");
	assert_non_null(compiler);
	fputs(embedding, compiler);
	return pclose(compiler) == 0;
}

/*
 * A program that exports nothing: with its symbols, with its section headers only, and with neither, where there is an
 * interpreter that nobody can find.
 */
static void test_linked_in(void **state)
{
	char program[PATH_MAX], stripped[PATH_MAX];
	struct python_image image, named;
	struct so_error err = { "" };
	bool seen = false;

	snprintf(program, sizeof(program), "%s/embedding", folder);
	snprintf(stripped, sizeof(stripped), "%s/stripped", folder);
	for (size_t i = 0; i < n_interpreters; i++) {
		const struct python_interpreter *interpreter = &interpreters[i];
		uint32_t version = interpreter->major << 24 | interpreter->minor << 16 | interpreter->micro << 8 | 0xf0;

		if (interpreter->minor < 8 || !link_statically(interpreter, program))
			continue;
		assert_int_equal(read_path(program, NULL, NULL, &named, &err), 0);
		assert_int_equal(named.version, version);
		assert_true(named.n_loops >= 1);
		assert_true(run("strip -o '%s' '%s'", stripped, program));
		if (interpreter->minor < 10)
			continue;
		assert_int_equal(read_path(stripped, NULL, NULL, &image, &err), 0);
		assert_true(image.runtime == named.runtime);
		assert_int_equal(image.version, version);
		assert_int_equal(image.n_loops, 0);
		seen = true;
	}
	if (!seen)
		skip();
}

static bool compile_library(const char *source, const char *flags, const char *library)
{
	char command[2 * PATH_MAX];
	FILE *compiler;

	snprintf(command, sizeof(command), "cc -w -O0 -shared -fPIC %s -o '%s' -x c -", flags, library);
	compiler = popen(command, "w");
	assert_non_null(compiler);
	fputs(source, compiler);
	return pclose(compiler) == 0;
}

/* Both kinds of hash table, and all of the loop's parts by their names, made by hand. */
static void test_made_library(void **state)
{
	static const char source[] = "unsigned long Py_Version = 0x030c0af0;\n"
				     "char _PyRuntime[64] = { 1 };\n"
				     "int _PyEval_EvalFrameDefault(void) { return 1; }\n"
				     "int _PyEval_EvalFrameDefaults(void) { return 2; }\n"
				     "#define PART(name) __asm__(\".text\\n.type \\\"\" name \"\\\", "
				     "@function\\n\\\"\" name \"\\\":\\nnop\\nnop\\n\" \\\n"
				     "                           \".size \\\"\" name \"\\\", 2\\n\");\n"
				     "PART(\"_PyEval_EvalFrameDefault.cold\")\n"
				     "PART(\"_PyEval_EvalFrameDefault.part.0\")\n"
				     "PART(\"_PyEval_EvalFrameDefault.lto_priv.0\")\n"
				     "PART(\"_PyEval_EvalFrameDefault.cold.12\")\n"
				     "PART(\"another.cold\")\n";
	static const char *const flags[] = { "-Wl,--hash-style=gnu", "-Wl,--hash-style=sysv", "-Wl,--hash-style=both",
					     "-s -Wl,--hash-style=sysv" };
	char library[PATH_MAX];

	snprintf(library, sizeof(library), "%s/made.so", folder);
	for (unsigned i = 0; i < 4; i++) {
		struct so_error err = { "" };
		struct python_image image;
		int r;

		if (!compile_library(source, flags[i], library))
			skip();
		r = read_path(library, NULL, NULL, &image, &err);
		if (r < 0)
			fail_msg("%s: %d %s", flags[i], r, err.text);
		assert_int_equal(image.version, 0x030c0af0);
		assert_int_equal(image.n_loops, i < 3 ? 5 : 1);
		for (unsigned k = 1; k < image.n_loops; k++)
			assert_int_equal(image.loops[k].high - image.loops[k].low, 2);
	}
	/* Only asked for, not defined: a program or an extension that uses the interpreter. */
	assert_true(compile_library("extern char _PyRuntime[]; extern unsigned long Py_Version;\n"
				    "unsigned long f(void) { return Py_Version + _PyRuntime[0]; }\n",
				    "-Wl,--hash-style=sysv", library));
	assert_int_equal(read_path(library, NULL, NULL, &(struct python_image){ 0 }, NULL), -ENOENT);
}

/* Free-threaded, pre-release and later versions are told by the file already. */
static void test_later_versions_are_refused(void **state)
{
	static const struct {
		unsigned symbol, table, free_threaded;
		int code;
		const char *wanted;
	} cases[] = {
		{ 0x030d00f0, 0x030d00f0, 1, -EINVAL, "damaged" },
		{ 0x030e00b3, 0x030e00b3, 0, -ENOTSUP, "CPython 3.14.0b3 (pre-release) is not supported" },
		{ 0x031001f0, 0x031001f0, 0, -ENOTSUP, "CPython 3.16.1 is not supported" },
		{ 0x031001f0, 0x031001f0, 1, -ENOTSUP, "CPython 3.16.1 is not supported" },
		{ 0x030d01f0, 0x030d00f0, 0, -EINVAL, "different versions" },
		{ 0x030d00f0, 0x030d00f0, 0, -EINVAL, "damaged" },
		{ 0, 0, 0, -ENOTSUP, "version is not to be found" },
	};
	struct python_image image = { .runtime = 0x1234 };
	char library[PATH_MAX], source[1024];

	snprintf(library, sizeof(library), "%s/made.so", folder);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct so_error err = { "" };

		snprintf(source, sizeof(source),
			 "unsigned long Py_Version = %#x;\n"
			 "struct { char cookie[8]; long version, free_threaded, more[200]; } _PyRuntime = "
			 "{ \"%s\", %#x, %u };\n",
			 cases[i].symbol, cases[i].table ? "xdebugpy" : "", cases[i].table, cases[i].free_threaded);
		if (!compile_library(source, "", library))
			skip();
		assert_int_equal(read_path(library, NULL, NULL, &image, &err), cases[i].code);
		if (!strstr(err.text, cases[i].wanted))
			fail_msg("\"%s\" does not say \"%s\"", err.text, cases[i].wanted);
	}
	assert_true(image.runtime == 0x1234);
}

static void test_pypy(void **state)
{
	struct python_image image = { .runtime = 0x1234 };
	struct so_error err = { "" };
	char library[PATH_MAX];

	snprintf(library, sizeof(library), "%s/libpypy3-c.so", folder);
	if (!compile_library("void pypy_main_startup(void) { }\n", "", library))
		skip();
	assert_int_equal(read_path(library, NULL, NULL, &image, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "PyPy is not supported"));
	assert_true(image.runtime == 0x1234);
}

/* A file of which some bytes are changed, most of them where the headers and the tables of symbols are. */
static void test_damaged_files(void **state)
{
	struct python_image image;
	struct so_error err = { "" };
	char path[PATH_MAX];
	unsigned seed = 1, found = 0, refused = 0;
	uint8_t *bytes;
	struct stat st;
	int from, fd;

	if (n_interpreters == 0 || !find_file(&interpreters[n_interpreters - 1], path, sizeof(path)))
		skip();
	from = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(from >= 0 && fstat(from, &st) == 0);
	fd = memfd_create("python", MFD_CLOEXEC);
	assert_true(fd >= 0);
	for (off_t at = 0; at < st.st_size;)
		assert_true(sendfile(fd, from, &at, (size_t)(st.st_size - at)) > 0);
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(bytes != MAP_FAILED);
	for (unsigned round = 0; round < 1500; round++) {
		size_t at[6];
		uint8_t was[6];
		int r;

		for (unsigned i = 0; i < 6; i++) {
			size_t within = i < 2 ? 0x400 : i < 4 ? 0x40000 : (size_t)st.st_size;

			at[i] = (size_t)rand_r(&seed) % within;
			if (i == 5)
				at[i] = (size_t)st.st_size - 1 - (size_t)rand_r(&seed) % 4096;
			was[i] = bytes[at[i]];
			bytes[at[i]] = (uint8_t)rand_r(&seed);
		}
		r = python_image__read(fd, path, NULL, &image, &err);
		found += r == 0;
		refused += r < 0;
		assert_true(r == 0 || r == -ENOENT || r == -EINVAL || r == -ENOTSUP);
		assert_true(r < 0 || image.n_loops <= PYTHON_IMAGE_MAX_LOOPS);
		for (unsigned i = 6; i-- > 0;)
			bytes[at[i]] = was[i];
	}
	assert_int_equal(python_image__read(fd, path, NULL, &image, &err), 0);
	assert_true(found > 0 && refused > 0);
	/* Cut off anywhere. */
	for (off_t size = st.st_size; size > 0; size = size * 2 / 3) {
		assert_int_equal(ftruncate(fd, size), 0);
		python_image__read(fd, path, NULL, &image, &err);
	}
	munmap(bytes, (size_t)st.st_size);
	close(fd);
	close(from);
}

/* It is asked for every file of every process: a large library costs no more than a small one. */
static void test_no_is_cheap(void **state)
{
	static const char *const large[] = { "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13",
					     "/usr/lib/x86_64-linux-gnu/libLLVM-15.so.1",
					     "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1" };
	struct timespec begin, end;
	struct python_image image;
	double best_us = 1e9;
	int fd = -1;

	for (unsigned i = 0; i < 3 && fd < 0; i++)
		fd = open(large[i], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		skip();
	for (unsigned i = 0; i < 20; i++) {
		double us;

		clock_gettime(CLOCK_MONOTONIC, &begin);
		assert_int_equal(python_image__read(fd, "/lib/large.so", &everywhere, &image, NULL), -ENOENT);
		clock_gettime(CLOCK_MONOTONIC, &end);
		us = (double)(end.tv_sec - begin.tv_sec) * 1e6 + (double)(end.tv_nsec - begin.tv_nsec) / 1e3;
		if (us < best_us)
			best_us = us;
	}
	close(fd);
	print_message("no interpreter in a large library: %.0f us\n", best_us);
	assert_true(best_us < 5000);
}

/* Texts at every place near the boundary of the windows in which a file is read. */
static void test_version_by_text(void **state)
{
	enum { SIZE = 700 << 10 };
	struct elf_file elf = { .n_segments = 1, .segments = { { .filesz = SIZE } } };
	char *bytes = calloc(1, SIZE);
	struct elf_image image = elf_image__of_memory(bytes, SIZE);

	assert_non_null(bytes);
	assert_int_equal(python_version__by_text(&image, &elf, "/bin/app"), 0);
	assert_int_equal(python_version__by_text(&image, &elf, "/usr/bin/python3.9"), 0x03090000);
	assert_int_equal(python_version__by_text(&image, &elf, "/usr/lib/libpython2.7.so.1.0"), 0x02070000);
	assert_int_equal(python_version__by_text(&image, &elf, "python3"), 0);
	for (size_t at = (256u << 10) - 100; at < (256u << 10) + 20; at++) {
		memset(bytes, 'x', SIZE);
		memcpy(bytes + at, "/cpython-39", 12);
		memcpy(bytes + at + 20, "/3.9.18", 8);
		memcpy(bytes + at + 40, "\0003.8.11", 8); /* another library's */
		assert_int_equal(python_version__by_text(&image, &elf, "/bin/app"), 0x030912f0);
	}
	memset(bytes, 0, SIZE);
	memcpy(bytes + 10, "cpython-310", 12);
	memcpy(bytes + 30, "3.10.0rc2", 10);
	assert_int_equal(python_version__by_text(&image, &elf, "/bin/python3.8"), 0x030a00c2);
	/* Two of them: only as much is known as they have in common. */
	memcpy(bytes + 50, "3.10.4", 7);
	assert_int_equal(python_version__by_text(&image, &elf, "/bin/python3.8"), 0x030a0000);
	/* Two tags tell nothing. */
	memcpy(bytes + 70, "cpython-39", 11);
	assert_int_equal(python_version__by_text(&image, &elf, "/bin/python3.8"), 0x03080000);
	assert_int_equal(python_version__by_text(&image, &elf, "/bin/app"), 0);
	/* Not in what can be written to. */
	elf.segments[0].flags = PF_W;
	assert_int_equal(python_version__by_text(&image, &elf, "/bin/app"), 0);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_processes),    cmocka_unit_test(test_old_versions_are_refused),
		cmocka_unit_test(test_other_files),     cmocka_unit_test(test_names_do_not_count),
		cmocka_unit_test(test_stripped),        cmocka_unit_test(test_linked_in),
		cmocka_unit_test(test_made_library),    cmocka_unit_test(test_later_versions_are_refused),
		cmocka_unit_test(test_damaged_files),   cmocka_unit_test(test_no_is_cheap),
		cmocka_unit_test(test_version_by_text), cmocka_unit_test(test_pypy),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
