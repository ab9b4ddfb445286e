/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The native unwinder: from registers to the frames of a user stack, innermost first, by compiled .eh_frame rules
 * (stakeout/abi.h says how the tables look). It runs in three places from this one source: in the sampler, in the
 * daemon (samples whose mappings were not known yet), and in tests.
 *
 * One step takes the frame at u->pc to its caller:
 *
 *   mapping   which executable mapping holds the address: the one of the frame before, else by binary search. Where
 *             the process has changed its mappings, whether that is still the one (uw_confirm).
 *   block     the address in the file gives the block, two neighbouring index words give its rows.
 *   row       binary search among them by the low bits of the address.
 *   rule      how to find the CFA, rbp, rbx and the return address. No rule: the frame pointer, if it leads somewhere.
 *
 * A caller is looked up at its return address minus one, since the address after a call at the end of a function
 * belongs to the next one; the interrupted instruction and what a signal frame restores are looked up as they are.
 *
 * Whoever includes this defines before it:
 *   bool uw_read_user(void *dst, __u32 bytes, __u64 address)   all or nothing; bytes is at most UW_WINDOW_BYTES
 *   const struct so_mapping *uw_mapping(__u32 i)               never NULL; i is masked there
 *   const __u32 *uw_shard(__u32 shard)                         NULL when there is none
 *   const struct so_unwind_rule *uw_rule(__u32 rule)           NULL should not happen; rule is masked there
 *   struct so_frame_cache *uw_cache(__u32 cpu)                 the cached frames to use, or NULL
 *   UW_CACHE_SHIFT                                             their number, a power of two; SO_FRAME_CACHE_SHIFT by
 *                                                              default
 *   UW_READ_CODE                                               like uw_read_user, for code; that by default
 *   UW_TRUE_RETURN(at)                                         the return address that lay at this address of the stack
 *                                                              before a return probe replaced it; 0: none did. 0 by
 *                                                              default
 *   UW_FS_BASE()                                           the thread's fs base; 0: not known. 0 by default
 *   UW_MAPPED(at)                                              what is mapped at an address now: so_mapping.id with
 *                                                              SO_MAPPED_EXEC; 0: nothing. 0 by default
 *   UW_CHECKS                                                  whether mappings are checked at all; true by default
 *   UW_SEARCH                                                  storage class of the two searches: in BPF they are
 *                                                              global functions, which the verifier checks once
 */
#ifndef STAKEOUT_BPF_UNWIND_H
#define STAKEOUT_BPF_UNWIND_H

#include "stakeout/sampler_abi.h"

#ifndef UW_READ_CODE
#define UW_READ_CODE uw_read_user
#endif

#ifndef UW_TRUE_RETURN
#define UW_TRUE_RETURN(at) 0
#endif

#ifndef UW_FS_BASE
#define UW_FS_BASE() 0
#endif

#ifndef UW_MAPPED
#define UW_MAPPED(at) 0
#endif

#ifndef UW_CHECKS
#define UW_CHECKS true
#endif

/*
 * The code of a sample is as cold as its data. So what most frames do not need is in functions of its own. They hardly
 * call each other, since BPF has 512 bytes of stack for a program and all that it calls.
 */
#define UW_RARE static __attribute__((noinline, unused))

/* For who counts what a walk touches of the tables (tests/bench/lines.c). */
#ifndef UW_TOUCH
#define UW_TOUCH(kind, at, bytes) ((void)0)
#endif

#ifndef UW_CACHE_SHIFT
#define UW_CACHE_SHIFT SO_FRAME_CACHE_SHIFT
#endif

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

/* Stack memory is read in windows: a larger read costs little more (.design/cost.md), and often has the next frames. */
#define UW_WINDOW_BYTES 1024u
#define UW_WINDOW_WORDS (UW_WINDOW_BYTES / 8)
/* Below the CFA, where the saved registers lie: six callee-saved ones and the return address. */
#define UW_SAVE_AREA_BYTES 64
#define UW_PAGE_BYTES      4096u

/* Byte offset of the general registers in a signal frame, from the rsp that the handler's return leaves:
 * struct ucontext (uc_flags, uc_link, uc_stack: 40 bytes), then struct sigcontext_64. */
#define UW_SIGCONTEXT_OFFSET 40
enum {
	UW_SC_R8,
	UW_SC_R9,
	UW_SC_R10,
	UW_SC_R11,
	UW_SC_R12,
	UW_SC_R13,
	UW_SC_R14,
	UW_SC_R15,
	UW_SC_RDI,
	UW_SC_RSI,
	UW_SC_RBP,
	UW_SC_RBX,
	UW_SC_RDX,
	UW_SC_RAX,
	UW_SC_RCX,
	UW_SC_RSP,
	UW_SC_RIP,
	UW_SC_WORDS,
};

enum uw_known {
	UW_RBP = 1 << 0,
	UW_RBX = 1 << 1,
	UW_ALL = 1 << 2, /* regs[] holds this frame's registers */
};

enum uw_check {
	UW_CHECK_MISSING = 1 << 0, /* where no mapping is known the process may have one by now */
	UW_CHECK_KNOWN = 1 << 1,   /* a known one may be another by now */
};

#define UW_CACHE_ENTRIES (1u << UW_CACHE_SHIFT)

