// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/processes/past_mappings.h"

#include <stdlib.h>
#include <string.h>

#include "stakeout/array.h"

#define MAX_CHANGES 512 /* of a process, between two scans */
#define MAX_PAST    512 /* of a process */

/* Of all processes; what is reported beyond them is found by reading the mappings, if it lasts. */
#define MAX_ALL_CHANGES 4096

/* The same of pieces of before. */
#define MAX_ALL_PAST 65536

/* With the engine's lock. */
static size_t all_changes, all_past;

static void free_change(struct mapping_change *c)
{
	if (c->map.path[0])
		free((char *)c->map.path);
	all_changes--;
}

void mapping_changes__free(struct mapping_change *changes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free_change(&changes[i]);
	free(changes);
}

void mapping_changes__note(struct process *p, const struct mapping_event *event)
{
	struct mapping_change *c;

	if (all_changes == MAX_ALL_CHANGES)
		return;
	if (p->n_changes >= MAX_CHANGES) {
		free_change(&p->changes[0]);
		memmove(p->changes, p->changes + 1, --p->n_changes * sizeof(*p->changes));
	}
	if (ARRAY_RESERVE(p->changes, p->changes_capacity, p->n_changes + 1))
		return;
	c = &p->changes[p->n_changes];
	*c = (struct mapping_change){ event->time_ns, event->map };
	if (c->map.path[0] && !(c->map.path = strdup(c->map.path)))
		return;
	p->n_changes++;
	all_changes++;
}

