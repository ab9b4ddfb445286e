/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/symbols/elf_symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "daemon/symbols/cuda_registered.h"
#include "daemon/symbols/debug_files.h"
#include "daemon/elf/elf_dynamic.h"
#include "daemon/elf/elf_fde_index.h"
#include "daemon/elf/elf_file.h"
#include "daemon/elf/elf_image.h"
#include "daemon/elf/elf_plt.h"
#include "daemon/elf/elf_sections.h"
#include "daemon/elf/elf_symtab.h"
#include "daemon/elf/go_functions.h"
#include "daemon/symbols/mini_debuginfo.h"
#include "stakeout/array.h"

#define MAX_CHAIN   1024 /* overlapping ranges looked at for one address; real files nest two or three deep */
#define MAX_ALIASES 64   /* names compared for one address */

struct elf_symbols {
	struct elf_symtab symtab;
	struct {
		struct elf_image image; /* borrowed */
		uint64_t at, size;      /* of the string table in it */
	} names[ELF_N_TABLES];
	struct elf_image image; /* the file itself */
	struct elf_file elf;
	struct elf_fde_index fdes;
	const char *source; /* "symtab", "debug-file", "debugdata", "pclntab", "dynsym", "none" */
	int fd, debug_fd;   /* -1: not needed */
	uint8_t *memory;    /* the copy of an image given in memory */
	size_t memory_size;
	uint8_t *mini_names; /* the string table of .gnu_debugdata */
	size_t mini_names_size;
	struct cuda_registered_launch *launches; /* by rising return address */
	size_t n_launches;
};

/* What loading works on. */
struct loading {
	struct elf_symbols *symbols;
	struct elf_image image;
	struct elf_file elf;
	struct elf_sections sections;
	struct elf_symtab_location dynsym; /* n_symbols 0: there is none */
};

static void cleanup__loading(struct loading *loading)
{
	elf_sections__release(&loading->sections);
}

static void set_names(struct elf_symbols *symbols, enum elf_table table, const struct elf_image *image,
		      const struct elf_symtab_location *where)
{
	symbols->names[table].image = *image;
	symbols->names[table].at = where->names_at;
	symbols->names[table].size = where->names_size;
}

/* Reads an entry's name, "@plt" included, cut to size - 1 bytes. Its length in `to`, or -EINVAL. */
static int read_name(const struct elf_symbols *symbols, const struct elf_symtab_entry *entry, char *to, size_t size)
{
	static const char plt_suffix[] = "@plt";
	uint64_t at = symbols->names[entry->table].at;
	int length = elf_image__read_string(&symbols->names[entry->table].image, at + entry->name,
					    at + symbols->names[entry->table].size, to, size);

	if (length < 0 || entry->table != ELF_TABLE_PLT)
		return length;
	for (size_t i = 0; i < sizeof(plt_suffix) && (size_t)length + 1 < size; i++) {
		to[length] = plt_suffix[i];
		to[length + 1] = '\0';
		length += plt_suffix[i] != '\0';
	}
	return length;
}

/* Adds the .symtab of an image (the file, its debug file, its mini debuginfo). -ENOENT when it has no functions. */
static int add_symtab(struct loading *loading, const struct elf_image *image, const struct elf_sections *sections,
		      struct elf_symtab_location *where)
{
	size_t before = loading->symbols->symtab.n;
	int ret = elf_symtab__locate(image, sections, SHT_SYMTAB, where);

	if (ret == 0)
		ret = elf_symtab__add(&loading->symbols->symtab, image, sections, &loading->elf, where, ELF_TABLE_MAIN);
	if (ret < 0) {
		loading->symbols->symtab.n = before;
		return ret;
	}
	return loading->symbols->symtab.n > before ? 0 : -ENOENT;
}

static int add_debug_file(struct loading *loading, const char *path, const struct debug_root *debug_root)
{
	__attribute__((cleanup(cleanup__elf_sections))) struct elf_sections sections = { 0 };
	_cleanup_close_ int fd = -1;
	struct elf_symtab_location where;
	struct elf_image image;
	int ret;

	if (!debug_root)
		return -ENOENT;
	fd = debug_files__open(&loading->image, &loading->sections, loading->elf.build_id, path, debug_root);
	if (fd < 0)
		return fd;
	ret = elf_image__of_file(fd, &image);
	if (ret == 0)
		ret = elf_sections__read(&image, &sections);
	if (ret == 0)
		ret = add_symtab(loading, &image, &sections, &where);
	if (ret < 0)
		return ret;
	set_names(loading->symbols, ELF_TABLE_MAIN, &image, &where);
	loading->symbols->debug_fd = TAKE_FD(fd);
	return 0;
}

