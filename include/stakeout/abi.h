/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the programs in bpf/ and the daemon share: the layout of unwind tables, of the maps, and of the records
 * in the ring buffers. Included from BPF C and from user-space C; nothing here needs more than <linux/types.h>.
 *
 * Unwind tables
 * -------------
 * Every table lives in one pool of 32-bit words, made of shards of SO_SHARD_WORDS words each.
 *
 *   rows   one word each, sorted by address: the low SO_BLOCK_SHIFT bits of the address at which the row begins to
 *          apply, above them the number of its rule (SO_ROW_*). A row applies until the next one.
 *
 *   index  one word a block of 2^SO_BLOCK_SHIFT bytes of text: the number of the first row that begins in that block
 *          or in a later one. The index of n blocks has n + 1 words, so that the rows of block b are those from
 *          index[b] to index[b + 1] - 1. If none of them begins at or before the address, the row just before index[b]
 *          applies: there always is one, because a table begins with a row at or before its first block.
 *
 *   rules  shared by all files, SO_MAX_RULES at most; rule 0 means "no rule is known here".
 *
 * In the pool a table is laid out in one or more pieces, each with its index and its rows in one shard; index words
 * are then offsets in that shard, and a piece begins with a copy of the row that applies at its start.
 *
 * Addresses inside a table are the ELF file's own virtual addresses.
 */
#ifndef STAKEOUT_ABI_H
#define STAKEOUT_ABI_H

#include <linux/types.h>

#define SO_SHARD_SHIFT 20
#define SO_SHARD_WORDS (1u << SO_SHARD_SHIFT)
#define SO_SHARD_MASK  (SO_SHARD_WORDS - 1)
#define SO_MAX_SHARDS  512 /* 2 GiB of tables, some 500 million rows */

#define SO_BLOCK_SHIFT 10
#define SO_BLOCK_BYTES (1u << SO_BLOCK_SHIFT)
#define SO_BLOCK_MASK  (SO_BLOCK_BYTES - 1)

#define SO_ROW(pc, rule)    ((__u32)(rule) << SO_BLOCK_SHIFT | ((__u32)(pc)&SO_BLOCK_MASK))
#define SO_ROW_PC_LOW(row)  ((row)&SO_BLOCK_MASK)
#define SO_ROW_RULE(row)    ((row) >> SO_BLOCK_SHIFT)
#define SO_MAX_RULES        (1u << 17)
#define SO_RULE_NONE        0u /* rule number: no unwind information at this address */
#define SO_RULE_UNAVAILABLE 1u /* rule number: there is one, but the shared rule table was full */
#define SO_FIRST_RULE       2u

/* General registers by their DWARF number (System V psABI x86-64, figure 3.36). */
enum so_reg {
	SO_REG_RAX,
	SO_REG_RDX,
	SO_REG_RCX,
	SO_REG_RBX,
	SO_REG_RSI,
	SO_REG_RDI,
	SO_REG_RBP,
	SO_REG_RSP,
	SO_REG_R8,
	SO_REG_R9,
	SO_REG_R10,
	SO_REG_R11,
	SO_REG_R12,
	SO_REG_R13,
	SO_REG_R14,
	SO_REG_R15,
	SO_NREGS,
};

/* How the canonical frame address (the caller's rsp after the return) is found. */
enum so_cfa_kind {
	SO_CFA_NONE,     /* no unwind information covers the address */
	SO_CFA_END,      /* outermost frame: the return address is undefined */
	SO_CFA_REG,      /* cfa_reg + cfa_off */
	SO_CFA_KEPT,     /* the same, and nothing that is called from here writes cfa_reg (daemon/unwind/kept_cfa.h) */
	SO_CFA_DEREF,    /* *(cfa_reg + cfa_off) + cfa_off2: stack-realigned functions, hand-written vector code */
	SO_CFA_INDEXED,  /* *(base + index * 8 + cfa_off) + cfa_off2, see SO_CFA_REGS(): hand-written code */
	SO_CFA_PLT,      /* rsp + cfa_off + ((rip & 15) >= cfa_off2 ? 8 : 0) */
	SO_CFA_SIGNAL,   /* signal trampoline: all registers are in the sigcontext at rsp + 40 */
	SO_CFA_GO_STACK, /* from a Go thread's own stack back to the goroutine's, see SO_GO_STACK() */
	SO_CFA_GO_CGO,   /* the same, of one that called C */
	SO_CFA_GO_FRAME, /* the same, of a function whose frame rbp leads back to */
	SO_CFA_UNSUPPORTED, /* an expression or a register save that this table cannot hold */
	SO_CFA_KINDS,
};

