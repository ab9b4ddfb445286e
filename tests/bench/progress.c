/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Work in equal portions, about 10 µs each, counted in a file that others can map or read: how fast it goes is seen
 * from outside, while a profiler watches and while none does. Runs until it is killed. Usage: progress FILE
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/workloads/work.h"

#define PORTION_ROUNDS 3000

int main(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
	volatile uint64_t *done;
	uint64_t first = 0;

	if (fd < 0 || ftruncate(fd, sizeof(*done))) {
		perror("progress");
		return 1;
	}
	done = mmap(NULL, sizeof(*done), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (done == MAP_FAILED) {
		perror("progress");
		return 1;
	}
	work__ready();
	for (;;) {
		work__same(&first, work__mix(1, PORTION_ROUNDS));
		++*done;
	}
}
