# SPDX-License-Identifier: GPL-2.0-or-later
# stakeoutd as a service of a real systemd, in a Debian 12 under qemu's software emulation. Needs root, the Debian
# packages debootstrap, qemu-system-x86 and busybox-static, and a network the first time.

#: make systemd      stakeoutd as a service of a real systemd, under qemu

.PHONY: systemd
systemd: dist $(BUILD)/workloads/split-static $(BUILD)/workloads/threads-static cuda-workloads
	STAKEOUT_BUILD=$(BUILD) tests/systemd/run.py $(DIST_TAR) $(SYSTEMD_OPTIONS)
