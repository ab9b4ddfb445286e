// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/golden/referee.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stakeout/abi.h"
#include "tests/golden/cfi_walk.h"

struct referee {
	Dwfl *dwfl;
	pid_t pid;
	const uint64_t *regs;
	bool (*read)(void *context, uint64_t address, uint64_t *word);
	void *context;
	struct referee_frame of_dwfl[REFEREE_MAX_FRAMES];
	size_t n_dwfl;
	uint64_t n_short;
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

uint64_t referee__short(const struct referee *r)
{
	return r->n_short;
}

static int on_frame(Dwfl_Frame *state, void *arg)
{
	struct referee *r = arg;
	struct referee_frame f = { 0 };
	Dwarf_Addr pc;

	if (r->n_dwfl == REFEREE_MAX_FRAMES || !dwfl_frame_pc(state, &pc, &f.exact))
		return DWARF_CB_ABORT;
	f.pc = pc;
	r->of_dwfl[r->n_dwfl++] = f;
	return DWARF_CB_OK;
}

/* True when the last frame is outermost. */
static bool walk(struct referee *r, struct referee_frame *frames, size_t *n)
{
	struct cfi_walk w = { .dwfl = r->dwfl,
			      .read = r->read,
			      .context = r->context,
			      .known = (1u << TRACEE_REGS) - 1,
			      .exact = true };
	enum cfi_step step = CFI_CALLER;

	memcpy(w.regs, r->regs, sizeof(w.regs));
	for (*n = 0; step == CFI_CALLER && *n < REFEREE_MAX_FRAMES; ++*n) {
		struct referee_frame *f = &frames[*n];

		*f = (struct referee_frame){
			.pc = w.regs[TRACEE_PC],
			.sp = w.regs[SO_REG_RSP],
			.exact = w.exact,
		};
		step = cfi_walk__step(&w);
		f->signal = step == CFI_CALLER && w.exact;
		f->leaped = step == CFI_CALLER && w.leaped;
	}
	return step == CFI_OUTERMOST;
}

/* libdwfl calls a trampoline's pc exact as well, and goes on by frame pointers where there is no information. */
static bool agree(const struct referee_frame *frames, size_t n, bool outermost,
		  const struct referee_frame *dwfl, size_t n_dwfl)
{
	if (n_dwfl > n && outermost)
		return false;
	for (size_t i = 0; i < n_dwfl && i < n; i++) {
		if (frames[i].pc != dwfl[i].pc || (frames[i].exact || frames[i].signal) != dwfl[i].exact)
			return false;
	}
	return true;
}

int referee__frames(struct referee *r, const uint64_t regs[TRACEE_REGS],
		    bool (*read)(void *context, uint64_t address, uint64_t *word), void *context,
		    struct referee_frame *frames, size_t *n)
{
	bool outermost;

	r->regs = regs;
	r->read = read;
	r->context = context;
	r->n_dwfl = 0;
	dwfl_getthread_frames(r->dwfl, r->pid, on_frame, r);
	outermost = walk(r, frames, n);
	if (!agree(frames, *n, outermost, r->of_dwfl, r->n_dwfl))
		return -EBADMSG;
	r->n_short += r->n_dwfl < *n;
	return outermost ? 0 : -ENODATA;
}
