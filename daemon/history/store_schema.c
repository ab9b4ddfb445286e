// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/history/store_schema.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "daemon/os/clock.h"

#define APPLICATION_ID   0x534f5554 /* "SOUT": which program the database is of (PRAGMA application_id) */
#define CHECK_NS         500000000ull
#define CHECK_STEPS      10000 /* of SQLite's machine between two looks at the clock */
#define BUSY_MS          2000
#define CHECKPOINT_PAGES 1000 /* of 4096 bytes */

#define TEXT(x)   #x
#define NUMBER(x) TEXT(x)

#define ROW NUMBER(STORE_ROW_BYTES)
#define ROW_BYTES_OF_BLOBS \
	" bytes = " ROW " + (SELECT length(profile) + coalesce(length(cuda), 0) FROM blobs WHERE window_id = id);"

/* `users` has the sums, whatever writes or removes rows, and be it a foreign key. */
#define ADDED(table, bytes)                                              \
	"CREATE TRIGGER " table "_added AFTER INSERT ON " table " BEGIN" \
	" INSERT INTO users(uid, bytes) VALUES(new.uid, " bytes ")"      \
	" ON CONFLICT(uid) DO UPDATE SET bytes = bytes + excluded.bytes; END;"
#define REMOVED(table, removed)                                            \
	"CREATE TRIGGER " table "_removed AFTER DELETE ON " table " BEGIN" \
	" UPDATE users SET bytes = bytes - " removed " WHERE uid = old.uid; END;"

/* Brings a database from version i to i + 1. Auto-vacuum must be chosen before there is a table. */
static const char *const migrations[] = {
	"CREATE TABLE targets("
	" id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" key TEXT NOT NULL UNIQUE," /* boot_id/pid/start_ticks */
	" boot_id TEXT NOT NULL,"
	" pid INTEGER NOT NULL,"
	" start_ticks INTEGER NOT NULL,"
	" comm TEXT NOT NULL,"
	" labels TEXT NOT NULL,"
	" began_ns INTEGER NOT NULL,"
	" ended_ns INTEGER," /* NULL: it is being watched */
	" end TEXT NOT NULL);"
	"CREATE TABLE windows("
	" id INTEGER PRIMARY KEY,"
	" target_id INTEGER NOT NULL REFERENCES targets(id) ON DELETE CASCADE,"
	" level INTEGER NOT NULL,"
	" begin_ns INTEGER NOT NULL,"
	" end_ns INTEGER NOT NULL,"
	" covered_ns INTEGER NOT NULL," /* without the holes between the parts */
	" samples INTEGER NOT NULL,"
	" lost INTEGER NOT NULL,"
	" part_of INTEGER REFERENCES windows(id) ON DELETE CASCADE," /* the sum it is in */
	" has_parts INTEGER NOT NULL DEFAULT 0);"                    /* they are still there */
	"CREATE INDEX windows_of_target ON windows(target_id, begin_ns);"
	"CREATE INDEX windows_by_begin ON windows(begin_ns);"
	"CREATE INDEX windows_of_sum ON windows(part_of);"
	"CREATE INDEX windows_whole ON windows(level, begin_ns) WHERE part_of IS NULL;"
	"CREATE INDEX windows_parts ON windows(level, begin_ns) WHERE part_of IS NOT NULL;"
	"CREATE TABLE blobs("
	" window_id INTEGER PRIMARY KEY REFERENCES windows(id) ON DELETE CASCADE,"
	" profile_bytes INTEGER NOT NULL," /* of the content, not compressed */
	" profile BLOB NOT NULL,"
	" cuda_bytes INTEGER,"
	" cuda BLOB);" /* a JSON array */
	"CREATE TABLE gaps("
	" id INTEGER PRIMARY KEY,"
	" target_id INTEGER REFERENCES targets(id) ON DELETE CASCADE,"
	" begin_ns INTEGER NOT NULL,"
	" end_ns INTEGER," /* NULL: not known */
	" windows INTEGER NOT NULL,"
	" cause TEXT NOT NULL);"
	"CREATE INDEX gaps_of_target ON gaps(target_id);",

	"CREATE TABLE clock(now_ns INTEGER NOT NULL);" /* one row: store_clock.c; 0: not known */
	"INSERT INTO clock SELECT coalesce(max(end_ns), 0) FROM windows;",

	/* Whose process it was when it was written, and what it counts for in that user's share. */
	"ALTER TABLE targets ADD COLUMN uid INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE windows ADD COLUMN uid INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE windows ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;"
	"UPDATE targets SET uid = json_extract(labels, '$.uid')"
	" WHERE CASE json_valid(labels) WHEN 1 THEN json_type(labels, '$.uid') END = 'integer';"
	"UPDATE windows SET uid = (SELECT uid FROM targets WHERE targets.id = target_id)," ROW_BYTES_OF_BLOBS
	"CREATE INDEX windows_of_user ON windows(uid, begin_ns) WHERE part_of IS NULL;"
	"CREATE INDEX windows_parts_of_user ON windows(uid, level, begin_ns) WHERE part_of IS NOT NULL;"
	"CREATE TABLE users(uid INTEGER PRIMARY KEY, bytes INTEGER NOT NULL);"
	"INSERT INTO users SELECT uid, sum(bytes) FROM"
	" (SELECT uid, bytes FROM windows UNION ALL SELECT uid, " ROW
	" FROM targets) GROUP BY uid;" ADDED("windows", "new.bytes") REMOVED("windows", "old.bytes")
		ADDED("targets", ROW) REMOVED("targets", ROW),

	/* Bytes that its processes had: means, and the most at one reading. NULL: not known. */
	"ALTER TABLE windows ADD COLUMN anonymous INTEGER;"
	"ALTER TABLE windows ADD COLUMN file INTEGER;"
	"ALTER TABLE windows ADD COLUMN shared INTEGER;"
	"ALTER TABLE windows ADD COLUMN swapped INTEGER;"
	"ALTER TABLE windows ADD COLUMN most INTEGER;",
};

