// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A thread whose stack has come over in part, as after a lazy restore: what lies further out than its innermost frames
 * is registered with userfaultfd(2) and gone, and nobody serves it. A second thread waits beside it. Says "ready".
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096ul
#define FAR  (4 * PAGE)

static uintptr_t inner, outer;   /* addresses on the lazy thread's stack, between which nothing is left in the end */
static volatile int waits, over; /* never over */

__attribute__((noinline)) static void lazy_wait(void)
{
	inner = (uintptr_t)__builtin_frame_address(0);
	__atomic_store_n(&waits, 1, __ATOMIC_RELEASE);
	while (!over)
		pause();
}

__attribute__((noinline)) static void lazy_middle(void)
{
	volatile char far[FAR];

	memset((void *)far, 1, sizeof(far));
	lazy_wait();
	far[0] = 2;
}

static void *lazy(void *context)
{
	volatile char far[FAR];

	prctl(PR_SET_NAME, "lazy");
	memset((void *)far, 1, sizeof(far));
	outer = (uintptr_t)&far[FAR];
	lazy_middle();
	far[0] = 2;
	return context;
}

static void *plain(void *context)
{
	prctl(PR_SET_NAME, "plain");
	for (;;)
		pause();
	return context;
}

static int drop(uintptr_t begin, uintptr_t end)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register area = { .range = { begin, end - begin }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	int server = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (server < 0 || ioctl(server, UFFDIO_API, &api) || ioctl(server, UFFDIO_REGISTER, &area))
		return -1;
	return madvise((void *)begin, end - begin, MADV_DONTNEED);
}

int main(void)
{
	pthread_t threads[2];

	if (pthread_create(&threads[0], NULL, lazy, NULL) || pthread_create(&threads[1], NULL, plain, NULL))
		return 1;
	while (!__atomic_load_n(&waits, __ATOMIC_ACQUIRE))
		usleep(1000);
	usleep(100000);
	if (drop((inner + PAGE) & ~(PAGE - 1), outer & ~(PAGE - 1))) {
		puts("no userfaultfd");
		return 0;
	}
	return write(1, "ready\n", 6) == 6 && read(0, &(char){ 0 }, 1) < 0;
}
