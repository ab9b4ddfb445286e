// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/thread_list.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpf/threads.skel.h"
#include "stakeout/array.h"

/* Bits of task_struct.__state (include/linux/sched.h). */
#define STATE_INTERRUPTIBLE   0x01
#define STATE_UNINTERRUPTIBLE 0x02
#define STATE_STOPPED         0x04
#define STATE_TRACED          0x08

struct thread_list {
	struct threads_bpf *skel;
	struct bpf_link *link;
};

int thread_list__open(struct thread_list **out, struct so_error *err)
{
	_cleanup_(thread_list) struct thread_list *list = calloc(1, sizeof(*list));
	int ret;

	if (!list)
		return so_err(err, -ENOMEM, "out of memory");
	list->skel = threads_bpf__open();
	if (!list->skel)
		return so_err(err, -errno, "cannot prepare the program that lists threads: %s", strerror(errno));
	list->skel->rodata->have_task_pt_regs =
		libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT, BPF_FUNC_task_pt_regs, NULL) == 1;
	ret = threads_bpf__load(list->skel);
	if (ret)
		return so_err(err, ret, "the kernel refused the program that lists threads: %s", strerror(-ret));
	list->link = bpf_program__attach_iter(list->skel->progs.threads, NULL);
	if (!list->link)
		return so_err(err, -errno, "cannot list threads: %s", strerror(errno));
	*out = TAKE_PTR(list);
	return 0;
}

int thread_list__load(struct thread_list **list, pthread_mutex_t *lock, struct so_error *err)
{
	struct thread_list *loaded = NULL;
	int ret = 0;

	if (*list)
		return 0;
	pthread_mutex_unlock(lock);
	ret = thread_list__open(&loaded, err);
	pthread_mutex_lock(lock);
	if (!ret && !*list)
		*list = TAKE_PTR(loaded);
	thread_list__close(loaded);
	return ret;
}

static int read_all(int fd, struct so_thread **threads, size_t *n)
{
	_cleanup_free_ char *bytes = NULL;
	size_t used = 0, capacity = 0;
	ssize_t got;

	do {
		if (ARRAY_RESERVE(bytes, capacity, used + 64 * sizeof(**threads)))
			return -ENOMEM;
		got = read(fd, bytes + used, capacity - used);
		if (got < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		used += got > 0 ? got : 0;
	} while (got);
	*n = used / sizeof(**threads);
	*threads = (struct so_thread *)TAKE_PTR(bytes);
	return 0;
}

int thread_list__read(struct thread_list *list, pid_t tgid, struct so_thread **threads, size_t *n, struct so_error *err)
{
	_cleanup_close_ int fd = bpf_iter_create(bpf_link__fd(list->link));
	int ret;

	list->skel->bss->wanted_tgid = (uint32_t)tgid;
	ret = fd < 0 ? -errno : read_all(fd, threads, n);
	return ret ? so_err(err, ret, "cannot read the list of threads: %s", strerror(-ret)) : 0;
}

void thread_list__close(struct thread_list *list)
{
	if (!list)
		return;
	bpf_link__destroy(list->link);
	threads_bpf__destroy(list->skel);
	free(list);
}

const char *thread_list__state(const struct so_thread *thread)
{
	if (!thread->state)
		return "running";
	if (thread->state & STATE_STOPPED)
		return "stopped";
	if (thread->state & STATE_TRACED)
		return "traced";
	if (thread->state & STATE_INTERRUPTIBLE)
		return "sleeping";
	return thread->state & STATE_UNINTERRUPTIBLE ? "waiting" : "ending";
}
