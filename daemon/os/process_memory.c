// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/process_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioctl.h>
#include <linux/types.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "daemon/os/proc_maps.h"
#include "stakeout/live_thread.h"

#define PAGE_BYTES 4096ull
/* Documentation/admin-guide/mm/pagemap.rst: one word a page. */
#define PAGE_SWAPPED  (1ull << 62)
#define PAGE_PRESENT  (1ull << 63)
#define PAGES_AT_ONCE 64

/* include/uapi/linux/fs.h, since Linux 6.11: the mapping that holds an address, without listing all. */
struct map_query {
	__u64 size, flags, address;
	__u64 start, end, vma_flags, page_size, offset, inode;
	__u32 dev_major, dev_minor, name_size, build_id_size;
	__u64 name_address, build_id_address;
};
#define MAP_QUERY _IOWR('f', 17, struct map_query)

static int open_file(pid_t pid, const char *name)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static bool is_from_kernel(const char *name)
{
	return !strcmp(name, "[vdso]") || !strncmp(name, "[vvar", 5);
}

/* On older kernels. */
static bool is_file_in_list(pid_t pid, uint64_t address)
{
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };
	const struct proc_map *map;

	if (proc_maps__read(pid, false, &maps, NULL))
		return false;
	map = proc_maps__find(&maps, address);
	return map && (map->inode || is_from_kernel(map->path));
}

/* Whether a file, or the kernel's own code, is mapped at the address: what is not in memory there can be had. */
static bool is_file(struct process_memory *r, uint64_t address)
{
	char name[16] = "";
	struct map_query query = {
		.size = sizeof(query), .address = address, .name_size = sizeof(name), .name_address = (uintptr_t)name
	};

	if (r->maps < 0)
		r->maps = open_file(r->pid, "maps");
	if (r->maps < 0)
		return false;
	if (!ioctl(r->maps, MAP_QUERY, &query))
		return query.inode || is_from_kernel(name);
	/* The kernel's own names are shorter than this. */
	if (errno == ENAMETOOLONG) {
		query.name_size = 0;
		query.name_address = 0;
		return !ioctl(r->maps, MAP_QUERY, &query) && query.inode;
	}
	return errno == ENOTTY && is_file_in_list(r->pid, address);
}

static uint64_t *known(struct process_memory *r, uint64_t page)
{
	return &r->known[page % PROCESS_MEMORY_KNOWN];
}

/* How many of n pages can be read, from the first one on; n: PAGES_AT_ONCE at most. files: also those of files. */
static size_t pages_there(struct process_memory *r, uint64_t first, size_t n, bool files)
{
	uint64_t states[PAGES_AT_ONCE];
	ssize_t got;

	if (n == 1 && *known(r, first) == first + 1)
		return 1;
	if (!r->tried) {
		r->pagemap = open_file(r->pid, "pagemap");
		r->tried = true;
	}
	/* Without the file (no CONFIG_PROC_PAGE_MONITOR), and beyond all memory, the read itself fails. */
	got = r->pagemap < 0 ? -1
			     : pread(r->pagemap, states, n * sizeof(states[0]), (off_t)(first * sizeof(states[0])));
	if (got < (ssize_t)sizeof(states[0]))
		return n;
	if ((size_t)got < n * sizeof(states[0]))
		n = (size_t)got / sizeof(states[0]);
	for (size_t i = 0; i < n; i++) {
		if (!(states[i] & (PAGE_PRESENT | PAGE_SWAPPED)) && !(files && is_file(r, (first + i) * PAGE_BYTES)))
			return i;
		*known(r, first + i) = first + i + 1;
	}
	return n;
}

static size_t bytes_there(struct process_memory *r, uint64_t address, size_t size, bool files)
{
	uint64_t first = address / PAGE_BYTES, at = first, last;

	if (!size || __builtin_add_overflow(address, size - 1, &last))
		return 0;
	last /= PAGE_BYTES;
	while (at <= last) {
		size_t n = last - at < PAGES_AT_ONCE ? (size_t)(last - at + 1) : PAGES_AT_ONCE;
		size_t there = pages_there(r, at, n, files);

		at += there;
		if (there < n)
			break;
	}
	if (at > last)
		return size;
	return at == first ? 0 : (size_t)(at * PAGE_BYTES - address);
}

/* Whether the memory can be reached through another thread, as that of a process whose first one has ended. */
static bool move_on(struct process_memory *r)
{
	pid_t thread = r->moved ? r->pid : live_thread__of(r->pid);

	if (thread == r->pid) {
		r->moved = true;
		return false;
	}
	process_memory__end(r);
	r->pid = thread;
	r->moved = true;
	return true;
}

static size_t read_there(struct process_memory *r, uint64_t address, void *buf, size_t size, bool files)
{
	struct iovec local = { buf, bytes_there(r, address, size, files) };
	struct iovec remote = { (void *)(uintptr_t)address, local.iov_len };
	ssize_t n = local.iov_len ? process_vm_readv(r->pid, &local, 1, &remote, 1, 0) : 0;

	if (n < 0 && errno == ESRCH && move_on(r))
		return read_there(r, address, buf, size, files);
	return n > 0 ? (size_t)n : 0;
}

size_t process_memory__get(struct process_memory *r, uint64_t address, void *buf, size_t size)
{
	return read_there(r, address, buf, size, true);
}

size_t process_memory__get_stack(struct process_memory *r, uint64_t address, void *buf, size_t size)
{
	return read_there(r, address, buf, size, false);
}

void process_memory__end(struct process_memory *r)
{
	if (r->pagemap >= 0)
		close(r->pagemap);
	if (r->maps >= 0)
		close(r->maps);
	*r = process_memory__of(r->pid);
}

size_t process_memory__read(pid_t pid, uint64_t address, void *buf, size_t size)
{
	_cleanup_(process_memory) struct process_memory r = process_memory__of(pid);

	return process_memory__get(&r, address, buf, size);
}
