/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Mappings of a process as the kernel side gets them: pieces, each with its part of one table, and what they use. */
#ifndef STAKEOUT_MAPPING_LIST_H
#define STAKEOUT_MAPPING_LIST_H

#include "daemon/processes/process_table.h"

struct mapping_list {
	struct so_mapping *list;
	size_t n, capacity;
	struct file_use *uses; /* of their files */
	size_t n_uses, uses_capacity;
};

/* so_mapping.id of a mapping. */
uint64_t mapping_list__id(const struct proc_map *map);
/* Appends a mapping's pieces. Sets scan->again where its file was retired meanwhile. -ENOMEM; -ENOSPC: it is full. */
int mapping_list__add(struct mapping_list *list, struct file_registry *registry, const struct process *p,
		      struct process_scan *scan, const struct proc_map *map);
/* But for what BPF has noted in them. */
bool mapping_list__same_piece(struct so_mapping a, struct so_mapping b);
/* Whether the run, of the kernel's array, has the same pieces. run: NULL is none. */
bool mapping_list__is_run(const struct mapping_list *list, const struct so_mapping *all, const struct mapping_run *run);
/* With the uses that it still has. */
void mapping_list__release(struct mapping_list *list, struct file_registry *registry);

#endif
