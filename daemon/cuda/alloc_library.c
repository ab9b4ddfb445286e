// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/alloc_library.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cuda/probe_site.h"
#include "daemon/elf/elf_dynamic.h"
#include "daemon/elf/elf_file.h"
#include "daemon/elf/elf_image.h"
#include "daemon/elf/elf_sections.h"
#include "daemon/elf/elf_symtab.h"
#include "daemon/memory/alloc_functions.h"
#include "stakeout/short_path.h"

/* The most that is read of a crafted file. libtorch_cpu has some 100,000 symbols, and 20 MB of names. */
#define MAX_SYMBOLS     (1u << 21)
#define MAX_NAMES_BYTES (256u << 20)
#define READ_SYMBOLS    1024u
#define UNSIZED_BYTES   256u

struct found {
	const struct alloc_function *function;
	uint64_t address, size;
};

struct reader {
	struct elf_image image;
	struct elf_file elf;
	struct elf_sections sections;
	struct elf_symtab_location where;
	char *names;
	struct found found[ALLOC_LIBRARY_MAX];
	size_t n;
	enum so_alloc_kind library;
	bool has_malloc;
	uint64_t *bytes_left;
};

static void reader__release(struct reader *r)
{
	elf_sections__release(&r->sections);
	free(r->names);
}

static bool is_known(const struct reader *r, uint64_t address)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->found[i].address == address)
			return true;
	return false;
}

static void take_symbol(struct reader *r, const Elf64_Sym *symbol)
{
	const struct alloc_function *function;
	const char *name;

	if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || ELF64_ST_BIND(symbol->st_info) == STB_LOCAL ||
	    symbol->st_shndx == SHN_UNDEF || symbol->st_name >= r->where.names_size)
		return;
	name = r->names + symbol->st_name;
	if (alloc_functions__library(name) != SO_ALLOC_MALLOC)
		r->library = alloc_functions__library(name);
	function = alloc_functions__find(name);
	/* Aliases have one probe. */
	if (!function || is_known(r, symbol->st_value) || r->n == ALLOC_LIBRARY_MAX)
		return;
	r->has_malloc |= !strcmp(name, "malloc");
	r->found[r->n++] = (struct found){ function, symbol->st_value, symbol->st_size };
}

static int read_names(struct reader *r)
{
	uint64_t bytes;

	if (r->where.n_symbols > MAX_SYMBOLS || r->where.names_size > MAX_NAMES_BYTES)
		return -EINVAL;
	bytes = r->where.n_symbols * sizeof(Elf64_Sym) + r->where.names_size;
	if (bytes > *r->bytes_left)
		return -EFBIG;
	*r->bytes_left -= bytes;
	free(r->names);
	r->names = malloc(r->where.names_size + 1);
	if (!r->names)
		return -ENOMEM;
	r->names[r->where.names_size] = '\0';
	return elf_image__read(&r->image, r->where.names_at, r->names, r->where.names_size);
}

static int read_table(struct reader *r)
{
	Elf64_Sym symbols[READ_SYMBOLS];
	int ret = read_names(r);

	for (uint64_t at = 0; !ret && at < r->where.n_symbols; at += READ_SYMBOLS) {
		uint64_t left = r->where.n_symbols - at;
		size_t n = left < READ_SYMBOLS ? (size_t)left : READ_SYMBOLS;

		ret = elf_image__read(&r->image, r->where.symbols_at + at * sizeof(*symbols), symbols,
				      n * sizeof(*symbols));
		for (size_t i = 0; !ret && i < n; i++)
			take_symbol(r, &symbols[i]);
	}
	return ret;
}

static int read_symbols(struct reader *r, bool whole)
{
	int ret = elf_symtab__locate(&r->image, &r->sections, SHT_DYNSYM, &r->where);

	if (ret == -ENOENT)
		ret = elf_dynamic__locate(&r->image, &r->elf, &r->where);
	ret = ret ?: read_table(r);
	if ((ret && ret != -ENOENT) || !whole)
		return ret == -ENOENT ? 0 : ret;
	ret = elf_symtab__locate(&r->image, &r->sections, SHT_SYMTAB, &r->where);
	ret = ret ?: read_table(r);
	return ret == -ENOENT ? 0 : ret;
}

