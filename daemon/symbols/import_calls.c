// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/symbols/import_calls.h"

#include <stdlib.h>

#include "daemon/elf/elf_relocations.h"
#include "stakeout/cleanup.h"

#define MAX_NAMES_BYTES (1024u << 20) /* of .dynstr, */
#define MAX_SYMBOLS     (32u << 20)   /* of .dynsym, and */
#define MAX_TEXT_BYTES  (1024u << 20) /* of code: bounds the time on a hostile file */
#define MAX_PLACES      32u           /* of the names in .dynstr: a linker writes each once */
#define MAX_SLOTS       32u
#define MAX_STUBS       64u
#define READ_SYMBOLS    2048u
#define READ_BYTES      (64u << 10) /* of names, and */
#define READ_CODE       (256u << 10)
#define LONGEST_CALL    6u /* bytes: ff 15 disp32 */

struct place {
	uint64_t at;
	unsigned name;
};

struct places {
	struct place places[MAX_PLACES];
	unsigned n;
};

/* How many bytes all names begin with. */
static size_t common_prefix(const struct import_names *names)
{
	size_t n = strlen(names->names[0]);

	for (unsigned i = 1; i < names->n; i++) {
		for (size_t j = 0; j < n; j++) {
			if (names->names[i][j] != names->names[0][j])
				n = j;
		}
	}
	return n;
}

static void look_for_names(const struct import_names *names, const char *bytes, size_t size, uint64_t base,
			   struct places *places)
{
	size_t prefix = common_prefix(names);
	const char *end = bytes + size;

	for (const char *at = bytes; (at = memmem(at, (size_t)(end - at), names->names[0], prefix)); at++) {
		for (unsigned i = 0; i < names->n; i++) {
			size_t length = strlen(names->names[i]) + 1;

			if (length <= (size_t)(end - at) && memcmp(at, names->names[i], length) == 0 &&
			    places->n < MAX_PLACES)
				places->places[places->n++] = (struct place){ base + (uint64_t)(at - bytes), i };
		}
	}
}

/*
 * Pieces overlap by the longest name without its end: what begins in one is whole in it, and a short name may be found
 * twice.
 */
static int find_places(const struct elf_image *image, const struct elf_symtab_location *dynsym,
		       const struct import_names *names, struct places *places)
{
	_cleanup_free_ char *bytes = NULL;
	size_t longest = 0;

	if (dynsym->names_size > MAX_NAMES_BYTES || dynsym->n_symbols > MAX_SYMBOLS)
		return -EINVAL;
	for (unsigned i = 0; i < names->n; i++)
		longest = strlen(names->names[i]) > longest ? strlen(names->names[i]) : longest;
	bytes = malloc(READ_BYTES + longest);
	if (!bytes)
		return -ENOMEM;
	for (uint64_t at = 0; at < dynsym->names_size; at += READ_BYTES) {
		uint64_t left = dynsym->names_size - at;
		size_t n = left < READ_BYTES + longest ? (size_t)left : READ_BYTES + longest;
		int ret = elf_image__read(image, dynsym->names_at + at, bytes, n);

		if (ret < 0)
			return ret;
		look_for_names(names, bytes, n, at, places);
	}
	return 0;
}

static void note_symbol(const struct places *places, const Elf64_Sym *symbol, uint32_t index,
			struct import_names *names)
{
	for (unsigned i = 0; i < places->n; i++) {
		uint32_t *known = &names->symbols[places->places[i].name];

		if (places->places[i].at == symbol->st_name && !*known)
			*known = index;
	}
}

int import_names__find(const struct elf_image *image, const struct elf_symtab_location *dynsym,
		       struct import_names *names)
{
	struct places places = { .n = 0 };
	Elf64_Sym symbols[READ_SYMBOLS];
	int ret = find_places(image, dynsym, names, &places);

	memset(names->symbols, 0, sizeof(names->symbols));
	if (ret < 0 || places.n == 0)
		return ret;
	for (uint64_t at = 0; at < dynsym->n_symbols; at += READ_SYMBOLS) {
		uint64_t left = dynsym->n_symbols - at;
		size_t n = left < READ_SYMBOLS ? (size_t)left : READ_SYMBOLS;

		ret = elf_image__read(image, dynsym->symbols_at + at * sizeof(*symbols), symbols, n * sizeof(*symbols));
		if (ret < 0)
			return ret;
		for (size_t i = 0; i < n; i++)
			note_symbol(&places, &symbols[i], (uint32_t)(at + i), names);
	}
	return 0;
}

