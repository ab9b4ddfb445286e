// SPDX-License-Identifier: GPL-2.0-or-later
/* Which threads are equal, and which of these groups a reader should see first. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/dump_internal.h"
#include "stakeout/intern.h"
#include "stakeout/short_path.h"

/* Processes that are compared with each other. */
struct role {
	size_t peers, groups;
	bool python; /* one of them at least has Python frames */
};

struct making {
	const struct dump_part *part;
	struct intern keys, role_keys;
	struct role *roles;
	size_t roles_capacity;
	struct dump_groups *out;
	size_t threads_capacity, groups_capacity;
	uint32_t *role_of_group;
	size_t role_of_group_capacity;
};

static void cleanup__making(struct making *m)
{
	intern__clear(&m->keys);
	intern__clear(&m->role_keys);
	free(m->roles);
	free(m->role_of_group);
}

static bool is_main(const struct dump_thread *thread)
{
	return thread->sample->tid == thread->dump->pid;
}

static bool has_python(const struct dump_thread *thread)
{
	for (size_t i = 0; i < thread->sample->n_lines; i++) {
		if (thread->dump->profile->lines[thread->sample->lines[i]].python)
			return true;
	}
	return false;
}

static void print_key(const struct making *m, const struct dump_thread *thread, uint32_t role, FILE *out)
{
	const struct profile_sample *sample = thread->sample;

	fprintf(out, "%" PRIu32 "%c%s%c%d", role, '\0', sample->state, '\0', sample->gil);
	for (size_t i = 0; i < sample->n_lines; i++) {
		const struct profile_line *line = &thread->dump->profile->lines[sample->lines[i]];

		if (dump_takes_line(m->part, line))
			fprintf(out, "%c%s%c%s%c%" PRId64 "%c%s%c%d%d", '\0', line->function, '\0', line->filename,
				'\0', line->line, '\0', short_path(line->mapping), '\0', line->kernel, line->python);
	}
}

/* 1: the group is new, 0; -ENOMEM. */
static int find_group(struct making *m, const struct dump_thread *thread, uint32_t role, uint32_t *group)
{
	char *key = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&key, &length);
	int ret;

	if (!out)
		return -ENOMEM;
	print_key(m, thread, role, out);
	ret = fclose(out) ? -ENOMEM : intern__add(&m->keys, key, length, group);
	free(key);
	return ret;
}

#define NO_ROLE UINT32_MAX

/* Of a main thread. Others have none. */
static int find_role(struct making *m, const struct dump_thread *thread, uint32_t *role)
{
	char key[96];
	int ret, n;

	*role = NO_ROLE;
	if (!is_main(thread))
		return 0;
	n = snprintf(key, sizeof(key), "%u %.64s", thread->dump->depth, thread->sample->comm);
	ret = intern__add(&m->role_keys, key, (size_t)n, role);
	if (ret < 0 || ARRAY_RESERVE(m->roles, m->roles_capacity, m->role_keys.n_keys))
		return -ENOMEM;
	if (ret)
		m->roles[*role] = (struct role){ 0 };
	m->roles[*role].peers++;
	return 0;
}

static int new_group(struct making *m, const struct dump_thread *thread, uint32_t role)
{
	struct dump_groups *out = m->out;

	if (ARRAY_RESERVE(out->groups, m->groups_capacity, out->n + 1) ||
	    ARRAY_RESERVE(m->role_of_group, m->role_of_group_capacity, out->n + 1))
		return -ENOMEM;
	out->groups[out->n] = (struct dump_group){
		.main = role != NO_ROLE,
		.python = has_python(thread),
	};
	m->role_of_group[out->n++] = role;
	if (role != NO_ROLE) {
		m->roles[role].groups++;
		m->roles[role].python |= out->groups[out->n - 1].python;
	}
	return 0;
}

