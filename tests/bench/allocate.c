/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Millions of malloc() and free() a second, of 16 to 500 bytes in 10,000 places; one in a thousand is of BYTES, which
 * the C library maps anew where it is large. Thousands of them are counted in a file, as progress.c does. Runs until it
 * is killed. Usage: allocate FILE [BYTES]
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLACES 10000
#define ROUND  1000

static char *places[PLACES];

static void allocate(unsigned *random, size_t bytes)
{
	char **place;

	*random = *random * 1664525u + 1013904223u;
	place = &places[(*random >> 8) % PLACES];
	free(*place);
	bytes = bytes ?: 16 + (*random >> 20) % 485;
	*place = malloc(bytes);
	if (!*place)
		abort();
	memset(*place, 1, bytes);
}

int main(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
	size_t large = argc > 2 ? (size_t)atol(argv[2]) : 0;
	volatile uint64_t *done;
	unsigned random = 1;

	if (fd < 0 || ftruncate(fd, sizeof(*done))) {
		perror("allocate");
		return 1;
	}
	done = mmap(NULL, sizeof(*done), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (done == MAP_FAILED) {
		perror("allocate");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	for (;;) {
		for (unsigned i = 0; i < ROUND; i++)
			allocate(&random, i ? 0 : large);
		++*done;
	}
}
