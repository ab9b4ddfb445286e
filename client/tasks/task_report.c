// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/tasks/task_report.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/session/json_value.h"
#include "client/tasks/task_waits.h"
#include "stakeout/cleanup.h"
#include "stakeout/short_path.h"

#define NAMES      4   /* that are shown of a group */
#define TEXT_BYTES 512 /* of a name */

/* X(state as the API has it, of how many) */
#define STATES(X)                         \
	X(RUNNING, "running", "running")  \
	X(READY, "ready", "ready to run") \
	X(WAITING, "waiting", "waiting")  \
	X(CREATED, "created", "not begun yet")

enum state {
#define X(name, ...) STATE_##name,
	STATES(X)
#undef X
		STATE_COUNT,
};

static const struct {
	const char *word, *text;
} states[] = {
#define X(name, word, text) { word, text },
	STATES(X)
#undef X
};

struct group {
	size_t chain;
	enum state state;
	size_t first, n; /* of `tasks`, sorted */
};

struct seen_task {
	size_t number; /* in the answer */
	size_t chain;
	enum state state;
};

struct report {
	const json_t *list, *chains;
	struct seen_task *tasks;
	size_t n;
	struct group *groups;
	size_t n_groups;
	size_t of[STATE_COUNT];
	FILE *out;
};

static void cleanup__report(struct report *r)
{
	free(r->tasks);
	free(r->groups);
}

static enum state state_of(const json_t *task)
{
	const char *word = json_string_value(json_object_get(task, "state"));

	for (size_t i = 0; word && i < STATE_COUNT; i++)
		if (!strcmp(word, states[i].word))
			return (enum state)i;
	return STATE_WAITING;
}