static int add_thread(struct making *m, const struct dump *dump, const struct profile_sample *sample)
{
	struct dump_thread thread = { .dump = dump, .sample = sample };
	uint32_t role, group;
	int ret = find_role(m, &thread, &role);

	ret = ret ?: find_group(m, &thread, role, &group);
	if (ret > 0)
		ret = new_group(m, &thread, role);
	if (ret || ARRAY_RESERVE(m->out->threads, m->threads_capacity, m->out->n_threads + 1))
		return -ENOMEM;
	thread.group = group;
	m->out->groups[group].n++;
	m->out->threads[m->out->n_threads++] = thread;
	return 0;
}

static int add_process(struct making *m, const struct dump *dump)
{
	_cleanup_free_ const struct profile_sample **threads = NULL;
	size_t n = 0;
	int ret = dump_order_threads(dump, m->part, &threads, &n);

	for (size_t i = 0; !ret && i < n; i++)
		ret = add_thread(m, dump, threads[i]);
	return ret;
}

/* Gives each group its threads, and the figures of its role. */
static int fill_groups(struct making *m)
{
	struct dump_groups *out = m->out;
	size_t at = 0;

	out->sorted = calloc(out->n_threads + 1, sizeof(struct dump_thread *));
	if (!out->sorted)
		return -ENOMEM;
	for (size_t i = 0; i < out->n; i++) {
		struct dump_group *group = &out->groups[i];

		group->threads = out->sorted + at;
		at += group->n;
		group->n = 0;
		if (group->main) {
			group->peers = m->roles[m->role_of_group[i]].peers;
			group->peer_groups = m->roles[m->role_of_group[i]].groups;
			group->peer_python = m->roles[m->role_of_group[i]].python;
		}
	}
	for (size_t i = 0; i < out->n_threads; i++) {
		struct dump_group *group = &out->groups[out->threads[i].group];

		if (!group->n || group->threads[group->n - 1]->dump != out->threads[i].dump)
			group->processes++;
		group->threads[group->n++] = &out->threads[i];
	}
	return 0;
}

static int descending(size_t a, size_t b)
{
	return a > b ? -1 : a < b;
}

/* Groups of main threads that are compared stay together: their processes are equally many and equally deep. */
static int compare_main(const struct dump_group *x, const struct dump_group *y)
{
	int ret = descending(x->peer_groups > 1, y->peer_groups > 1) ?: descending(x->peer_python, y->peer_python);

	ret = ret ?: descending(x->peers, y->peers);
	ret = ret ?: descending(y->threads[0]->dump->depth, x->threads[0]->dump->depth);
	return ret ?: strcmp(x->threads[0]->sample->comm, y->threads[0]->sample->comm);
}

static int compare(const void *a, const void *b)
{
	const struct dump_group *x = a, *y = b;
	int ret = descending(x->main, y->main);

	if (!ret && x->main)
		ret = compare_main(x, y) ?: descending(x->n, y->n);
	/* A pool of idle threads is the largest, and says least. */
	ret = ret ?: descending(x->python, y->python) ?: descending(y->n, x->n);
	return ret ?: descending((uintptr_t)y->threads[0], (uintptr_t)x->threads[0]);
}

static void sort_groups(struct dump_groups *out)
{
	if (out->n)
		qsort(out->groups, out->n, sizeof(*out->groups), compare);
	for (size_t i = 0; i < out->n; i++) {
		for (size_t k = 0; k < out->groups[i].n; k++)
			out->groups[i].threads[k]->group = i;
	}
}

int dump_groups__make(const struct dump *dumps, size_t n, const struct dump_part *part, struct dump_groups *out)
{
	_cleanup_(dump_groups) struct dump_groups groups = { 0 };
	_cleanup_(making) struct making m = { .part = part, .out = &groups };
	int ret = 0;

	for (size_t i = 0; !ret && i < n; i++)
		ret = dumps[i].profile ? add_process(&m, &dumps[i]) : 0;
	ret = ret ?: fill_groups(&m);
	if (ret)
		return ret;
	sort_groups(&groups);
	*out = groups;
	groups = (struct dump_groups){ 0 };
	return 0;
}

void dump_groups__release(struct dump_groups *groups)
{
	free(groups->threads);
	free(groups->sorted);
	free(groups->groups);
	*groups = (struct dump_groups){ 0 };
}
