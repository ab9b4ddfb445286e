// SPDX-License-Identifier: GPL-2.0-or-later
/* Asked for each mapped file, so "no" comes first: .dynsym's hash table, the section headers, at last .symtab. */
#include "daemon/python/python_image.h"

#include <errno.h>
#include <string.h>

#include "daemon/symbols/debug_files.h"
#include "daemon/symbols/mini_debuginfo.h"
#include "daemon/python/python_debug_offsets.h"
#include "daemon/python/python_symbols.h"
#include "daemon/python/python_version.h"
#include "stakeout/cleanup.h"

#define LOOP       "_PyEval_EvalFrameDefault"
#define CODE_BYTES 32 /* of a function that reads one variable */

struct search {
	struct elf_image image;
	struct elf_file elf;
	struct elf_sections sections; /* none where they are damaged */
	struct python_image found;
	bool has_runtime;
	bool too_old;        /* an interpreter without _PyRuntime, so before 3.7 */
	bool pypy;           /* another interpreter of Python */
	uint64_t version_at; /* ELF virtual address of Py_Version; 0: none */
	/* Of the functions that return a thread-local variable; 0: none */
	uint64_t own_reader, current_reader;
};

static void cleanup__search(struct search *s)
{
	elf_sections__release(&s->sections);
}

static void add_loop(struct search *s, const Elf64_Sym *symbol)
{
	struct python_image *found = &s->found;

	if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || !symbol->st_size ||
	    symbol->st_value + symbol->st_size < symbol->st_value)
		return;
	for (unsigned i = 0; i < found->n_loops; i++) {
		if (found->loops[i].low == symbol->st_value)
			return;
	}
	if (found->n_loops == PYTHON_IMAGE_MAX_LOOPS)
		return;
	found->loops[found->n_loops].low = symbol->st_value;
	found->loops[found->n_loops].high = symbol->st_value + symbol->st_size;
	found->n_loops++;
}

/* The loop and what compilers name after it: .cold, .part.0, .constprop.0, .lto_priv.0, .cold.123. */
static bool visit_loop(void *context, const char *name, const Elf64_Sym *symbol)
{
	struct search *s = context;

	if (!strncmp(name, LOOP, sizeof(LOOP) - 1) && (name[sizeof(LOOP) - 1] == '\0' || name[sizeof(LOOP) - 1] == '.'))
		add_loop(s, symbol);
	return true;
}

static bool visit_all(void *context, const char *name, const Elf64_Sym *symbol)
{
	struct search *s = context;

	if (!strcmp(name, "_PyRuntime") && ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT) {
		s->found.runtime = symbol->st_value;
		s->has_runtime = true;
	} else if (!strcmp(name, "Py_Version") && ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT) {
		s->version_at = symbol->st_value;
	}
	return true;
}

static void look_in_dynamic_symbols(struct search *s)
{
	struct python_dynamic dynamic;
	Elf64_Sym symbol;

	if (python_symbols__dynamic(&s->image, &s->elf, &dynamic) < 0)
		return;
	if (!python_symbols__find(&s->image, &dynamic, "_PyRuntime", &symbol)) {
		s->too_old = python_symbols__find(&s->image, &dynamic, "PyEval_EvalFrameEx", &symbol) &&
			     python_symbols__find(&s->image, &dynamic, "Py_GetVersion", &symbol);
		/* What its program calls in its library (pypy/goal/targetpypystandalone.py). */
		s->pypy = !s->too_old && python_symbols__find(&s->image, &dynamic, "pypy_main_startup", &symbol);
		return;
	}
	s->found.runtime = symbol.st_value;
	s->has_runtime = true;
	if (python_symbols__find(&s->image, &dynamic, "Py_Version", &symbol))
		s->version_at = symbol.st_value;
	if (python_symbols__find(&s->image, &dynamic, LOOP, &symbol))
		add_loop(s, &symbol);
	if (python_symbols__find(&s->image, &dynamic, "PyGILState_GetThisThreadState", &symbol))
		s->own_reader = symbol.st_value;
	if (python_symbols__find(&s->image, &dynamic, "PyThreadState_GetUnchecked", &symbol))
		s->current_reader = symbol.st_value;
}

