// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/rules/match_seen.h"

#include <errno.h>
#include <stdlib.h>

#include "stakeout/array.h"
#include "stakeout/cleanup.h"

#define MAX_DEPTH 64 /* of a process tree */

static struct seen *find(const struct seen_list *l, pid_t pid)
{
	size_t low = ARRAY_BEFORE(i, l->n, l->list[i].is.pid < pid);

	return low < l->n && l->list[low].is.pid == pid ? &l->list[low] : NULL;
}

static struct seen carry_over(const struct seen_list *before, const struct match_entry *entry, bool all_again)
{
	const struct seen *old = find(before, entry->pid);
	struct seen s = { .is = *entry };

	if (!old || old->is.start_ticks != entry->start_ticks)
		return s;
	s = *old;
	s.is = *entry;
	if (all_again || old->is.image != entry->image) {
		s.looked = 0;
		s.tries = 0;
		s.retry_ns = 0;
	}
	return s;
}

int seen_list__read(struct seen_list *l, int proc_fd, const struct seen_list *before, bool all_again)
{
	_cleanup_free_ struct match_entry *entries = NULL;
	size_t n = 0;
	int ret = match_proc__list(proc_fd, &entries, &n);

	if (ret)
		return ret;
	l->list = calloc(n + 1, sizeof(*l->list));
	if (!l->list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		l->list[i] = carry_over(before, &entries[i], all_again);
	l->n = n;
	return 0;
}

void seen_list__inherit_bars(struct seen_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		struct seen *s = &l->list[i];
		const struct seen *parent = find(l, s->is.ppid);

		if (parent && parent->barred > s->barred)
			s->barred = parent->barred;
	}
}

bool seen_list__descends(const struct seen_list *l, pid_t of, pid_t pid)
{
	for (int i = 0; of > 0 && i < MAX_DEPTH; i++) {
		const struct seen *s;

		if (of == pid)
			return true;
		s = find(l, of);
		of = s ? s->is.ppid : 0;
	}
	return false;
}

bool seen_list__is_followed(const struct seen_list *l, const struct seen *s)
{
	for (int i = 0; i < MAX_DEPTH; i++) {
		s = find(l, s->is.ppid);
		if (!s)
			return false;
		if (s->target)
			return true;
	}
	return false;
}

void seen_list__release(struct seen_list *l)
{
	free(l->list);
	*l = (struct seen_list){ 0 };
}