static int add_mini_debuginfo(struct loading *loading)
{
	__attribute__((cleanup(cleanup__elf_sections))) struct elf_sections sections = { 0 };
	struct elf_symbols *symbols = loading->symbols;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct elf_symtab_location where;
	struct elf_image image;
	size_t size = 0;
	int ret = mini_debuginfo__read(&loading->image, &loading->sections, &bytes, &size);

	if (ret < 0)
		return ret;
	image = elf_image__of_memory(bytes, size);
	ret = elf_sections__read(&image, &sections);
	if (ret == 0)
		ret = add_symtab(loading, &image, &sections, &where);
	if (ret < 0)
		return ret;
	/* Of all that was decompressed only the names are needed from here on. */
	memmove(bytes, bytes + where.names_at, where.names_size);
	symbols->mini_names = realloc(bytes, where.names_size + 1);
	if (!symbols->mini_names)
		return -ENOMEM;
	bytes = NULL;
	symbols->mini_names_size = where.names_size;
	where.names_at = 0;
	image = elf_image__of_memory(symbols->mini_names, where.names_size);
	set_names(symbols, ELF_TABLE_MAIN, &image, &where);
	return 0;
}

/*
 * The full symbols, from the first source that has them. Only the file's own damage is an error: a source
 * beside it that cannot be used is passed over.
 */
static int add_full_symbols(struct loading *loading, const char *path, const struct debug_root *debug_root)
{
	struct elf_symtab_location where;
	int ret = add_symtab(loading, &loading->image, &loading->sections, &where);

	if (ret == 0) {
		set_names(loading->symbols, ELF_TABLE_MAIN, &loading->image, &where);
		loading->symbols->source = "symtab";
		return 0;
	}
	if (ret != -ENOENT)
		return ret;
	if (add_debug_file(loading, path, debug_root) == 0)
		loading->symbols->source = "debug-file";
	else if (add_mini_debuginfo(loading) == 0)
		loading->symbols->source = "debugdata";
	return 0;
}

static int add_dynamic_symbols(struct loading *loading)
{
	struct elf_symbols *symbols = loading->symbols;
	struct elf_symtab_location where;
	size_t before = symbols->symtab.n;
	int ret;

	ret = elf_symtab__locate(&loading->image, &loading->sections, SHT_DYNSYM, &where);
	if (ret == -ENOENT && loading->sections.n == 0)
		ret = elf_dynamic__locate(&loading->image, &loading->elf, &where);
	if (ret == -ENOENT)
		return 0;
	if (ret == 0)
		ret = elf_symtab__add(&symbols->symtab, &loading->image, &loading->sections, &loading->elf, &where,
				      ELF_TABLE_DYNAMIC);
	if (ret < 0)
		return ret;
	loading->dynsym = where;
	set_names(symbols, ELF_TABLE_DYNAMIC, &loading->image, &where);
	set_names(symbols, ELF_TABLE_PLT, &loading->image, &where);
	if (symbols->symtab.n > before && strcmp(symbols->source, "none") == 0)
		symbols->source = "dynsym";
	return elf_plt__add(&symbols->symtab, &loading->image, &loading->sections, &where);
}

/* Of a stripped Go program: its runtime's own table has all functions. A damaged one is passed over. */
static int add_go_functions(struct loading *loading)
{
	_cleanup_(go_functions) struct go_functions functions = { 0 };
	struct elf_symbols *symbols = loading->symbols;
	struct elf_symtab_location where = { 0 };
	struct go_function f;
	int ret = go_functions__read(&loading->image, &functions);

	if (ret < 0)
		return ret == -ENOMEM ? ret : 0;
	for (uint32_t i = 0; i < functions.n && ret == 0; i++) {
		if (!go_functions__get(&functions, i, &f))
			continue;
		ret = elf_symtab__add_entry(&symbols->symtab, &(struct elf_symtab_entry){
								      .start = f.start,
								      .extent = (uint32_t)(f.end - f.start),
								      .name = f.name,
								      .table = ELF_TABLE_GO,
								      .rank = ELF_RANK_LOCAL,
							      });
	}
	where.names_at = functions.names_at;
	where.names_size = functions.names_size;
	set_names(symbols, ELF_TABLE_GO, &loading->image, &where);
	if (ret == 0 && functions.n > 0)
		symbols->source = "pclntab";
	return ret;
}

