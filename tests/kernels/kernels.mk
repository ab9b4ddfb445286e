# SPDX-License-Identifier: GPL-2.0-or-later
# make kernels: stakeout on other kernels, under qemu's software emulation. KERNELS="5.10 6.1" chooses, 6.1-system
# among them: control groups, modules and the wall clock on that one. Needs the Debian packages qemu-system-x86 and
# busybox-static.

KERNELS ?=

.PHONY: kernels
kernels: all $(BUILD)/workloads/split $(BUILD)/workloads/threads cuda-workloads
	STAKEOUT_BUILD=$(BUILD) tests/kernels/run.py $(KERNELS)
