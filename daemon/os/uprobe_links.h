/* SPDX-License-Identifier: GPL-2.0-or-later */
/* BPF links of many uprobes at once, which libbpf 1.1 (Debian 12) does not know. */
#ifndef STAKEOUT_UPROBE_LINKS_H
#define STAKEOUT_UPROBE_LINKS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

/* Expected attach types of the programs: enum bpf_attach_type, include/uapi/linux/bpf.h of 6.6 and of 6.13. */
#define UPROBE_LINKS_MULTI   48
#define UPROBE_LINKS_SESSION 57

/* Whether the kernel has such links. */
bool uprobe_links__supported(uint32_t type);
/*
 * path: of the file; offsets and cookies: count of them, in it; pid: in that process alone. The link's descriptor;
 * -errno. -EOWNERDEAD: the process's first thread has ended. The kernel knows the process by that thread's memory,
 * which is gone, and would place no probe, without a word.
 */
int uprobe_links__make(int program_fd, uint32_t type, bool at_return, const char *path, const uint64_t *offsets,
		       const uint64_t *cookies, uint32_t count, pid_t pid);

/* In words, of what it has returned. */
static inline const char *uprobe_links__error(int ret)
{
	return ret == -EOWNERDEAD ? "the process's first thread has ended, by whose memory the kernel places probes"
				  : strerror(-ret);
}

#endif
