/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The memory map of a process, from /proc/PID/maps. */
#ifndef STAKEOUT_PROC_MAPS_H
#define STAKEOUT_PROC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

struct proc_map {
	uint64_t start, end; /* process addresses, bytes */
	uint64_t offset;     /* in the file, bytes */
	uint64_t inode;      /* 0: not backed by a file */
	uint32_t dev_major, dev_minor;
	bool readable, writable, executable, shared;
	/* For a copy of a file's text (processes/text_copies.h): a mapping of the file itself. Else 0. */
	uint64_t file_start, file_end;
	bool deleted;     /* the kernel appended " (deleted)"; the path is without it */
	const char *path; /* "" for anonymous memory; "[vdso]", "[stack]", … ; owned by the list; octal escapes
			     undone */
};

struct proc_maps {
	struct proc_map *maps; /* sorted by start, as the kernel lists them */
	size_t n;
	char *strings; /* owns the paths */
};

/* Parses the text of a maps file (not NUL-terminated). -EINVAL on a line that is none. */
int proc_maps__parse(const char *text, size_t length, bool executable_only, struct proc_maps *out,
		     struct so_error *err);
/* Reads /proc/PID/maps. -ESRCH when the process is gone; n == 0 for a kernel thread or a zombie. */
int proc_maps__read(pid_t pid, bool executable_only, struct proc_maps *out, struct so_error *err);
/* Removes the mappings that are not executable. */
void proc_maps__keep_executable(struct proc_maps *maps);
/* The mapping that holds the address, or NULL. */
const struct proc_map *proc_maps__find(const struct proc_maps *maps, uint64_t address);
/*
 * Opens the file behind a mapping through the process itself: /proc/PID/map_files/START-END (works for deleted
 * and replaced files and for other mount namespaces), else PATH below /proc/PID/root if its device and inode are the
 * mapping's. -ESTALE when another file is mapped there by now and its path leads nowhere. Returns a read-only,
 * close-on-exec fd, or -errno.
 */
int proc_maps__open_file(pid_t pid, const struct proc_map *map);
void proc_maps__release(struct proc_maps *maps); /* frees what the struct holds and empties it */
CLEANUP_DEFINE_OF(struct proc_maps, proc_maps, proc_maps__release)

#endif
