// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/profile/probe_time.h"

#include <string.h>

/* The longest x86-64 instruction. After the single step the thread is behind the probed one. */
#define MAX_INSTRUCTION_BYTES 15

/* The programs in bpf/ that are attached to uprobes. */
static const char *const own_programs[] = {
	"cuda_session", "cuda_enter", "cuda_leave", "alloc_session", "alloc_enter", "alloc_leave",
	"on_memory",    "on_refused", "on_mark_0",  "on_mark_1",     "on_mark_2",   "on_mark_3",
};

/* Kernel entries of probes' traps and system calls, and functions that handle probes. */
static const char *const handling[] = {
	"asm_exc_int3",         "asm_exc_debug",
	"uprobe_notify_resume", "uprobe_pre_sstep_notifier",
	"__x64_sys_uprobe",     "__x64_sys_uretprobe",
	"handle_swbp",          "uprobe_post_sstep_notifier",
	"handle_singlestep",    "uprobe_handle_trampoline",
};

static bool is_among(const char *const *names, size_t n, const char *name, size_t length)
{
	for (size_t i = 0; i < n; i++) {
		if (strlen(names[i]) == length && !memcmp(names[i], name, length))
			return true;
	}
	return false;
}

#define IS_AMONG(names, name, length) is_among(names, sizeof(names) / sizeof((names)[0]), name, length)

/* "bpf_prog_0123456789abcdef_NAME [bpf]" */
enum probe_part probe_part_of(const char *name)
{
	static const char prefix[] = "bpf_prog_";
	const char *program;

	if (!name)
		return PROBE_NONE;
	if (!strncmp(name, "entry_SYSCALL_64", 16))
		return PROBE_SYSTEM_CALL;
	if (strncmp(name, prefix, sizeof(prefix) - 1))
		return IS_AMONG(handling, name, strcspn(name, " ")) ? PROBE_HANDLING : PROBE_NONE;
	program = strchr(name + sizeof(prefix) - 1, '_');
	return program && IS_AMONG(own_programs, program + 1, strcspn(program + 1, " ")) ? PROBE_OWN_PROGRAM
											 : PROBE_OTHER_PROGRAM;
}

/* The innermost user frame's address minus `back` bytes. */
static uint64_t place_of(const struct stack *stack, unsigned back)
{
	uint64_t frame = stack->frames[0] - back;

	return SO_FRAME_FILE(frame) ? frame : so_mix(frame, stack->record.tgid);
}

/* Subprograms of stakeout's programs have names that are not listed, so its main program decides. */
static unsigned owner_of(unsigned parts)
{
	return parts & PROBE_OWN_PROGRAM ? PROBE_OWN_PROGRAM : parts & PROBE_OTHER_PROGRAM;
}

void probe_evidence__add(struct probe_evidence *e, const struct stack *stack, unsigned parts)
{
	unsigned owner = parts & PROBE_HANDLING ? owner_of(parts) : 0;
	uint32_t seen = 0;

	if (!owner)
		return;
	u64_table__get(&e->processes, stack->record.tgid, &seen);
	u64_table__set(&e->processes, stack->record.tgid, seen | owner);
	if (owner == PROBE_OWN_PROGRAM && stack->record.n_user)
		u64_table__set(&e->places, place_of(stack, 0), 1);
}

bool probe_evidence__is_own(const struct probe_evidence *e, const struct stack *stack, unsigned parts)
{
	uint32_t seen = 0;

	if (!(parts & PROBE_HANDLING))
		return parts & PROBE_SYSTEM_CALL && stack->record.n_user &&
		       u64_table__get(&e->places, place_of(stack, 0), &seen);
	if (owner_of(parts))
		return owner_of(parts) == PROBE_OWN_PROGRAM;
	if (u64_table__get(&e->processes, stack->record.tgid, &seen) && seen == PROBE_OWN_PROGRAM)
		return true;
	for (unsigned back = 0; stack->record.n_user && back <= MAX_INSTRUCTION_BYTES; back++) {
		if (u64_table__get(&e->places, place_of(stack, back), &seen))
			return true;
	}
	return false;
}

void probe_evidence__release(struct probe_evidence *e)
{
	u64_table__release(&e->places);
	u64_table__release(&e->processes);
}
