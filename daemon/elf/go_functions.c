// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/elf/go_functions.h"

#include <stdlib.h>

#include "daemon/elf/elf_sections.h"

#define MAGIC_1_18 0xfffffff0u
#define MAGIC_1_20 0xfffffff1u

/* The head: magic, two zero bytes, instruction alignment, pointer size, then eight words. */
struct head {
	uint32_t magic;
	uint8_t zero[2], alignment, pointer_bytes;
	uint64_t n_functions, n_files, text, names, units, files, values, functions;
};

/* A function's record up to where its layout depends on the version. */
struct record {
	uint32_t entry, name, args, defer_return, depths;
};

/* funcID, flag: behind startLine, which 1.20 has inserted. */
#define FLAGS_1_18 37
#define FLAGS_1_20 41

/* Of the index: where a function begins, and where its record is. The last one has the text's end alone. */
struct index_entry {
	uint32_t entry, record;
};

#define MAX_DEPTH (1u << 30)

static const Elf64_Shdr *find_section(const struct elf_sections *sections, const struct elf_image *image)
{
	return elf_sections__by_name(sections, image, ".gopclntab")
		       ?: elf_sections__by_name(sections, image, ".data.rel.ro.gopclntab");
}

static bool holds(const struct go_functions *f, uint64_t at, uint64_t bytes)
{
	return at <= f->size && bytes <= f->size - at;
}

static int read_head(struct go_functions *f, uint64_t file_offset)
{
	struct head head;

	if (f->size < sizeof(head))
		return -EINVAL;
	memcpy(&head, f->table, sizeof(head));
	if (head.magic != MAGIC_1_18 && head.magic != MAGIC_1_20)
		return -ENOENT;
	/* In position-independent programs the address is left to a relocation. */
	if (head.alignment != 1 || head.pointer_bytes != 8 || !head.text)
		return -ENOENT;
	if (head.n_functions > GO_FUNCTIONS_MAX || head.n_functions >= f->size / sizeof(struct index_entry) ||
	    !holds(f, head.functions, (head.n_functions + 1) * sizeof(struct index_entry) - sizeof(uint32_t)) ||
	    !holds(f, head.names, 1) || !holds(f, head.values, 1) || head.text >= 1ull << 47)
		return -EINVAL;
	f->text = head.text;
	f->n = (uint32_t)head.n_functions;
	f->names = head.names;
	f->depths = head.values;
	f->functions = head.functions;
	f->flags = head.magic == MAGIC_1_18 ? FLAGS_1_18 : FLAGS_1_20;
	f->names_at = file_offset + head.names;
	f->names_size = f->size - head.names;
	return 0;
}

int go_functions__read(const struct elf_image *image, struct go_functions *out)
{
	_cleanup_(elf_sections) struct elf_sections sections = { 0 };
	_cleanup_(go_functions) struct go_functions f = { 0 };
	const Elf64_Shdr *section;
	int ret = elf_sections__read(image, &sections);

	if (ret)
		return ret;
	section = find_section(&sections, image);
	if (!section)
		return -ENOENT;
	if (section->sh_type != SHT_PROGBITS || section->sh_size > GO_FUNCTIONS_MAX_BYTES ||
	    !elf_sections__in_image(image, section))
		return -EINVAL;
	f.size = section->sh_size;
	f.table = malloc(f.size + 1);
	if (!f.table)
		return -ENOMEM;
	f.table[f.size] = 0; /* ends the last name */
	ret = elf_image__read(image, section->sh_offset, f.table, f.size);
	ret = ret ?: read_head(&f, section->sh_offset);
	if (ret)
		return ret;
	*out = f;
	f.table = NULL;
	return 0;
}

bool go_functions__get(const struct go_functions *f, uint32_t i, struct go_function *out)
{
	const size_t at = f->functions + (size_t)i * sizeof(struct index_entry);
	struct index_entry entry;
	struct record record;
	uint32_t end;

	if (i >= f->n)
		return false;
	memcpy(&entry, f->table + at, sizeof(entry));
	memcpy(&end, f->table + at + sizeof(entry), sizeof(end));
	if (end <= entry.entry || !holds(f, f->functions + (uint64_t)entry.record, f->flags + 1))
		return false;
	memcpy(&record, f->table + f->functions + entry.record, sizeof(record));
	*out = (struct go_function){ .start = f->text + entry.entry,
				     .end = f->text + end,
				     .name = record.name,
				     .depths = record.depths,
				     .flags = f->table[f->functions + entry.record + f->flags] };
	return true;
}

const char *go_functions__name(const struct go_functions *f, const struct go_function *function)
{
	return function->name < f->names_size ? (const char *)f->table + f->names + function->name : "";
}

/* A base-128 number of 32 bits at most. */
static bool read_number(const struct go_functions *f, size_t *at, uint32_t *out)
{
	uint32_t value = 0;

	for (unsigned shift = 0; shift < 32 && *at < f->size; shift += 7) {
		uint8_t byte = f->table[(*at)++];

		value |= (uint32_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*out = value;
			return true;
		}
	}
	return false;
}

/*
 * Pairs: how much the depth changes (its sign in the lowest bit), and for how many bytes of code. No change: the end.
 */
int go_functions__depths(const struct go_functions *f, const struct go_function *function, go_depth_fn step,
			 void *context)
{
	size_t at = f->depths + function->depths;
	uint64_t pc = function->start;
	uint32_t depth = UINT32_MAX, change, bytes;

	/* 0 is no table: a function without code of its own. */
	while (function->depths && pc < function->end) {
		int ret;

		if (!read_number(f, &at, &change))
			return -EINVAL;
		if (!change && pc != function->start)
			return 0;
		if (!read_number(f, &at, &bytes))
			return -EINVAL;
		depth += change & 1 ? ~(change >> 1) : change >> 1;
		if (depth > MAX_DEPTH || !bytes)
			return -EINVAL;
		ret = step(context, pc, depth);
		if (ret)
			return ret;
		pc += bytes;
	}
	return 0;
}

void go_functions__release(struct go_functions *f)
{
	free(f->table);
	*f = (struct go_functions){ 0 };
}