/* Where a call may lead to, or through, to be one of a name. */
struct target {
	uint64_t vaddr;
	unsigned name;
};

struct scan {
	const struct elf_image *image;
	const struct elf_file *elf;
	const struct elf_sections *sections;
	const struct import_names *names;
	struct target slots[MAX_SLOTS], stubs[MAX_STUBS];
	unsigned n_slots, n_stubs;
	bool indirect; /* some slots are not the linkage table's own: code may call through them */
	uint64_t lowest_stub, highest_stub;
	uint64_t text_left; /* bytes that may still be read */
	uint64_t last_end;  /* of the call that was visited last */
	uint8_t *code;      /* owned */
	int (*visit)(void *context, const struct import_call *call);
	void *context;
};

static void cleanup__scan(struct scan *s)
{
	free(s->code);
}

static int note_slot(void *context, const Elf64_Rela *relocation)
{
	uint32_t type = ELF64_R_TYPE(relocation->r_info), symbol = ELF64_R_SYM(relocation->r_info);
	struct scan *s = context;

	if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) || symbol == 0)
		return 0;
	for (unsigned i = 0; i < s->names->n && s->n_slots < MAX_SLOTS; i++) {
		if (s->names->symbols[i] != symbol)
			continue;
		s->slots[s->n_slots++] = (struct target){ relocation->r_offset, i };
		s->indirect |= type == R_X86_64_GLOB_DAT;
	}
	return 0;
}

static const struct target *slot_at(const struct scan *s, uint64_t vaddr)
{
	for (unsigned i = 0; i < s->n_slots; i++) {
		if (s->slots[i].vaddr == vaddr)
			return &s->slots[i];
	}
	return NULL;
}

static void add_stub(struct scan *s, uint64_t vaddr, unsigned name)
{
	if (s->n_stubs == MAX_STUBS)
		return;
	s->stubs[s->n_stubs++] = (struct target){ vaddr, name };
	if (vaddr < s->lowest_stub)
		s->lowest_stub = vaddr;
	if (vaddr > s->highest_stub)
		s->highest_stub = vaddr;
}

