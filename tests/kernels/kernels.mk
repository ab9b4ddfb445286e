# SPDX-License-Identifier: GPL-2.0-or-later
# Other kernels under qemu's software emulation; 6.1-system is control groups, modules and the wall clock on that one.
# Needs the Debian packages qemu-system-x86 and busybox-static.

#: make kernels      stakeout on other kernels, under qemu (KERNELS="5.10 6.1 6.12 6.1-system" chooses)

KERNELS ?=

.PHONY: kernels
kernels: all $(BUILD)/workloads/split $(BUILD)/workloads/threads $(BUILD)/workloads/mem_grow cuda-workloads
	STAKEOUT_BUILD=$(BUILD) tests/kernels/run.py $(KERNELS)
