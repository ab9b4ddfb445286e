/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Unwind rules of a Go program's functions, from its runtime's own table (daemon/elf/go_functions.h), as the runtime's
 * traceback follows them: Go writes no .eh_frame.
 *
 * Go runs each goroutine on a stack of its own. systemstack, morestack and asmcgocall go on on the thread's stack (that
 * of g0) and their frames there lead back to the goroutine's: rules of kind SO_CFA_GO_STACK and SO_CFA_GO_CGO, whose
 * offsets are read from the functions' code. mcall leaves its goroutine for good, so a stack ends there, as it does at
 * functions that Go marks as outermost ones (goexit, mstart).
 */
#ifndef STAKEOUT_GO_RULES_H
#define STAKEOUT_GO_RULES_H

#include "daemon/elf/go_functions.h"
#include "daemon/unwind/eh_frame.h"
#include "stakeout/abi.h"
#include "stakeout/cleanup.h"

struct go_rules;

/* eh: borrowed as long as the rules are used. -ENOENT: not a Go program; -ENOMEM, -ENOTSUP, another -errno. */
int go_rules__new(const struct eh_frame *eh, struct go_rules **out);
void go_rules__free(struct go_rules *rules);
CLEANUP_DEFINE(struct go_rules *, go_rules, go_rules__free)

/*
 * Function i of n, by rising address: [*start, *end) is what rules are for. False: it has none. A signal trampoline is
 * entered by a return to its first byte and begins one byte earlier.
 */
uint32_t go_rules__n(const struct go_rules *rules);
/* From the first function's beginning to the last one's end; there is one at least. */
void go_rules__span(const struct go_rules *rules, uint64_t *start, uint64_t *end);
bool go_rules__function(struct go_rules *rules, uint32_t i, uint64_t *start, uint64_t *end);

/* Calls `row` with the rules of that function, by rising address. What `row` returns other than 0 ends it. */
typedef int (*go_rule_fn)(void *context, uint64_t pc, const struct so_unwind_rule *rule);
int go_rules__each(struct go_rules *rules, uint32_t i, go_rule_fn row, void *context);

#endif