static int compare_time(const void *a, const void *b)
{
	const struct mapping_change *x = a, *y = b;

	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

int mapping_changes__take(struct process *p, struct process_scan *scan)
{
	size_t n;

	if (!p->n_changes)
		return 0;
	qsort(p->changes, p->n_changes, sizeof(*p->changes), compare_time);
	n = ARRAY_BEFORE(i, p->n_changes, p->changes[i].time_ns <= scan->read_ns);
	scan->changes = calloc(n + 1, sizeof(*scan->changes));
	if (!scan->changes)
		return -ENOMEM;
	memcpy(scan->changes, p->changes, n * sizeof(*p->changes));
	scan->n_changes = n;
	p->n_changes -= n;
	memmove(p->changes, p->changes + n, p->n_changes * sizeof(*p->changes));
	return 0;
}

void mapping_changes__give_back(struct process *p, struct process_scan *scan)
{
	size_t n = scan->n_changes;

	if (!n || ARRAY_RESERVE(p->changes, p->changes_capacity, p->n_changes + n))
		return;
	memcpy(p->changes + p->n_changes, scan->changes, n * sizeof(*p->changes));
	p->n_changes += n;
	scan->n_changes = 0;
}

static bool overlaps(const struct so_mapping *m, uint64_t start, uint64_t end)
{
	return m->start < end && start < m->end;
}

static void drop_oldest(struct file_registry *registry, struct process *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		file_registry__unuse(registry, p->past[i].use);
	p->n_past -= n;
	all_past -= n;
	memmove(p->past, p->past + n, p->n_past * sizeof(*p->past));
}

/* Of the piece's file, among what is used; nothing of what is no ELF file or could not be opened. */
static struct file_use use_of(struct file_registry *registry, const struct so_mapping *m, const struct file_use *uses,
			      size_t n_uses)
{
	for (size_t i = 0; m->file && i < n_uses; i++) {
		if (uses[i].place == m->file)
			return file_registry__use_again(registry, uses[i]);
	}
	return (struct file_use){ 0 };
}

/* Anonymous memory is not kept: its rules are those of what is there now. */
static void retire(struct file_registry *registry, struct process *p, const struct so_mapping *m,
		   const struct file_use *uses, size_t n_uses, uint64_t until_ns)
{
	struct past_mapping past;
	size_t at;

	if (m->id == SO_MAPPED_ANONYMOUS || m->id == SO_MAPPED_ANY)
		return;
	if (p->n_past && (p->n_past == MAX_PAST || all_past >= MAX_ALL_PAST))
		drop_oldest(registry, p, (p->n_past + 3) / 4);
	if (all_past >= MAX_ALL_PAST || ARRAY_RESERVE(p->past, p->past_capacity, p->n_past + 1))
		return;
	past = (struct past_mapping){ *m, use_of(registry, m, uses, n_uses), until_ns };
	past.piece.seen = 0;
	at = ARRAY_BEFORE(k, p->n_past, p->past[k].until_ns <= until_ns);
	memmove(p->past + at + 1, p->past + at, (p->n_past++ - at) * sizeof(*p->past));
	p->past[at] = past;
	all_past++;
}

/* Retires pieces where something else was mapped then, and takes them off the list. Their order is lost. */
static void replace(struct file_registry *registry, struct process *p, struct mapping_list *l,
		    const struct mapping_change *c)
{
	uint64_t id = mapping_list__id(&c->map);

	for (size_t i = 0; i < l->n;) {
		if (!overlaps(&l->list[i], c->map.start, c->map.end) || l->list[i].id == id) {
			i++;
			continue;
		}
		retire(registry, p, &l->list[i], l->uses, l->n_uses, c->time_ns);
		l->list[i] = l->list[--l->n];
	}
}

/* When a piece went that has been found gone: when something else is known to have been mapped there, or by then. */
static uint64_t gone_ns(const struct process *p, const struct process_scan *scan, const struct so_mapping *m)
{
	for (size_t i = 0; i < p->n_changes; i++) {
		if (overlaps(m, p->changes[i].map.start, p->changes[i].map.end))
			return p->changes[i].time_ns;
	}
	return scan->was_read_ns;
}

static bool is_in(const struct mapping_list *l, const struct so_mapping *m)
{
	size_t before = ARRAY_BEFORE(i, l->n, l->list[i].start <= m->start);

	return before && l->list[before - 1].id == m->id && l->list[before - 1].end > m->start;
}

/* A copy of the run's pieces; it borrows the uses. */
static int copy_run(const struct so_mapping *all, const struct mapping_run *run, struct mapping_list *l)
{
	l->list = calloc(run->n + 1, sizeof(*l->list));
	if (!l->list)
		return -ENOMEM;
	memcpy(l->list, &all[run->first], run->n * sizeof(*l->list));
	l->n = l->capacity = run->n;
	l->uses = run->uses;
	l->n_uses = run->n_uses;
	return 0;
}

/*
 * Goes through the changes in turn: `before` and `made` become what is left of what there was and what was mapped
 * since.
 */
static void follow(struct file_registry *registry, struct process *p, struct process_scan *scan,
		   struct mapping_list *before, struct mapping_list *made)
{
	for (size_t i = 0; i < scan->n_changes; i++) {
		replace(registry, p, before, &scan->changes[i]);
		replace(registry, p, made, &scan->changes[i]);
		mapping_list__add(made, registry, p, scan, &scan->changes[i].map);
	}
}

static void retire_all(struct file_registry *registry, struct process *p, const struct process_scan *scan,
		       const struct mapping_list *l, const struct mapping_list *now)
{
	for (size_t i = 0; i < l->n; i++) {
		if (!is_in(now, &l->list[i]))
			retire(registry, p, &l->list[i], l->uses, l->n_uses, gone_ns(p, scan, &l->list[i]));
	}
}

void past_mappings__update(struct file_registry *registry, const struct so_mapping *all, struct process *p,
			   struct process_scan *scan, const struct mapping_list *now)
{
	struct mapping_list before = { 0 }, made = { 0 };

	if (!p->run || (!scan->n_changes && mapping_list__is_run(now, all, p->run)) || copy_run(all, p->run, &before))
		return;
	follow(registry, p, scan, &before, &made);
	retire_all(registry, p, scan, &before, now);
	retire_all(registry, p, scan, &made, now);
	free(before.list);
	mapping_list__release(&made, registry);
}

/* What was mapped last is past, but nothing came after it. */
void past_mappings__settle(struct file_registry *registry, const struct so_mapping *all, struct process *p)
{
	struct process_scan scan = { .tgid = p->tgid, .read_ns = UINT64_MAX, .was_read_ns = UINT64_MAX };
	struct mapping_list before = { 0 }, made = { 0 }, none = { 0 };

	if (!p->run || mapping_changes__take(p, &scan) || copy_run(all, p->run, &before))
		goto out;
	follow(registry, p, &scan, &before, &made);
	retire_all(registry, p, &scan, &made, &none);
	free(before.list);
	mapping_list__release(&made, registry);
out:
	mapping_changes__free(scan.changes, scan.n_changes);
}

bool past_mappings__forget(struct file_registry *registry, struct process *p, uint64_t until_ns)
{
	size_t n = ARRAY_BEFORE(i, p->n_past, p->past[i].until_ns < until_ns);

	drop_oldest(registry, p, n);
	return n;
}

static int compare_piece(const void *a, const void *b)
{
	const struct so_mapping *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

int past_mappings__list(const struct process *p, struct mapping_list *l)
{
	l->list = calloc(SO_MAX_PAST_MAPPINGS, sizeof(*l->list));
	if (!l->list)
		return -ENOMEM;
	l->capacity = SO_MAX_PAST_MAPPINGS;
	for (size_t i = p->n_past; i-- > 0 && l->n < SO_MAX_PAST_MAPPINGS;) {
		const struct so_mapping *m = &p->past[i].piece;
		size_t k = 0;

		while (k < l->n && (l->list[k].id != m->id || l->list[k].start != m->start))
			k++;
		if (k == l->n)
			l->list[l->n++] = *m;
	}
	qsort(l->list, l->n, sizeof(*l->list), compare_piece);
	return 0;
}

/*
 * Puts a piece into a sorted list that has room for two more, where others are cut or make way. Returns the new number.
 */
static size_t lay_over(struct so_mapping *list, size_t n, const struct so_mapping *m)
{
	size_t first = ARRAY_BEFORE(i, n, list[i].end <= m->start), last = first;
	struct so_mapping pieces[3];
	size_t n_pieces = 0;

	while (last < n && list[last].start < m->end)
		last++;
	if (first < last && list[first].start < m->start) {
		pieces[n_pieces] = list[first];
		pieces[n_pieces++].end = m->start;
	}
	pieces[n_pieces++] = *m;
	if (first < last && list[last - 1].end > m->end) {
		pieces[n_pieces] = list[last - 1];
		pieces[n_pieces++].start = m->end;
	}
	memmove(list + first + n_pieces, list + last, (n - last) * sizeof(*list));
	memcpy(list + first, pieces, n_pieces * sizeof(*list));
	return n - (last - first) + n_pieces;
}

/*
 * Of those that were at an address after the moment, the one that ended first was there at the moment: it is laid last.
 */
size_t past_mappings__at(const struct so_mapping *all, const struct process *p, uint64_t when_ns,
			 struct so_mapping **out)
{
	size_t first = ARRAY_BEFORE(i, p->n_past, p->past[i].until_ns <= when_ns), n = p->run ? p->run->n : 0;

	*out = NULL;
	if (first == p->n_past)
		return 0;
	*out = calloc(n + 2 * (p->n_past - first), sizeof(**out));
	if (!*out)
		return 0;
	if (n)
		memcpy(*out, &all[p->run->first], n * sizeof(**out));
	for (size_t i = p->n_past; i-- > first;)
		n = lay_over(*out, n, &p->past[i].piece);
	return n;
}
