/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols that a just-in-time compiler writes to /tmp/perf-PID.map ("START SIZE name" lines, hexadecimal). The
 * file is looked for inside the process's own root, under its PID in its own PID namespace; it is foreign text
 * of any size.
 */
#ifndef STAKEOUT_PERF_MAP_H
#define STAKEOUT_PERF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

struct perf_map;

#define PERF_MAP_MAX_BYTES (256u << 20) /* what is read of one file at most; the last lines written win */

int perf_map__parse(const char *text, size_t length, struct perf_map **out);
/* The file, open; as perf_map__read(). -errno. */
int perf_map__open(pid_t pid, struct so_error *err);
/* Visits the address range of each line in the text; returns how much of it are whole lines, in bytes. */
size_t perf_map__each_range(const char *text, size_t length, void (*visit)(void *context, uint64_t start, uint64_t end),
			    void *context);
/* -ENOENT when the process has none. The file must be a regular file owned by the process's user or by root, and the
 * process's user must be able to read it. */
int perf_map__read(pid_t pid, struct perf_map **out, struct so_error *err);
/* That of a process that has ended, which ran as `uid` and in this process's own PID and mount namespaces. */
int perf_map__read_ended(pid_t pid, uid_t uid, struct perf_map **out, struct so_error *err);
/* Where ranges overlap, the line later in the file wins. NULL when nothing covers the address. Owned by the
 * map. */
const char *perf_map__lookup(const struct perf_map *map, uint64_t address);

#define PERF_MAP_MAX_NAMES 3

struct perf_map_names {
	const char *list[PERF_MAP_MAX_NAMES]; /* the map's */
	unsigned n;
	bool more; /* there were others */
};

/*
 * The names that an address may have had while the file grew from `from` to `to` bytes: that of the last line before,
 * and those of lines written meanwhile. Without any of these that of the first line after: code may run before its line
 * is written.
 */
void perf_map__names_between(const struct perf_map *map, uint64_t address, uint64_t from, uint64_t to,
			     struct perf_map_names *out);
void perf_map__free(struct perf_map *map);
CLEANUP_DEFINE(struct perf_map *, perf_map, perf_map__free)

#endif
