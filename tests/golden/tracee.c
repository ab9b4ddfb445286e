// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/golden/tracee.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stakeout/cleanup.h"

static void become(char *const argv[], char *const env[])
{
	static char *const no_env[] = { NULL };
	int null = open("/dev/null", O_RDWR);

	dup2(null, 0);
	dup2(null, 1);
	dup2(null, 2);
	personality(ADDR_NO_RANDOMIZE);
	if (chdir("/") || ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(126);
	execve(argv[0], argv, env ? env : no_env);
	_exit(127);
}

static int entry_of(pid_t pid, uint64_t *entry)
{
	_cleanup_fclose_ FILE *f = NULL;
	Elf64_auxv_t aux;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	f = fopen(path, "r");
	while (f && fread(&aux, sizeof(aux), 1, f) == 1) {
		if (aux.a_type == AT_ENTRY) {
			*entry = aux.a_un.a_val;
			return 0;
		}
	}
	return -ENOENT;
}

int tracee__start(char *const argv[], char *const env[], pid_t *out)
{
	uint64_t entry;
	pid_t pid = fork(), tid;
	int status, ret;

	if (pid < 0)
		return -errno;
	if (!pid)
		become(argv, env);
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return WIFEXITED(status) && WEXITSTATUS(status) == 126 ? -EPERM : -ENOEXEC;
	ret = ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL) ? -errno : 0;
	ret = ret ?: entry_of(pid, &entry);
	ret = ret ?: tracee__run_to(pid, entry, 1, &tid);
	if (ret) {
		tracee__kill(pid);
		return ret;
	}
	*out = pid;
	return 0;
}

/*
 * Looks at what waitpid() said. 1: a stop by *signal. 0: nothing to stop at; a new thread, or its creator, was let run.
 * -ESRCH when the process has ended.
 */
static int take_status(pid_t pid, pid_t tid, int status, int *signal)
{
	if (WIFEXITED(status) || WIFSIGNALED(status))
		return tid == pid ? -ESRCH : 0;
	*signal = WSTOPSIG(status);
	/* A new thread's first stop, or its creator's report of it. */
	if (status >> 8 != (SIGTRAP | PTRACE_EVENT_CLONE << 8) && (*signal != SIGSTOP || tid == pid))
		return 1;
	ptrace(PTRACE_CONT, tid, NULL, NULL);
	return 0;
}

static int wait_for_stop(pid_t pid, pid_t *tid, int *signal)
{
	int status, ret;

	do {
		*tid = waitpid(-1, &status, __WALL);
		ret = *tid < 0 ? -errno : take_status(pid, *tid, status, signal);
	} while (!ret);
	return ret < 0 ? ret : 0;
}

static int set_pc(pid_t tid, uint64_t pc)
{
	struct user_regs_struct r;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &r))
		return -errno;
	r.rip = pc;
	return ptrace(PTRACE_SETREGS, tid, NULL, &r) ? -errno : 0;
}

/* Runs until the breakpoint that stands at the address is hit once. */
static int run_to_trap(pid_t pid, pid_t *tid)
{
	int signal = 0, ret;

	for (;;) {
		if (ptrace(PTRACE_CONT, *tid, NULL, (void *)(long)signal))
			return -errno;
		ret = wait_for_stop(pid, tid, &signal);
		if (ret)
			return ret;
		if (signal == SIGTRAP)
			return 0;
	}
}

int tracee__run_to(pid_t pid, uint64_t address, unsigned hits, pid_t *tid)
{
	long word, trap;
	int ret = 0;

	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, pid, (void *)address, NULL);
	if (errno)
		return -errno;
	trap = (word & ~0xffl) | 0xcc;
	*tid = pid;
	for (unsigned i = 0; !ret && i < hits; i++) {
		if (i)
			ret = tracee__step(*tid);
		if (!ret && ptrace(PTRACE_POKETEXT, *tid, (void *)address, (void *)trap))
			ret = -errno;
		ret = ret ?: run_to_trap(pid, tid);
		if (!ret && ptrace(PTRACE_POKETEXT, *tid, (void *)address, (void *)word))
			ret = -errno;
		ret = ret ?: set_pc(*tid, address);
	}
	return ret;
}

/* Lets it run, its new threads and its signals too. */
static int run_on(pid_t pid, unsigned ms)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int status, signal, ret = 0;
	pid_t tid;

	for (unsigned i = 0; !ret && i < ms; i++) {
		nanosleep(&pause, NULL);
		while (!ret && (tid = waitpid(-1, &status, __WALL | WNOHANG)) > 0) {
			ret = take_status(pid, tid, status, &signal);
			if (ret == 1)
				ret = ptrace(PTRACE_CONT, tid, NULL, (void *)(long)signal) ? -errno : 0;
		}
	}
	return ret;
}

int tracee__run_for(pid_t pid, unsigned ms)
{
	int signal = 0, ret;
	pid_t tid = pid;

	if (ptrace(PTRACE_CONT, pid, NULL, NULL))
		return -errno;
	ret = run_on(pid, ms);
	if (!ret && kill(pid, SIGSTOP))
		ret = -errno;
	while (!ret) {
		ret = wait_for_stop(pid, &tid, &signal);
		if (ret || (tid == pid && signal == SIGSTOP))
			return ret;
		if (ptrace(PTRACE_CONT, tid, NULL, (void *)(long)signal))
			ret = -errno;
	}
	return ret;
}

int tracee__step(pid_t tid)
{
	long signal = 0;

	for (;;) {
		int status;

		if (ptrace(PTRACE_SINGLESTEP, tid, NULL, (void *)signal))
			return -errno;
		if (waitpid(tid, &status, __WALL) != tid)
			return -errno;
		if (!WIFSTOPPED(status))
			return -ESRCH;
		signal = WSTOPSIG(status);
		if (signal == SIGTRAP && status >> 16 == 0)
			return 0;
		if (status >> 16)
			signal = 0;
	}
}

int tracee__regs(pid_t tid, uint64_t regs[TRACEE_REGS])
{
	struct user_regs_struct r;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &r))
		return -errno;
	const uint64_t in_order[TRACEE_REGS] = { r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
						 r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip };

	for (unsigned i = 0; i < TRACEE_REGS; i++)
		regs[i] = in_order[i];
	return 0;
}

size_t tracee__read_some(pid_t pid, void *dst, size_t bytes, uint64_t address)
{
	struct iovec local = { dst, bytes }, remote = { (void *)(uintptr_t)address, bytes };
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	return n > 0 ? (size_t)n : 0;
}

bool tracee__read(pid_t pid, void *dst, size_t bytes, uint64_t address)
{
	return tracee__read_some(pid, dst, bytes, address) == bytes;
}

/* A first thread's end is told only when those of the others, which are traced too, have been waited for. */
void tracee__kill(pid_t pid)
{
	int status;
	pid_t tid;

	kill(pid, SIGKILL);
	do
		tid = waitpid(-1, &status, __WALL);
	while (tid > 0 && (tid != pid || WIFSTOPPED(status)));
}
