// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/uprobe_links.h"

#include <bpf/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stakeout/cleanup.h"
#include "stakeout/live_thread.h"

#define MULTI_RETURN 1 /* BPF_F_UPROBE_MULTI_RETURN */

/* The part of union bpf_attr for these links, include/uapi/linux/bpf.h of 6.6. */
struct uprobe_multi_attr {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t count, multi_flags, pid, unused;
};

int uprobe_links__make(int program_fd, uint32_t type, bool at_return, const char *path, const uint64_t *offsets,
		       const uint64_t *cookies, uint32_t count, pid_t pid)
{
	struct uprobe_multi_attr attr = { .prog_fd = (uint32_t)program_fd,
					  .attach_type = type,
					  .path = (uintptr_t)path,
					  .offsets = (uintptr_t)offsets,
					  .cookies = (uintptr_t)cookies,
					  .count = count,
					  .multi_flags = at_return ? MULTI_RETURN : 0,
					  .pid = (uint32_t)pid };
	long fd;

	if (pid && live_thread__of(pid) != pid)
		return -EOWNERDEAD;
	fd = syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));

	return fd < 0 ? -errno : (int)fd;
}

/* They tell a directory from a file. */
bool uprobe_links__supported(uint32_t type)
{
	const struct bpf_insn nothing[] = { { .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
					    { .code = BPF_JMP | BPF_EXIT } };
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = (enum bpf_attach_type)type);
	const uint64_t offset = 0, cookie = 0;
	_cleanup_close_ int program = bpf_prog_load(BPF_PROG_TYPE_KPROBE, NULL, "GPL", nothing, 2, &opts);
	_cleanup_close_ int link = -1;

	if (program < 0)
		return false;
	link = uprobe_links__make(program, type, false, "/", &offset, &cookie, 1, 0);
	return link == -EBADF;
}
