/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The store's file: its tables and their versions, its check when it is opened, and what happens to a corrupt one. */
#ifndef STAKEOUT_STORE_SCHEMA_H
#define STAKEOUT_STORE_SCHEMA_H

#include "daemon/history/store_sql.h"
#include "stakeout/error.h"

#define STORE_ROW_BYTES 512                /* what a window counts beside its blobs, and a target's row */
#define STORE_WAL_BYTES ((int64_t)8 << 20) /* of the write-ahead log; more only while a long read goes on */

/*
 * For writing; the file is created, and brought to this version. -EPROTONOSUPPORT: a later version; -EMEDIUMTYPE:
 * another program's; -EUCLEAN: corrupt; the errors of sql__error(); in words.
 */
int store_schema__open_writer(const char *path, sqlite3 **out, struct so_error *err);

/* For reading only, also of a place that cannot be written. -ENOENT: there is no file. */
int store_schema__open_reader(const char *path, sqlite3 **out, struct so_error *err);

/* Renames a corrupt database, with its log, to PATH.corrupt-YYYYMMDD-HHMMSS, which comes back in `aside`. -errno. */
int store_schema__move_aside(const char *path, int64_t now_ns, char *aside, size_t size);

#endif