/*
 * Cached frames, in the order in which walks came upon them: the caller of a frame mostly lies right behind it, so a
 * walk that others have made before reads one cache line for two frames, and the next line is on its way by then. The
 * index is for where a walk leaves the order of an earlier one. Full: the oldest are written over.
 */
struct so_frame_cache {
	__u32 next; /* entries ever written; where the next one goes, modulo their number */
	__u32 pad[15];
	/* By a hash of the address: the numbers of the latest two entries with that hash, if they still are. */
	__u16 index[UW_CACHE_ENTRIES / 2][2];
	struct so_cached_frame frames[UW_CACHE_ENTRIES];
	/* To a page's end, so that the next CPU's begins with one. The last entry's rule may be read as a whole one. */
	__u8 beyond[UW_PAGE_BYTES - (64 + sizeof(__u16) * UW_CACHE_ENTRIES) % UW_PAGE_BYTES];
};

struct so_unwind {
	__u64 pc, sp, bp, bx;
	__u64 hash;
	__u64 begin_ns;     /* of a sample that a chain of programs unwinds */
	__u64 window_base;  /* address of window[0] */
	__u32 window_bytes; /* read so far; 0: nothing */
	__u32 n;            /* frames */
	__u32 no_file;      /* frames of file 0 */
	__u32 first_mapping, n_mappings;
	__u32 last_mapping;
	__u32 run;                  /* number of the run of mappings */
	__u32 cpu;                  /* whose cached frames are used */
	__u32 cached;               /* number of the cached frame that was found or written last */
	__u16 known;                /* enum uw_known */
	__u16 exact;                /* pc is an interrupted instruction, not a return address */
	__u16 cause;                /* enum so_truncation */
	__u16 flags;                /* enum so_stack_flags */
	__u16 stale;                /* cut where the process's mappings are not those that were read */
	__u16 learn;                /* cut at code whose rule can be learned */
	__u16 python;               /* the sampler's: there is a walk of this sample's Python frames */
	__u16 doubt;                /* the rule is of code that may have been rewritten since it was learned */
	__u64 call;                 /* an address on the stack; 0: none, or found */
	__u32 call_at;              /* the number, from 1, of the frame that it lies in; 0: not known */
	__u16 check;                /* enum uw_check */
	__u16 foreign;              /* the confirmed mapping is one of before, not of this run */
	__u32 first_past, n_past;   /* mappings of before */
	__u32 generation;           /* of the process's mappings, as in so_mapping.seen; 0: not known */
	__u32 confirmed;            /* number of the mapping that was confirmed last, plus 1 */
	__u64 missing;              /* address at which the walk ended for want of a mapping; 0: none */
	__u64 word;                 /* what uw_load() and uw_cfa() give */
	struct so_unwind_rule rule; /* of a frame that is not cached */
	__u64 regs[SO_NREGS];
	__u64 window[UW_WINDOW_WORDS];
	struct so_stack_record record; /* with the frames, what is sent; filled by the sampler */
	/* User frames, behind them the kernel's, behind those the Python frames. */
	__u64 frames[SO_MAX_FRAMES + 1 + SO_MAX_PYTHON_FRAMES * SO_PYTHON_WORDS];
};

/* No frames, nothing known. */
static __always_inline void uw_clear(struct so_unwind *u)
{
	u->hash = 0;
	u->window_bytes = 0;
	u->n = 0;
	u->no_file = 0;
	u->cause = SO_TRUNC_NONE;
	u->flags = 0;
	u->stale = 0;
	u->missing = 0;
	u->check = 0;
	u->foreign = 0;
	u->learn = 0;
	u->doubt = 0;
	u->call = 0;
	u->call_at = 0;
	u->record.n_kernel = 0;
}

/* After uw_clear(): registers as the interrupted thread has them; regs[SO_REG_RSP], RBP and RBX count as well. */
static __always_inline void uw_start(struct so_unwind *u, __u64 pc, __u64 mappings, __u32 run)
{
	u->pc = pc;
	u->sp = u->regs[SO_REG_RSP];
	u->bp = u->regs[SO_REG_RBP];
	u->bx = u->regs[SO_REG_RBX];
	u->first_mapping = mappings >> 32;
	u->n_mappings = (__u32)mappings;
	u->last_mapping = u->first_mapping;
	u->run = run;
	u->cached = 0;
	u->known = UW_RBP | UW_RBX | UW_ALL;
	u->exact = 1;
}

/* After uw_start(), where UW_MAPPED is defined. generation: see struct so_unwind. */
static __always_inline void uw_check_mappings(struct so_unwind *u, __u16 check, __u32 generation, __u64 past)
{
	u->check = check;
	u->first_past = past >> 32;
	u->n_past = (__u32)past;
	u->generation = generation;
	u->confirmed = 0;
}

/* What a stack is known by: frames in no file mean something in their own process only. */
static __always_inline __u64 uw_stack_hash(const struct so_unwind *u, __u32 tgid)
{
	return so_mix(u->hash, (__u64)u->cause << 32 | (u->no_file ? tgid : 0));
}

static __always_inline void uw_push(struct so_unwind *u, __u64 frame)
{
	u->frames[u->n & (SO_MAX_USER_FRAMES - 1)] = frame;
	u->hash = so_mix(u->hash, frame);
	u->no_file += !SO_FRAME_FILE(frame);
	u->n++;
}

static __always_inline int uw_cut(struct so_unwind *u, enum so_truncation cause)
{
	u->cause = cause;
	return 1;
}

