// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/memory/resident_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/os/bounded_call.h"
#include "stakeout/cleanup.h"
#include "stakeout/live_thread.h"

#define PATIENCE_MS 2000

/* Bits of an entry, Documentation/admin-guide/mm/pagemap.rst. */
#define ENTRY_PRESENT (1ull << 63)
#define ENTRY_SWAPPED (1ull << 62)
#define ENTRY_OTHER   (1ull << 61) /* page cache, or memory that is shared */

/* Entries that one read takes in: pages that lie near each other are looked up together. */
#define CHUNK 512

struct look {
	pid_t pid;
	uint64_t *pages;
	bool *in_use;
	size_t n;
	int ret;
};

bool resident_pages__entry_in_use(uint64_t entry)
{
	return entry & (ENTRY_PRESENT | ENTRY_SWAPPED) && !(entry & ENTRY_OTHER);
}

/* From page number i on, as many as one read takes in. Returns how many these were; -errno. */
static ssize_t look_at_some(struct look *l, int fd, size_t i)
{
	uint64_t entries[CHUNK], first = l->pages[i];
	size_t end = i;
	ssize_t got;

	while (end < l->n && l->pages[end] - first < CHUNK)
		end++;
	got = pread(fd, entries, (l->pages[end - 1] - first + 1) * sizeof(*entries), (off_t)(first * sizeof(*entries)));
	if (got < 0)
		return -errno;
	/* Beyond the end of what a process can have there is nothing to read. */
	for (size_t j = i; j < end; j++)
		l->in_use[j] = l->pages[j] - first < (size_t)got / sizeof(*entries) &&
			       resident_pages__entry_in_use(entries[l->pages[j] - first]);
	return (ssize_t)(end - i);
}

static void run(void *context)
{
	_cleanup_close_ int fd = -1;
	struct look *l = context;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/pagemap", live_thread__of(l->pid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		l->ret = errno == ENOENT || errno == ESRCH ? 0 : -errno;
		return;
	}
	for (size_t i = 0; i < l->n;) {
		ssize_t done = look_at_some(l, fd, i);

		if (done < 0) {
			l->ret = done == -ESRCH ? 0 : (int)done;
			return;
		}
		i += (size_t)done;
	}
}

static void forget(void *context)
{
	struct look *l = context;

	free(l->pages);
	free(l->in_use);
	free(l);
}

int resident_pages__look(pid_t pid, const uint64_t *pages, size_t n, bool *in_use)
{
	struct look *l = calloc(1, sizeof(*l));
	int ret;

	if (!l)
		return -ENOMEM;
	l->pid = pid;
	l->n = n;
	l->pages = calloc(n + 1, sizeof(*pages));
	l->in_use = calloc(n + 1, sizeof(*in_use));
	if (!l->pages || !l->in_use) {
		forget(l);
		return -ENOMEM;
	}
	memcpy(l->pages, pages, n * sizeof(*pages));
	ret = bounded_call__make(&(struct bounded_call){ .kind = BOUNDED_CALL_MEMORY,
							 .pid = pid,
							 .patience_ms = PATIENCE_MS,
							 .run = run,
							 .forget = forget,
							 .context = l });
	if (ret)
		return ret;
	ret = l->ret;
	if (!ret)
		memcpy(in_use, l->in_use, n * sizeof(*in_use));
	forget(l);
	return ret;
}
