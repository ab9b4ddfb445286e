/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Included before everything else in the helper, which is to run on nodes with an older glibc than the one it is built
 * with: what moved to a new version of a symbol in glibc 2.34 is asked for under the first version that x86-64 had.
 * Both glibcs have it, and libdl.so.2, where it lay before, is loaded as well.
 */
#ifndef STAKEOUT_NVML_OLD_GLIBC_H
#define STAKEOUT_NVML_OLD_GLIBC_H

__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
__asm__(".symver dlclose,dlclose@GLIBC_2.2.5");
__asm__(".symver dlerror,dlerror@GLIBC_2.2.5");

#endif