/* Fills the window from `base` on, up to the end of the page if what follows it cannot be read. */
static __always_inline bool uw_fill(struct so_unwind *u, __u64 base)
{
	__u32 bytes = UW_WINDOW_BYTES;

	base &= ~7ull;
	u->window_bytes = 0;
	if (!uw_read_user(u->window, bytes, base)) {
		bytes = UW_PAGE_BYTES - (base & (UW_PAGE_BYTES - 1));
		if (bytes >= UW_WINDOW_BYTES)
			return false;
		if (!uw_read_user(u->window, bytes, base))
			return false;
	}
	u->window_base = base;
	u->window_bytes = bytes;
	return true;
}

/* Reads a word of the stack that is not in the window into u->word, and moves the window. from: see uw_stack(). */
UW_RARE bool uw_load(struct so_unwind *u, __u64 address, __u64 from)
{
	__u64 off;

	if (address & 7)
		return uw_read_user(&u->word, 8, address);
	if (from > address || address - from >= UW_WINDOW_BYTES - 8)
		from = address;
	if (!uw_fill(u, from))
		return false;
	off = address - u->window_base;
	if (off >= u->window_bytes)
		return uw_read_user(&u->word, 8, address);
	u->word = u->window[(off >> 3) & (UW_WINDOW_WORDS - 1)];
	return true;
}

/* Reads one word of the stack. from: where a moved window begins, the lowest address that this frame may still need. */
static __always_inline bool uw_stack(struct so_unwind *u, __u64 address, __u64 from, __u64 *value)
{
	__u64 off = address - u->window_base;

	if (off < u->window_bytes && !(off & 7)) {
		*value = u->window[(off >> 3) & (UW_WINDOW_WORDS - 1)];
		return true;
	}
	if (!uw_load(u, address, from))
		return false;
	*value = u->word;
	return true;
}

