// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/symbols/dwarf_lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/symbols/zstd_sections.h"
#include "stakeout/array.h"

#define MAX_RANGES 0x800000  /* of all units, and of the functions of one */
#define MAX_STEPS  0x4000000 /* entries that are looked at for one question: a damaged tree may lead in circles */
#define MAX_LEVELS 64        /* namespaces and classes around a function */
#define LOOK_BACK  16        /* ranges before the nearest one: those of different units should not overlap */

struct range {
	uint64_t low, high;
	uint64_t what; /* number of the unit, or offset of the function's entry */
};

struct ranges {
	struct range *list; /* by `low` once they are complete */
	size_t n, capacity;
};

struct unit {
	Dwarf_Die die;
	const char *directory;
	struct ranges functions;
	/* They were looked for: those that no other holds, and all. */
	bool has_functions, has_nested;
};

/* One file. */
struct opened {
	int fd; /* -1: none */
	Dwarf *dwarf;
	Elf *elf;       /* of the image; NULL: libdw opened the file itself */
	uint8_t *image; /* zstd_sections.h */
};

struct dwarf_lines {
	struct opened file, alt;
	struct unit *units;
	size_t n_units, cap_units;
	struct ranges by_address;
	uint64_t steps;
};

/* What a linker left out has its ranges at 0, 1, or at the end of the address space. */
static bool is_there(uint64_t low, uint64_t high)
{
	return low > 1 && low < high && low < UINT64_MAX - 1;
}

static int add_ranges(struct ranges *ranges, Dwarf_Die *die, uint64_t what)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0) {
		if (!is_there(low, high))
			continue;
		if (ranges->n == MAX_RANGES || ARRAY_RESERVE(ranges->list, ranges->capacity, ranges->n + 1))
			return -ENOMEM;
		ranges->list[ranges->n++] = (struct range){ low, high, what };
	}
	return 0;
}

static int by_low(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->low > y->low) - (x->low < y->low);
}

static void sort(struct ranges *ranges)
{
	if (ranges->n)
		qsort(ranges->list, ranges->n, sizeof(*ranges->list), by_low);
}

/* The nearest one before the address that reaches beyond it. */
static const struct range *find(const struct ranges *ranges, uint64_t address)
{
	size_t low = ARRAY_BEFORE(i, ranges->n, ranges->list[i].low <= address);

	for (size_t i = 0; i < LOOK_BACK && i < low; i++) {
		if (address < ranges->list[low - 1 - i].high)
			return &ranges->list[low - 1 - i];
	}
	return NULL;
}

static const char *string_of(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;

	return dwarf_formstring(dwarf_attr_integrate(die, name, &attribute)) ?: "";
}

static int add_units(struct dwarf_lines *lines)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Half version;
	uint8_t type;
	Dwarf_Die die;
	int ret;

	while (!(ret = dwarf_get_units(lines->file.dwarf, cu, &cu, &version, &type, &die, NULL))) {
		if (type != DW_UT_compile && type != DW_UT_skeleton)
			continue;
		if (ARRAY_RESERVE(lines->units, lines->cap_units, lines->n_units + 1) ||
		    add_ranges(&lines->by_address, &die, lines->n_units))
			return -ENOMEM;
		lines->units[lines->n_units++] =
			(struct unit){ .die = die, .directory = string_of(&die, DW_AT_comp_dir) };
	}
	sort(&lines->by_address);
	/* What precedes a damaged unit is still good. */
	return lines->by_address.n ? 0 : ret < 0 ? -EINVAL : -ENODATA;
}

/* -EINVAL: it has no DWARF that can be read; other errors as zstd_sections__image(). */
static int open_file(struct opened *f)
{
	size_t size;
	int ret = zstd_sections__image(f->fd, &f->image, &size);

	if (ret && ret != -ENODATA)
		return ret;
	elf_version(EV_CURRENT);
	f->elf = ret ? NULL : elf_memory((char *)f->image, size);
	f->dwarf = ret ? dwarf_begin(f->fd, DWARF_C_READ) : f->elf ? dwarf_begin_elf(f->elf, DWARF_C_READ, NULL) : NULL;
	return f->dwarf ? 0 : -EINVAL;
}