#define VERSION ((int64_t)(sizeof(migrations) / sizeof(migrations[0])))

static int words(int r, const char *path, struct so_error *err)
{
	return r ? so_err(err, r, "%s: %s", path, sql__words(r)) : 0;
}

static int out_of_time(void *deadline_ns)
{
	return clock__now_ns() > *(const uint64_t *)deadline_ns;
}

/* What half a second finds: a check that took longer has found nothing so far. */
static int check(sqlite3 *db)
{
	_cleanup_(statement) sqlite3_stmt *statement = NULL;
	uint64_t deadline_ns = clock__now_ns() + CHECK_NS;
	int ret;

	sqlite3_progress_handler(db, CHECK_STEPS, out_of_time, &deadline_ns);
	ret = sql__prepare(db, "PRAGMA quick_check(1)", &statement);
	ret = ret ?: sql__step(db, statement);
	if (ret == 1)
		ret = !strcmp((const char *)sqlite3_column_text(statement, 0) ?: "", "ok") ? 0 : -EUCLEAN;
	sqlite3_progress_handler(db, 0, NULL, NULL);
	return ret == -EINTR ? 0 : ret;
}

static int check_identity(sqlite3 *db, const char *path, int64_t *version, struct so_error *err)
{
	int64_t application = 0, tables = 0;
	int ret = sql__get_number(db, "PRAGMA application_id", 0, NULL, &application);

	ret = ret ?: sql__get_number(db, "PRAGMA user_version", 0, NULL, version);
	ret = ret ?: sql__get_number(db, "SELECT count(*) FROM sqlite_schema", 0, NULL, &tables);
	if (ret)
		return words(ret, path, err);
	if (application != APPLICATION_ID && (tables || application || *version))
		return so_err(err, -EMEDIUMTYPE, "%s is the database of another program", path);
	if (*version > VERSION)
		return so_err(err, -EPROTONOSUPPORT,
			      "%s was written by a later version of stakeout (schema %lld, this one knows %lld)", path,
			      (long long)*version, (long long)VERSION);
	return 0;
}

static int migrate(sqlite3 *db, int64_t version)
{
	char text[64];
	int ret;

	if (version == VERSION)
		return 0;
	ret = sql__begin(db);
	if (ret)
		return ret;
	for (int64_t i = version; !ret && i < VERSION; i++)
		ret = sql__run(db, migrations[i]);
	snprintf(text, sizeof(text), "PRAGMA user_version=%lld", (long long)VERSION);
	ret = ret ?: sql__run(db, text);
	return sql__end(db, ret ?: sql__run(db, "PRAGMA application_id=" NUMBER(APPLICATION_ID)));
}

static int open_file(const char *path, int flags, sqlite3 **out, struct so_error *err)
{
	_cleanup_(database) sqlite3 *db = NULL;

	if (sqlite3_open_v2(path, &db, flags | SQLITE_OPEN_FULLMUTEX, NULL) != SQLITE_OK)
		return words(db ? sql__error(db) : -ENOMEM, path, err);
	sqlite3_extended_result_codes(db, 1);
	sqlite3_busy_timeout(db, BUSY_MS);
	*out = TAKE_PTR(db);
	return 0;
}

