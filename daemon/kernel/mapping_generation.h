/* SPDX-License-Identifier: GPL-2.0-or-later */
/* By what a sample knows that its process's mappings are those that were read (bpf/mapped.h). */
#ifndef STAKEOUT_MAPPING_GENERATION_H
#define STAKEOUT_MAPPING_GENERATION_H

/* In words, for `stakeout status`. Static storage. */
const char *mapping_generation__mechanism(void);

#endif