static void close_file(struct opened *f)
{
	dwarf_end(f->dwarf);
	elf_end(f->elf);
	free(f->image);
	if (f->fd >= 0)
		close(f->fd);
}

int dwarf_lines__open(int fd, int alt_fd, struct dwarf_lines **out)
{
	_cleanup_(dwarf_lines) struct dwarf_lines *lines = calloc(1, sizeof(*lines));
	int ret;

	if (!lines) {
		close(fd);
		if (alt_fd >= 0)
			close(alt_fd);
		return -ENOMEM;
	}
	lines->file.fd = fd;
	lines->alt.fd = alt_fd;
	ret = open_file(&lines->file);
	if (ret)
		return ret;
	if (alt_fd >= 0 && !open_file(&lines->alt))
		dwarf_setalt(lines->file.dwarf, lines->alt.dwarf);
	ret = add_units(lines);
	if (ret)
		return ret;
	*out = TAKE_PTR(lines);
	return 0;
}

void dwarf_lines__free(struct dwarf_lines *lines)
{
	if (!lines)
		return;
	close_file(&lines->file);
	close_file(&lines->alt);
	for (size_t i = 0; i < lines->n_units; i++)
		free(lines->units[i].functions.list);
	free(lines->units);
	free(lines->by_address.list);
	free(lines);
}

static bool step(struct dwarf_lines *lines)
{
	return ++lines->steps < MAX_STEPS;
}

static bool holds_functions(int tag, bool nested)
{
	switch (tag) {
	case DW_TAG_namespace:
	case DW_TAG_module:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_interface_type:
		return true;
	case DW_TAG_subprogram:
	case DW_TAG_lexical_block:
		return nested;
	default:
		return false;
	}
}

/* What there was no room or no time for is not found. */
static void add_functions(struct dwarf_lines *lines, Dwarf_Die *parent, bool nested, unsigned level,
			  struct ranges *functions)
{
	Dwarf_Die child;

	if (dwarf_child(parent, &child))
		return;
	do {
		int tag = dwarf_tag(&child);

		if (tag == DW_TAG_subprogram && add_ranges(functions, &child, dwarf_dieoffset(&child)))
			return;
		if (holds_functions(tag, nested) && level < MAX_LEVELS)
			add_functions(lines, &child, nested, level + 1, functions);
	} while (step(lines) && !dwarf_siblingof(&child, &child));
}

static const struct range *find_listed(struct dwarf_lines *lines, struct unit *unit, bool nested, uint64_t address)
{
	unit->functions.n = 0;
	add_functions(lines, &unit->die, nested, 0, &unit->functions);
	sort(&unit->functions);
	return find(&unit->functions, address);
}

/*
 * C++'s lambdas, Fortran's internal procedures, and the like are within other functions. All that these hold is looked
 * at only for an address that no other function has.
 */
static bool find_function(struct dwarf_lines *lines, struct unit *unit, uint64_t address, Dwarf_Die *function)
{
	const struct range *range = find(&unit->functions, address);

	if (!range && !unit->has_functions) {
		unit->has_functions = true;
		range = find_listed(lines, unit, false, address);
	}
	if (!range && !unit->has_nested) {
		unit->has_nested = true;
		range = find_listed(lines, unit, true, address);
	}
	return range && dwarf_offdie(lines->file.dwarf, range->what, function);
}

static bool holds_code(int tag)
{
	return tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block || tag == DW_TAG_try_block ||
	       tag == DW_TAG_catch_block || tag == DW_TAG_with_stmt;
}

/* The size of the range of *die that the address lies in; 0: of none. */
static uint64_t size_around(Dwarf_Die *die, uint64_t address)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0) {
		if (address >= low && address < high)
			return high - low;
	}
	return 0;
}

/*
 * The entry within *parent that the address lies in: of blocks that overlap, as link-time optimization makes them, the
 * smallest.
 */
