// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/kernel/thread_looks.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpf/looks.skel.h"
#include "stakeout/array.h"

/* An iterator for each process (6.1) costs some 15 us a look. Beyond these, one goes through all tasks there are. */
#define MAX_LINKS 16
#define READ_STEP (64u << 10)

struct watched_process {
	struct looked_process is;
	struct bpf_link *link; /* NULL: seen by `all` */
};

struct thread_looks {
	struct looks_bpf *skel;
	struct bpf_link *all; /* over all tasks; NULL: not needed */
	struct watched_process *processes;
	size_t n;
	bool by_process; /* the kernel can iterate over one process's tasks */
};

int thread_looks__open(struct thread_looks **out, struct so_error *err)
{
	_cleanup_(thread_looks) struct thread_looks *looks = calloc(1, sizeof(*looks));
	int ret;

	if (!looks)
		return so_err(err, -ENOMEM, "out of memory");
	looks->skel = looks_bpf__open();
	if (!looks->skel)
		return so_err(err, -errno, "cannot prepare the program that looks at threads: %s", strerror(errno));
	looks->skel->rodata->have_task_pt_regs =
		libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT, BPF_FUNC_task_pt_regs, NULL) == 1;
	ret = looks_bpf__load(looks->skel);
	if (ret)
		return so_err(err, ret, "the kernel refused the program that looks at threads: %s", strerror(-ret));
	looks->by_process = true;
	*out = TAKE_PTR(looks);
	return 0;
}

static void free_processes(struct watched_process *processes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bpf_link__destroy(processes[i].link);
	free(processes);
}

void thread_looks__close(struct thread_looks *looks)
{
	if (!looks)
		return;
	free_processes(looks->processes, looks->n);
	bpf_link__destroy(looks->all);
	looks_bpf__destroy(looks->skel);
	free(looks);
}

/* NULL: the kernel is older than 6.1, or the process has gone. */
static struct bpf_link *link_process(struct thread_looks *looks, pid_t tgid)
{
	union bpf_iter_link_info info = { .task.pid = (uint32_t)tgid };
	LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &info, .link_info_len = sizeof(info));
	struct bpf_link *link = bpf_program__attach_iter(looks->skel->progs.look, &options);

	if (!link && errno != ESRCH)
		looks->by_process = false;
	return link;
}

static int compare(const void *a, const void *b)
{
	const struct watched_process *x = a, *y = b;

	return x->is.tgid < y->is.tgid ? -1 : x->is.tgid > y->is.tgid;
}

static struct watched_process *find(struct watched_process *processes, size_t n, pid_t tgid)
{
	struct watched_process key = { .is.tgid = tgid };

	return n ? bsearch(&key, processes, n, sizeof(*processes), compare) : NULL;
}

static struct bpf_link *take_link(struct thread_looks *looks, pid_t tgid)
{
	struct watched_process *p = find(looks->processes, looks->n, tgid);

	return p ? TAKE_PTR(p->link) : NULL;
}

static int tell_kernel(struct thread_looks *looks, struct watched_process *processes, size_t n)
{
	int fd = bpf_map__fd(looks->skel->maps.watched), ret = 0;
	uint32_t tgid;

	for (size_t i = 0; i < looks->n; i++) {
		tgid = (uint32_t)looks->processes[i].is.tgid;
		if (!find(processes, n, looks->processes[i].is.tgid))
			bpf_map_delete_elem(fd, &tgid);
	}
	for (size_t i = 0; !ret && i < n; i++) {
		tgid = (uint32_t)processes[i].is.tgid;
		ret = bpf_map_update_elem(fd, &tgid, &processes[i].is.epoch, BPF_ANY);
	}
	return ret;
}

static bool is_same(const struct thread_looks *looks, const struct looked_process *processes, size_t n)
{
	for (size_t i = 0; i < n && n == looks->n; i++)
		if (memcmp(&looks->processes[i].is, &processes[i], sizeof(processes[i])) != 0)
			return false;
	return n == looks->n;
}

