// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the unwind table of one ELF file costs: compiled anew and loaded from the cache. Prints one JSON object a file.
 * Usage: table_time CACHE_DIR FILE...
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/os/clock.h"
#include "daemon/unwind/unwind_cache.h"
#include "daemon/unwind/unwind_table.h"
#include "stakeout/cleanup.h"
#include "tests/unit/table_bytes.h"

#define CACHE_KEY "bench"

static double ms_since(uint64_t began_ns)
{
	return (double)(clock__now_ns() - began_ns) / 1e6;
}

static long long cached_bytes(const char *dir)
{
	char path[4096];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s.unwind", dir, CACHE_KEY);
	return stat(path, &st) ? -1 : (long long)st.st_size;
}

static int measure(struct unwind_cache *cache, const char *dir, const char *file, struct so_error *err)
{
	_cleanup_(unwind_table) struct unwind_table *table = NULL, *loaded = NULL;
	_cleanup_close_ int fd = open(file, O_RDONLY | O_CLOEXEC);
	double compile_ms, store_ms, load_ms;
	uint64_t began_ns;
	struct stat st;
	int ret;

	if (fd < 0 || fstat(fd, &st))
		return so_err(err, -errno, "%s: %s", file, strerror(errno));
	began_ns = clock__now_ns();
	ret = unwind_table__compile(fd, &table, err);
	if (ret)
		return ret;
	compile_ms = ms_since(began_ns);
	began_ns = clock__now_ns();
	ret = unwind_cache__store(cache, CACHE_KEY, table);
	if (ret)
		return so_err(err, ret, "%s: cannot be stored: %s", file, strerror(-ret));
	store_ms = ms_since(began_ns);
	began_ns = clock__now_ns();
	ret = unwind_cache__load(cache, CACHE_KEY, &loaded);
	if (ret)
		return so_err(err, ret, "%s: cannot be loaded again: %s", file, strerror(-ret));
	load_ms = ms_since(began_ns);
	printf("{\"file\": \"%s\", \"file_bytes\": %lld, \"rows\": %u, \"rules\": %u, \"fdes\": %u, "
	       "\"unsupported_rows\": %u, \"bytes\": %zu, \"compile_ms\": %.3f, \"store_ms\": %.3f, "
	       "\"load_ms\": %.3f, \"cached_bytes\": %lld}\n",
	       file, (long long)st.st_size, table->n_rows, table->n_rules, table->n_fdes,
	       table->n_unsupported_rows, table_bytes(table), compile_ms, store_ms, load_ms,
	       cached_bytes(dir));
	return 0;
}

int main(int argc, char **argv)
{
	_cleanup_(unwind_cache) struct unwind_cache *cache = NULL;
	struct so_error err = { .text = "" };
	int ret = argc > 2 ? unwind_cache__open(argv[1], 0, &cache, &err)
			   : so_err(&err, -EINVAL, "usage: table_time CACHE_DIR FILE...");

	for (int i = 2; i < argc && !ret; i++)
		ret = measure(cache, argv[1], argv[i], &err);
	if (ret)
		fprintf(stderr, "table_time: %s\n", err.text);
	return ret ? 1 : 0;
}