static bool go_inwards(struct dwarf_lines *lines, Dwarf_Die *parent, uint64_t address)
{
	uint64_t least = UINT64_MAX, size;
	Dwarf_Die child, inner;

	if (dwarf_child(parent, &child))
		return false;
	do {
		size = holds_code(dwarf_tag(&child)) ? size_around(&child, address) : 0;
		if (size && size < least) {
			least = size;
			inner = child;
		}
	} while (step(lines) && !dwarf_siblingof(&child, &child));
	if (least == UINT64_MAX)
		return false;
	*parent = inner;
	return true;
}

/* Outermost first. */
static size_t find_inlined(struct dwarf_lines *lines, const Dwarf_Die *function, uint64_t address,
			   Dwarf_Die inlined[DWARF_LINES_MAX_DEPTH])
{
	Dwarf_Die at = *function;
	size_t n = 0;

	for (size_t depth = 0; depth < DWARF_LINES_MAX_DEPTH && go_inwards(lines, &at, address); depth++) {
		if (dwarf_tag(&at) == DW_TAG_inlined_subroutine)
			inlined[n++] = at;
	}
	return n;
}

static void set_file(const struct unit *unit, const char *file, struct dwarf_frame *frame)
{
	frame->file = file ?: "";
	frame->directory = frame->file[0] && frame->file[0] != '/' ? unit->directory : "";
}

static void set_position(struct unit *unit, uint64_t address, struct dwarf_frame *frame)
{
	Dwarf_Line *line = dwarf_getsrc_die(&unit->die, address);
	int number = 0;

	set_file(unit, line ? dwarf_linesrc(line, NULL, NULL) : NULL, frame);
	if (line && !dwarf_lineno(line, &number) && number > 0)
		frame->line = (uint32_t)number;
}

static uint64_t number_of(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	return dwarf_formudata(dwarf_attr(die, name, &attribute), &value) ? 0 : value;
}

/* Where the inlined function was called. */
static void set_call(struct unit *unit, Dwarf_Die *inlined, struct dwarf_frame *frame)
{
	Dwarf_Attribute attribute;
	Dwarf_Files *files;
	uint64_t line = number_of(inlined, DW_AT_call_line);
	size_t n;

	set_file(unit, NULL, frame);
	if (dwarf_attr(inlined, DW_AT_call_file, &attribute) && !dwarf_getsrcfiles(&unit->die, &files, &n))
		set_file(unit, dwarf_filesrc(files, number_of(inlined, DW_AT_call_file), NULL, NULL), frame);
	frame->line = line <= INT32_MAX ? (uint32_t)line : 0;
}

static const char *name_of(Dwarf_Die *die)
{
	const char *name = string_of(die, DW_AT_linkage_name);

	name = name[0] ? name : string_of(die, DW_AT_MIPS_linkage_name);
	return name[0] ? name : string_of(die, DW_AT_name);
}

size_t dwarf_lines__find(struct dwarf_lines *lines, uint64_t address, struct dwarf_frame *frames, size_t room)
{
	const struct range *range = find(&lines->by_address, address);
	Dwarf_Die function, inlined[DWARF_LINES_MAX_DEPTH];
	struct dwarf_frame frame = { .function = "" };
	struct unit *unit = range ? &lines->units[range->what] : NULL;
	size_t n = 0, n_inlined = 0;
	bool found;

	if (!unit)
		return 0;
	lines->steps = 0;
	set_position(unit, address, &frame);
	found = find_function(lines, unit, address, &function);
	if (found)
		n_inlined = find_inlined(lines, &function, address, inlined);
	for (size_t i = n_inlined; i > 0; i--) {
		frame.function = name_of(&inlined[i - 1]);
		/* One without a name is part of the function around it. */
		if (frame.function[0] && n + 1 < room)
			frames[n++] = frame;
		set_call(unit, &inlined[i - 1], &frame);
	}
	frame.function = found ? name_of(&function) : "";
	frames[n++] = frame;
	return frame.file[0] || n > 1 ? n : 0;
}