/* What to prefer among entries that all cover an address, before their names are looked at. */
static int class_of(const struct elf_symtab_entry *entry)
{
	if (entry->rank == ELF_RANK_PLT)
		return 0;
	return entry->unsized ? 1 : 2;
}

/*
 * The entry that covers the address: sized before unsized before PLT stub, then the innermost, then by binding.
 * The next entry on the chain that ties with it is left in *alias.
 */
static uint32_t find_covering(const struct elf_symtab *symtab, uint64_t vaddr, uint32_t *alias)
{
	uint32_t best = ELF_SYMTAB_NONE, at = elf_symtab__last_before(symtab, vaddr);
	const struct elf_symtab_entry *entries = symtab->entries;

	*alias = ELF_SYMTAB_NONE;
	for (unsigned steps = 0; at != ELF_SYMTAB_NONE && steps < MAX_CHAIN; steps++, at = entries[at].parent) {
		const struct elf_symtab_entry *entry = &entries[at];

		if (vaddr - entry->start >= entry->extent)
			continue;
		if (best == ELF_SYMTAB_NONE || class_of(entry) > class_of(&entries[best])) {
			best = at;
			*alias = ELF_SYMTAB_NONE;
		} else if (*alias == ELF_SYMTAB_NONE && entry->start == entries[best].start &&
			   entry->rank == entries[best].rank && class_of(entry) == class_of(&entries[best])) {
			*alias = at;
		} else if (class_of(&entries[best]) == 2) {
			break;
		}
	}
	return best;
}

/*
 * Whether one of the first n entries, which can be searched, names the address. One that only reaches to it for want of
 * a size does not.
 */
static bool has_symbol(const struct elf_symtab *symtab, size_t n, uint64_t vaddr)
{
	struct elf_symtab first = { .entries = symtab->entries, .n = n };
	uint32_t alias, found = find_covering(&first, vaddr, &alias);

	return found != ELF_SYMTAB_NONE && (!first.entries[found].unsized || first.entries[found].start == vaddr);
}

/*
 * Names are distinguished by 32 bits: from the first one's place on, which the others lie behind in all but files of
 * more than 4 GB.
 */
static int add_kernels(struct elf_symbols *symbols, const struct elf_image *image,
		       const struct cuda_registered *registered)
{
	struct elf_symtab_location where = { .names_at = UINT64_MAX };
	size_t n = symbols->symtab.n;
	int ret = 0;

	for (size_t i = 0; i < registered->n_functions; i++) {
		if (registered->functions[i].name_at < where.names_at)
			where.names_at = registered->functions[i].name_at;
	}
	for (size_t i = 0; ret == 0 && i < registered->n_functions; i++) {
		const struct cuda_registered_function *f = &registered->functions[i];
		uint64_t name = f->name_at - where.names_at;

		if (name > UINT32_MAX || has_symbol(&symbols->symtab, n, f->start))
			continue;
		ret = elf_symtab__add_entry(&symbols->symtab, &(struct elf_symtab_entry){
								      .start = f->start,
								      .extent = f->extent,
								      .name = (uint32_t)name,
								      .table = ELF_TABLE_KERNELS,
								      .rank = ELF_RANK_LOCAL,
							      });
	}
	if (symbols->symtab.n == n || ret < 0)
		return ret;
	where.names_size = image->size - where.names_at;
	set_names(symbols, ELF_TABLE_KERNELS, image, &where);
	return elf_symtab__finish(&symbols->symtab, false);
}

/*
 * What cannot be made out of a file's code takes nothing from its symbols. The symbols are searched, so they are
 * finished.
 */
static int add_registered(struct loading *loading)
{
	__attribute__((cleanup(cleanup__cuda_registered))) struct cuda_registered registered = { 0 };
	struct elf_symbols *symbols = loading->symbols;
	bool full = strcmp(symbols->source, "none") != 0 && strcmp(symbols->source, "dynsym") != 0;
	int ret;

	if (loading->dynsym.n_symbols == 0)
		return 0;
	ret = cuda_registered__read(&loading->image, &loading->elf, &loading->sections, &loading->dynsym, !full,
				    &registered);
	if (ret < 0)
		return ret == -ENOMEM ? ret : 0;
	symbols->launches = TAKE_PTR(registered.launches);
	symbols->n_launches = registered.n_launches;
	return add_kernels(symbols, &loading->image, &registered);
}

