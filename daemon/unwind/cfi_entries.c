// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/unwind/cfi_entries.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/unwind/cfi_reader.h"
#include "stakeout/abi.h"

/* With 32 bits for offsets and lengths in struct cfi_fde. */
_Static_assert(EH_FRAME_MAX_BYTES <= UINT32_MAX, "offsets in the section must fit 32 bits");

struct walk {
	const struct eh_frame *eh;
	struct cfi_entries found;
	uint32_t cie_room, fde_room;
};

static uint64_t vaddr_of(const struct eh_frame *eh, const uint8_t *at)
{
	return eh->vaddr + (uint64_t)(at - eh->data);
}

/* Room for one more element of `size` bytes. */
static int grow(void **array, uint32_t *room, uint32_t n, size_t size)
{
	uint32_t wanted = *room ? *room + *room / 2 : 64;
	void *p;

	if (n < *room)
		return 0;
	p = realloc(*array, (size_t)wanted * size);
	if (!p)
		return -ENOMEM;
	*array = p;
	*room = wanted;
	return 0;
}

/* The augmentation string's data (LSB Core, "The Common Information Entry Format"). An unknown letter is refused. */
static bool parse_augmentation(const struct eh_frame *eh, const Dwarf_CIE *raw, struct cfi_cie *cie)
{
	const char *letters = raw->augmentation;
	struct cfi_reader r = { raw->augmentation_data, raw->augmentation_data };
	uint64_t ignored;

	cie->pointer_encoding = DW_EH_PE_absptr;
	if (!*letters || !strcmp(letters, "eh"))
		return true;
	if (*letters++ != 'z' || !raw->augmentation_data)
		return false;
	r.end = r.at + raw->augmentation_data_size;
	cie->sized_augmentation = true;
	for (; *letters; letters++) {
		uint64_t encoding = 0;

		if (strchr("LPR", *letters) && !cfi_reader__fixed(&r, 1, &encoding))
			return false;
		switch (*letters) {
		case 'R':
			cie->pointer_encoding = (uint8_t)encoding;
			break;
		case 'P': /* the routine's address does not matter here, its size does */
			if (encoding != DW_EH_PE_omit &&
			    !cfi_reader__pointer(&r, encoding & 0x0f, vaddr_of(eh, r.at), 0, &ignored))
				return false;
			break;
		case 'S':
			cie->signal_frame = true;
			break;
		case 'L':
		case 'B': /* return addresses signed with the B key; memory tagging: other machines' */
		case 'G':
			break;
		default:
			return false;
		}
	}
	return true;
}

static bool decode_cie(const struct eh_frame *eh, const Dwarf_CIE *raw, struct cfi_cie *cie)
{
	cie->code_align = raw->code_alignment_factor;
	cie->data_align = raw->data_alignment_factor;
	cie->ra_column =
		raw->return_address_register > UINT32_MAX ? UINT32_MAX : (uint32_t)raw->return_address_register;
	if (cie->ra_column == SO_REG_RBX || cie->ra_column == SO_REG_RBP ||
	    raw->initial_instructions > raw->initial_instructions_end || !parse_augmentation(eh, raw, cie))
		return false;
	return !cfi_program__run_initial(cie, raw->initial_instructions,
					 (size_t)(raw->initial_instructions_end - raw->initial_instructions));
}

static int add_cie(struct walk *w, uint64_t offset, const Dwarf_CIE *raw)
{
	struct cfi_entries *found = &w->found;
	struct cfi_cie cie = { .offset = offset };

	if (found->n_cies == CFI_MAX_CIES) { /* its FDEs will miss it and be counted */
		found->n_bad++;
		return 0;
	}
	if (grow((void **)&found->cies, &w->cie_room, found->n_cies, sizeof(*found->cies)))
		return -ENOMEM;
	cie.usable = decode_cie(w->eh, raw, &cie);
	found->cies[found->n_cies++] = cie;
	return 0;
}

static int compare_cie(const void *key, const void *element)
{
	const uint64_t *offset = key;
	const struct cfi_cie *cie = element;

	return *offset < cie->offset ? -1 : *offset > cie->offset;
}

/* A CIE stands before its FDEs, most often it is the last one met. NULL: none, or not a usable one. */
static const struct cfi_cie *find_cie(const struct cfi_entries *found, uint64_t offset)
{
	const struct cfi_cie *cie = NULL;

	if (!found->n_cies)
		return NULL;
	cie = &found->cies[found->n_cies - 1];
	if (cie->offset != offset)
		cie = bsearch(&offset, found->cies, found->n_cies, sizeof(*cie), compare_cie);
	return cie && cie->usable ? cie : NULL;
}

