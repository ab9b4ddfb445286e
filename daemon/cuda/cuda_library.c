// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_library.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/elf/elf_dynamic.h"
#include "daemon/elf/elf_file.h"
#include "daemon/elf/elf_image.h"
#include "daemon/elf/elf_sections.h"
#include "daemon/elf/elf_symtab.h"
#include "stakeout/cleanup.h"

#define MAX_TABLE        (32u << 20)   /* symbols of a table, and */
#define MAX_NAMES_BYTES  (1024u << 20) /* bytes of its names: bounds the time on a hostile file */
#define MAX_NAMES        4096u         /* different places of a string table at which a CUDA function's name is */
#define READ_SYMBOLS     2048u
#define READ_BYTES       (64u << 10)
#define UNSIZED_BYTES    256u /* read of a function whose size the file does not say */
#define MAX_RODATA_BYTES (256u << 20)

/* In every version of the runtime's error texts since cudaErrorInsufficientDriver exists. */
static const char runtime_text[] = "CUDA driver version is insufficient for CUDA runtime version";

/* A place of a string table that holds a CUDA function's name, possibly as the end of a longer one. */
struct place {
	uint64_t at;
	uint8_t length;
	struct cuda_name name;
};

struct symbol {
	uint64_t vaddr, size;
	struct cuda_name name;
	bool dynamic; /* from .dynsym */
	char text[CUDA_NAME_MAX_BYTES];
};

struct reader {
	struct elf_image image;
	struct elf_file elf;
	struct elf_sections sections;
	struct place *places;
	size_t n_places, places_room;
	struct symbol *symbols;
	size_t n_symbols, room;
	char ifunc[CUDA_NAME_MAX_BYTES]; /* one that was left out; "": none */
	bool imports_runtime, full;
};

static void reader__release(struct reader *r)
{
	elf_sections__release(&r->sections);
	free(r->places);
	free(r->symbols);
}

/* Bytes of the symbol at `text`; a version ("@@V") is not part of it. 0: longer than a CUDA function's, or cut. */
static size_t name_length(const char *text, size_t size)
{
	for (size_t n = 0; n < size && n < CUDA_NAME_MAX_BYTES; n++)
		if (text[n] == '\0' || text[n] == '@')
			return n;
	return 0;
}

