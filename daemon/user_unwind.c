// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Samples that the kernel side could not unwind because the process had just changed its mappings: the same unwinder,
 * compiled for user space, over the copy of the stack that came with the sample and the tables in the kernel's maps.
 */
#include <errno.h>
#include <string.h>

#include "daemon/code_reader.h"
#include "daemon/engine_internal.h"

#define BEYOND_CHECK_BYTES 1024
#define MAX_STACK_BYTES    (1ull << 30)

/* The unwinder reaches its surroundings through functions without context, so they hang on the thread. */
static __thread struct {
	struct sampler *sampler;
	const struct so_raw_record *raw;
	uint32_t *shards[SO_MAX_SHARDS];
} here;

/*
 * Whether the frames beyond the copy can still be read from the thread itself: the copy is full, and its upper end is
 * what stands there now. Frames lie in the order of their calls, so a thread that had left those beyond since would have
 * written over that end when it went down again.
 */
static bool beyond_copy_holds(uint64_t base)
{
	uint8_t now[BEYOND_CHECK_BYTES];
	uint64_t at = base + SO_RAW_STACK_BYTES - sizeof(now);

	if (here.raw->stack_bytes != SO_RAW_STACK_BYTES)
		return false;
	if (code_reader__read(here.raw->tgid, at, now, sizeof(now)) != sizeof(now))
		return false;
	return !memcmp(now, (const char *)here.raw->stack + SO_RAW_STACK_BYTES - sizeof(now), sizeof(now));
}

static bool uw_read_user(void *dst, __u32 bytes, __u64 address)
{
	uint64_t base = SO_RAW_STACK_BASE(here.raw->regs[SO_REG_RSP]), off = address - base;

	if (off < here.raw->stack_bytes && bytes <= here.raw->stack_bytes - off) {
		memcpy(dst, (const char *)here.raw->stack + off, bytes);
		return true;
	}
	if (address < base || off > MAX_STACK_BYTES || !beyond_copy_holds(base))
		return false;
	/* The check after the read: what was read is from before the check. */
	return code_reader__read(here.raw->tgid, address, dst, bytes) == bytes && beyond_copy_holds(base);
}

static const struct so_mapping *uw_mapping(__u32 i)
{
	return &sampler__mappings(here.sampler)[i & (SO_MAX_MAPPINGS - 1)];
}

static const __u32 *uw_shard(__u32 shard)
{
	if (shard >= SO_MAX_SHARDS)
		return NULL;
	if (!here.shards[shard] && sampler__shard_open(here.sampler, shard, &here.shards[shard]))
		return NULL;
	return here.shards[shard];
}

static const struct so_unwind_rule *uw_rule(__u32 rule)
{
	return &sampler__rules(here.sampler)[rule & (SO_MAX_RULES - 1)];
}

static struct so_cached_frame *uw_cached(__u32 cpu, __u64 address)
{
	return NULL;
}

static bool read_code(void *dst, __u32 bytes, __u64 address)
{
	return code_reader__read(here.raw->tgid, address, dst, bytes) == bytes;
}

#define UW_READ_CODE read_code
#define UW_SEARCH    static
#include "bpf/unwind.h"

/* Goes on past code without rules, by one that is learned from it or else by its frame pointer. Returns as uw_step(). */
static int past_unknown_code(struct engine *e, struct process *process, struct so_unwind *u)
{
	const struct so_mapping *m = uw_mapping(u->last_mapping);
	const struct so_unwind_rule *rule = engine_learn(e, process, m, u->exact ? u->pc : u->pc - 1, u->exact);

	u->learn = 0;
	u->cause = SO_TRUNC_NONE;
	if (!rule || rule->cfa_kind == SO_CFA_NONE)
		return uw_frame_pointer(u);
	if (rule->cfa_kind == SO_CFA_SIGNAL)
		return uw_signal(u);
	return m->flags & SO_MAPPING_WRITABLE ? uw_doubtful_caller(u, rule) : uw_caller(u, rule);
}

static void unwind(struct engine *e, struct process *process, struct so_unwind *u)
{
	for (;;) {
		if (!uw_step(u))
			continue;
		if (!u->learn || !process || past_unknown_code(e, process, u))
			return;
	}
}

static void close_shards(void)
{
	for (unsigned i = 0; i < SO_MAX_SHARDS; i++) {
		sampler__shard_close(here.shards[i]);
		here.shards[i] = NULL;
	}
}

static void add_kernel_frames(struct so_unwind *u, const struct so_raw_record *raw)
{
	uint32_t n = raw->n_kernel <= SO_MAX_KERNEL_FRAMES ? raw->n_kernel : SO_MAX_KERNEL_FRAMES;

	for (uint32_t i = 0; i < n; i++) {
		u->frames[u->n + i] = raw->kernel[i];
		u->hash = uw_hash(u->hash, raw->kernel[i]);
	}
	u->record.n_kernel = n;
}

int user_unwind(struct engine *e, struct process *process, const struct so_raw_record *raw, struct stack **out)
{
	_cleanup_free_ struct so_unwind *u = calloc(1, sizeof(*u));
	struct stack *stack;

	if (!u)
		return -ENOMEM;
	here.sampler = e->sampler;
	here.raw = raw;
	memcpy(u->regs, raw->regs, sizeof(u->regs));
	uw_clear(u);
	uw_start(u, raw->pc,
		 process && process->run ? (uint64_t)process->run->first << 32 | process->run->n : 0, 0);
	unwind(e, process, u);
	if (u->cause == SO_TRUNC_NO_MAPPING && (!process || !process->run))
		u->cause = SO_TRUNC_MAPS_PENDING;
	if (u->n > SO_MAX_USER_FRAMES)
		u->n = SO_MAX_USER_FRAMES;
	add_kernel_frames(u, raw);
	close_shards();
	u->record.type = SO_RECORD_STACK;
	u->record.n_user = u->n;
	u->record.hash = uw_stack_hash(u, raw->tgid);
	u->record.tgid = raw->tgid;
	u->record.cause = u->cause;
	u->record.flags = u->flags;
	stack = stack__new(&u->record, (const uint64_t *)u->frames);
	if (!stack)
		return -ENOMEM;
	*out = stack;
	return 0;
}