static int by_group(const void *a, const void *b)
{
	const struct seen_task *x = a, *y = b;

	if (x->state != y->state)
		return x->state < y->state ? -1 : 1;
	if (x->chain != y->chain)
		return x->chain < y->chain ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* What runs, then the largest. */
static int by_size(const void *a, const void *b)
{
	const struct group *x = a, *y = b;
	bool x_runs = x->state == STATE_RUNNING, y_runs = y->state == STATE_RUNNING;

	if (x_runs != y_runs)
		return x_runs ? -1 : 1;
	if (x->n != y->n)
		return x->n > y->n ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

static int read_tasks(struct report *r)
{
	r->n = json_array_size(r->list);
	r->tasks = calloc(r->n + 1, sizeof(*r->tasks));
	r->groups = calloc(r->n + 1, sizeof(*r->groups));
	if (!r->tasks || !r->groups)
		return -ENOMEM;
	for (size_t i = 0; i < r->n; i++) {
		const json_t *task = json_array_get(r->list, i);

		r->tasks[i] = (struct seen_task){ i, json_value__number(task, "chain"), state_of(task) };
		r->of[r->tasks[i].state]++;
	}
	qsort(r->tasks, r->n, sizeof(r->tasks[0]), by_group);
	for (size_t i = 0; i < r->n; i++) {
		struct group *last = r->n_groups ? &r->groups[r->n_groups - 1] : NULL;

		if (!last || last->chain != r->tasks[i].chain || last->state != r->tasks[i].state)
			r->groups[r->n_groups++] = (struct group){ r->tasks[i].chain, r->tasks[i].state, .first = i };
		r->groups[r->n_groups - 1].n++;
	}
	qsort(r->groups, r->n_groups, sizeof(r->groups[0]), by_size);
	return 0;
}

static void print_frame(const json_t *frame, FILE *out)
{
	char function[TEXT_BYTES], file[TEXT_BYTES];

	json_value__text(frame, "function", function, sizeof(function));
	json_value__text(frame, "file", file, sizeof(file));
	if (file[0])
		fprintf(out, "%s (%s:%llu)", function, short_path__python(file),
			(unsigned long long)json_value__number(frame, "line"));
	else
		fputs(function, out);
}

static void print_name(const struct report *r, size_t number)
{
	char name[TEXT_BYTES];

	json_value__text(json_array_get(r->list, number), "name", name, sizeof(name));
	fputs(name, r->out);
}

static void print_names(const struct report *r, const struct group *g)
{
	for (size_t i = 0; i < g->n && i < NAMES; i++) {
		fputs(i ? ", " : ": ", r->out);
		print_name(r, r->tasks[g->first + i].number);
	}
	if (g->n > NAMES)
		fprintf(r->out, ", and %zu more", g->n - NAMES);
	fputc('\n', r->out);
}

/* The number of who awaits a task; SIZE_MAX: nobody that is known. */
static size_t waiter_of(const struct report *r, size_t number)
{
	const json_t *waiters = json_object_get(json_array_get(r->list, number), "awaited_by");
	size_t waiter = json_array_size(waiters) ? (size_t)json_integer_value(json_array_get(waiters, 0)) : SIZE_MAX;

	return waiter < r->n ? waiter : SIZE_MAX;
}

/* "Task-7 in fetch (client.py:31), itself awaited by …": up to the one that nobody awaits. */
static void print_waiter(const struct report *r, size_t number)
{
	for (unsigned i = 0; number != SIZE_MAX && i < NAMES; i++) {
		const json_t *task = json_array_get(r->list, number);
		const json_t *frames = json_array_get(r->chains, json_value__number(task, "chain"));

		fputs(i ? " < " : "", r->out);
		print_name(r, number);
		if (json_array_size(frames)) {
			fputs(" in ", r->out);
			print_frame(json_array_get(frames, 0), r->out);
		}
		number = waiter_of(r, number);
	}
}

static int by_number(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return x < y ? -1 : x > y;
}

static int print_waiters(const struct report *r, const struct group *g)
{
	_cleanup_free_ size_t *waiters = calloc(g->n + 1, sizeof(*waiters));
	size_t n = 0, different = 0;

	if (!waiters)
		return -ENOMEM;
	for (size_t i = 0; i < g->n; i++) {
		size_t waiter = waiter_of(r, r->tasks[g->first + i].number);

		if (waiter != SIZE_MAX)
			waiters[n++] = waiter;
	}
	qsort(waiters, n, sizeof(waiters[0]), by_number);
	for (size_t i = 0; i < n; i++)
		if (!i || waiters[i] != waiters[i - 1])
			waiters[different++] = waiters[i];
	for (size_t i = 0; i < different && i < NAMES; i++) {
		fputs("    awaited by ", r->out);
		print_waiter(r, waiters[i]);
		fputc('\n', r->out);
	}
	if (different > NAMES)
		fprintf(r->out, "    and by %zu other tasks\n", different - NAMES);
	return 0;
}

static int print_group(const struct report *r, const struct group *g)
{
	const json_t *frames = json_array_get(r->chains, g->chain);
	const json_t *first = json_array_get(r->list, r->tasks[g->first].number);
	const char *words = g->state == STATE_WAITING ? task_waits__for(frames) : NULL;

	fprintf(r->out, "\n%zu %s %s", g->n, g->n == 1 ? "task" : "tasks", states[g->state].text);
	if (g->state == STATE_WAITING)
		fprintf(r->out, " for %s", words ?: "a task or future");
	print_names(r, g);
	if (json_is_true(json_object_get(first, "cut")))
		fprintf(r->out, "    %s\n",
			json_array_size(frames) ? "… further frames" : "(its frames change too fast, or are too many)");
	for (size_t i = json_array_size(frames); i-- > 0;) {
		fputs("    ", r->out);
		print_frame(json_array_get(frames, i), r->out);
		fputc('\n', r->out);
	}
	return print_waiters(r, g);
}

/* What is missing, and why. */
static void print_missing(const json_t *answer, FILE *out)
{
	uint64_t changed = json_value__number(answer, "changed"), unread = json_value__number(answer, "unread");

	if (changed)
		fprintf(out, "%llu more ended or changed while being read, and are not shown\n",
			(unsigned long long)changed);
	if (unread)
		fprintf(out, "%llu more could not be read in time\n", (unsigned long long)unread);
	if (json_is_true(json_object_get(answer, "list_changed")))
		fputs("the lists of tasks changed while being read: there may be more tasks\n", out);
	if (json_is_true(json_object_get(answer, "more")))
		fputs("there are more tasks or threads than are looked at\n", out);
}

static void print_head(const struct report *r, const json_t *answer)
{
	size_t n_loops = json_array_size(json_object_get(answer, "loops"));
	char version[32];

	json_value__text(answer, "python", version, sizeof(version));
	fprintf(r->out, "Process %llu, CPython %s, %zu running event %s: %zu %s",
		(unsigned long long)json_value__number(answer, "pid"), version, n_loops,
		n_loops == 1 ? "loop" : "loops", r->n, r->n == 1 ? "task" : "tasks");
	for (size_t i = 0, n = 0; i < STATE_COUNT; i++)
		if (r->of[i])
			fprintf(r->out, "%s %zu %s", n++ ? "," : ":", r->of[i], states[i].text);
	fputc('\n', r->out);
}

int task_report__print(const json_t *answer, unsigned most, FILE *out, struct so_error *err)
{
	_cleanup_(report) struct report r = { .list = json_object_get(answer, "tasks"),
					      .chains = json_object_get(answer, "chains"),
					      .out = out };
	int ret = read_tasks(&r);

	if (ret)
		return so_err(err, ret, "out of memory");
	print_head(&r, answer);
	print_missing(answer, out);
	if (!json_value__number(answer, "found") && !json_is_true(json_object_get(answer, "list_changed")))
		fputs("asyncio has no tasks there\n", out);
	for (size_t i = 0; !ret && i < r.n_groups && i < most; i++)
		ret = print_group(&r, &r.groups[i]);
	if (r.n_groups > most)
		fprintf(out, "\n%zu more groups: -n %zu\n", r.n_groups - most, r.n_groups);
	return ret ? so_err(err, ret, "out of memory") : 0;
}