/* Number of pieces among `n` from `first` on that begin at or before the address. */
UW_SEARCH __u32 uw_search_mappings(__u32 first, __u32 n, __u64 address)
{
	__u32 lo = 0, hi = n;

	for (int i = 0; i < SO_MAPPING_STEPS; i++) {
		__u32 mid = (lo + hi) >> 1;

		if (lo >= hi)
			break;
		if (uw_mapping(first + mid)->start <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The rule of the last row at or before `low` in the block whose first index word lies at `at`; see stakeout/abi.h. */
UW_SEARCH __u32 uw_search_rows(__u32 shard, __u32 at, __u32 low)
{
	const __u32 *words = uw_shard(shard);
	__u32 lo, hi;

	if (!words)
		return SO_RULE_NONE;
	UW_TOUCH(INDEX, &words[at & SO_SHARD_MASK], 2 * sizeof(*words));
	lo = words[at & SO_SHARD_MASK];
	hi = words[(at + 1) & SO_SHARD_MASK];
	/* One row a byte at most: SO_BLOCK_SHIFT + 1 steps end the search. */
	for (int i = 0; i <= SO_BLOCK_SHIFT; i++) {
		__u32 mid = (lo + hi) >> 1;

		if (lo >= hi)
			break;
		UW_TOUCH(ROW, &words[mid & SO_SHARD_MASK], sizeof(*words));
		if (SO_ROW_PC_LOW(words[mid & SO_SHARD_MASK]) <= low)
			lo = mid + 1;
		else
			hi = mid;
	}
	UW_TOUCH(ROW, &words[(lo - 1) & SO_SHARD_MASK], sizeof(*words));
	return SO_ROW_RULE(words[(lo - 1) & SO_SHARD_MASK]);
}

static __always_inline const struct so_mapping *uw_find_mapping(struct so_unwind *u, __u64 address)
{
	const struct so_mapping *m = uw_mapping(u->last_mapping);
	__u32 found;

	if (!u->n_mappings)
		return NULL;
	if (address >= m->start && address < m->end)
		return m;
	found = uw_search_mappings(u->first_mapping, u->n_mappings, address);
	if (!found)
		return NULL;
	m = uw_mapping(u->first_mapping + found - 1);
	if (address < m->start || address >= m->end)
		return NULL;
	u->last_mapping = u->first_mapping + found - 1;
	return m;
}

static __always_inline int uw_cut_stale(struct so_unwind *u)
{
	u->stale = 1;
	return uw_cut(u, SO_TRUNC_MAPS_PENDING);
}

/* After a walk: whether it was cut because the mappings are not those that were read. */
static __always_inline bool uw_is_stale(struct so_unwind *u)
{
	if (UW_CHECKS && u->missing && u->check & UW_CHECK_MISSING && UW_MAPPED(u->missing) & SO_MAPPED_EXEC)
		uw_cut_stale(u);
	return u->stale;
}

/* Number of a piece among `n` from `first` on that holds the address and is `id`, from 1; 0: none. */
UW_SEARCH __u32 uw_search_past(__u32 first, __u32 n, __u64 address, __u64 id)
{
	__u64 found = 0;

	for (__u32 i = 0; i < SO_MAX_PAST_MAPPINGS; i++) {
		const struct so_mapping *m = uw_mapping(first + i);
		__u64 is_it = so_is_below(address - m->start, m->end - m->start) & so_is_below(m->id ^ id, 1) &
			      so_is_below(i, n);

		found ^= (found ^ (i + 1)) & -is_it;
	}
	return found;
}

/*
 * Whether the mapping that is known at the address is what the process has there, or one of before is; that one is
 * found next then. The vsyscall page, in the kernel's half, is in no process's list.
 */
UW_RARE bool uw_confirm(struct so_unwind *u, __u64 address)
{
	struct so_mapping *m = (struct so_mapping *)uw_find_mapping(u, address);
	__u32 past = 0;
	__u64 id;

	if ((__s64)address < 0 || (m && u->last_mapping + 1 == u->confirmed))
		return true;
	u->foreign = 0;
	if (!m && !u->n_past)
		return true;
	if (!m || !u->generation || m->seen != u->generation) {
		id = UW_MAPPED(address) & ~SO_MAPPED_EXEC;
		if (m && (m->id == id || m->id == SO_MAPPED_ANY)) {
			m->seen = u->generation;
		} else {
			past = uw_search_past(u->first_past, u->n_past, address, id);
			if (!past)
				return !m;
			u->foreign = 1;
			u->last_mapping = u->first_past + past - 1;
		}
	}
	u->confirmed = u->last_mapping + 1;
	return true;
}

/* The number of the rule in force at a file's address, SO_RULE_NONE where there is none. */
static __always_inline __u32 uw_find_rule(const struct so_mapping *m, __u64 vaddr)
{
	__u64 block = (vaddr >> SO_BLOCK_SHIFT) - m->first_block;

	if (block >= m->n_blocks)
		return SO_RULE_NONE;
	return uw_search_rows(m->shard, m->index + (__u32)block, vaddr & SO_BLOCK_MASK);
}

static __always_inline bool uw_reg(const struct so_unwind *u, __u32 reg, __u64 *value)
{
	if (reg == SO_REG_RSP) {
		*value = u->sp;
		return true;
	}
	if (reg == SO_REG_RBP && u->known & UW_RBP) {
		*value = u->bp;
		return true;
	}
	if (reg == SO_REG_RBX && u->known & UW_RBX) {
		*value = u->bx;
		return true;
	}
	*value = u->regs[reg & (SO_NREGS - 1)];
	return u->known & UW_ALL;
}

/* Everything the interrupted code had is in the signal frame; the stack may be another one from here on. */
UW_RARE int uw_signal(struct so_unwind *u)
{
	__u64 at = u->sp + UW_SIGCONTEXT_OFFSET;
	__u64 *sc = u->window;

	/* The handler returns to the trampoline's first instruction; there is no call before that one. */
	if (!u->exact)
		u->frames[(u->n - 1) & (SO_MAX_USER_FRAMES - 1)]++;
	u->window_bytes = 0;
	if (!uw_read_user(sc, UW_SC_WORDS * 8, at))
		return uw_cut(u, SO_TRUNC_STACK_READ);
	u->regs[SO_REG_RAX] = sc[UW_SC_RAX];
	u->regs[SO_REG_RDX] = sc[UW_SC_RDX];
	u->regs[SO_REG_RCX] = sc[UW_SC_RCX];
	u->regs[SO_REG_RSI] = sc[UW_SC_RSI];
	u->regs[SO_REG_RDI] = sc[UW_SC_RDI];
	u->regs[SO_REG_R8] = sc[UW_SC_R8];
	u->regs[SO_REG_R9] = sc[UW_SC_R9];
	u->regs[SO_REG_R10] = sc[UW_SC_R10];
	u->regs[SO_REG_R11] = sc[UW_SC_R11];
	u->regs[SO_REG_R12] = sc[UW_SC_R12];
	u->regs[SO_REG_R13] = sc[UW_SC_R13];
	u->regs[SO_REG_R14] = sc[UW_SC_R14];
	u->regs[SO_REG_R15] = sc[UW_SC_R15];
	u->bp = sc[UW_SC_RBP];
	u->bx = sc[UW_SC_RBX];
	u->sp = sc[UW_SC_RSP];
	u->pc = sc[UW_SC_RIP];
	u->known = UW_RBP | UW_RBX | UW_ALL;
	u->exact = 1;
	return 0;
}

/* `mov $15, %rax; syscall` in the two encodings in use (C libraries without .eh_frame for it, the Go runtime). */
static __always_inline bool uw_is_sigreturn(__u64 pc)
{
	__u64 code;

	if (!UW_READ_CODE(&code, 8, pc))
		return false;
	return code == 0x0f0000000fc0c748ull || (code & 0x00ffffffffffffffull) == 0x00050f0000000fb8ull;
}

/*
 * HotSpot's interpreter takes its arguments, and room for its other locals, off its caller's stack when it returns: the
 * stack pointer that its caller had is noted in its frame. Without such a note the caller's is behind the return
 * address.
 */
#define UW_JAVA_SENDER_SP        (-8)
#define UW_JAVA_MAX_LOCALS_BYTES (65536 * 8u)

static __always_inline __u64 uw_sender_sp(struct so_unwind *u, __u64 bp)
{
	__u64 sp = bp + 16, noted;

	if (!uw_stack(u, bp + UW_JAVA_SENDER_SP, bp + UW_JAVA_SENDER_SP, &noted))
		return sp;
	return noted & 7 || noted - sp > UW_JAVA_MAX_LOCALS_BYTES ? sp : noted;
}

UW_RARE int uw_frame_pointer(struct so_unwind *u)
{
	const struct so_mapping *m;
	__u64 bp = u->bp, next_bp, ra;

	if (uw_is_sigreturn(u->pc))
		return uw_signal(u);
	if (!(u->known & UW_RBP))
		return uw_cut(u, SO_TRUNC_NO_RULES);
	if (!bp)
		return uw_cut(u, SO_TRUNC_FP_ROOT);
	if (bp & 7 || bp < u->sp)
		return uw_cut(u, SO_TRUNC_NO_RULES);
	if (!uw_stack(u, bp, bp, &next_bp) || !uw_stack(u, bp + 8, bp, &ra))
		return uw_cut(u, SO_TRUNC_NO_RULES);
	if (!ra)
		return uw_cut(u, SO_TRUNC_FP_ROOT);
	m = uw_find_mapping(u, ra - 1);
	if (!m) {
		u->missing = ra - 1;
		ra = UW_TRUE_RETURN(bp + 8);
		m = ra ? uw_find_mapping(u, ra - 1) : NULL;
	}
	if (!m)
		return uw_cut(u, SO_TRUNC_NO_RULES);
	u->missing = 0;
	u->flags |= SO_STACK_FRAME_POINTER;
	/* What is found by a wrong one is doubted there. */
	u->sp = m->flags & SO_MAPPING_WRITABLE ? uw_sender_sp(u, bp) : bp + 16;
	u->bp = next_bp;
	u->pc = ra;
	u->known = UW_RBP;
	u->exact = 0;
	return 0;
}

/* By any rule; the canonical frame address goes to u->word. */
UW_RARE bool uw_cfa(struct so_unwind *u, const struct so_unwind_rule *r)
{
	__u64 base, index;

	/* Nothing between here and the frame whose registers regs[] holds writes the one of SO_CFA_KEPT. */
	if (!uw_reg(u, SO_CFA_BASE(r->cfa_reg), &base) && r->cfa_kind != SO_CFA_KEPT) {
		u->cause = SO_TRUNC_REG_UNKNOWN;
		return false;
	}
	if (r->cfa_kind == SO_CFA_INDEXED) {
		if (!uw_reg(u, SO_CFA_INDEX(r->cfa_reg), &index)) {
			u->cause = SO_TRUNC_REG_UNKNOWN;
			return false;
		}
		base += index * 8;
	}
	base += (__s64)r->cfa_off;
	if (r->cfa_kind == SO_CFA_PLT && (u->pc & 15) >= (__u32)r->cfa_off2)
		base += 8;
	if (r->cfa_kind == SO_CFA_DEREF || r->cfa_kind == SO_CFA_INDEXED) {
		if (!uw_stack(u, base, u->sp, &base)) {
			u->cause = SO_TRUNC_STACK_READ;
			return false;
		}
		base += (__s64)r->cfa_off2;
	}
	u->word = base;
	return true;
}

/* Restores rbp and rbx by any rule; those that cannot be had are unknown from here on. `from`: see uw_stack(). */
UW_RARE __u16 uw_any_saves(struct so_unwind *u, const struct so_unwind_rule *r, __u64 cfa, __u64 from)
{
	__u32 rbp = r->saves & 15, rbx = r->saves >> 4;
	__u64 old_bp = u->bp;
	__u16 known = u->known & (UW_RBP | UW_RBX);
	__u64 value;

	if (rbp != SO_SAVE_SAME) {
		__u64 at = (rbp == SO_SAVE_CFA ? cfa : old_bp) + (__s64)r->rbp_off;
		bool can = rbp == SO_SAVE_CFA || (rbp == SO_SAVE_RBP && known & UW_RBP);

		known &= ~UW_RBP;
		if (can && uw_stack(u, at, from, &value)) {
			u->bp = value;
			known |= UW_RBP;
		}
	}
	if (rbx != SO_SAVE_SAME) {
		__u64 at = (rbx == SO_SAVE_CFA ? cfa : old_bp) + (__s64)r->rbx_off;
		bool can = rbx == SO_SAVE_CFA || (rbx == SO_SAVE_RBP && u->known & UW_RBP);

		known &= ~UW_RBX;
		if (can && uw_stack(u, at, from, &value)) {
			u->bx = value;
			known |= UW_RBX;
		}
	}
	return known;
}

/* The same, for registers that are where they were or in memory below the CFA. */
static __always_inline __u16 uw_saves(struct so_unwind *u, const struct so_unwind_rule *r, __u64 cfa, __u64 from)
{
	__u32 rbp = r->saves & 15, rbx = r->saves >> 4;
	__u16 known = u->known & (UW_RBP | UW_RBX);

	if ((rbp | rbx) > SO_SAVE_CFA)
		return uw_any_saves(u, r, cfa, from);
	if (rbp == SO_SAVE_CFA)
		known = uw_stack(u, cfa + (__s64)r->rbp_off, from, &u->bp) ? known | UW_RBP : known & ~UW_RBP;
	if (rbx == SO_SAVE_CFA)
		known = uw_stack(u, cfa + (__s64)r->rbx_off, from, &u->bx) ? known | UW_RBX : known & ~UW_RBX;
	return known;
}

static __always_inline int uw_caller(struct so_unwind *u, const struct so_unwind_rule *r)
{
	__u64 cfa, ra, from;

	if (r->cfa_kind == SO_CFA_REG && r->cfa_reg == SO_REG_RSP) {
		cfa = u->sp + (__s64)r->cfa_off;
	} else {
		if (!uw_cfa(u, r))
			return 1;
		cfa = u->word;
	}
	/* A call pushes eight bytes; only in the innermost frame may they be popped again (vfork). */
	if (cfa < u->sp || (cfa == u->sp && !u->exact))
		return uw_cut(u, SO_TRUNC_STACK_ORDER);
	from = cfa - UW_SAVE_AREA_BYTES;
	if (from < u->sp)
		from = u->sp;
	if ((r->ra & 15) == SO_RA_REG) {
		if (!uw_reg(u, r->ra >> 4, &ra))
			return uw_cut(u, SO_TRUNC_REG_UNKNOWN);
	} else if (!uw_stack(u, cfa - 8, from, &ra)) {
		return uw_cut(u, SO_TRUNC_STACK_READ);
	}
	u->known = uw_saves(u, r, cfa, from);
	u->sp = cfa;
	u->pc = ra;
	u->exact = 0;
	return 0;
}

/* The stack pointer of the goroutine that a thread of Go's runtime works for; 0: not to be had. */
static __always_inline __u64 uw_go_sp(struct so_unwind *u, const struct so_unwind_rule *r)
{
	__u64 at = UW_FS_BASE(), sp;

	if (!at || !uw_read_user(&at, 8, at + (__s64)r->cfa_off) || !uw_read_user(&at, 8, at + (__s64)r->rbp_off) ||
	    !uw_read_user(&at, 8, at + (__s64)r->rbx_off) || !uw_read_user(&sp, 8, at + SO_GO_STACK_SP(r->cfa_off2)))
		return 0;
	if (!SO_GO_STACK_ADD(r->cfa_off2) && !uw_read_user(&u->pc, 8, at + SO_GO_STACK_SP(r->cfa_off2) + 8))
		return 0;
	return sp;
}

/* That of a goroutine that called C. */
static __always_inline __u64 uw_go_cgo_sp(struct so_unwind *u, const struct so_unwind_rule *r)
{
	__u64 g, depth;

	if (!uw_read_user(&g, 8, u->sp + (__s64)r->cfa_off) || !uw_read_user(&depth, 8, u->sp + (__s64)r->cfa_off2))
		return 0;
	if (!g)
		return depth;
	return uw_read_user(&g, 8, g + (__s64)r->rbp_off) ? g - depth : 0;
}

/* From a thread's own stack to a goroutine's, which may lie anywhere. */
UW_RARE int uw_goroutine(struct so_unwind *u, const struct so_unwind_rule *r)
{
	__u64 sp;
	bool has_pc = r->cfa_kind == SO_CFA_GO_STACK && !SO_GO_STACK_ADD(r->cfa_off2);

	if (r->cfa_kind == SO_CFA_GO_FRAME) {
		sp = u->bp + 8;
		if (!(u->known & UW_RBP))
			return uw_cut(u, SO_TRUNC_REG_UNKNOWN);
		if (!uw_read_user(&u->bp, 8, u->bp))
			return uw_cut(u, SO_TRUNC_STACK_READ);
	} else {
		sp = r->cfa_kind == SO_CFA_GO_CGO ? uw_go_cgo_sp(u, r) : uw_go_sp(u, r);
	}
	if (!sp || (!has_pc && !uw_read_user(&u->pc, 8, sp)))
		return uw_cut(u, SO_TRUNC_STACK_READ);
	u->sp = has_pc ? sp : sp + 8;
	u->known &= UW_RBP | UW_RBX;
	u->exact = 0;
	return 0;
}

/* Whether a call ends at the address: e8 rel32, or ff /2 of two to seven bytes (ModRM reg is 2, SIB, displacement). */
static __always_inline bool uw_is_after_call(__u64 address)
{
	__u8 code[8];

	if (!UW_READ_CODE(code, 8, address - 8))
		return false;
	return code[3] == 0xe8 || (code[6] == 0xff && (code[7] & 0x38) == 0x10) ||
	       (code[5] == 0xff && (code[6] & 0x38) == 0x10) || (code[4] == 0xff && (code[5] & 0x38) == 0x10) ||
	       (code[2] == 0xff && (code[3] & 0x38) == 0x10) || (code[1] == 0xff && (code[2] & 0x38) == 0x10);
}

/*
 * HotSpot's interpreter does not call compiled code: it pushes the address of a "return entry" and jumps, having noted
 * its stack pointer in its frame. The entry takes that back and clears it; the code is known by its bytes, up to the
 * zeros (TemplateInterpreterGenerator::generate_return_entry_for), and the frame by what was noted, which lies between
 * the two stack pointers.
 *   until 21  mov -16(%rbp), %rsp;                         movq $0, -16(%rbp)   an address
 *   since 22  mov -16(%rbp), %rcx; lea (%rbp,%rcx,8), %rsp; movq $0, -16(%rbp)   words from rbp
 */
#define UW_JAVA_NOTED_SP (-16)
#define UW_JAVA_POPPED   8 /* a method handle's last argument, taken off since */

static __always_inline bool uw_is_java_return(struct so_unwind *u)
{
	__u64 code[2], noted;

	if (!(u->known & UW_RBP) || u->bp & 7 || u->bp < u->sp)
		return false;
	if (!UW_READ_CODE(code, sizeof(code), u->pc) ||
	    !uw_stack(u, u->bp + UW_JAVA_NOTED_SP, u->bp + UW_JAVA_NOTED_SP, &noted))
		return false;
	if (code[0] == 0xcd648d48f04d8b48ull && code[1] == 0x000000f045c74800ull)
		noted = u->bp + noted * 8;
	else if (code[0] != 0xf045c748f0658b48ull || (__u32)code[1])
		return false;
	return noted < u->bp && noted + UW_JAVA_POPPED >= u->sp;
}

/* Whether the frame that was found can be a caller at all. */
static __always_inline bool uw_is_caller(struct so_unwind *u)
{
	return uw_is_after_call(u->pc) || uw_is_java_return(u);
}

/* After a step by a rule of code that may have been rewritten since it was learned. */
UW_RARE int uw_check_doubtful(struct so_unwind *u)
{
	u->doubt = 0;
	return uw_is_caller(u) ? 0 : uw_cut(u, SO_TRUNC_NO_RULES);
}

static __always_inline bool uw_leads_to_goroutine(__u32 kind)
{
	return kind >= SO_CFA_GO_STACK && kind <= SO_CFA_GO_FRAME;
}

/* Two places, for addresses that have the same hash. */
static __always_inline __u16 *uw_cache_index(struct so_frame_cache *c, __u64 at)
{
	return c->index[at * 0x9e3779b97f4a7c15ull >> (65 - UW_CACHE_SHIFT)];
}

static __always_inline const struct so_cached_frame *uw_cached(struct so_unwind *u, const struct so_frame_cache *c,
							       __u32 number, __u64 at)
{
	const struct so_cached_frame *f = &c->frames[number & (UW_CACHE_ENTRIES - 1)];

	u->cached = number;
	UW_TOUCH(CACHED_FRAME, f, sizeof(*f));
	return f->at == at && f->run == u->run ? f : NULL;
}

/* The cached frame of an address: the one behind the frame before, as in an earlier walk, or by the index. */
static __always_inline const struct so_cached_frame *uw_find_cached(struct so_unwind *u, __u64 at)
{
	struct so_frame_cache *c = uw_cache(u->cpu);
	const struct so_cached_frame *f = NULL;
	const __u16 *numbers;

	if (!c || !u->run)
		return NULL;
	if (u->n)
		f = uw_cached(u, c, u->cached + 1, at);
	if (f)
		return f;
	numbers = uw_cache_index(c, at);
	UW_TOUCH(CACHE_INDEX, numbers, 2 * sizeof(*numbers));
	return uw_cached(u, c, numbers[0], at) ?: uw_cached(u, c, numbers[1], at);
}

/* Rules that need no more than their first SO_RULE_SHORT_BYTES (no cfa_off2), in code that does not change. */
static __always_inline void uw_keep(struct so_unwind *u, __u64 at, __u64 frame)
{
	struct so_frame_cache *c = uw_cache(u->cpu);
	struct so_cached_frame *f;
	__u16 *numbers;

	if (!c || !u->run || (u->rule.cfa_kind >= SO_CFA_DEREF && u->rule.cfa_kind <= SO_CFA_PLT) ||
	    uw_leads_to_goroutine(u->rule.cfa_kind))
		return;
	u->cached = c->next++ & (UW_CACHE_ENTRIES - 1);
	numbers = uw_cache_index(c, at);
	numbers[1] = numbers[0];
	numbers[0] = u->cached;
	f = &c->frames[u->cached & (UW_CACHE_ENTRIES - 1)];
	f->at = at;
	f->frame = frame;
	f->run = u->run;
	__builtin_memcpy(f->rule, &u->rule, SO_RULE_SHORT_BYTES);
}

enum uw_found {
	UW_RULE,    /* in u->rule, to be followed */
	UW_ENDED,   /* the stack is cut */
	UW_NO_RULE, /* the frame pointer may lead on */
};

/* Whether a rule of this kind gives the canonical frame address. */
static __always_inline bool uw_leads_to_caller(__u32 kind)
{
	return kind >= SO_CFA_REG && kind <= SO_CFA_PLT;
}

/*
 * Two trampolines of the kernel (arch/x86/kernel/uprobes.c), each at the start of a page that is no mapping here. Both
 * save three registers, make a system call, and pop them again:
 * - Since Linux 6.18 a probed five-byte nop is a call of uprobe_trampoline_entry, known by that call.
 * - Since 6.11 probed functions return to uretprobe_trampoline_entry. Behind the system call the probe is no longer on
 *   record, and the return address lies in the place of the outermost register: pop %r11; pop %rcx; ret.
 */
#define UW_TRAMPOLINE_BYTES   18
#define UW_TRAMPOLINE_WORDS   4
#define UW_TRAMPOLINE_POP_R11 13
#define UW_TRAMPOLINE_POP_RCX 15
#define UW_TRAMPOLINE_RET     16
#define UW_CALL_BYTES         5

/* Whether the return address is that of a call of the page's start. */
static __always_inline bool uw_calls_page(__u64 address, __u64 page)
{
	__u8 code[8];
	__s32 distance;

	if (!UW_READ_CODE(code, 8, address - 8) || code[3] != 0xe8)
		return false;
	__builtin_memcpy(&distance, &code[4], sizeof(distance));
	return address + (__s64)distance == page;
}

/* Goes on where the trampoline was called, or will return to. */
UW_RARE bool uw_leave_trampoline(struct so_unwind *u)
{
	__u64 page = u->pc & ~(UW_PAGE_BYTES - 1ull), off = u->pc - page, at = u->sp;

	if (off >= UW_TRAMPOLINE_BYTES)
		return false;
	for (__u32 i = 0; i < UW_TRAMPOLINE_WORDS; i++) {
		if (!uw_read_user(&u->word, 8, at + i * 8))
			return false;
		if (uw_calls_page(u->word, page)) {
			u->pc = u->word - UW_CALL_BYTES;
			u->sp = at + i * 8 + 8;
			return true;
		}
	}
	if (off < UW_TRAMPOLINE_POP_R11 || off > UW_TRAMPOLINE_RET)
		return false;
	if (off < UW_TRAMPOLINE_RET)
		at += off < UW_TRAMPOLINE_POP_RCX ? 16 : 8;
	if (!uw_read_user(&u->word, 8, at) || !uw_is_after_call(u->word))
		return false;
	u->pc = u->word;
	u->sp = at + 8;
	return true;
}

/* Finds the frame of an address that is not cached, adds it, and finds its rule. */
UW_RARE enum uw_found uw_look_up(struct so_unwind *u, __u64 at)
{
	const struct so_unwind_rule *rule;
	const struct so_mapping *m = uw_find_mapping(u, at);
	bool is_own = true; /* not one that a return probe has replaced */
	/*
	 * Coroutines begin with a return address of 0, and with a stack that is aligned as the psABI wants it. In the
	 * innermost frame, and in code that belongs to no file, a rule that is wrong may find such a word.
	 */
	bool is_begin = !u->pc && !u->exact && u->n > 1 && !u->no_file && !(u->sp & 15);
	__u64 vaddr, frame;
	__u32 id;

	if (!m)
		u->missing = at;
	if (!m && !u->exact) {
		u->pc = UW_TRUE_RETURN(u->sp - 8);
		at = u->pc - 1;
		m = u->pc ? uw_find_mapping(u, at) : NULL;
		is_own = false;
	} else if (!m && uw_leave_trampoline(u)) {
		at = u->pc;
		m = uw_find_mapping(u, at);
		is_own = false;
	}
	if (!m) {
		if (!u->n)
			uw_push(u, SO_FRAME(0, at));
		if (is_begin)
			return uw_cut(u, SO_TRUNC_NONE);
		return uw_cut(u, SO_TRUNC_NO_MAPPING);
	}
	u->missing = 0;
	vaddr = at - m->bias;
	frame = m->file ? SO_FRAME(m->file, vaddr) : SO_FRAME(0, at);
	uw_push(u, frame);
	if (m->state == SO_MAPPING_FULL)
		return uw_cut(u, SO_TRUNC_TABLE_FULL);
	if (m->state == SO_MAPPING_BROKEN)
		return uw_cut(u, SO_TRUNC_TABLE_BROKEN);
	id = m->state == SO_MAPPING_NO_TABLE ? SO_RULE_NONE : uw_find_rule(m, vaddr);
	if (id == SO_RULE_NONE) {
		u->learn = (m->flags & SO_MAPPING_LEARN) != 0;
		return u->learn ? uw_cut(u, SO_TRUNC_NO_RULES) : UW_NO_RULE;
	}
	if (id == SO_RULE_UNAVAILABLE)
		return uw_cut(u, SO_TRUNC_RULE_TABLE_FULL);
	rule = uw_rule(id);
	if (!rule)
		return uw_cut(u, SO_TRUNC_TABLE_LOOKUP);
	u->rule = *rule;
	if (m->flags & SO_MAPPING_WRITABLE)
		u->doubt = uw_leads_to_caller(rule->cfa_kind);
	else if (is_own && !u->foreign)
		uw_keep(u, at, frame);
	return UW_RULE;
}

/* Takes u from one frame to its caller. Returns 1 when the stack has ended or is cut: u->cause says which. */
static __always_inline int uw_step(struct so_unwind *u)
{
	__u64 at = u->exact ? u->pc : u->pc - 1;
	const struct so_unwind_rule *rule = &u->rule;
	const struct so_cached_frame *cached;
	enum uw_found found = UW_RULE;
	__u32 kind;

	if (u->n >= SO_MAX_USER_FRAMES)
		return uw_cut(u, SO_TRUNC_DEPTH);
	if (UW_CHECKS && u->check & UW_CHECK_KNOWN && !uw_confirm(u, at))
		return uw_cut_stale(u);
	cached = u->foreign ? NULL : uw_find_cached(u, at);
	if (cached) {
		uw_push(u, cached->frame);
		rule = (const struct so_unwind_rule *)cached->rule;
	} else {
		found = uw_look_up(u, at);
		if (found == UW_ENDED)
			return 1;
	}
	kind = found == UW_RULE ? rule->cfa_kind : SO_CFA_NONE;
	if (uw_leads_to_caller(kind)) {
		if (uw_caller(u, rule))
			return 1;
		return u->doubt ? uw_check_doubtful(u) : 0;
	}
	if (kind == SO_CFA_NONE)
		return uw_frame_pointer(u);
	if (kind == SO_CFA_SIGNAL)
		return uw_signal(u);
	if (uw_leads_to_goroutine(kind))
		return uw_goroutine(u, rule);
	return uw_cut(u, kind == SO_CFA_END ? SO_TRUNC_NONE : SO_TRUNC_RULE_UNSUPPORTED);
}

/* After each step: whether u->call lies in the frame that was left. */
static __always_inline void uw_note_call(struct so_unwind *u)
{
	if (!u->call || u->sp <= u->call)
		return;
	u->call = 0;
	u->call_at = u->n;
}

#endif
