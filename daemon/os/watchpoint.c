// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/watchpoint.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stakeout/cleanup.h"

#define TRIES 10

int watchpoint__open(pid_t tid, uint64_t address)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.bp_type = HW_BREAKPOINT_RW,
		.bp_addr = address,
		.bp_len = HW_BREAKPOINT_LEN_1,
		.sample_period = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

bool watchpoint__works(void)
{
	static _Thread_local volatile uint16_t words[4] __attribute__((aligned(8)));
	_cleanup_close_ int fd = watchpoint__open(0, (uintptr_t)&words[1]);
	uint64_t fired = 0;

	if (fd < 0)
		return false;
	for (unsigned i = 0; i < TRIES; i++) {
		(void)words[1];
		(void)words[2];
	}
	return read(fd, &fired, sizeof(fired)) == sizeof(fired) && fired == TRIES;
}