static unsigned arguments_of(enum so_alloc_shape shape)
{
	switch (shape) {
	case SO_ALLOC_SIZE:
	case SO_ALLOC_FREE:
		return 1;
	case SO_ALLOC_TO_PLACE:
		return 3;
	default:
		return 2;
	}
}

static bool is_code(const struct elf_file *elf, uint64_t address)
{
	for (unsigned i = 0; i < elf->n_segments; i++) {
		const struct elf_segment *segment = &elf->segments[i];

		if ((segment->flags & PF_X) && address >= segment->vaddr && address - segment->vaddr < segment->filesz)
			return true;
	}
	return false;
}

/* Where a probe goes in the function; -ENOTSUP: nowhere. */
static int find_site(struct reader *r, struct probe_decoder *decoder, const struct found *f, uint64_t *place,
		     bool *stepped)
{
	uint64_t size = f->size ?: UNSIZED_BYTES, offset;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct probe_code code = { .address = f->address,
				   .arguments = arguments_of(f->function->shape),
				   .repeats = f->function->shape == SO_ALLOC_FREE };
	struct probe_site site;
	int ret = is_code(&r->elf, f->address) ? elf_file__offset(&r->elf, f->address, &offset) : -EINVAL;

	if (ret || offset >= r->image.size)
		return -ENOTSUP;
	size = size < PROBE_CODE_MAX_BYTES ? size : PROBE_CODE_MAX_BYTES;
	size = size < r->image.size - offset ? size : r->image.size - offset;
	bytes = malloc(size);
	if (!bytes)
		return -ENOMEM;
	code.bytes = bytes;
	code.size = size;
	code.whole = f->size && f->size == size;
	ret = elf_image__read(&r->image, offset, bytes, size);
	ret = ret ?: probe_site__choose(decoder, &code, &site);
	if (ret)
		return ret == -ENOMEM ? ret : -ENOTSUP;
	*place = offset + site.offset;
	*stepped = !site.emulated;
	return 0;
}

static bool is_free_threaded(const char *path)
{
	const char *name = strstr(short_path(path), "python3.");

	if (!name)
		return false;
	name += strlen("python3.");
	name += strspn(name, "0123456789");
	return *name == 't';
}

static uint64_t cookie_of(const struct reader *r, const struct alloc_function *function, const char *path)
{
	enum so_alloc_kind kind = function->kind == SO_ALLOC_MALLOC ? r->library : function->kind;
	uint64_t cookie = SO_ALLOC_COOKIE(kind, function->shape);

	if (function->throws)
		cookie |= SO_ALLOC_THROWS;
	if (function->python)
		return cookie | (is_free_threaded(path) ? 0 : SO_ALLOC_SMALL);
	return cookie | (kind == SO_ALLOC_MALLOC ? SO_ALLOC_BY_MALLOC : 0);
}

static int set_places(struct reader *r, const char *path, struct alloc_library *out)
{
	_cleanup_(probe_decoder) struct probe_decoder *decoder = NULL;
	int ret = r->n ? probe_decoder__new(&decoder) : 0;

	for (size_t i = 0; !ret && i < r->n; i++) {
		const struct found *f = &r->found[i];
		bool stepped;

		if (f->function->operator_new && (!r->has_malloc || r->library == SO_ALLOC_MALLOC))
			continue;
		ret = find_site(r, decoder, f, &out->offsets[out->n], &stepped);
		if (ret == -ENOTSUP) {
			out->unprobed++;
			ret = 0;
			continue;
		}
		if (!ret)
			out->cookies[out->n++] = cookie_of(r, f->function, path) | (stepped ? SO_ALLOC_STEPPED : 0);
	}
	return ret;
}

int alloc_library__read(int fd, const char *path, bool whole, uint64_t *bytes_left, struct alloc_library *out,
			struct so_error *err)
{
	__attribute__((cleanup(reader__release))) struct reader r = { .library = SO_ALLOC_MALLOC,
								      .bytes_left = bytes_left };
	int ret = elf_file__read(fd, &r.elf, err);

	if (ret)
		return ret;
	*out = (struct alloc_library){ .n = 0 };
	ret = elf_image__of_file(fd, &r.image) ?: elf_sections__read(&r.image, &r.sections);
	ret = ret ?: read_symbols(&r, whole);
	ret = ret ?: set_places(&r, path, out);
	return ret ? so_err(err, ret, "its symbols cannot be read: %s", strerror(-ret)) : 0;
}