static void link_processes(struct thread_looks *looks, struct watched_process *processes, size_t n)
{
	for (size_t i = 0; i < n && n <= MAX_LINKS && looks->by_process; i++)
		processes[i].link = take_link(looks, processes[i].is.tgid) ?: link_process(looks, processes[i].is.tgid);
}

static int link_all(struct thread_looks *looks, bool need)
{
	if (need && !looks->all)
		looks->all = bpf_program__attach_iter(looks->skel->progs.look, NULL);
	else if (!need)
		bpf_link__destroy(TAKE_PTR(looks->all));
	return need && !looks->all ? -errno : 0;
}

int thread_looks__watch(struct thread_looks *looks, const struct looked_process *from, size_t n)
{
	struct watched_process *processes;
	int ret;

	if (is_same(looks, from, n))
		return 0;
	processes = calloc(n + 1, sizeof(*processes));
	if (!processes)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		processes[i].is = from[i];
	ret = tell_kernel(looks, processes, n);
	link_processes(looks, processes, n);
	free_processes(looks->processes, looks->n);
	looks->processes = processes;
	looks->n = n;
	ret = ret ?: link_all(looks, n > MAX_LINKS || (n && !looks->by_process));
	/* Told anew next time. */
	for (size_t i = 0; ret && i < n; i++)
		processes[i].is.epoch--;
	return ret;
}

struct bytes {
	uint8_t *data;
	size_t used, capacity;
};

static int read_link(const struct bpf_link *link, struct bytes *bytes)
{
	_cleanup_close_ int fd = bpf_iter_create(bpf_link__fd(link));
	ssize_t got;

	if (fd < 0)
		return -errno;
	do {
		if (ARRAY_RESERVE(bytes->data, bytes->capacity, bytes->used + READ_STEP))
			return -ENOMEM;
		got = read(fd, bytes->data + bytes->used, bytes->capacity - bytes->used);
		if (got < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		bytes->used += got > 0 ? got : 0;
	} while (got);
	return 0;
}

int thread_looks__read(struct thread_looks *looks, enum so_look_mode mode, uint8_t **out, size_t *length)
{
	struct bytes bytes = { 0 };
	int ret = 0;

	looks->skel->bss->mode = mode;
	looks->skel->bss->look_number += mode != SO_LOOK_AGAIN;
	if (looks->all)
		ret = read_link(looks->all, &bytes);
	for (size_t i = 0; !ret && i < looks->n && !looks->all; i++) {
		ret = looks->processes[i].link ? read_link(looks->processes[i].link, &bytes) : 0;
		/* The process has gone. */
		ret = ret == -ESRCH ? 0 : ret;
	}
	if (ret) {
		free(bytes.data);
		return ret;
	}
	*out = bytes.data;
	*length = bytes.used;
	return 0;
}

bool thread_looks__find(const struct thread_looks *looks, uint32_t tid, struct so_looked *out)
{
	return !bpf_map_lookup_elem(bpf_map__fd(looks->skel->maps.looked), &tid, out);
}

void thread_looks__forget(struct thread_looks *looks, uint32_t tid)
{
	bpf_map_delete_elem(bpf_map__fd(looks->skel->maps.looked), &tid);
}

void thread_looks__sweep(struct thread_looks *looks, uint64_t since_ns)
{
	int fd = bpf_map__fd(looks->skel->maps.looked);
	uint32_t tid, next;
	struct so_looked known;
	bool more = !bpf_map_get_next_key(fd, NULL, &tid);

	for (unsigned i = 0; more && i < SO_MAX_LOOKED_THREADS; i++, tid = next) {
		more = !bpf_map_get_next_key(fd, &tid, &next);
		if (!bpf_map_lookup_elem(fd, &tid, &known) && known.at_ns < since_ns)
			bpf_map_delete_elem(fd, &tid);
	}
}

const struct so_look_record *thread_looks__next(const uint8_t *bytes, size_t length, size_t *at)
{
	const struct so_look_record *record = (const void *)(bytes + *at);

	if (!bytes || length - *at < SO_LOOK_SHORT_BYTES || record->bytes < SO_LOOK_SHORT_BYTES ||
	    record->bytes > length - *at)
		return NULL;
	*at += record->bytes;
	return record;
}
