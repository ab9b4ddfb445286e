/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which frames can be left by a register that calls need not keep.
 *
 * Hand-written code, OpenSSL's above all, keeps its caller's stack pointer in a register such as rax and calls its own
 * helpers, which leave that register alone. Its unwind information then finds the CFA by a register whose value is
 * known in the innermost frame only. If none of the code that a row calls ever writes that register, its value in the
 * innermost frame is also the one of the row's frame, however many helpers lie between: such rows get a rule of kind
 * SO_CFA_KEPT.
 */
#ifndef STAKEOUT_KEPT_CFA_H
#define STAKEOUT_KEPT_CFA_H

#include "daemon/unwind/cfi_rules.h"
#include "daemon/unwind/eh_frame.h"
#include "daemon/unwind/unwind_table.h"

/*
 * Replaces the rules of such rows; `table` has its index and rows, whose rules are in `rules`. Reads code from the file
 * that `eh` was read from, which must still be open. Rows whose code cannot be read or followed, or that come after
 * half a million instructions were decoded, keep their rules. 0 or -ENOMEM.
 */
int kept_cfa__mark(const struct eh_frame *eh, struct unwind_table *table, struct cfi_rules *rules);

#endif