static void look_in_sections(struct search *s)
{
	const Elf64_Shdr *section;

	/* Damaged headers do not keep a program from running. */
	if (elf_sections__read(&s->image, &s->sections) < 0 || s->has_runtime)
		return;
	section = elf_sections__by_name(&s->sections, &s->image, ".PyRuntime");
	if (section && section->sh_addr) {
		s->found.runtime = section->sh_addr;
		s->has_runtime = true;
	}
}

static bool is_program(const struct elf_file *elf)
{
	return elf->type == ET_EXEC || elf->interpreted;
}

/* The interpreter, if there is one. 0 also when not. */
static int look_for_runtime(struct search *s)
{
	int ret = 0;

	look_in_dynamic_symbols(s);
	look_in_sections(s);
	if (!s->version_at && (s->has_runtime || (is_program(&s->elf) && !s->too_old)))
		ret = python_symbols__walk(&s->image, &s->sections, visit_all, s);
	return ret == -ENOMEM ? ret : 0;
}

/* The file's bytes at an ELF virtual address, as many as it holds. */
static size_t read_data(const struct search *s, uint64_t vaddr, void *to, size_t size)
{
	for (unsigned i = 0; i < s->elf.n_segments; i++) {
		const struct elf_segment *segment = &s->elf.segments[i];
		uint64_t at = vaddr - segment->vaddr;

		if (vaddr < segment->vaddr || at >= segment->filesz)
			continue;
		if (size > segment->filesz - at)
			size = (size_t)(segment->filesz - at);
		return elf_image__read(&s->image, segment->offset + at, to, size) < 0 ? 0 : size;
	}
	return 0;
}

static int find_version(struct search *s, const char *path, struct so_error *err)
{
	uint64_t bytes[PYTHON_DEBUG_OFFSETS_BYTES / 8], symbol = 0;
	size_t n = s->has_runtime ? read_data(s, s->found.runtime, bytes, sizeof(bytes)) : 0;
	uint32_t version = python_debug_offsets__version(bytes, n);
	struct python_layout layout;
	int ret;

	if (s->version_at)
		read_data(s, s->version_at, &symbol, sizeof(symbol));
	if (symbol >> 24 == 3 && version && version != symbol)
		return so_err(err, -EINVAL, "Py_Version and _Py_DebugOffsets tell different versions of CPython");
	if (symbol >> 24 == 3)
		version = (uint32_t)symbol;
	if (!version)
		version = python_version__by_text(&s->image, &s->elf, path);
	if (!version || (s->too_old && version >> 16 >= 0x0307))
		return so_err(err, -ENOTSUP, "a CPython%s whose version is not to be found is not supported",
			      s->too_old ? " before 3.7" : "");
	ret = python_layout__check_version(version, err);
	if (ret == 0 && !python_layout__of_version((uint16_t)(version >> 16)))
		ret = python_debug_offsets__read(bytes, n, &layout, err);
	s->found.version = version;
	return ret;
}

static bool is_at(const uint8_t *code, size_t n, size_t at, const char *bytes, size_t length)
{
	return at + length <= n && !memcmp(code + at, bytes, length);
}

/*
 * Which variable the function at vaddr returns. In a program: mov %fs:OFFSET,%rax. In a library: lea, call
 * __tls_get_addr, mov OFFSET(%rax),%rax, where all its variables are reached from the begin of their memory.
 */
static int read_variable(const struct search *s, uint64_t vaddr, int32_t *offset)
{
	uint8_t code[CODE_BYTES];
	size_t n = vaddr ? read_data(s, vaddr, code, sizeof(code)) : 0;
	bool called = false;

	for (size_t i = 0; i + 4 < n; i++) {
		if (is_at(code, n - 4, i, "\x64\x48\x8b\x04\x25", 5)) {
			memcpy(offset, code + i + 5, 4);
			return PYTHON_LOCALS_OF_THREAD;
		}
		called |= code[i] == 0xe8 && i >= 7 && is_at(code, n, i - 7, "\x48\x8d\x3d", 3);
		if (called && is_at(code, n, i, "\x48\x8b\x40", 3)) {
			*offset = (int8_t)code[i + 3];
			return PYTHON_LOCALS_OF_MODULE;
		}
		if (called && is_at(code, n - 4, i, "\x48\x8b\x80", 3)) {
			memcpy(offset, code + i + 3, 4);
			return PYTHON_LOCALS_OF_MODULE;
		}
	}
	return PYTHON_LOCALS_UNKNOWN;
}

