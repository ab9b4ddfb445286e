// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/targets/waited_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/os/memory_lock.h"
#include "daemon/os/proc_file.h"
#include "daemon/os/proc_maps.h"
#include "daemon/unwind/x86_decoder.h"
#include "stakeout/cleanup.h"
#include "stakeout/live_thread.h"

#define MAX_MAPS_BYTES (1u << 20)
#define MAX_INSN_BYTES 15

/* What the kernel leaves in place of a system call's number at an exception (arch/x86/include/asm/idtentry.h). */
#define NO_SYSCALL (-1)

/* System calls whose first argument is the file's descriptor. */
static bool takes_descriptor(int64_t number)
{
	switch (number) {
	case SYS_read:
	case SYS_write:
	case SYS_pread64:
	case SYS_pwrite64:
	case SYS_readv:
	case SYS_writev:
	case SYS_preadv:
	case SYS_pwritev:
	case SYS_preadv2:
	case SYS_pwritev2:
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_sync_file_range:
	case SYS_getdents64:
	case SYS_fallocate:
	case SYS_ftruncate:
	case SYS_fstat:
	case SYS_flock:
		return true;
	default:
		return false;
	}
}

/* System calls that are given a path: which of their arguments it is, from 1; 0: none of them. */
static unsigned path_argument(int64_t number)
{
	switch (number) {
	case SYS_open:
	case SYS_creat:
	case SYS_stat:
	case SYS_lstat:
	case SYS_access:
	case SYS_execve:
	case SYS_readlink:
	case SYS_truncate:
	case SYS_statfs:
	case SYS_chdir:
	case SYS_mkdir:
	case SYS_rmdir:
	case SYS_unlink:
	case SYS_rename:
		return 1;
	case SYS_openat:
	case SYS_openat2:
	case SYS_newfstatat:
	case SYS_statx:
	case SYS_faccessat:
	case SYS_faccessat2:
	case SYS_execveat:
	case SYS_readlinkat:
	case SYS_mkdirat:
	case SYS_unlinkat:
	case SYS_renameat:
	case SYS_renameat2:
		return 2;
	default:
		return 0;
	}
}

static void keep_end(const char *from, char path[WAITED_FILE_BYTES])
{
	static const char more[] = "…";
	size_t n = strlen(from), room = WAITED_FILE_BYTES - sizeof(more);

	if (n > room) {
		memcpy(path, more, sizeof(more));
		memcpy(path + sizeof(more) - 1, from + n - room, room + 1);
	} else {
		memcpy(path, from, n + 1);
	}
}

/* A link of /proc: no file system is asked. A socket's or a pipe's has no path. */
static bool of_descriptor(pid_t tgid, int fd, char path[WAITED_FILE_BYTES])
{
	char link[64], target[4096];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/fd/%d", live_thread__of(tgid), fd);
	n = readlink(link, target, sizeof(target) - 1);
	if (n <= 0)
		return false;
	target[n] = '\0';
	if (*target != '/')
		return false;
	keep_end(target, path);
	return true;
}

