/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols that a just-in-time compiler writes to /tmp/perf-PID.map ("START SIZE name" lines, hexadecimal). The
 * file is looked for inside the process's own root, under its PID in its own PID namespace; it is foreign text
 * of any size.
 */
#ifndef STAKEOUT_PERF_MAP_H
#define STAKEOUT_PERF_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

struct perf_map;

#define PERF_MAP_MAX_BYTES (256u << 20) /* what is read of one file at most; the last lines written win */

int perf_map__parse(const char *text, size_t length, struct perf_map **out);
/* -ENOENT when the process has none. The file must be a regular file owned by the process's user or by root, and the
 * process's user must be able to read it. */
int perf_map__read(pid_t pid, struct perf_map **out, struct so_error *err);
/* That of a process that has ended, which ran as `uid` and in this process's own PID and mount namespaces. */
int perf_map__read_ended(pid_t pid, uid_t uid, struct perf_map **out, struct so_error *err);
/* Where ranges overlap, the line later in the file wins. NULL when nothing covers the address. Owned by the
 * map. */
const char *perf_map__lookup(const struct perf_map *map, uint64_t address);
void perf_map__free(struct perf_map *map);
CLEANUP_DEFINE(struct perf_map *, perf_map, perf_map__free)

#endif
