/* SPDX-License-Identifier: GPL-2.0-or-later */
/* SQLite as the store's files call it: errors as -errno, statements that finalize themselves, integers in ns or ids. */
#ifndef STAKEOUT_STORE_SQL_H
#define STAKEOUT_STORE_SQL_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/cleanup.h"

CLEANUP_DEFINE(sqlite3_stmt *, statement, sqlite3_finalize)
CLEANUP_DEFINE(sqlite3 *, database, sqlite3_close_v2)

/*
 * The database's last error: -ENOSPC full (a limit on the file's size too); -EROFS read-only; -EUCLEAN corrupt, or no
 * database; -EBUSY; -ENOMEM; -EFBIG; -EINTR interrupted; -EACCES cannot be opened; everything else -EIO.
 */
int sql__error(sqlite3 *db);

/* A code of sql__error() in words: what is the matter with the database. */
const char *sql__words(int code);

/* Statements without rows, one or several. */
int sql__run(sqlite3 *db, const char *text);
int sql__prepare(sqlite3 *db, const char *text, sqlite3_stmt **out);
/* With ?1 … ?n bound to whole numbers. */
int sql__prepare_numbers(sqlite3 *db, const char *text, size_t n, const int64_t *numbers, sqlite3_stmt **out);
/* 1: a row is there; 0: no more rows. */
int sql__step(sqlite3 *db, sqlite3_stmt *statement);
/* To the end; rows are passed over. */
int sql__run_numbers(sqlite3 *db, const char *text, size_t n, const int64_t *numbers);
/* The first column of the first row. -ENOENT: no row, or NULL. */
int sql__get_number(sqlite3 *db, const char *text, size_t n, const int64_t *numbers, int64_t *out);

/* sql__run_numbers(db, text, …) with its numbers as arguments. */
#define SQL_RUN(db, text, ...) \
	sql__run_numbers(db, text, sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), (int64_t[]){ __VA_ARGS__ })
#define SQL_GET(db, out, text, ...) \
	sql__get_number(db, text, sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), (int64_t[]){ __VA_ARGS__ }, out)

/* BEGIN IMMEDIATE; COMMIT, which rolls back when it fails; ROLLBACK of what is open. */
int sql__begin(sqlite3 *db);
int sql__commit(sqlite3 *db);
/* Ends a transaction: commits when r is 0, rolls back otherwise. Returns r, or the commit's error. */
int sql__end(sqlite3 *db, int r);

#endif
