// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/user_unwind.h"

#include <errno.h>
#include <string.h>

#include "daemon/os/memory_lock.h"
#include "daemon/profile/file_names.h"

#define BEYOND_CHECK_BYTES 1024
#define MAX_STACK_BYTES    (1ull << 30)
#define MAX_LATE_READS     64 /* of a stack, some 0.1 ms each */

/* The unwinder reaches its surroundings through functions without context, so they hang on the thread. */
static __thread struct {
	struct sampler *sampler;
	const struct so_raw_record *raw;
	uint32_t *shards[SO_MAX_SHARDS];
	unsigned pauses;
	bool beyond;                   /* something was read that was not copied with the sample */
	bool live;                     /* the thread does not run: its memory is what it was */
	unsigned late;                 /* reads of what was not caught of it */
	const struct process *process; /* NULL: not known any more; nothing is read of it */
	struct so_mapping *mappings;   /* of the moment of the sample; NULL: those of the process's run */
	size_t n_mappings;
} here;

static bool read_process(void *dst, uint32_t bytes, uint64_t address)
{
	return here.process && memory_lock__read(here.raw->tgid, address, dst, bytes) == bytes &&
	       process__is_readable(here.process);
}

static bool page_copied(const struct so_stack_copy *copy, uint64_t address)
{
	return copy->base && address >= copy->base && address - copy->base < sizeof(copy->words) &&
	       !copy->unreadable[(address - copy->base) / SO_PAGE_BYTES];
}

/* bytes: a page at most. */
static bool read_copy(const struct so_stack_copy *copy, void *dst, uint32_t bytes, uint64_t address)
{
	uint64_t last = address + bytes - 1;

	if (last < address || !page_copied(copy, address) || !page_copied(copy, last))
		return false;
	memcpy(dst, (const char *)copy->words + (address - copy->base), bytes);
	return true;
}

/*
 * Whether what was not copied can still be read from the thread itself: the nearest copied page before it ends as it
 * did. Frames lie in the order of their calls, so a thread that had left those beyond since would have written over
 * that end when it went down again.
 */
static bool still_holds(uint64_t address)
{
	const struct so_stack_copy *copy = &here.raw->inner;
	uint8_t then[BEYOND_CHECK_BYTES], now[BEYOND_CHECK_BYTES];
	uint64_t page = address & ~(SO_PAGE_BYTES - 1ull);

	if (page > copy->base + sizeof(copy->words))
		page = copy->base + sizeof(copy->words);
	while (page > copy->base && !page_copied(copy, page - 1))
		page -= SO_PAGE_BYTES;
	/* The innermost page may have changed below the stack pointer. */
	if (page <= copy->base + SO_PAGE_BYTES)
		return false;
	return read_copy(copy, then, sizeof(then), page - sizeof(then)) &&
	       read_process(now, sizeof(now), page - sizeof(now)) && !memcmp(then, now, sizeof(now));
}

static bool uw_read_user(void *dst, __u32 bytes, __u64 address)
{
	if (!bytes || bytes > SO_PAGE_BYTES)
		return false;
	if (here.live && read_copy(&here.raw->inner, dst, bytes, address))
		return true;
	if (here.live)
		return here.late++ < MAX_LATE_READS && read_process(dst, bytes, address);
	if (read_copy(&here.raw->inner, dst, bytes, address) || read_copy(&here.raw->outer, dst, bytes, address))
		return true;
	if (address < here.raw->inner.base || address - here.raw->inner.base > MAX_STACK_BYTES || !still_holds(address))
		return false;
	here.beyond = true;
	/* The check after the read: what was read is from before the check. */
	return read_process(dst, bytes, address) && still_holds(address);
}