static int32_t displacement_at(const uint8_t *at)
{
	int32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/*
 * [endbr64] [bnd] jmp *DISP(%rip), as .plt, .plt.sec and .plt.got have it (x86-64 psABI, "Procedure Linkage Table"). A
 * stub that is entered at its jump is one too.
 */
static int note_stubs(struct scan *s, const uint8_t *code, size_t from, size_t size, uint64_t vaddr)
{
	const uint8_t *at = code + from, *end = code + size;

	for (; (at = memmem(at, (size_t)(end - at), "\xff\x25", 2)); at += 2) {
		size_t offset = (size_t)(at - code), begin = offset;
		const struct target *slot;

		if (end - at < 6)
			break;
		slot = slot_at(s, vaddr + offset + 6 + (uint64_t)(int64_t)displacement_at(at + 2));
		if (!slot)
			continue;
		add_stub(s, vaddr + begin, slot->name);
		if (begin >= 1 && code[begin - 1] == 0xf2)
			add_stub(s, vaddr + --begin, slot->name);
		if (begin >= 4 && memcmp(code + begin - 4, "\xf3\x0f\x1e\xfa", 4) == 0)
			add_stub(s, vaddr + begin - 4, slot->name);
	}
	return 0;
}

static int visit_call(struct scan *s, const uint8_t *code, size_t offset, size_t length, uint64_t vaddr, unsigned name)
{
	size_t before = offset < IMPORT_CALLS_CODE_BYTES ? offset : IMPORT_CALLS_CODE_BYTES;
	struct import_call call;

	if (vaddr + offset - s->last_end < before)
		before = (size_t)(vaddr + offset - s->last_end);
	s->last_end = vaddr + offset + length;
	call = (struct import_call){ .name = name,
				     .vaddr = vaddr + offset,
				     .return_address = vaddr + offset + length,
				     .code = code + offset - before,
				     .code_bytes = before };
	return s->visit(s->context, &call);
}

static int visit_direct(struct scan *s, const uint8_t *code, size_t offset, uint64_t vaddr)
{
	uint64_t target = vaddr + offset + 5 + (uint64_t)(int64_t)displacement_at(code + offset + 1);

	if (target < s->lowest_stub || target > s->highest_stub)
		return 0;
	for (unsigned i = 0; i < s->n_stubs; i++) {
		if (s->stubs[i].vaddr == target)
			return visit_call(s, code, offset, 5, vaddr, s->stubs[i].name);
	}
	return 0;
}

static int visit_indirect(struct scan *s, const uint8_t *code, size_t offset, uint64_t vaddr)
{
	const struct target *slot =
		slot_at(s, vaddr + offset + 6 + (uint64_t)(int64_t)displacement_at(code + offset + 2));

	return slot ? visit_call(s, code, offset, 6, vaddr, slot->name) : 0;
}

/* call REL32: e8; call *DISP(%rip): ff 15. Of those that begin in the overlap the next piece tells. */
static int visit_calls(struct scan *s, const uint8_t *code, size_t from, size_t size, uint64_t vaddr)
{
	const uint8_t *end = code + size, *limit = size - from > READ_CODE ? code + from + READ_CODE : end;
	const uint8_t *at;
	int ret = 0;

	for (at = code + from; ret == 0 && s->n_stubs > 0 && at < limit; at++) {
		at = memchr(at, 0xe8, (size_t)(limit - at));
		if (!at || end - at < 5)
			break;
		ret = visit_direct(s, code, (size_t)(at - code), vaddr);
	}
	for (at = code + from; ret == 0 && s->indirect && at < limit; at++) {
		at = memmem(at, (size_t)(end - at), "\xff\x15", 2);
		if (!at || at >= limit || end - at < 6)
			break;
		ret = visit_indirect(s, code, (size_t)(at - code), vaddr);
	}
	return ret;
}

/*
 * Reads code in pieces, each with what lies before it, as far as a visit may look back, and a call's bytes behind it.
 */
static int each_piece(struct scan *s, uint64_t offset, uint64_t bytes, uint64_t vaddr,
		      int (*look)(struct scan *s, const uint8_t *code, size_t from, size_t size, uint64_t vaddr))
{
	if (bytes > s->text_left)
		bytes = s->text_left;
	s->text_left -= bytes;
	for (uint64_t at = 0; at < bytes; at += READ_CODE) {
		size_t before = at < IMPORT_CALLS_CODE_BYTES ? (size_t)at : IMPORT_CALLS_CODE_BYTES;
		uint64_t left = bytes - at;
		size_t n = before + (left < READ_CODE + LONGEST_CALL - 1 ? (size_t)left : READ_CODE + LONGEST_CALL - 1);
		int ret = elf_image__read(s->image, offset + at - before, s->code, n);

		if (ret == 0)
			ret = look(s, s->code, before, n, vaddr + at - before);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int each_segment(struct scan *s,
			int (*look)(struct scan *s, const uint8_t *code, size_t from, size_t size, uint64_t vaddr))
{
	int ret = 0;

	for (unsigned i = 0; ret == 0 && i < s->elf->n_segments; i++) {
		const struct elf_segment *segment = &s->elf->segments[i];

		if (segment->flags & PF_X)
			ret = each_piece(s, segment->offset, segment->filesz, segment->vaddr, look);
	}
	return ret;
}

/* Stubs may be anywhere in the code of a file that has no section headers. */
static int find_stubs(struct scan *s)
{
	static const char *const names[] = { ".plt", ".plt.sec", ".plt.got" };
	int ret = 0;

	if (s->sections->n == 0)
		return each_segment(s, note_stubs);
	for (unsigned i = 0; ret == 0 && i < 3; i++) {
		const Elf64_Shdr *section = elf_sections__by_name(s->sections, s->image, names[i]);

		if (section)
			ret = each_piece(s, section->sh_offset, section->sh_size, section->sh_addr, note_stubs);
	}
	return ret;
}

int import_calls__each(const struct elf_image *image, const struct elf_file *elf, const struct elf_sections *sections,
		       const struct import_names *names, int (*visit)(void *context, const struct import_call *call),
		       void *context)
{
	__attribute__((cleanup(cleanup__scan))) struct scan s = { .image = image,
								  .elf = elf,
								  .sections = sections,
								  .names = names,
								  .lowest_stub = UINT64_MAX,
								  .text_left = MAX_TEXT_BYTES,
								  .visit = visit,
								  .context = context };
	int ret;

	if (ELF_IMAGE_MACHINE != EM_X86_64)
		return 0;
	ret = elf_relocations__each(image, elf, note_slot, &s);
	if (ret < 0 || s.n_slots == 0)
		return ret;
	s.code = malloc(READ_CODE + IMPORT_CALLS_CODE_BYTES + LONGEST_CALL);
	if (!s.code)
		return -ENOMEM;
	ret = find_stubs(&s);
	s.text_left = MAX_TEXT_BYTES;
	return ret < 0 ? ret : each_segment(&s, visit_calls);
}
