// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/torch_library.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cuda/probe_site.h"
#include "daemon/elf/elf_dynamic.h"
#include "daemon/elf/elf_file.h"
#include "daemon/elf/elf_image.h"
#include "daemon/elf/elf_sections.h"
#include "daemon/elf/elf_symtab.h"
#include "stakeout/short_path.h"

/* libc10 of PyTorch 2.10 has some 5000 symbols, and half a megabyte of names. */
#define MAX_SYMBOLS     (1u << 18)
#define MAX_NAMES_BYTES (32u << 20)
#define READ_SYMBOLS    1024u
#define UNSIZED_BYTES   256u

#define MEMORY  "_ZN3c1027reportMemoryUsageToProfilerE"
#define REFUSED "_ZN3c1027reportOutOfMemoryToProfilerE"

struct reader {
	struct elf_image image;
	struct elf_file elf;
	struct elf_sections sections;
	struct elf_symtab_location where;
	char *names;
};

bool torch_library__may_be(const char *path)
{
	const char *name = short_path(path);

	/* Packagers put a hash into the name. */
	return !strncmp(name, "libc10.so", 9) || (!strncmp(name, "libc10-", 7) && strstr(name, ".so"));
}

static bool is_one_of(const char *arguments, const char *const *known, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(arguments, known[i]))
			return true;
	return false;
}

enum torch_library_kind torch_library__kind(const char *symbol, bool *refused)
{
	/* int64_t, then size_t for the totals; both are eight bytes. */
	static const char *const memory[] = { "PvlllNS_6DeviceE", "PvlmmNS_6DeviceE" };
	static const char *const out_of_memory[] = { "lllNS_6DeviceE", "lmmNS_6DeviceE" };
	static const char *const old[] = { "PvlNS_6DeviceE" };

	*refused = !strncmp(symbol, REFUSED, sizeof(REFUSED) - 1);
	if (*refused)
		return is_one_of(symbol + sizeof(REFUSED) - 1, out_of_memory, 2) ? TORCH_LIBRARY_KNOWN
										 : TORCH_LIBRARY_OTHER;
	if (strncmp(symbol, MEMORY, sizeof(MEMORY) - 1))
		return TORCH_LIBRARY_NONE;
	if (is_one_of(symbol + sizeof(MEMORY) - 1, old, 1))
		return TORCH_LIBRARY_OLD;
	return is_one_of(symbol + sizeof(MEMORY) - 1, memory, 2) ? TORCH_LIBRARY_KNOWN : TORCH_LIBRARY_OTHER;
}

static void reader__release(struct reader *r)
{
	elf_sections__release(&r->sections);
	free(r->names);
}

/* Where a probe goes in the function; -ENOTSUP: nowhere. */
static int set_place(struct reader *r, const Elf64_Sym *symbol, uint64_t *place)
{
	_cleanup_(probe_decoder) struct probe_decoder *decoder = NULL;
	uint64_t size = symbol->st_size ?: UNSIZED_BYTES, offset;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct probe_code code = { .address = symbol->st_value };
	struct probe_site site;
	int ret = elf_file__offset(&r->elf, symbol->st_value, &offset);

	if (ret || offset >= r->image.size)
		return -EINVAL;
	size = size < PROBE_CODE_MAX_BYTES ? size : PROBE_CODE_MAX_BYTES;
	size = size < r->image.size - offset ? size : r->image.size - offset;
	bytes = malloc(size);
	if (!bytes)
		return -ENOMEM;
	code.bytes = bytes;
	code.size = size;
	code.whole = symbol->st_size == size;
	ret = elf_image__read(&r->image, offset, bytes, size) ?: probe_decoder__new(&decoder);
	ret = ret ?: probe_site__choose(decoder, &code, &site);
	if (ret)
		return ret == -ENOMEM ? ret : -ENOTSUP;
	*place = offset + site.offset;
	return 0;
}

static int take_symbol(struct reader *r, const Elf64_Sym *symbol, struct torch_library *out)
{
	enum torch_library_kind kind;
	bool refused;

	if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF ||
	    symbol->st_name >= r->where.names_size)
		return 0;
	kind = torch_library__kind(r->names + symbol->st_name, &refused);
	if (kind == TORCH_LIBRARY_NONE)
		return 0;
	/* The first one of each: a file may have as many as it likes. */
	if (refused)
		return kind == TORCH_LIBRARY_KNOWN && !out->refused ? set_place(r, symbol, &out->refused) : 0;
	/* A file that has several forms has the known one as well. */
	if (kind > out->kind)
		out->kind = kind;
	return kind == TORCH_LIBRARY_KNOWN && !out->memory ? set_place(r, symbol, &out->memory) : 0;
}

static int read_symbols(struct reader *r, struct torch_library *out)
{
	Elf64_Sym symbols[READ_SYMBOLS];
	int ret = 0;

	for (uint64_t at = 0; !ret && at < r->where.n_symbols; at += READ_SYMBOLS) {
		uint64_t left = r->where.n_symbols - at;
		size_t n = left < READ_SYMBOLS ? (size_t)left : READ_SYMBOLS;

		ret = elf_image__read(&r->image, r->where.symbols_at + at * sizeof(*symbols), symbols,
				      n * sizeof(*symbols));
		for (size_t i = 0; !ret && i < n; i++)
			ret = take_symbol(r, &symbols[i], out);
	}
	return ret;
}

static int read_names(struct reader *r)
{
	if (r->where.n_symbols > MAX_SYMBOLS || r->where.names_size > MAX_NAMES_BYTES)
		return -EINVAL;
	r->names = malloc(r->where.names_size + 1);
	if (!r->names)
		return -ENOMEM;
	r->names[r->where.names_size] = '\0';
	return elf_image__read(&r->image, r->where.names_at, r->names, r->where.names_size);
}

int torch_library__read(int fd, struct torch_library *out, struct so_error *err)
{
	__attribute__((cleanup(reader__release))) struct reader r = { .names = NULL };
	struct torch_library library = { .kind = TORCH_LIBRARY_NONE };
	int ret = elf_file__read(fd, &r.elf, err);

	if (ret)
		return ret;
	ret = elf_image__of_file(fd, &r.image) ?: elf_sections__read(&r.image, &r.sections);
	ret = ret ?: elf_symtab__locate(&r.image, &r.sections, SHT_DYNSYM, &r.where);
	if (ret == -ENOENT)
		ret = elf_dynamic__locate(&r.image, &r.elf, &r.where);
	ret = ret ?: read_names(&r);
	ret = ret ?: read_symbols(&r, &library);
	if (ret == -ENOTSUP)
		return so_err(err, ret, "its functions begin with code that cannot be probed");
	if (ret)
		return so_err(err, ret, "its symbols cannot be read: %s", strerror(-ret));
	*out = library;
	return 0;
}
