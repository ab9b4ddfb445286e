// SPDX-License-Identifier: GPL-2.0-or-later
/* Record layout: perf_event_open(2), PERF_RECORD_MMAP2, with the sample_id of PERF_SAMPLE_TID and _TIME behind it. */
#include "daemon/kernel/mapping_events.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RING_BYTES (64u << 10)
#define MAX_RECORD (8u << 10) /* a path has 4096 bytes at most */

struct ring {
	int fd;
	struct perf_event_mmap_page *page; /* the ring lies behind it */
	uint64_t marked;                   /* its data_head at the mark */
};

struct mapping_events {
	int epoll_fd;
	size_t page_bytes;
	struct ring *rings[CPU_SETSIZE]; /* NULL: none */
	uint8_t record[MAX_RECORD];
};

struct mmap2_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t address, length, offset;
	uint32_t dev_major, dev_minor;
	uint64_t inode, inode_generation;
	uint32_t protection, flags;
	char path[];
};

struct lost_record {
	struct perf_event_header header;
	uint64_t id, lost;
};

struct record_id {
	uint32_t pid, tid;
	uint64_t time_ns;
};

int mapping_events__new(struct mapping_events **out)
{
	struct mapping_events *e = calloc(1, sizeof(*e));
	int ret;

	if (!e)
		return -ENOMEM;
	e->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	e->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (e->epoll_fd < 0) {
		ret = -errno;
		free(e);
		return ret;
	}
	*out = e;
	return 0;
}

static void close_ring(struct mapping_events *e, int cpu)
{
	struct ring *ring = TAKE_PTR(e->rings[cpu]);

	if (!ring)
		return;
	munmap(ring->page, e->page_bytes + RING_BYTES);
	close(ring->fd);
	free(ring);
}

void mapping_events__free(struct mapping_events *e)
{
	if (!e)
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		close_ring(e, cpu);
	close(e->epoll_fd);
	free(e);
}

static int open_event(int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.mmap = 1,
		.mmap2 = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = RING_BYTES / 4,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_ring(struct mapping_events *e, int cpu)
{
	_cleanup_free_ struct ring *ring = calloc(1, sizeof(*ring));
	_cleanup_close_ int fd = ring ? open_event(cpu) : -ENOMEM;
	struct epoll_event event = { .events = EPOLLIN };
	void *at;

	if (fd < 0)
		return fd == -ENODEV ? 0 : fd;
	at = mmap(NULL, e->page_bytes + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	if (epoll_ctl(e->epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
		int ret = -errno;

		munmap(at, e->page_bytes + RING_BYTES);
		return ret;
	}
	ring->page = at;
	ring->fd = TAKE_FD(fd);
	e->rings[cpu] = TAKE_PTR(ring);
	return 0;
}

int mapping_events__set(struct mapping_events *e, const cpu_set_t *cpus)
{
	int ret = 0;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, cpus))
			close_ring(e, cpu);
		else if (!e->rings[cpu])
			ret = ret ?: open_ring(e, cpu);
	}
	return ret;
}

int mapping_events__fd(const struct mapping_events *e)
{
	return e->epoll_fd;
}

void mapping_events__mark(struct mapping_events *e)
{
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (e->rings[cpu])
			e->rings[cpu]->marked = __atomic_load_n(&e->rings[cpu]->page->data_head, __ATOMIC_ACQUIRE);
	}
}

/* Out of the ring, whose end it may be cut by. */
static void copy_out(const struct mapping_events *e, const struct ring *ring, uint64_t at, void *to, size_t n)
{
	const uint8_t *data = (const uint8_t *)ring->page + e->page_bytes;
	size_t from = at % RING_BYTES, first = RING_BYTES - from < n ? RING_BYTES - from : n;

	memcpy(to, data + from, first);
	memcpy((uint8_t *)to + first, data, n - first);
}

static bool parse(struct mmap2_record *r, struct mapping_event *out)
{
	static const char deleted[] = " (deleted)";
	size_t n = r->header.size - sizeof(*r) - sizeof(struct record_id), length, suffix = sizeof(deleted) - 1;
	struct record_id id;

	memcpy(&id, (uint8_t *)r + r->header.size - sizeof(id), sizeof(id));
	r->path[n - 1] = '\0';
	length = strlen(r->path);
	*out = (struct mapping_event){
		.tgid = (pid_t)r->pid,
		.time_ns = id.time_ns,
		.map = {
			.start = r->address,
			.end = r->address + r->length,
			.offset = r->offset,
			.inode = r->inode,
			.dev_major = r->dev_major,
			.dev_minor = r->dev_minor,
			.readable = r->protection & PROT_READ,
			.writable = r->protection & PROT_WRITE,
			.executable = r->protection & PROT_EXEC,
			.shared = r->flags & MAP_SHARED,
			.path = r->path,
		},
	};
	if (!r->inode && r->path[0] != '[') {
		out->map.path = ""; /* "//anon" */
	} else if (r->inode && length > suffix && !strcmp(r->path + length - suffix, deleted)) {
		r->path[length - suffix] = '\0';
		out->map.deleted = true;
	}
	return out->map.start < out->map.end && out->map.executable;
}

static uint64_t take_ring(struct mapping_events *e, struct ring *ring,
			  void (*visit)(void *, const struct mapping_event *), void *context)
{
	uint64_t tail = ring->page->data_tail, lost = 0;
	struct mmap2_record *r = (struct mmap2_record *)e->record;
	const struct lost_record *l = (const struct lost_record *)e->record;
	struct mapping_event event;

	while (tail < ring->marked) {
		struct perf_event_header header;

		copy_out(e, ring, tail, &header, sizeof(header));
		if (header.size < sizeof(header))
			break;
		if (header.size <= MAX_RECORD)
			copy_out(e, ring, tail, e->record, header.size);
		tail += header.size;
		if (header.type == PERF_RECORD_LOST && header.size >= sizeof(*l))
			lost += l->lost;
		else if (header.type == PERF_RECORD_MMAP2 && header.size <= MAX_RECORD &&
			 header.size > sizeof(*r) + sizeof(struct record_id) && parse(r, &event))
			visit(context, &event);
	}
	__atomic_store_n(&ring->page->data_tail, ring->marked, __ATOMIC_RELEASE);
	return lost;
}

uint64_t mapping_events__take(struct mapping_events *e, void (*visit)(void *, const struct mapping_event *),
			      void *context)
{
	uint64_t lost = 0;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (e->rings[cpu])
			lost += take_ring(e, e->rings[cpu], visit, context);
	}
	return lost;
}