static int load(struct loading *loading, const char *path, const struct debug_root *debug_root, struct so_error *err)
{
	struct elf_symbols *symbols = loading->symbols;
	const struct elf_image *image = &loading->image;
	int ret;

	ret = image->fd >= 0 ? elf_file__read(image->fd, &loading->elf, err)
			     : elf_file__read_memory(image->memory, image->size, &loading->elf, err);
	if (ret < 0)
		return ret;
	ret = elf_sections__read(image, &loading->sections);
	if (ret == 0)
		ret = add_full_symbols(loading, path, debug_root);
	if (ret == 0 && strcmp(symbols->source, "none") == 0)
		ret = add_go_functions(loading);
	if (ret == 0)
		ret = add_dynamic_symbols(loading);
	if (ret == 0)
		ret = elf_symtab__finish(&symbols->symtab, strcmp(symbols->source, "debugdata") != 0);
	if (ret == 0)
		ret = add_registered(loading);
	if (ret == -ENOMEM)
		return so_err(err, ret, "out of memory");
	if (ret < 0)
		return so_err(err, -EINVAL, "%s: damaged ELF file", path);
	symbols->image = *image;
	symbols->elf = loading->elf;
	/* Without it there are fewer names. */
	elf_fde_index__locate(image, &loading->elf, &symbols->fdes);
	return 0;
}

static struct elf_symbols *new_symbols(void)
{
	struct elf_symbols *symbols = calloc(1, sizeof(*symbols));

	if (!symbols)
		return NULL;
	symbols->fd = symbols->debug_fd = -1;
	symbols->source = "none";
	for (int i = 0; i < ELF_N_TABLES; i++)
		symbols->names[i].image.fd = -1;
	return symbols;
}

int elf_symbols__open(int fd, const char *path, const struct debug_root *debug_root, struct elf_symbols **out,
		      struct so_error *err)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = new_symbols();
	__attribute__((cleanup(cleanup__loading))) struct loading loading = { .symbols = symbols };
	int ret;

	if (!path)
		path = "(unnamed file)";
	if (!symbols)
		return so_err(err, -ENOMEM, "out of memory");
	symbols->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (symbols->fd < 0)
		return so_err(err, -errno, "%s: cannot keep the file open: %s", path, strerror(errno));
	ret = elf_image__of_file(symbols->fd, &loading.image);
	if (ret < 0)
		return so_err(err, ret, "%s: %s", path, ret == -ENOEXEC ? "not a regular file" : strerror(-ret));
	ret = load(&loading, path, debug_root, err);
	if (ret < 0)
		return ret;
	/* Without any name to read from it the file need not stay open. */
	if (symbols->symtab.n == 0 && !symbols->fdes.n) {
		close(symbols->fd);
		symbols->fd = -1;
	}
	*out = TAKE_PTR(symbols);
	return 0;
}

int elf_symbols__open_memory(const void *image, size_t size, struct elf_symbols **out, struct so_error *err)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = new_symbols();
	__attribute__((cleanup(cleanup__loading))) struct loading loading = { .symbols = symbols };
	int ret;

	if (!symbols)
		return so_err(err, -ENOMEM, "out of memory");
	symbols->memory = malloc(size + 1);
	if (!symbols->memory)
		return so_err(err, -ENOMEM, "out of memory");
	if (size > 0)
		memcpy(symbols->memory, image, size);
	symbols->memory_size = size;
	loading.image = elf_image__of_memory(symbols->memory, size);
	ret = load(&loading, "image in memory", NULL, err);
	if (ret < 0)
		return ret;
	*out = TAKE_PTR(symbols);
	return 0;
}

struct alias {
	uint32_t entry;
	size_t underscores, length;
	char name[4096];
};

static bool read_alias(const struct elf_symbols *symbols, uint32_t entry, struct alias *out)
{
	int length = read_name(symbols, &symbols->symtab.entries[entry], out->name, sizeof(out->name));

	if (length <= 0)
		return false;
	out->entry = entry;
	out->length = (size_t)length;
	out->underscores = strspn(out->name, "_");
	return true;
}

static bool alias_is_better(const struct alias *a, const struct alias *b)
{
	if (a->underscores != b->underscores)
		return a->underscores < b->underscores;
	if (a->length != b->length)
		return a->length < b->length;
	return strcmp(a->name, b->name) < 0;
}