/* Where the caller's value of a callee-saved register is. */
enum so_save_kind {
	SO_SAVE_SAME,      /* unchanged */
	SO_SAVE_CFA,       /* in memory at CFA + off */
	SO_SAVE_RBP,       /* in memory at the callee's own rbp + off (DW_CFA_expression in realigned functions) */
	SO_SAVE_UNDEFINED, /* lost, or saved where the table cannot say */
};

/* Where the return address is. */
enum so_ra_kind {
	SO_RA_CFA8, /* at CFA - 8, as every call leaves it */
	SO_RA_REG,  /* in a register (vfork keeps it in rdi); known in the innermost frame only */
};

/* One unwind rule, 16 bytes; equal rules have equal bytes. Offsets are in bytes. Unused fields are zero. */
struct so_unwind_rule {
	__s32 cfa_off;
	__s16 rbp_off;
	__s16 rbx_off;
	__u8 cfa_kind;  /* enum so_cfa_kind */
	__u8 cfa_reg;   /* enum so_reg */
	__u8 saves;     /* enum so_save_kind of rbp in the low nibble, of rbx in the high one */
	__u8 ra;        /* enum so_ra_kind in the low nibble, for SO_RA_REG the enum so_reg in the high one */
	__s32 cfa_off2; /* last: SO_RULE_SHORT_BYTES without it are a whole rule where the kind does not use it */
};

#define SO_RULE_SHORT_BYTES 12

/* cfa_reg of SO_CFA_INDEXED; the index is not rax. */
#define SO_CFA_REGS(base, index) ((__u8)((base) | (index) << 4))
#define SO_CFA_BASE(regs)        ((regs)&15)
#define SO_CFA_INDEX(regs)       ((regs) >> 4)

/*
 * How the runtime of Go comes back to a goroutine's stack (daemon/unwind/go_rules.h). rbp and rbx are as they were, so
 * their fields have offsets too; g, m and curg are pointers, 8 bytes each.
 *   SO_CFA_GO_STACK  g = *(fs base + cfa_off), m = *(g + rbp_off), curg = *(m + rbx_off), sp = *(curg + SP(cfa_off2)).
 *                    ADD(cfa_off2) is 8: the CFA is sp + 8. It is 0: the CFA is sp, and the return address that which
 *                    lies behind that of sp in curg.
 *   SO_CFA_GO_CGO    g = *(rsp + cfa_off), depth = *(rsp + cfa_off2). The CFA is *(g + rbp_off) - depth + 8, and
 *                    depth + 8 where g is 0.
 *   SO_CFA_GO_FRAME  The CFA is rbp + 16, and rbp is saved there.
 */
#define SO_GO_STACK(sp, add)      ((__s32)((sp) | (add) << 16))
#define SO_GO_STACK_SP(cfa_off2)  ((cfa_off2)&0xffff)
#define SO_GO_STACK_ADD(cfa_off2) ((cfa_off2) >> 16)

#define SO_SAVES(rbp, rbx) ((__u8)((rbp) | (rbx) << 4))
#define SO_RA(kind, reg)   ((__u8)((kind) | (reg) << 4))