/* As the program gave it, which may be relative. It is in memory that the program may change meanwhile. */
static bool of_path(pid_t tgid, uint64_t address, char path[WAITED_FILE_BYTES])
{
	char text[4096 + 1]; /* PATH_MAX */
	size_t n = memory_lock__read(tgid, address, text, sizeof(text) - 1);

	text[n] = '\0';
	for (char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' || *at == '\x7f')
			*at = '?';
	if (!*text)
		return false;
	keep_end(text, path);
	return true;
}

static uint64_t register_value(const struct so_thread *t, unsigned reg, uint64_t next_pc)
{
	static const uint16_t numbers[SO_NREGS] = {
		[SO_REG_RAX] = X86_REG_RAX, [SO_REG_RDX] = X86_REG_RDX, [SO_REG_RCX] = X86_REG_RCX,
		[SO_REG_RBX] = X86_REG_RBX, [SO_REG_RSI] = X86_REG_RSI, [SO_REG_RDI] = X86_REG_RDI,
		[SO_REG_RBP] = X86_REG_RBP, [SO_REG_RSP] = X86_REG_RSP, [SO_REG_R8] = X86_REG_R8,
		[SO_REG_R9] = X86_REG_R9,   [SO_REG_R10] = X86_REG_R10, [SO_REG_R11] = X86_REG_R11,
		[SO_REG_R12] = X86_REG_R12, [SO_REG_R13] = X86_REG_R13, [SO_REG_R14] = X86_REG_R14,
		[SO_REG_R15] = X86_REG_R15,
	};

	if (reg == X86_REG_RIP)
		return next_pc;
	for (unsigned i = 0; i < SO_NREGS; i++)
		if (numbers[i] == reg)
			return t->regs[i];
	return 0;
}

/* The addresses that an instruction touches, at most two. Those behind a segment register are a thread's own memory. */
static size_t touched(const struct so_thread *t, const uint8_t *code, size_t n, uint64_t out[2])
{
	struct x86_decoder decoder;
	uint64_t address = t->pc;
	size_t found = 0;

	if (x86_decoder__open(&decoder))
		return 0;
	if (cs_disasm_iter(decoder.handle, &code, &n, &address, decoder.insn)) {
		const cs_x86 *x = &decoder.insn->detail->x86;

		for (unsigned i = 0; i < x->op_count && found < 2; i++) {
			const x86_op_mem *m = &x->operands[i].mem;

			if (x->operands[i].type != X86_OP_MEM || m->segment == X86_REG_FS || m->segment == X86_REG_GS)
				continue;
			out[found++] = register_value(t, m->base, address) +
				       register_value(t, m->index, address) * (uint64_t)m->scale + (uint64_t)m->disp;
		}
	}
	x86_decoder__close(&decoder);
	return found;
}

static bool of_fault(pid_t tgid, const struct so_thread *t, char path[WAITED_FILE_BYTES])
{
	_cleanup_free_ char *text = malloc(MAX_MAPS_BYTES);
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };
	uint8_t code[MAX_INSN_BYTES];
	uint64_t addresses[2] = { 0 };
	const struct proc_map *map = NULL;
	size_t read = memory_lock__read(tgid, t->pc, code, sizeof(code)), n = touched(t, code, read, addresses);
	ssize_t length = text ? memory_lock__read_file(PROC_FILE_HERE, tgid, "maps", text, MAX_MAPS_BYTES) : -1;
	char *end = length > 0 ? memrchr(text, '\n', (size_t)length) : NULL;

	if (!end || proc_maps__parse(text, (size_t)(end + 1 - text), false, &maps, NULL))
		return false;
	for (size_t i = 0; i < n && !(map && map->inode); i++)
		map = proc_maps__find(&maps, addresses[i]);
	/* The code itself may be what is not there. */
	if (!map || !map->inode)
		map = read ? NULL : proc_maps__find(&maps, t->pc);
	if (!map || !map->inode || *map->path != '/')
		return false;
	keep_end(map->path, path);
	return true;
}

bool waited_file__is_dear(const struct so_thread *t)
{
	return t->syscall == NO_SYSCALL || path_argument(t->syscall);
}

bool waited_file__path(pid_t tgid, const struct so_thread *t, char path[WAITED_FILE_BYTES])
{
	if (!t->user || !t->state)
		return false;
	if (t->syscall == NO_SYSCALL)
		return of_fault(tgid, t, path);
	if (path_argument(t->syscall))
		return of_path(tgid, t->regs[path_argument(t->syscall) == 1 ? SO_REG_RDI : SO_REG_RSI], path);
	return takes_descriptor(t->syscall) && of_descriptor(tgid, (int)t->regs[SO_REG_RDI], path);
}