/* False: damaged. An FDE of length 0 is sound and says nothing. */
static bool decode_fde(const struct walk *w, const Dwarf_FDE *raw, struct cfi_fde *fde)
{
	const struct eh_frame *eh = w->eh;
	const struct cfi_cie *cie = find_cie(&w->found, raw->CIE_pointer);
	struct cfi_reader r = { raw->start, raw->end };
	uint64_t start, length, skip;

	if (!cie || raw->start > raw->end ||
	    !cfi_reader__pointer(&r, cie->pointer_encoding, vaddr_of(eh, r.at), 0, &start) ||
	    !cfi_reader__pointer(&r, cie->pointer_encoding & 0x0f, 0, 0, &length))
		return false;
	if (cie->sized_augmentation && (!cfi_reader__uleb(&r, &skip) || !cfi_reader__skip(&r, skip)))
		return false;
	if (length && (length > UINT32_MAX || start + length < start || !eh_frame__covers(eh, start, start + length)))
		return false;
	*fde = (struct cfi_fde){
		.start = start,
		.length = (uint32_t)length,
		.cie = (uint32_t)(cie - w->found.cies),
		.code = (uint32_t)(r.at - eh->data),
		.code_bytes = (uint32_t)cfi_reader__left(&r),
	};
	return true;
}

static int add_fde(struct walk *w, const Dwarf_FDE *raw)
{
	struct cfi_entries *found = &w->found;
	struct cfi_fde fde;

	found->n_read++;
	if (!decode_fde(w, raw, &fde)) {
		found->n_bad++;
		return 0;
	}
	if (!fde.length)
		return 0;
	if (grow((void **)&found->fdes, &w->fde_room, found->n_fdes, sizeof(*found->fdes)))
		return -ENOMEM;
	found->fdes[found->n_fdes++] = fde;
	return 0;
}

/* Zero words end the section of one object file; in a linked file others may follow. */
static uint64_t skip_terminators(const struct eh_frame *eh, uint64_t offset)
{
	uint32_t length;

	while (eh->size - offset >= sizeof(length)) {
		memcpy(&length, eh->data + offset, sizeof(length));
		if (length)
			return offset;
		offset += sizeof(length);
	}
	return eh->size;
}

static int walk_section(struct walk *w)
{
	Elf_Data data = {
		.d_buf = w->eh->data,
		.d_size = w->eh->size,
		.d_type = ELF_T_BYTE,
		.d_version = EV_CURRENT,
	};
	Dwarf_Off offset = 0;

	while ((offset = skip_terminators(w->eh, offset)) < w->eh->size) {
		Dwarf_Off next = (Dwarf_Off)-1;
		Dwarf_CFI_Entry entry;
		int ret = dwarf_next_cfi(w->eh->e_ident, &data, true, offset, &next, &entry);

		if (ret > 0)
			break;
		if (ret < 0)
			w->found.n_bad++;
		else if (dwarf_cfi_cie_p(&entry))
			ret = add_cie(w, offset, &entry.cie);
		else
			ret = add_fde(w, &entry.fde);
		if (ret == -ENOMEM)
			return ret;
		if (next == (Dwarf_Off)-1 || next <= offset ||
		    next > w->eh->size) /* a length that cannot be stepped over */
			break;
		offset = next;
	}
	return 0;
}

static int compare_fde(const void *a, const void *b)
{
	const struct cfi_fde *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->code < y->code ? -1 : x->code > y->code;
}

/* Linkers keep the order of the input, in which cold parts come after their functions: seldom sorted, never far. */
static void sort_fdes(struct cfi_entries *found)
{
	for (uint32_t i = 1; i < found->n_fdes; i++) {
		if (found->fdes[i].start < found->fdes[i - 1].start) {
			qsort(found->fdes, found->n_fdes, sizeof(*found->fdes), compare_fde);
			return;
		}
	}
}

int cfi_entries__read(const struct eh_frame *eh, struct cfi_entries *out)
{
	struct walk w = { .eh = eh };
	int ret = walk_section(&w);

	if (ret) {
		cfi_entries__release(&w.found);
		return ret;
	}
	sort_fdes(&w.found);
	*out = w.found;
	return 0;
}

void cfi_entries__release(struct cfi_entries *entries)
{
	free(entries->cies);
	free(entries->fdes);
	*entries = (struct cfi_entries){ 0 };
}
