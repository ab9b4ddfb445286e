/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Unwind rules for code that has no unwind information, from the machine code alone: JIT kernels, assembly.
 *
 * From one address the code is followed forward, over all direct jumps and branches, to the returns it can reach. How
 * far a return has moved rsp says where the return address lies, hence the CFA; what rbp and rbx hold by then says
 * where the caller's values are. Every instruction on the way gets the rule of its own place.
 *
 * A rule is given only if all returns that were reached agree on the CFA. What is taken for granted:
 *   - calls return, with rsp as it was and rbx, rbp, r12 to r15 as they were;
 *   - a store through a pointer that is not derived from rsp or rbp does not hit a saved register;
 *   - a register that its function has changed and that belongs to the caller is restored before the return.
 */
#ifndef STAKEOUT_STACK_EFFECT_H
#define STAKEOUT_STACK_EFFECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/unwind/stack_code.h"
#include "stakeout/abi.h"
#include "stakeout/cleanup.h"

/* The rule for every pc in [address, address + length). */
struct effect_row {
	uint64_t address;
	uint32_t length;
	struct so_unwind_rule rule;
	uint32_t group, checksum; /* for who keeps it (daemon/unwind/learned_code.h); 0 here */
};

/* Sorted by address, not overlapping; touching rows differ. Zero-initialise; release with effect_rows__release(). */
struct effect_rows {
	struct effect_row *rows;
	size_t n;
};

void effect_rows__release(struct effect_rows *rows);
CLEANUP_DEFINE(struct effect_rows *, effect_rows, effect_rows__release)

/* The row that holds the address, or NULL. */
const struct effect_row *effect_rows__find(const struct effect_rows *rows, uint64_t address);

/* The disassembler and memory that following uses again; for one thread at a time. -ENOMEM, -ENOTSUP. */
struct effect_reader;
int effect_reader__new(struct effect_reader **out);
void effect_reader__free(struct effect_reader *reader);
CLEANUP_DEFINE(struct effect_reader *, effect_reader, effect_reader__free)

/*
 * Follows the code from pc, the address of an instruction that was interrupted. Only code in [limit_low, limit_high) is
 * read, through `read`; a direct jump out of it is taken for a tail call. The rows hold pc, and other instructions of
 * the same function that were met.
 *
 * -ENOENT: no return was reached within the budget, or not all agree, or what they say cannot be put in a rule;
 * -ENOMEM. On failure *out is untouched; on success it is overwritten.
 *
 * Rules may use a register other than rsp, rbp and rbx, which is known in an innermost frame only.
 */
int stack_effect__follow(struct effect_reader *reader, effect_read_fn read, void *context, uint64_t pc,
			 uint64_t limit_low, uint64_t limit_high, struct effect_rows *out);

/*
 * The same from a return address, that is for a frame which is not the innermost. A caller is looked up at its return
 * address minus one, so the rows hold that too. Code behind a call that never returns belongs to something else;
 * most of that is recognised here and is -ENOENT, where stack_effect__follow() would answer.
 */
int stack_effect__follow_return(struct effect_reader *reader, effect_read_fn read, void *context,
				uint64_t return_address, uint64_t limit_low, uint64_t limit_high,
				struct effect_rows *out);

/*
 * Whether a stack begins at a return address: no call lies before it and no return behind it, but a few instructions on
 * a trap, as in what C libraries put below a coroutine's first function (glibc's __start_context, boost.context's
 * finish).
 */
bool stack_effect__is_begin(struct effect_reader *reader, effect_read_fn read, void *context, uint64_t return_address);

#endif
