// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs a fuzz target without libFuzzer: every file named on the command line, and every file of a directory named
 * there, once. So that a compiler without -fsanitize=fuzzer still checks the corpus.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stakeout/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

CLEANUP_DEFINE(DIR *, dir, closedir)

static int replay_file(const char *path, off_t size)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	_cleanup_free_ uint8_t *data = NULL;

	if (!file)
		return -errno;
	data = malloc(size ? (size_t)size : 1); /* exactly its size: a reader too far is seen by ASan */
	if (!data)
		return -ENOMEM;
	if (fread(data, 1, (size_t)size, file) != (size_t)size)
		return -EIO;
	LLVMFuzzerTestOneInput(data, (size_t)size);
	return 0;
}

static int replay(const char *path, unsigned depth, unsigned *n);

static int replay_dir(const char *path, unsigned depth, unsigned *n)
{
	_cleanup_(dir) DIR *d = opendir(path);
	struct dirent *e;
	int r = 0;

	if (!d)
		return -errno;
	while (!r && (e = readdir(d))) {
		_cleanup_free_ char *inner = NULL;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (asprintf(&inner, "%s/%s", path, e->d_name) < 0) {
			inner = NULL;
			return -ENOMEM;
		}
		r = replay(inner, depth + 1, n);
	}
	return r;
}

static int replay(const char *path, unsigned depth, unsigned *n)
{
	struct stat st;
	int r;

	if (stat(path, &st)) {
		r = -errno;
	} else if (S_ISDIR(st.st_mode)) {
		return depth < 8 ? replay_dir(path, depth, n) : -ELOOP;
	} else {
		r = replay_file(path, st.st_size);
	}
	if (r)
		fprintf(stderr, "%s: %s\n", path, strerror(-r));
	else
		++*n;
	return r;
}

int main(int argc, char **argv)
{
	unsigned n = 0;
	int failed = argc < 2;

	for (int i = 1; i < argc; i++)
		failed |= replay(argv[i], 0, &n) != 0;
	printf("%u inputs\n", n);
	return failed || !n;
}
