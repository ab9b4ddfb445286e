// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hangs as behind a dead disk: stuck FILE. FILE lies in a file system of its own. Says "ready"; a line on standard
 * input freezes the file system, has one thread wait for it in a page fault and another for the first, with the lock of
 * the process's memory held, and says "stuck"; another line, or the input's end, lets go all of it. Works all the time,
 * on no memory that is new.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 4096

static volatile char *page; /* two of them */
static volatile unsigned long turns;

__attribute__((noinline)) static void stuck_burn(void)
{
	for (unsigned i = 0; i < 100000; i++)
		turns = turns * 3 + i;
}

static void *burn(__attribute__((unused)) void *context)
{
	for (;;)
		stuck_burn();
	return NULL;
}

static void *write_page(__attribute__((unused)) void *context)
{
	page[0] = 1;
	return NULL;
}

/*
 * Code that is new at the last moment: who watches wants to read the mappings, and cannot. Nothing is between the two,
 * in which it might have done so.
 */
static void *cut_mapping(__attribute__((unused)) void *context)
{
	if (mmap(NULL, PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
		exit(1);
	munmap((void *)(page + PAGE_BYTES), PAGE_BYTES);
	return NULL;
}

static void say(const char *word)
{
	if (write(STDOUT_FILENO, word, strlen(word)) < 0)
		exit(1);
}

int main(int argc, char **argv)
{
	pthread_t threads[3];
	char line[64];
	int fd;

	fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	if (fd < 0 || ftruncate(fd, 2 * PAGE_BYTES) < 0)
		return 1;
	page = mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED || page[0])
		return 1;
	if (pthread_create(&threads[0], NULL, burn, NULL))
		return 1;
	say("ready\n");
	if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
		return 0;
	if (ioctl(fd, FIFREEZE, 0) < 0)
		return 2;
	if (pthread_create(&threads[1], NULL, write_page, NULL))
		return 1;
	usleep(300000);
	if (pthread_create(&threads[2], NULL, cut_mapping, NULL))
		return 1;
	usleep(300000);
	say("stuck\n");
	if (read(STDIN_FILENO, line, sizeof(line)) < 0)
		return 1;
	ioctl(fd, FITHAW, 0);
	pthread_join(threads[1], NULL);
	pthread_join(threads[2], NULL);
	say("free\n");
	while (read(STDIN_FILENO, line, sizeof(line)) > 0)
		;
	return 0;
}