/* Created here and not by SQLite: nobody else reads what a profile says. */
static int create_file(const char *path, struct so_error *err)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 ? so_err(err, -errno, "%s: %s", path, strerror(errno)) : 0;
}

int store_schema__open_writer(const char *path, sqlite3 **out, struct so_error *err)
{
	_cleanup_(database) sqlite3 *db = NULL;
	int64_t version;
	int ret = create_file(path, err);

	ret = ret ?: open_file(path, SQLITE_OPEN_READWRITE, &db, err);
	if (ret)
		return ret;
	ret = check_identity(db, path, &version, err);
	if (ret)
		return ret;
	/* auto_vacuum counts only where there is no table yet; journal_mode answers with a row. */
	ret = sql__run(db, "PRAGMA auto_vacuum=INCREMENTAL;"
			   "PRAGMA journal_mode=WAL;"
			   "PRAGMA synchronous=NORMAL;"
			   "PRAGMA foreign_keys=ON;"
			   "PRAGMA wal_autocheckpoint=" NUMBER(CHECKPOINT_PAGES) ";"
										 "PRAGMA journal_size_limit=4194304");
	ret = ret ?: check(db);
	ret = ret ?: migrate(db, version);
	if (ret)
		return words(ret, path, err);
	*out = TAKE_PTR(db);
	return 0;
}

/* A log that holds something belongs to the database: without it, the file alone may be a torn one. */
static bool has_log(const char *path)
{
	char log[4096];
	struct stat st;

	snprintf(log, sizeof(log), "%s-wal", path);
	return stat(log, &st) == 0 && st.st_size > 0;
}

/* In a place that cannot be written, SQLite cannot make the log's index; without a log it needs none. */
static int open_immutable(const char *path, sqlite3 **out, struct so_error *err)
{
	char uri[3 * 4096 + 32] = "file:";
	size_t n = strlen(uri);

	for (const unsigned char *c = (const unsigned char *)path; *c && n < sizeof(uri) - 32; c++) {
		if (strchr("%?#", *c))
			n += (size_t)sprintf(uri + n, "%%%02x", *c);
		else
			uri[n++] = (char)*c;
	}
	strcpy(uri + n, "?immutable=1");
	return open_file(uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, out, err);
}

int store_schema__open_reader(const char *path, sqlite3 **out, struct so_error *err)
{
	_cleanup_(database) sqlite3 *db = NULL;
	int64_t version = 0;
	struct stat st;
	int ret;

	if (stat(path, &st))
		return so_err(err, -errno, "%s: %s", path, strerror(errno));
	ret = open_file(path, SQLITE_OPEN_READWRITE, &db, err);
	ret = ret ?: check_identity(db, path, &version, err);
	if ((ret == -EACCES || ret == -EROFS || ret == -ENOSPC) && !has_log(path)) {
		if (db)
			sqlite3_close_v2(TAKE_PTR(db));
		ret = open_immutable(path, &db, err);
		ret = ret ?: check_identity(db, path, &version, err);
	}
	if (ret)
		return ret;
	if (!version)
		return so_err(err, -ENODATA, "%s has no history yet", path);
	ret = sql__run(db, "PRAGMA query_only=ON");
	if (ret)
		return words(ret, path, err);
	*out = TAKE_PTR(db);
	return 0;
}

static int rename_part(const char *path, const char *aside, const char *suffix)
{
	char from[4096], to[4096];

	snprintf(from, sizeof(from), "%s%s", path, suffix);
	snprintf(to, sizeof(to), "%s%s", aside, suffix);
	return rename(from, to) && errno != ENOENT ? -errno : 0;
}

int store_schema__move_aside(const char *path, int64_t now_ns, char *aside, size_t size)
{
	time_t now = (time_t)(now_ns / 1000000000);
	char stamp[32];
	struct tm tm;
	int ret;

	strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", gmtime_r(&now, &tm));
	if ((size_t)snprintf(aside, size, "%s.corrupt-%s", path, stamp) >= size)
		return -ENAMETOOLONG;
	/* The log first: if this breaks off in between, no new database meets an old one's log. */
	ret = rename_part(path, aside, "-wal");
	ret = ret ?: rename_part(path, aside, "-shm");
	return ret ?: rename_part(path, aside, "");
}
