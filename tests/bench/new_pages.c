/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Touches new pages all the time, and gives them back, until it is killed. A unit is a page. Usage: new_pages FILE */
#include "tests/bench/counted.h"

#define PAGE  4096
#define PAGES 256

int main(int argc, char **argv)
{
	volatile struct counted *counted = counted__open(argc > 1 ? argv[1] : "");
	char *block = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (block == MAP_FAILED || madvise(block, PAGES * PAGE, MADV_NOHUGEPAGE)) {
		perror("new_pages");
		return 1;
	}
	for (;;) {
		for (size_t i = 0; i < PAGES; i++)
			((volatile char *)block)[i * PAGE] = 1;
		if (madvise(block, PAGES * PAGE, MADV_DONTNEED)) {
			perror("new_pages");
			return 1;
		}
		counted__add(counted, PAGES);
	}
}
