/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes of the tests under ptrace: stopped at a place, stepped, their registers and memory read. Tests only;
 * stakeout itself never stops a process. Functions return 0 or -errno.
 */
#ifndef STAKEOUT_TESTS_TRACEE_H
#define STAKEOUT_TESTS_TRACEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TRACEE_REGS 17 /* the general registers by DWARF number (enum so_reg), then the program counter */
#define TRACEE_PC   16

/*
 * Starts a program, with no environment but `env` (NULL-terminated "NAME=VALUE", may be NULL) and without address
 * randomisation, and stops it at the first instruction of the executable: its libraries are mapped by then.
 */
int tracee__start(char *const argv[], char *const env[], pid_t *pid);
/*
 * Runs on until a thread reaches the address for the `hits`th time; *tid: which. Its instruction there is not executed
 * yet.
 */
int tracee__run_to(pid_t pid, uint64_t address, unsigned hits, pid_t *tid);
/* Lets the process run so long, then stops its first thread. -ESRCH when it has ended. */
int tracee__run_for(pid_t pid, unsigned ms);
/* Executes one instruction; a signal that arrives meanwhile is delivered. -ESRCH when the process has ended. */
int tracee__step(pid_t tid);
int tracee__regs(pid_t tid, uint64_t regs[TRACEE_REGS]);
/* All or nothing. */
bool tracee__read(pid_t pid, void *dst, size_t bytes, uint64_t address);
/* Up to the first page that cannot be read; returns the bytes read. */
size_t tracee__read_some(pid_t pid, void *dst, size_t bytes, uint64_t address);
void tracee__kill(pid_t pid);

#endif
