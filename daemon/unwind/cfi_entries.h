/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An .eh_frame section's entries: CIEs decoded, FDEs as references into the section. libdw frames (dwarf_next_cfi). */
#ifndef STAKEOUT_CFI_ENTRIES_H
#define STAKEOUT_CFI_ENTRIES_H

#include "daemon/unwind/cfi_program.h"
#include "daemon/unwind/eh_frame.h"

/* A linker merges equal CIEs: libraries have from one to a few thousand. */
#define CFI_MAX_CIES (1u << 18)

struct cfi_fde {
	uint64_t start;  /* virtual address */
	uint32_t length; /* bytes of text */
	uint32_t cie;    /* index into cies */
	uint32_t code;   /* its instructions: offset in the section, and bytes */
	uint32_t code_bytes;
};

struct cfi_entries {
	struct cfi_cie *cies; /* ascending by offset */
	struct cfi_fde *fdes; /* ascending by start, then by place in the section */
	uint32_t n_cies, n_fdes;
	uint32_t n_read; /* FDEs seen, damaged and empty ones included */
	uint32_t n_bad;  /* damaged entries, and FDEs for text that the file cannot execute */
};

/* The instructions stay in eh->data, which must outlive *out. 0 or -ENOMEM; *out is untouched on failure. */
int cfi_entries__read(const struct eh_frame *eh, struct cfi_entries *out);
void cfi_entries__release(struct cfi_entries *entries);
CLEANUP_DEFINE_OF(struct cfi_entries, cfi_entries, cfi_entries__release)

#endif