/* Compares the names of the entries that tie with best, from alias on along the chain. */
static uint32_t choose_alias(const struct elf_symbols *symbols, uint64_t vaddr, uint32_t best, uint32_t alias)
{
	const struct elf_symtab_entry *entries = symbols->symtab.entries;
	struct alias found[2];
	unsigned chosen = 0;
	bool any = read_alias(symbols, best, &found[0]);

	for (unsigned steps = 0; alias != ELF_SYMTAB_NONE && steps < MAX_ALIASES;
	     steps++, alias = entries[alias].parent) {
		const struct elf_symtab_entry *entry = &entries[alias];

		if (entry->start != entries[best].start)
			break;
		if (vaddr - entry->start >= entry->extent || entry->rank != entries[best].rank ||
		    class_of(entry) != class_of(&entries[best]) || !read_alias(symbols, alias, &found[!chosen]))
			continue;
		if (!any || alias_is_better(&found[!chosen], &found[chosen]))
			chosen = !chosen;
		any = true;
	}
	return any ? found[chosen].entry : best;
}

static void describe(const struct elf_symtab_entry *entry, struct elf_symbol *out)
{
	out->start = entry->start;
	out->size = entry->unsized ? 0 : entry->extent;
}

int elf_symbols__lookup(struct elf_symbols *symbols, uint64_t vaddr, struct elf_symbol *symbol, char *name,
			size_t name_size)
{
	uint32_t alias, best = find_covering(&symbols->symtab, vaddr, &alias);
	char text[256];
	int length;

	if (best == ELF_SYMTAB_NONE)
		return -ENOENT;
	if (alias != ELF_SYMTAB_NONE)
		best = choose_alias(symbols, vaddr, best, alias);
	/* The caller's buffer is only written once the name is known to be there. */
	length = read_name(symbols, &symbols->symtab.entries[best], text, sizeof(text));
	if (length <= 0)
		return -ENOENT;
	if (name_size > 0) {
		if ((size_t)length + 1 < sizeof(text) || name_size <= sizeof(text)) {
			snprintf(name, name_size, "%s", text);
		} else if (read_name(symbols, &symbols->symtab.entries[best], name, name_size) < 0) {
			return -ENOENT;
		}
	}
	describe(&symbols->symtab.entries[best], symbol);
	return 0;
}

int elf_symbols__unnamed(const struct elf_symbols *symbols, uint64_t vaddr, uint64_t *start)
{
	return elf_fde_index__find(&symbols->fdes, &symbols->image, &symbols->elf, vaddr, start);
}

int elf_symbols__launch(struct elf_symbols *symbols, uint64_t return_address, char *name, size_t name_size)
{
	const struct cuda_registered_launch *all = symbols->launches;
	size_t low = ARRAY_BEFORE(i, symbols->n_launches, all[i].return_address < return_address);
	struct elf_symbol symbol;

	if (low == symbols->n_launches || all[low].return_address != return_address ||
	    elf_symbols__lookup(symbols, all[low].function, &symbol, name, name_size) < 0 ||
	    symbol.start != all[low].function)
		return -ENOENT;
	return 0;
}

size_t elf_symbols__functions(const struct elf_symbols *symbols, uint64_t low, uint64_t high, struct elf_symbol *out,
			      size_t room)
{
	const struct elf_symtab *t = &symbols->symtab;
	uint32_t at = low ? elf_symtab__last_before(t, low - 1) : ELF_SYMTAB_NONE;
	size_t n = 0;

	/* ELF_SYMTAB_NONE is the largest number, so that 0 follows it. */
	for (at++; at < t->n && t->entries[at].start < high; at++) {
		const struct elf_symtab_entry *entry = &t->entries[at];

		if (entry->table == ELF_TABLE_PLT || entry->table == ELF_TABLE_KERNELS || entry->unsized ||
		    !entry->extent)
			continue;
		if (n && out[n - 1].start == entry->start)
			continue;
		if (n == room)
			break;
		describe(entry, &out[n++]);
	}
	return n;
}

void elf_symbols__free(struct elf_symbols *symbols)
{
	if (!symbols)
		return;
	elf_symtab__release(&symbols->symtab);
	if (symbols->fd >= 0)
		close(symbols->fd);
	if (symbols->debug_fd >= 0)
		close(symbols->debug_fd);
	free(symbols->memory);
	free(symbols->mini_names);
	free(symbols->launches);
	free(symbols);
}
