/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs call-frame instructions (DWARF 5, section 6.4.2, with the GNU extensions of .eh_frame) once from the
 * start to the end of a function and reports each row of their table. Of the register columns only
 * those that an so_unwind_rule can hold are followed: rbx, rbp and the return address.
 */
#ifndef STAKEOUT_CFI_PROGRAM_H
#define STAKEOUT_CFI_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How the caller's value of one column is found. */
enum cfi_how {
	CFI_UNSET, /* never mentioned */
	CFI_SAME,
	CFI_UNDEFINED,
	CFI_OFFSET,     /* in memory at CFA + offset */
	CFI_VALUE,      /* CFA + offset itself */
	CFI_REGISTER,   /* in register `number` */
	CFI_EXPRESSION, /* in memory at the address that the expression yields */
	CFI_VALUE_EXPRESSION,
};

struct cfi_place {
	uint8_t how;     /* enum cfi_how */
	uint32_t number; /* of the register, or the expression's size in bytes */
	union {
		int64_t offset;
		const uint8_t *expression; /* borrowed from the section */
	};
};

enum cfi_column {
	CFI_RBX,
	CFI_RBP,
	CFI_RSP, /* unset, as nearly always: the caller's is the CFA */
	CFI_RA,
	CFI_COLUMNS,
};

/*
 * While an expression gives the CFA, the register and the offset wait: hand-written code returns to them by
 * DW_CFA_def_cfa_register alone, which is what libgcc's unwinder makes of it (DWARF itself forbids it).
 */
struct cfi_cfa {
	uint8_t how; /* CFI_UNSET, CFI_REGISTER (plus offset) or CFI_EXPRESSION */
	uint32_t reg;
	int64_t offset;
	struct cfi_place expression; /* its `how` is CFI_EXPRESSION */
};

struct cfi_state {
	struct cfi_cfa cfa;
	struct cfi_place columns[CFI_COLUMNS];
};

/* A common information entry, decoded. */
struct cfi_cie {
	uint64_t offset; /* in the section */
	uint64_t code_align;
	int64_t data_align;
	uint32_t ra_column;       /* DWARF number of the return address's column */
	uint8_t pointer_encoding; /* DW_EH_PE_* of addresses in its FDEs */
	bool sized_augmentation;  /* its FDEs have a block of augmentation data */
	bool signal_frame;
	bool usable; /* false: damaged or not understood, and so are all its FDEs */
	struct cfi_state initial;
};

struct cfi_program {
	const uint8_t *code;
	size_t size;
	uint64_t code_vaddr; /* address of code[0], for DW_CFA_set_loc */
	uint64_t start, end; /* addresses that the program describes, end excluded */
};

/* Called with ascending addresses, the first one `start`; the state holds until the next call's address. A return
 * other than 0 ends the run. */
typedef int (*cfi_row_fn)(void *context, uint64_t pc, const struct cfi_state *state);

/* 0, -EINVAL for a damaged program (after rows may have been reported), or what the callback returned. */
int cfi_program__run(const struct cfi_program *program, const struct cfi_cie *cie, cfi_row_fn row,
		     void *context);

/* Runs a CIE's own instructions and keeps what they set up in cie->initial. -EINVAL as above. */
int cfi_program__run_initial(struct cfi_cie *cie, const uint8_t *code, size_t size);

#endif
