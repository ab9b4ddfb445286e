// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/history/store_sql.h"

#include <errno.h>
#include <string.h>

/*
 * The VFS calls only ENOSPC "full"; quotas and limits on the size of files are the same to us. By now errno is another
 * call's, but each file knows its last one (https://www.sqlite.org/c3ref/c_fcntl_begin_atomic_write.html).
 */
static int io_error(sqlite3 *db)
{
	static const int files[] = { SQLITE_FCNTL_FILE_POINTER, SQLITE_FCNTL_JOURNAL_POINTER };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		sqlite3_file *file = NULL;
		int cause = 0;

		sqlite3_file_control(db, "main", files[i], &file);
		if (!file || !file->pMethods ||
		    file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &cause) != SQLITE_OK)
			continue;
		if (cause == ENOSPC || cause == EDQUOT || cause == EFBIG)
			return -ENOSPC;
		if (cause == EROFS)
			return -EROFS;
	}
	return -EIO;
}

int sql__error(sqlite3 *db)
{
	int extended = sqlite3_extended_errcode(db), cause = sqlite3_system_errno(db);

	switch (extended & 0xff) {
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -EUCLEAN;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_TOOBIG:
		return -EFBIG;
	case SQLITE_INTERRUPT:
		return -EINTR;
	case SQLITE_CANTOPEN:
		return cause == EROFS ? -EROFS : cause == ENOSPC ? -ENOSPC : -EACCES;
	case SQLITE_IOERR:
		return io_error(db);
	default:
		return -EIO;
	}
}

const char *sql__words(int code)
{
	switch (code) {
	case -ENOSPC:
		return "the disk is full";
	case -EROFS:
		return "it cannot be written to";
	case -EUCLEAN:
		return "the database is corrupt";
	case -EBUSY:
		return "another program holds the database";
	case -EACCES:
		return "it cannot be opened";
	case -EIO:
		return "reading or writing it failed";
	default:
		return strerror(-code);
	}
}

int sql__run(sqlite3 *db, const char *text)
{
	return sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK ? 0 : sql__error(db);
}

int sql__prepare(sqlite3 *db, const char *text, sqlite3_stmt **out)
{
	return sqlite3_prepare_v2(db, text, -1, out, NULL) == SQLITE_OK ? 0 : sql__error(db);
}

int sql__prepare_numbers(sqlite3 *db, const char *text, size_t n, const int64_t *numbers, sqlite3_stmt **out)
{
	_cleanup_(statement) sqlite3_stmt *statement = NULL;
	int ret = sql__prepare(db, text, &statement);

	for (size_t i = 0; !ret && i < n; i++)
		if (sqlite3_bind_int64(statement, (int)i + 1, numbers[i]) != SQLITE_OK)
			ret = sql__error(db);
	if (!ret)
		*out = TAKE_PTR(statement);
	return ret;
}

int sql__step(sqlite3 *db, sqlite3_stmt *statement)
{
	switch (sqlite3_step(statement)) {
	case SQLITE_ROW:
		return 1;
	case SQLITE_DONE:
		return 0;
	default:
		return sql__error(db);
	}
}

int sql__run_numbers(sqlite3 *db, const char *text, size_t n, const int64_t *numbers)
{
	_cleanup_(statement) sqlite3_stmt *statement = NULL;
	int ret = sql__prepare_numbers(db, text, n, numbers, &statement);

	if (ret)
		return ret;
	while ((ret = sql__step(db, statement)) > 0)
		;
	return ret;
}

int sql__get_number(sqlite3 *db, const char *text, size_t n, const int64_t *numbers, int64_t *out)
{
	_cleanup_(statement) sqlite3_stmt *statement = NULL;
	int ret = sql__prepare_numbers(db, text, n, numbers, &statement);

	ret = ret ?: sql__step(db, statement);
	if (ret < 0)
		return ret;
	if (!ret || sqlite3_column_type(statement, 0) == SQLITE_NULL)
		return -ENOENT;
	*out = sqlite3_column_int64(statement, 0);
	return 0;
}

int sql__begin(sqlite3 *db)
{
	return sql__run(db, "BEGIN IMMEDIATE");
}

static void sql__rollback(sqlite3 *db)
{
	/* Some errors roll back by themselves (https://www.sqlite.org/lang_transaction.html). */
	if (!sqlite3_get_autocommit(db))
		sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
}

int sql__commit(sqlite3 *db)
{
	int ret = sql__run(db, "COMMIT");

	if (ret)
		sql__rollback(db);
	return ret;
}

int sql__end(sqlite3 *db, int r)
{
	if (!r)
		return sql__commit(db);
	sql__rollback(db);
	return r;
}
