// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/symbols/function_parts.h"

#include <dwarf.h>
#include <stdbool.h>
#include <stdlib.h>

#include "daemon/unwind/cfi_entries.h"
#include "daemon/unwind/stack_insn.h"
#include "stakeout/array.h"

#define MAX_TEXT_BYTES (1u << 20) /* of one part; interpreters' loops have some 100 KB */

struct search {
	struct elf_image image;
	const struct elf_file *elf;
	struct stack_decoder *decoder;
	struct eh_frame eh;
	struct cfi_entries entries;
	struct function_part *parts;
	size_t n, room;
};

static void cleanup__search(struct search *s)
{
	cfi_entries__release(&s->entries);
	eh_frame__release(&s->eh);
	stack_decoder__free(s->decoder);
}

static bool is_known(const struct search *s, uint64_t vaddr)
{
	for (size_t i = 0; i < s->n; i++) {
		if (vaddr >= s->parts[i].low && vaddr < s->parts[i].high)
			return true;
	}
	return false;
}

/* The FDE whose text holds the address, by bisection; NULL. */
static const struct cfi_fde *fde_at(const struct search *s, uint64_t vaddr)
{
	size_t low = ARRAY_BEFORE(i, s->entries.n_fdes, s->entries.fdes[i].start <= vaddr);

	if (!low || vaddr - s->entries.fdes[low - 1].start >= s->entries.fdes[low - 1].length)
		return NULL;
	return &s->entries.fdes[low - 1];
}

/*
 * Whether at its start a frame is set up already, as it never is where a function is entered: its instructions then
 * change the CFA, or tell of saved registers, before they first advance.
 */
static bool begins_within_frame(const struct search *s, const struct cfi_fde *fde)
{
	for (uint32_t i = 0; i < fde->code_bytes; i++) {
		uint8_t op = s->eh.data[fde->code + i];

		if (op == DW_CFA_nop)
			continue;
		return op == DW_CFA_def_cfa || op == DW_CFA_def_cfa_offset || op == DW_CFA_def_cfa_register ||
		       op == DW_CFA_def_cfa_expression || (op & 0xc0) == DW_CFA_offset;
	}
	return false;
}

static void add_part_at(struct search *s, uint64_t target)
{
	const struct cfi_fde *fde;

	if (s->n == s->room || is_known(s, target))
		return;
	fde = fde_at(s, target);
	if (fde && (target != fde->start || begins_within_frame(s, fde)))
		s->parts[s->n++] = (struct function_part){ fde->start, fde->start + fde->length };
}

/* Text of these compilers holds no data between its instructions; where it does not decode, a byte is passed over. */
static int follow_branches(struct search *s, struct function_part part)
{
	uint64_t size = part.high - part.low, offset;
	_cleanup_free_ uint8_t *code = NULL;
	struct stack_insn insn;
	int ret;

	if (part.high <= part.low || size > MAX_TEXT_BYTES)
		return 0;
	ret = elf_file__offset(s->elf, part.low, &offset);
	if (ret < 0)
		return ret;
	code = malloc(size);
	if (!code)
		return -ENOMEM;
	ret = elf_image__read(&s->image, offset, code, size);
	for (uint64_t at = 0; ret == 0 && at < size; at += insn.length) {
		if (stack_decoder__decode(s->decoder, code + at, size - at, part.low + at, &insn) < 0) {
			insn.length = 1;
			continue;
		}
		if (insn.flow == STACK_FLOW_BRANCH || insn.flow == STACK_FLOW_JUMP)
			add_part_at(s, insn.target);
	}
	return ret;
}

int function_parts__find(int fd, const struct elf_file *elf, struct function_part *parts, size_t *n, size_t room)
{
	__attribute__((
		cleanup(cleanup__search))) struct search s = { .elf = elf, .parts = parts, .n = *n, .room = room };
	int ret = elf_image__of_file(fd, &s.image);

	if (ret == 0)
		ret = eh_frame__read(fd, &s.eh, NULL);
	if (ret == 0 && !s.eh.data)
		ret = -ENOENT;
	if (ret == 0)
		ret = cfi_entries__read(&s.eh, &s.entries);
	if (ret == 0)
		ret = stack_decoder__new(&s.decoder);
	for (size_t i = 0; ret == 0 && i < s.n; i++)
		ret = follow_branches(&s, parts[i]);
	if (ret == 0)
		*n = s.n;
	return ret;
}