static const struct so_mapping *uw_mapping(__u32 i)
{
	static const struct so_mapping none;

	if (here.mappings)
		return i < here.n_mappings ? &here.mappings[i] : &none;
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

static struct so_frame_cache *uw_cache(__u32 cpu)
{
	return NULL;
}

static bool read_code(void *dst, __u32 bytes, __u64 address)
{
	return read_process(dst, bytes, address);
}

static __u64 true_return(__u64 at)
{
	for (unsigned i = 0; i < SO_MAX_RETURN_PROBES; i++) {
		if (here.raw->returns[i].at == at)
			return here.raw->returns[i].address;
	}
	return 0;
}

#define UW_READ_CODE       read_code
#define UW_TRUE_RETURN(at) true_return(at)
#define UW_SEARCH          static
#include "stakeout/unwinder.h"

/* Goes on past code without rules, by one that is learned from it or by its frame pointer. Returns as uw_step(). */
static int past_unknown_code(const struct user_unwind *uu, struct process *process, struct so_unwind *u)
{
	const struct so_mapping *m = uw_mapping(u->last_mapping);
	const struct so_unwind_rule *rule =
		learner__rule(uu->learner, process, m, u->exact ? u->pc : u->pc - 1, u->exact);

	u->learn = 0;
	u->cause = SO_TRUNC_NONE;
	if (!rule || rule->cfa_kind == SO_CFA_NONE)
		return uw_frame_pointer(u);
	if (rule->cfa_kind == SO_CFA_SIGNAL)
		return uw_signal(u);
	if (rule->cfa_kind == SO_CFA_END)
		return 1;
	if (uw_caller(u, rule))
		return 1;
	return m->flags & SO_MAPPING_WRITABLE ? uw_check_doubtful(u) : 0;
}

/* A caller that was found in memory of a later time must at least have made a call. */
static bool caller_is_one(struct so_unwind *u)
{
	return !here.beyond || u->exact || uw_is_caller(u);
}

static void unwind(const struct user_unwind *uu, struct process *process, struct so_unwind *u)
{
	here.beyond = false;
	for (;;) {
		int done = uw_step(u) && (!u->learn || !process || past_unknown_code(uu, process, u));

		uw_note_call(u);
		if (done)
			return;
		if (!caller_is_one(u)) {
			u->cause = SO_TRUNC_STACK_READ;
			return;
		}
	}
}

/* They take address space and count as resident, but mapping one takes some 40 us. */
#define KEPT_SHARDS 8
#define KEPT_TIMES  20

void user_unwind__pause(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < SO_MAX_SHARDS; i++)
		n += here.shards[i] != NULL;
	if (n > KEPT_SHARDS || ++here.pauses % KEPT_TIMES == 0)
		user_unwind__done();
}

void user_unwind__done(void)
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
		u->hash = so_mix(u->hash, raw->kernel[i]);
	}
	u->record.n_kernel = n;
}

/* Those were walked when the sample was taken, and read when it arrived. */
static void add_python_frames(struct so_unwind *u, const struct so_raw_record *raw)
{
	u->record.n_python = raw->n_python;
	u->record.python = raw->python;
	u->record.empty_calls = (uint16_t)raw->empty_calls;
	u->record.call_at = (uint16_t)u->call_at;
	memcpy(&u->frames[u->n + u->record.n_kernel], raw->python_words,
	       raw->n_python * SO_PYTHON_WORDS * sizeof(u->frames[0]));
}

/* Those that the process had when the sample was taken (0: now), as uw_start() wants them. */
static uint64_t choose_mappings(const struct user_unwind *uu, struct process *process, uint64_t when_ns)
{
	if (!process || !process->run)
		return 0;
	here.n_mappings = when_ns ? process_table__mappings_at(uu->processes, process, when_ns, &here.mappings) : 0;
	return here.n_mappings ?: (uint64_t)process->run->first << 32 | process->run->n;
}

static int unwind_raw(const struct user_unwind *uu, struct process *process, const struct so_raw_record *raw,
		      struct python_functions *functions, struct stack **out)
{
	_cleanup_free_ struct so_unwind *u = calloc(1, sizeof(*u));
	struct stack *stack;

