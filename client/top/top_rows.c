// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/top/top_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stakeout/array.h"

_Static_assert(TOP_COLUMNS == TOP_PARTS && TOP_COLUMNS == TOP_VALUES, "a column each");

#define BY_NAME TOP_COLUMNS

const char *top_rows__column(enum top_table table, unsigned column)
{
	static const char *const names[TOP_TABLES][TOP_SORTS + 2] = {
		[TOP_THREADS] = { "running", "runnable", "waiting", "name", "MB", "MB/min" },
		[TOP_FUNCTIONS] = { "self", "total", "waits", "name" },
		[TOP_LINES] = { "self", "total", "waits", "name" },
	};

	return names[table][column];
}

static int compare_texts(const struct top_row *x, const struct top_row *y)
{
	size_t n = x->text.length < y->text.length ? x->text.length : y->text.length;
	int ret = n ? memcmp(x->text.bytes, y->text.bytes, n) : 0;

	return ret ? ret : (x->text.length > y->text.length) - (x->text.length < y->text.length);
}

/* What is not known comes last. */
static int compare_memory(double x, double y)
{
	if (isnan(x) || isnan(y))
		return isnan(x) - isnan(y);
	return (x < y) - (x > y);
}

static int compare_figures(const struct top_row *x, const struct top_row *y, unsigned sort)
{
	int ret = 0;

	if (sort == TOP_BY_MEMORY)
		ret = compare_memory(x->own, y->own);
	else if (sort == TOP_BY_GROWTH)
		ret = compare_memory(x->growth, y->growth);
	/* Threads have no memory of their own. */
	if (sort >= TOP_SORTS)
		sort = 0;
	return ret ? ret : (x->ns[sort] < y->ns[sort]) - (x->ns[sort] > y->ns[sort]);
}

static int compare_rows(const void *a, const void *b, void *context)
{
	const struct top_row *x = a, *y = b;
	unsigned sort = *(const unsigned *)context;
	int ret = sort == BY_NAME ? 0 : compare_figures(x, y, sort);

	if (ret)
		return ret;
	/* Threads that are equal stay in place, whatever they do. */
	ret = x->pid && sort != BY_NAME ? 0 : compare_texts(x, y);
	ret = ret ? ret : (x->pid > y->pid) - (x->pid < y->pid);
	return ret ? ret : (x->tid > y->tid) - (x->tid < y->tid);
}

/* A row with an empty text; NULL: no memory. */
static struct top_row *add_row(struct top_rows *rows)
{
	if (ARRAY_RESERVE(rows->list, rows->capacity, rows->n + 1))
		return NULL;
	rows->list[rows->n] = (struct top_row){ .process = false, .own = NAN, .growth = NAN };
	return &rows->list[rows->n++];
}

static int add_text(struct text *text, const struct intern *texts, uint32_t number)
{
	size_t n = intern__length(texts, number);

	if (ARRAY_RESERVE(text->bytes, text->capacity, text->length + n))
		return -ENOMEM;
	memcpy(text->bytes + text->length, intern__key(texts, number), n);
	text->length += n;
	return 0;
}

static int add_words(struct text *text, const char *words)
{
	return frame_text__between(words, "", "", text);
}

/* Threads, while they are made a tree. */
struct tree {
	const struct top_sums *sums;
	const struct process_list *processes;
	const struct top_memory *memory;
	unsigned sort;
	struct top_rows threads; /* in order */
	struct top_rows parents; /* a row for each process, in order */
	int64_t *above;          /* of each: the nearest process above that has threads here; 0: none */
	bool *placed;
};

static void tree__clear(struct tree *tree)
{
	top_rows__clear(&tree->threads);
	top_rows__clear(&tree->parents);
	free(tree->above);
	free(tree->placed);
}
CLEANUP_DEFINE(struct tree *, tree, tree__clear)

static bool is_called(const struct top_sums *s, uint32_t number, const char *name)
{
	return strlen(name) == intern__length(&s->texts, number) &&
	       !memcmp(name, intern__key(&s->texts, number), strlen(name));
}

/* Of a thread that is called like its process, what it is for says more. */
static int name_thread(const struct tree *tree, const struct top_thread *thread, struct text *text)
{
	const struct process_entry *entry = process_list__find(tree->processes, (pid_t)thread->pid);
	const struct intern *texts = &tree->sums->texts;
	char comm[sizeof(entry->comm) + 1] = "";
	int ret;

	if (entry)
		snprintf(comm, sizeof(comm), "%.*s", (int)sizeof(entry->comm), entry->comm);
	if (thread->role == TOP_NO_TEXT)
		return add_text(text, texts, thread->comm);
	if (is_called(tree->sums, thread->comm, comm))
		return add_text(text, texts, thread->role);
	ret = add_text(text, texts, thread->comm) ?: add_words(text, " (");
	ret = ret ?: add_text(text, texts, thread->role);
	return ret ?: add_words(text, ")");
}