/* Causes for which a stack ends before its thread's outermost frame: X(enumerator, word, explanation). */
#define SO_TRUNCATIONS(X)                                                                                       \
	X(NONE, "complete", "the stack reaches the thread's outermost frame")                                   \
	X(NO_RULES, "no-rules", "code without unwind information whose frame pointer leads nowhere")            \
	X(FP_ROOT, "frame-pointer-root", "code without unwind information; its frame-pointer chain ended at 0") \
	X(NO_MAPPING, "no-mapping", "an address in no executable mapping")                                      \
	X(MAPS_PENDING, "maps-pending", "the process changed its mappings, the new ones were not read yet")     \
	X(RULE_UNSUPPORTED, "rule-unsupported", "an unwind rule that stakeout cannot follow")                   \
	X(RULE_TABLE_FULL, "rule-table-full", "the shared table of unwind rules is full")                       \
	X(REG_UNKNOWN, "register-unknown", "the rule needs a register whose value is not known in this frame")  \
	X(STACK_READ, "stack-unreadable", "stack memory could not be read (not mapped or not resident)")        \
	X(STACK_ORDER, "stack-order", "the next frame would not lie above this one: a broken or foreign stack") \
	X(TABLE_FULL, "table-space-full", "the file's unwind table did not fit into the pool")                  \
	X(TABLE_BROKEN, "table-broken", "the file's unwind information is damaged or could not be read")        \
	X(TABLE_LOOKUP, "table-lookup", "a table lookup failed, which should not happen")                       \
	X(DEPTH, "depth", "more user frames than stakeout keeps")                                               \
	X(COMPAT, "32-bit", "a thread running 32-bit code")                                                     \
	X(NO_USER, "no-user-stack", "the thread has no user memory any more: it is exiting")

enum so_truncation {
#define X(name, word, why) SO_TRUNC_##name,
	SO_TRUNCATIONS(X)
#undef X
		SO_TRUNC_COUNT,
};

/* Causes for which a sample is lost altogether: X(enumerator, word, explanation). */
#define SO_LOSSES(X)                                                                                      \
	X(COUNTS_FULL, "counts-map-full", "the map of counts was full before its window ended")           \
	X(STACKS_FULL, "stacks-map-full", "the map of known stacks was full before its window ended")     \
	X(RING_FULL, "stack-ring-full", "the ring buffer for new stacks was full")                        \
	X(NO_BUFFER, "no-buffer", "a per-CPU buffer or map was not available, which should not happen")   \
	X(STACK_MISSING, "stack-missing", "a count arrived whose stack did not, which should not happen") \
	X(MEMORY, "out-of-memory", "the daemon had no memory for it")                                     \
	X(NOT_PERMITTED, "not-permitted",                                                                 \
	  "the thread had rights that the target's user has not, as set-user-ID programs do")

enum so_loss {
#define X(name, word, why) SO_LOSS_##name,
	SO_LOSSES(X)
#undef X
		SO_LOSS_COUNT,
};

/* One round of the hash by which a stack is known, the same in the kernel and in the daemon: multiply and fold. */
static inline __attribute__((always_inline)) __u64 so_mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 29;
}

/*
 * 1 where a < b, else 0, without a branch: before 5.12 or so the verifier follows each way through each turn of a loop,
 * and gives up where there are too many.
 */
static inline __attribute__((always_inline)) __u64 so_is_below(__u64 a, __u64 b)
{
	return ((~a & b) | ((~a | b) & (a - b))) >> 63;
}

#define SO_MAX_USER_FRAMES   1024
#define SO_MAX_KERNEL_FRAMES 127
#define SO_MAX_FRAMES        (SO_MAX_USER_FRAMES + SO_MAX_KERNEL_FRAMES)

/*
 * A user frame: the number of its file in the upper 16 bits, the ELF virtual address in the lower 48. File 0 means that
 * the address lies in no file: the lower bits are the process's own address. The addresses are those of the instruction
 * to attribute: for a caller the return address minus one. A kernel frame is a plain kernel address.
 */
#define SO_FRAME_FILE_SHIFT   48
#define SO_FRAME_ADDR_MASK    ((1ull << SO_FRAME_FILE_SHIFT) - 1)
#define SO_FRAME(file, vaddr) ((__u64)(file) << SO_FRAME_FILE_SHIFT | ((__u64)(vaddr)&SO_FRAME_ADDR_MASK))
#define SO_FRAME_FILE(frame)  ((__u32)((frame) >> SO_FRAME_FILE_SHIFT))
#define SO_FRAME_ADDR(frame)  ((frame)&SO_FRAME_ADDR_MASK)
#define SO_MAX_FILES          65535

/* A return address that a return probe has replaced on a thread's stack. */
struct so_return_probe {
	__u64 at; /* where it lies; 0: none */
	__u64 address;
};

#define SO_MAX_RETURN_PROBES 8

#endif