static void find_locals(struct search *s)
{
	struct python_thread_locals found = { .own = 0 };

	found.kind = read_variable(s, s->own_reader, &found.own);
	if (found.kind && (int)found.kind == read_variable(s, s->current_reader, &found.current))
		s->found.locals = found;
}

static int walk_debug_file(struct search *s, const char *path, const struct debug_root *debug_root)
{
	__attribute__((cleanup(cleanup__elf_sections))) struct elf_sections sections = { 0 };
	_cleanup_close_ int fd = -1;
	struct elf_image image;
	int ret;

	if (!debug_root)
		return -ENOENT;
	fd = debug_files__open(&s->image, &s->sections, s->elf.build_id, path, debug_root);
	if (fd < 0)
		return fd;
	ret = elf_image__of_file(fd, &image);
	ret = ret ?: elf_sections__read(&image, &sections);
	return ret < 0 ? ret : python_symbols__walk(&image, &sections, visit_loop, s);
}

static int walk_mini_debuginfo(struct search *s)
{
	__attribute__((cleanup(cleanup__elf_sections))) struct elf_sections sections = { 0 };
	_cleanup_free_ uint8_t *bytes = NULL;
	struct elf_image image;
	size_t size;
	int ret = mini_debuginfo__read(&s->image, &s->sections, &bytes, &size);

	if (ret < 0)
		return ret;
	image = elf_image__of_memory(bytes, size);
	ret = elf_sections__read(&image, &sections);
	return ret < 0 ? ret : python_symbols__walk(&image, &sections, visit_loop, s);
}

/* The parts of a loop of which .dynsym has the main one. */
static int find_nameless_parts(struct search *s)
{
	size_t n = s->found.n_loops;
	int ret = function_parts__find(s->image.fd, &s->elf, s->found.loops, &n, PYTHON_IMAGE_MAX_LOOPS);

	if (ret == 0)
		s->found.n_loops = (unsigned)n;
	return ret;
}

/* From the first of the tables that is there, besides .dynsym, which has the loop's main part only. */
static int find_loops(struct search *s, const char *path, const struct debug_root *debug_root)
{
	int ret = python_symbols__walk(&s->image, &s->sections, visit_loop, s);

	if (ret < 0 && ret != -ENOMEM)
		ret = walk_debug_file(s, path, debug_root);
	if (ret < 0 && ret != -ENOMEM)
		ret = walk_mini_debuginfo(s);
	if (ret < 0 && ret != -ENOMEM)
		ret = find_nameless_parts(s);
	return ret == -ENOMEM ? ret : 0;
}

int python_image__read(int fd, const char *path, const struct debug_root *debug_root, struct python_image *out,
		       struct so_error *err)
{
	__attribute__((cleanup(cleanup__search))) struct search s = { 0 };
	int ret = elf_file__read(fd, &s.elf, err);

	ret = ret ?: elf_image__of_file(fd, &s.image);
	if (ret < 0)
		return ret == -ENOEXEC ? -ENOENT : ret;
	ret = look_for_runtime(&s);
	if (ret == 0 && s.pypy)
		return so_err(err, -ENOTSUP, "PyPy is not supported: only its native frames are shown");
	if (ret == 0 && !s.has_runtime && !s.too_old)
		return -ENOENT;
	ret = ret ?: find_version(&s, path, err);
	ret = ret ?: find_loops(&s, path, debug_root);
	find_locals(&s);
	if (ret == -ENOMEM)
		return so_err(err, ret, "out of memory");
	if (ret == 0)
		*out = s.found;
	return ret;
}