	if (!u)
		return -ENOMEM;
	here.sampler = uu->sampler;
	here.raw = raw;
	here.process = process;
	memcpy(u->regs, raw->regs, sizeof(u->regs));
	uw_clear(u);
	uw_start(u, raw->pc, choose_mappings(uu, process, raw->when_ns), 0);
	u->call = raw->call;
	unwind(uu, process, u);
	free(TAKE_PTR(here.mappings));
	if (u->cause == SO_TRUNC_NO_MAPPING && (!process || !process->run))
		u->cause = SO_TRUNC_MAPS_PENDING;
	if (u->n > SO_MAX_USER_FRAMES)
		u->n = SO_MAX_USER_FRAMES;
	add_kernel_frames(u, raw);
	add_python_frames(u, raw);
	u->record.type = SO_RECORD_STACK;
	u->record.n_user = u->n;
	u->record.hash = uw_stack_hash(u, raw->tgid);
	if (raw->python != SO_PYTHON_STATE_NONE)
		u->record.hash = py_stack_hash(u->record.hash, raw->python_hash, raw->tgid,
					       raw->flags & ~SO_STACK_PYTHON_UNREAD, raw->python);
	u->record.tgid = raw->tgid;
	if (uu->jits)
		u->record.names = jit_names__window(uu->jits, &u->record, (const uint64_t *)u->frames,
						    (uint64_t *)&u->record.hash);
	u->record.cause = u->cause;
	u->record.flags = u->flags | raw->flags;
	stack = stack__new(&u->record, (const uint64_t *)u->frames, functions);
	if (!stack)
		return -ENOMEM;
	pythons__check(uu->pythons, stack);
	*out = stack;
	return 0;
}

int user_unwind__raw(const struct user_unwind *uu, struct process *process, const struct so_raw_record *raw,
		     struct python_functions *functions, struct stack **out)
{
	here.live = false;
	return unwind_raw(uu, process, raw, functions, out);
}

static void take_memory(struct so_raw_record *raw, const struct thread_memory *memory)
{
	struct so_stack_copy *copy = &raw->inner;

	copy->base = memory->base;
	for (size_t i = 0; i < SO_COPY_PAGES; i++)
		copy->unreadable[i] = i >= memory->n_pages;
	memcpy(copy->words, memory->words, memory->n_pages * SO_PAGE_BYTES);
	raw->n_python = memory->n_python;
	raw->python = memory->python;
	raw->flags = memory->python_flags;
	raw->empty_calls = memory->empty_calls;
	raw->call = memory->call;
	raw->python_hash = memory->python_hash;
	memcpy(raw->python_words, memory->python_words, memory->n_python * SO_PYTHON_WORDS * sizeof(uint64_t));
}

static void take_thread(struct so_raw_record *raw, const struct so_thread *t, pid_t tgid)
{
	raw->type = SO_RECORD_RAW;
	raw->tgid = tgid;
	raw->tid = t->tid;
	raw->pc = t->pc;
	memcpy(raw->regs, t->regs, sizeof(raw->regs));
	memcpy(raw->comm, t->comm, sizeof(raw->comm));
	memcpy(raw->returns, t->returns, sizeof(raw->returns));
	raw->n_kernel = t->n_kernel <= SO_MAX_KERNEL_FRAMES ? t->n_kernel : SO_MAX_KERNEL_FRAMES;
	memcpy(raw->kernel, t->kernel, raw->n_kernel * sizeof(raw->kernel[0]));
}

/* Where there are as many frames as there may be, the outermost one goes. */
static void put_file_first(struct so_raw_record *raw, uint32_t file)
{
	if (raw->n_kernel == SO_MAX_KERNEL_FRAMES)
		raw->n_kernel--;
	memmove(&raw->kernel[1], &raw->kernel[0], raw->n_kernel * sizeof(raw->kernel[0]));
	raw->kernel[0] = FILE_FRAME(file);
	raw->n_kernel++;
}

void user_unwind__request(const struct process *process, const struct so_thread *thread,
			  struct thread_catch_request *out)
{
	*out = (struct thread_catch_request){ .pid = process->tgid,
					      .rsp = thread->regs[SO_REG_RSP],
					      .fsbase = thread->fsbase,
					      .python = process->python != NULL };
	if (!process->python)
		return;
	out->walker = process->python->walker;
	out->place = process->python->place;
}

int user_unwind__caught(const struct user_unwind *uu, struct process *process, const struct so_thread *thread,
			const struct thread_memory *memory, uint32_t file, struct stack **out)
{
	_cleanup_free_ struct so_raw_record *raw = calloc(1, sizeof(*raw));

	if (!raw)
		return -ENOMEM;
	take_thread(raw, thread, process->tgid);
	if (memory)
		take_memory(raw, memory);
	if (file)
		put_file_first(raw, file);
	here.live = true;
	here.late = memory ? 0 : MAX_LATE_READS;
	if (!pythons__read(uu->pythons, raw->tgid, (uint64_t *)raw->python_words, raw->n_python))
		raw->flags |= SO_STACK_PYTHON_UNREAD;
	return unwind_raw(uu, process, raw, uu->pythons->functions, out);
}