static int add_place(struct reader *r, const struct place *place)
{
	if (r->n_places == MAX_NAMES) {
		r->full = true;
		return 0;
	}
	if (r->n_places == r->places_room) {
		size_t room = r->places_room ? 2 * r->places_room : 256;
		struct place *larger = reallocarray(r->places, room, sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		r->places = larger;
		r->places_room = room;
	}
	r->places[r->n_places++] = *place;
	return 0;
}

/* Whether a name may begin there: "cuda…", or "cu" and a capital. */
static bool is_beginning(const char *at, const char *end)
{
	return end - at > 2 && (at[2] == 'd' || (at[2] >= 'A' && at[2] <= 'Z'));
}

/* Names begin with "cu" or "__cu", and a string table holds them anywhere: also as the end of another name. */
static int look_for_names(struct reader *r, const char *bytes, size_t size, uint64_t base, uint64_t from)
{
	const char *end = bytes + size;

	for (const char *at = bytes; (at = memmem(at, (size_t)(end - at), "cu", 2)); at += 2) {
		bool reserved = at - bytes >= 2 && at[-1] == '_' && at[-2] == '_';

		if (!is_beginning(at, end))
			continue;
		for (const char *text = reserved ? at - 2 : at; text <= at; text += 2) {
			struct place place = { .at = base + (uint64_t)(text - bytes) };
			size_t length = name_length(text, (size_t)(end - text));

			if (length == 0 || place.at < from || !cuda_names__find(text, length, &place.name))
				continue;
			place.length = (uint8_t)length;
			if (add_place(r, &place) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

/* Fills places with those of the string table, by rising place. Chunks overlap by the longest name. */
static int read_places(struct reader *r, const struct elf_symtab_location *where)
{
	_cleanup_free_ char *bytes = NULL;
	uint64_t from = 0;

	if (where->names_size > MAX_NAMES_BYTES || where->n_symbols > MAX_TABLE)
		return -EINVAL;
	bytes = malloc(READ_BYTES);
	if (!bytes)
		return -ENOMEM;
	r->n_places = 0;
	for (uint64_t at = 0; at < where->names_size;) {
		uint64_t left = where->names_size - at;
		size_t n = left < READ_BYTES ? (size_t)left : READ_BYTES;
		int err = elf_image__read(&r->image, where->names_at + at, bytes, n);

		if (err == 0)
			err = look_for_names(r, bytes, n, at, from);
		if (err < 0)
			return err;
		if (n == left)
			break;
		/* What begins in the last bytes may be cut: the next chunk has it whole. */
		from = r->n_places ? r->places[r->n_places - 1].at + 1 : 0;
		at += n - 2 * CUDA_NAME_MAX_BYTES;
	}
	return 0;
}

static const struct place *find_place(const struct reader *r, uint64_t at)
{
	struct place wanted = { .at = at };

	return bsearch(&wanted, r->places, r->n_places, sizeof(wanted), compare_places);
}

static const struct elf_segment *text_segment(const struct elf_file *elf, uint64_t vaddr)
{
	for (unsigned i = 0; i < elf->n_segments; i++) {
		const struct elf_segment *segment = &elf->segments[i];

		if ((segment->flags & PF_X) && vaddr >= segment->vaddr && vaddr - segment->vaddr < segment->filesz)
			return segment;
	}
	return NULL;
}

static int add_symbol(struct reader *r, const struct elf_symtab_location *where, const Elf64_Sym *symbol,
		      const struct place *place, bool dynamic)
{
	unsigned type = ELF64_ST_TYPE(symbol->st_info);
	struct symbol *s;

	if (symbol->st_shndx == SHN_UNDEF) {
		r->imports_runtime |= cuda_names__library(place->name) == CUDA_NAME_RUNTIME;
		return 0;
	}
	if (symbol->st_shndx == SHN_ABS || symbol->st_shndx == SHN_COMMON)
		return 0;
	/* Its symbol means the code that chooses the function, not the function. */
	if (type == STT_GNU_IFUNC && !r->ifunc[0])
		return elf_image__read(&r->image, where->names_at + symbol->st_name, r->ifunc, place->length);
	if (type != STT_FUNC || !text_segment(&r->elf, symbol->st_value))
		return 0;
	if (r->n_symbols == CUDA_LIBRARY_MAX_SYMBOLS) {
		r->full = true;
		return 0;
	}
	if (r->n_symbols == r->room) {
		size_t room = r->room ? 2 * r->room : 256;

		s = reallocarray(r->symbols, room, sizeof(*s));
		if (!s)
			return -ENOMEM;
		r->symbols = s;
		r->room = room;
	}
	s = &r->symbols[r->n_symbols];
	*s = (struct symbol){ symbol->st_value, symbol->st_size, place->name, dynamic, "" };
	if (elf_image__read(&r->image, where->names_at + symbol->st_name, s->text, place->length) < 0)
		return -EINVAL;
	r->n_symbols++;
	return 0;
}

static int read_table(struct reader *r, const struct elf_symtab_location *where, bool dynamic)
{
	Elf64_Sym symbols[READ_SYMBOLS];
	int err = read_places(r, where);

	if (err < 0 || r->n_places == 0)
		return err;
	for (uint64_t at = 0; at < where->n_symbols; at += READ_SYMBOLS) {
		uint64_t left = where->n_symbols - at;
		size_t n = left < READ_SYMBOLS ? (size_t)left : READ_SYMBOLS;

		err = elf_image__read(&r->image, where->symbols_at + at * sizeof(*symbols), symbols,
				      n * sizeof(*symbols));
		for (size_t i = 0; err == 0 && i < n; i++) {
			const struct place *place = find_place(r, symbols[i].st_name);

			if (place)
				err = add_symbol(r, where, &symbols[i], place, dynamic);
		}
		if (err < 0)
			return err;
	}
	return 0;
}

static int read_symbols(struct reader *r)
{
	struct elf_symtab_location where;
	int err = elf_symtab__locate(&r->image, &r->sections, SHT_SYMTAB, &where);

	if (err == 0)
		err = read_table(r, &where, false);
	if (err < 0 && err != -ENOENT)
		return err;
	err = elf_symtab__locate(&r->image, &r->sections, SHT_DYNSYM, &where);
	if (err == -ENOENT)
		err = elf_dynamic__locate(&r->image, &r->elf, &where);
	if (err == 0)
		err = read_table(r, &where, true);
	return err == -ENOENT ? 0 : err;
}

/* The symbols of one address lie together, the one that gives the function its name first. */
static int compare_symbols(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;
	size_t x_length = strlen(x->text), y_length = strlen(y->text);

	if (x->vaddr != y->vaddr)
		return x->vaddr < y->vaddr ? -1 : 1;
	if (x->name.type != y->name.type)
		return x->name.type < y->name.type ? -1 : 1;
	if (x->name.number != y->name.number)
		return x->name.number < y->name.number ? -1 : 1;
	if (x_length != y_length)
		return x_length < y_length ? -1 : 1;
	return strcmp(x->text, y->text);
}

__attribute__((format(printf, 2, 3))) static void note_problem(struct cuda_library *library, const char *format, ...)
{
	size_t used = strlen(library->problem), room = sizeof(library->problem) - used;
	va_list ap;

	va_start(ap, format);
	if (used && room > 2) {
		memcpy(library->problem + used, "; ", 3);
		used += 2;
		room -= 2;
	}
	vsnprintf(library->problem + used, room, format, ap);
	va_end(ap);
}

/* Writes the names of the n symbols of one function: "NAME\0ALIAS ALIAS …". */
static int set_names(struct cuda_function *function, const struct symbol *symbols, size_t n)
{
	size_t size = strlen(symbols[0].text) + 2;
	char *to;

	for (size_t i = 1; i < n; i++)
		size += strlen(symbols[i].text) + 1;
	function->text = malloc(size);
	if (!function->text)
		return -ENOMEM;
	function->symbol = function->text;
	to = stpcpy(function->text, symbols[0].text) + 1;
	function->aliases = to;
	*to = '\0';
	for (size_t i = 1; i < n; i++) {
		function->ambiguous |= symbols[i].name.type != symbols[0].name.type ||
				       symbols[i].name.number != symbols[0].name.number;
		if (strcmp(symbols[i].text, symbols[i - 1].text) == 0)
			continue; /* in both tables */
		if (to != function->aliases)
			*to++ = ' ';
		to = stpcpy(to, symbols[i].text);
	}
	return 0;
}

/* 0, or -EILSEQ or -ENOTSUP when nothing can be probed there. */
static int set_site(struct reader *r, struct probe_decoder *decoder, uint8_t *bytes, const struct symbol *symbol,
		    struct cuda_function *function)
{
	const struct elf_segment *segment = text_segment(&r->elf, symbol->vaddr);
	uint64_t at = symbol->vaddr - segment->vaddr, left = segment->filesz - at;
	uint64_t size = symbol->size ? symbol->size : UNSIZED_BYTES;
	struct probe_code code = { .bytes = bytes, .address = symbol->vaddr };
	int err;

	if (size > PROBE_CODE_MAX_BYTES)
		size = PROBE_CODE_MAX_BYTES;
	code.size = (size_t)(size < left ? size : left);
	code.whole = symbol->size == code.size;
	err = elf_image__read(&r->image, segment->offset + at, bytes, code.size);
	if (err < 0)
		return -EILSEQ;
	err = probe_site__choose(decoder, &code, &function->site);
	if (err < 0)
		return err;
	function->name = symbol->name;
	function->vaddr = symbol->vaddr;
	function->offset = segment->offset + at + function->site.offset;
	return 0;
}

/* Of the symbols of one address, the largest size: some assemblers' aliases have none. */
static size_t group_at(struct reader *r, size_t from)
{
	size_t end = from + 1;

	for (; end < r->n_symbols && r->symbols[end].vaddr == r->symbols[from].vaddr; end++)
		if (r->symbols[end].size > r->symbols[from].size)
			r->symbols[from].size = r->symbols[end].size;
	return end;
}

static int make_functions(struct reader *r, struct cuda_library *library)
{
	_cleanup_(probe_decoder) struct probe_decoder *decoder = NULL;
	_cleanup_free_ uint8_t *bytes = malloc(PROBE_CODE_MAX_BYTES);
	int err = bytes ? probe_decoder__new(&decoder) : -ENOMEM;
	unsigned n_refused = 0;
	char refused[CUDA_NAME_MAX_BYTES] = "";

	if (err < 0)
		return err;
	qsort(r->symbols, r->n_symbols, sizeof(*r->symbols), compare_symbols);
	library->functions = calloc(r->n_symbols, sizeof(*library->functions));
	if (!library->functions)
		return -ENOMEM;
	for (size_t at = 0, end; at < r->n_symbols; at = end) {
		struct cuda_function *function = &library->functions[library->n_functions];

		end = group_at(r, at);
		if (set_site(r, decoder, bytes, &r->symbols[at], function) < 0) {
			if (n_refused++ == 0)
				memcpy(refused, r->symbols[at].text, sizeof(refused));
			continue;
		}
		err = set_names(function, &r->symbols[at], end - at);
		if (err < 0)
			return err;
		library->n_functions++;
	}
	if (n_refused) {
		note_problem(library, "%u begin with code that cannot be probed, such as %s", n_refused, refused);
	}
	return 0;
}

static enum cuda_library_kind kind_of(const struct reader *r)
{
	bool in_static = false;

	for (size_t i = 0; i < r->n_symbols; i++) {
		if (cuda_names__library(r->symbols[i].name) != CUDA_NAME_RUNTIME)
			continue;
		if (r->symbols[i].dynamic)
			return CUDA_LIBRARY_RUNTIME;
		in_static = true;
	}
	if (in_static)
		return CUDA_LIBRARY_RUNTIME_STATIC;
	return r->n_symbols ? CUDA_LIBRARY_DRIVER : CUDA_LIBRARY_NONE;
}

static bool section_holds(const struct reader *r, const Elf64_Shdr *section, const char *text, size_t length)
{
	_cleanup_free_ char *bytes = malloc(READ_BYTES);
	uint64_t size = section->sh_size < MAX_RODATA_BYTES ? section->sh_size : MAX_RODATA_BYTES;

	for (uint64_t at = 0; bytes && at < size;) {
		uint64_t left = size - at;
		size_t n = left < READ_BYTES ? (size_t)left : READ_BYTES;

		if (elf_image__read(&r->image, section->sh_offset + at, bytes, n) < 0)
			return false;
		if (memmem(bytes, n, text, length))
			return true;
		if (n == left)
			break;
		at += n - length;
	}
	return false;
}

/*
 * A stripped file with a runtime of its own: it has device code, which nvcc registers with a runtime, it neither
 * defines nor imports functions of one, and a runtime's texts are in it. Device code may also be loaded through the
 * driver, and then the texts are missing.
 */
static bool has_stripped_runtime(const struct reader *r)
{
	const Elf64_Shdr *section;

	if (r->imports_runtime || (!elf_sections__by_name(&r->sections, &r->image, ".nv_fatbin") &&
				   !elf_sections__by_name(&r->sections, &r->image, ".nvFatBinSegment")))
		return false;
	section = elf_sections__by_name(&r->sections, &r->image, ".rodata");
	return section && section_holds(r, section, runtime_text, sizeof(runtime_text) - 1);
}

static int read_image(const struct elf_image *image, const struct elf_file *elf, struct cuda_library *out,
		      struct so_error *err)
{
	__attribute__((cleanup(cleanup__cuda_library))) struct cuda_library library = { 0 };
	__attribute__((cleanup(reader__release))) struct reader r = { .image = *image, .elf = *elf };
	int e = elf_sections__read(image, &r.sections);

	if (e == 0)
		e = read_symbols(&r);
	if (e < 0)
		return so_err(err, e, e == -ENOMEM ? "out of memory" : "damaged ELF file: its symbols cannot be read");
	library.kind = kind_of(&r);
	library.imports_runtime = r.imports_runtime;
	if (r.n_symbols)
		e = make_functions(&r, &library);
	if (e < 0)
		return so_err(err, e, "cannot look for places to probe: %s", strerror(-e));
	if (r.ifunc[0]) {
		note_problem(&library, "indirect functions (IFUNC) are left out, such as %s", r.ifunc);
	}
	if (r.full)
		note_problem(&library, "more CUDA functions than are looked at");
	if (library.kind != CUDA_LIBRARY_RUNTIME && library.kind != CUDA_LIBRARY_RUNTIME_STATIC &&
	    has_stripped_runtime(&r))
		note_problem(&library,
			     "has a CUDA runtime linked in, without symbols: its calls are seen as those that it makes "
			     "of the driver");
	*out = library;
	library = (struct cuda_library){ 0 };
	return 0;
}

int cuda_library__read(int fd, struct cuda_library *out, struct so_error *err)
{
	struct elf_image image;
	struct elf_file elf;
	int e = elf_file__read(fd, &elf, err);

	if (e < 0)
		return e;
	e = elf_image__of_file(fd, &image);
	return e < 0 ? so_err(err, e, "cannot read: %s", strerror(-e)) : read_image(&image, &elf, out, err);
}

int cuda_library__read_memory(const void *memory, size_t size, struct cuda_library *out, struct so_error *err)
{
	struct elf_image image = elf_image__of_memory(memory, size);
	struct elf_file elf;
	int e = elf_file__read_memory(memory, size, &elf, err);

	return e < 0 ? e : read_image(&image, &elf, out, err);
}

void cuda_library__release(struct cuda_library *library)
{
	for (size_t i = 0; i < library->n_functions; i++)
		free(library->functions[i].text);
	free(library->functions);
	*library = (struct cuda_library){ 0 };
}