/* "worker (producer)  lock in consume (loop.py:12)" */
static int describe_thread(const struct tree *tree, const struct top_thread *thread, struct text *text,
			   size_t *name_length)
{
	const struct top_sums *s = tree->sums;
	int ret = name_thread(tree, thread, text);

	*name_length = text->length;
	if (ret || thread->state == TOP_NO_TEXT)
		return ret;
	ret = add_words(text, "  ") ?: add_text(text, &s->texts, thread->state);
	if (!ret && intern__length(&s->texts, thread->line))
		ret = add_words(text, " in ") ?: add_text(text, &s->texts, thread->line);
	return ret;
}

/* What lies between two recordings is in both (top_source.c): no thread has more than all of the time. */
static void set_parts(const struct top_sums *s, const struct top_thread *thread, double ns[TOP_COLUMNS])
{
	double all = 0, scale;

	for (unsigned i = 0; i < TOP_PARTS; i++)
		all += thread->ns[i];
	scale = s->duration_ns > 0 && all > s->duration_ns ? s->duration_ns / all : 1;
	for (unsigned i = 0; i < TOP_PARTS; i++)
		ns[i] = scale * thread->ns[i];
}

static int add_thread(struct tree *tree, const struct top_thread *thread)
{
	struct top_row *row = add_row(&tree->threads);

	if (!row)
		return -ENOMEM;
	row->pid = thread->pid;
	row->tid = thread->tid;
	set_parts(tree->sums, thread, row->ns);
	return describe_thread(tree, thread, &row->text, &row->name_length);
}

static struct top_row *find_parent(struct tree *tree, int64_t pid)
{
	for (size_t i = 0; i < tree->parents.n; i++)
		if (tree->parents.list[i].pid == pid)
			return &tree->parents.list[i];
	return NULL;
}

/* A process is called as the system says; one that has ended like its first thread. */
static int name_process(struct tree *tree, const struct top_thread *thread, struct top_row *row)
{
	const struct process_entry *entry = process_list__find(tree->processes, (pid_t)thread->pid);
	char comm[sizeof(entry->comm) + 1];

	if (!entry)
		return add_text(&row->text, &tree->sums->texts, thread->comm);
	snprintf(comm, sizeof(comm), "%.*s", (int)sizeof(entry->comm), entry->comm);
	return frame_text__words(comm, &row->text);
}

static void set_memory(const struct tree *tree, struct top_row *row)
{
	const struct top_memory_process *known = top_memory__find(tree->memory, row->pid);

	if (!known)
		return;
	row->own = known->own;
	row->growth = known->rate_known ? known->rate : NAN;
}

static int count_process(struct tree *tree, const struct top_thread *thread)
{
	struct top_row *row = find_parent(tree, thread->pid);
	double ns[TOP_COLUMNS];
	int ret = 0;

	if (!row) {
		row = add_row(&tree->parents);
		if (!row)
			return -ENOMEM;
		row->process = true;
		row->pid = thread->pid;
		set_memory(tree, row);
		ret = name_process(tree, thread, row);
	}
	set_parts(tree->sums, thread, ns);
	for (unsigned i = 0; i < TOP_COLUMNS; i++)
		row->ns[i] += ns[i];
	return ret;
}

/* A list that was read while processes began and ended may have circles. */
static int64_t find_above(struct tree *tree, int64_t pid)
{
	const struct process_entry *entry = process_list__find(tree->processes, (pid_t)pid);

	for (size_t steps = 0; entry && steps < tree->processes->n; steps++) {
		if (find_parent(tree, entry->ppid))
			return entry->ppid == pid ? 0 : entry->ppid;
		entry = process_list__find(tree->processes, entry->ppid);
	}
	return 0;
}

static void sort_rows(struct top_rows *rows, unsigned sort)
{
	if (rows->n)
		qsort_r(rows->list, rows->n, sizeof(*rows->list), compare_rows, &sort);
}

