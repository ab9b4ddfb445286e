// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/golden/referee.h"

#include <stdlib.h>

#include "stakeout/abi.h"

struct referee {
	Dwfl *dwfl;
	pid_t pid;
	const uint64_t *regs;
	bool (*read)(void *context, uint64_t address, uint64_t *word);
	void *context;
	struct referee_frame *frames;
	size_t n;
};

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	struct referee *r = arg;

	if (*thread_arg)
		return 0;
	*thread_arg = r;
	return r->pid;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
	*thread_arg = arg;
	return true;
}

static bool read_word(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *result, void *arg)
{
	struct referee *r = arg;
	uint64_t word;

	if (!r->read(r->context, address, &word))
		return false;
	*result = word;
	return true;
}

static bool give_registers(Dwfl_Thread *thread, void *arg)
{
	struct referee *r = arg;

	return dwfl_thread_state_registers(thread, 0, TRACEE_REGS, r->regs);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread = next_thread,
	.get_thread = get_thread,
	.memory_read = read_word,
	.set_initial_registers = give_registers,
};

/* Separate debug files are not asked for: the tables come from what the process has mapped. */
static int no_debug_file(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base, const char *file,
			 const char *link, GElf_Word crc, char **out)
{
	return -1;
}

static const Dwfl_Callbacks process_callbacks = {
	.find_elf = dwfl_linux_proc_find_elf,
	.find_debuginfo = no_debug_file,
};

struct referee *referee__new(pid_t pid)
{
	struct referee *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->pid = pid;
	r->dwfl = dwfl_begin(&process_callbacks);
	if (!r->dwfl || dwfl_linux_proc_report(r->dwfl, pid) || dwfl_report_end(r->dwfl, NULL, NULL) ||
	    !dwfl_attach_state(r->dwfl, NULL, pid, &thread_callbacks, r)) {
		referee__free(r);
		return NULL;
	}
	return r;
}

void referee__free(struct referee *r)
{
	if (!r)
		return;
	if (r->dwfl)
		dwfl_end(r->dwfl);
	free(r);
}

Dwfl *referee__dwfl(struct referee *r)
{
	return r->dwfl;
}

static int on_frame(Dwfl_Frame *state, void *arg)
{
	struct referee *r = arg;
	struct referee_frame f = { 0 };
	Dwarf_Addr pc;
	Dwarf_Word sp;

	if (r->n == REFEREE_MAX_FRAMES || !dwfl_frame_pc(state, &pc, &f.exact))
		return DWARF_CB_ABORT;
	f.pc = pc;
	if (!dwfl_frame_reg(state, SO_REG_RSP, &sp))
		f.sp = sp;
	r->frames[r->n++] = f;
	return DWARF_CB_OK;
}

bool referee__frames(struct referee *r, const uint64_t regs[TRACEE_REGS],
		     bool (*read)(void *context, uint64_t address, uint64_t *word), void *context,
		     struct referee_frame *frames, size_t *n)
{
	int ret;

	r->regs = regs;
	r->read = read;
	r->context = context;
	r->frames = frames;
	r->n = 0;
	ret = dwfl_getthread_frames(r->dwfl, r->pid, on_frame, r);
	*n = r->n;
	return !ret;
}
