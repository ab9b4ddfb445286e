/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Maps code, runs it and unmaps it, some thousand times a second, while a second thread maps and unmaps a file
 * as if it were a library: a memory map that is never what it was when it was read. Usage: unmapper [seconds]
 */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "machine_code.h"
#include "work.h"

static double deadline;

FRAME uint64_t short_lived_code(void)
{
	machine_code run = machine_code__map(code_fp, sizeof(code_fp));
	uint64_t value;

	if (!run) {
		perror("unmapper");
		exit(1);
	}
	value = run(100000);
	machine_code__unmap(run);
	return value + 1;
}

static void *remap_file(void *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && work__now_s() < deadline) {
		void *p = mmap(NULL, 1 << 14, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

		if (p != MAP_FAILED)
			munmap(p, 1 << 14);
		usleep(200);
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	uint64_t first = 0;

	deadline = work__deadline_s(argc, argv, 1, 10);
	if (pthread_create(&thread, NULL, remap_file, (void *)"/proc/self/exe"))
		return 1;
	work__ready();
	while (work__now_s() < deadline)
		work__same(&first, short_lived_code());
	pthread_join(thread, NULL);
	return work__done(first);
}