static int build(struct tree *tree)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < tree->sums->ids.n_keys; i++)
		ret = add_thread(tree, &tree->sums->threads[i]) ?: count_process(tree, &tree->sums->threads[i]);
	tree->placed = calloc(tree->parents.n + 1, sizeof(*tree->placed));
	tree->above = calloc(tree->parents.n + 1, sizeof(*tree->above));
	if (ret || !tree->placed || !tree->above)
		return -ENOMEM;
	sort_rows(&tree->threads, tree->sort);
	sort_rows(&tree->parents, tree->sort);
	for (size_t i = 0; i < tree->parents.n; i++)
		tree->above[i] = find_above(tree, tree->parents.list[i].pid);
	return 0;
}

/* Moves the row. */
static int place_row(struct top_row *row, unsigned depth, struct top_rows *out)
{
	struct top_row *copy = add_row(out);

	if (!copy)
		return -ENOMEM;
	*copy = *row;
	copy->depth = depth;
	row->text = (struct text){ .length = 0 };
	return 0;
}

static int place_process(struct tree *tree, size_t number, unsigned depth, struct top_rows *out)
{
	int64_t pid = tree->parents.list[number].pid;
	int ret = place_row(&tree->parents.list[number], depth, out);

	tree->placed[number] = true;
	for (size_t i = 0; !ret && i < tree->threads.n; i++)
		if (tree->threads.list[i].pid == pid)
			ret = place_row(&tree->threads.list[i], depth + 1, out);
	for (size_t i = 0; !ret && i < tree->parents.n; i++)
		if (!tree->placed[i] && tree->above[i] == pid)
			ret = place_process(tree, i, depth + 1, out);
	return ret;
}

/* First those that nobody here started; then what a circle would hide. */
static int place_all(struct tree *tree, struct top_rows *out)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < tree->parents.n; i++)
		if (!tree->placed[i] && !tree->above[i])
			ret = place_process(tree, i, 0, out);
	for (size_t i = 0; !ret && i < tree->parents.n; i++)
		if (!tree->placed[i])
			ret = place_process(tree, i, 0, out);
	return ret;
}

static int add_tree(const struct top_sums *sums, const struct process_list *processes, const struct top_memory *memory,
		    unsigned sort, struct top_rows *out)
{
	_cleanup_(tree) struct tree *tree =
		&(struct tree){ .sums = sums, .processes = processes, .memory = memory, .sort = sort };
	int ret = build(tree);

	return ret ?: place_all(tree, out);
}

static int add_names(const struct top_names *names, unsigned sort, struct top_rows *out)
{
	struct top_row *row;

	for (size_t i = 0; i < names->texts.n_keys; i++) {
		row = add_row(out);
		if (!row || add_text(&row->text, &names->texts, (uint32_t)i))
			return -ENOMEM;
		memcpy(row->ns, names->ns[i], sizeof(row->ns));
	}
	sort_rows(out, sort);
	return 0;
}

static bool matches(const struct top_row *row, const struct top_view *view)
{
	char id[64];
	int n = snprintf(id, sizeof(id), "%lld", (long long)(row->tid ?: row->pid));

	return top_view__shows(view, row->text.bytes ?: "", row->text.length) ||
	       (row->pid && top_view__shows(view, id, (size_t)n));
}

/* A process stays where one of those below it does. From the end: kept ones gather there. */
static void filter(struct top_rows *rows, const struct top_view *view)
{
	size_t to = rows->n;

	if (!*view->filter)
		return;
	for (size_t i = rows->n; i-- > 0;) {
		struct top_row *row = &rows->list[i], moved = *row;
		bool has_kept = row->process && to < rows->n && rows->list[to].depth > row->depth;

		if (!has_kept && !matches(row, view)) {
			text__clear(&row->text);
			continue;
		}
		row->text = (struct text){ .length = 0 };
		rows->list[--to] = moved;
	}
	memmove(rows->list, rows->list + to, (rows->n - to) * sizeof(*rows->list));
	rows->n -= to;
}

int top_rows__of(const struct top_sums *sums, const struct process_list *processes, const struct top_memory *memory,
		 const struct top_view *view, struct top_rows *out)
{
	unsigned sort = view->sort[view->table];
	int ret;

	if (view->table == TOP_THREADS)
		ret = add_tree(sums, processes, memory, sort, out);
	else
		ret = add_names(view->table == TOP_FUNCTIONS ? &sums->functions : &sums->lines, sort, out);
	if (!ret)
		filter(out, view);
	return ret;
}

void top_rows__clear(struct top_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		text__clear(&rows->list[i].text);
	free(rows->list);
	*rows = (struct top_rows){ .n = 0 };
}
