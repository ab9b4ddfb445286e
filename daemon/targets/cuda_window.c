// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A target's CUDA calls in windows. Like its samples (engine_window.c), what a window has is the difference of what
 * was counted up to two moments. The mark that the next difference starts from is the one before and the window added
 * up, not a copy of what was read: fields of one call may be read at different moments (daemon/cuda/cuda_snapshot.h),
 * and what the difference leaves out for that comes with the next window.
 *
 * What a window of the budget is scaled to is replaced by a later one, which may be lower, so only what is settled is
 * taken.
 */
#include "daemon/targets/cuda_window.h"

#include <errno.h>
#include <string.h>

#include "daemon/targets/cuda_targets_internal.h"
#include "daemon/os/json_text.h"

/* Of a line, in whole numbers: what the windows have had. */
struct line_mark {
	uint64_t serial; /* of the line that was in this place */
	uint64_t calls, total_ns, bytes;
	struct cuda_line_figures seen;
};

struct cuda_mark {
	struct cuda_snapshot *calls;
	struct line_mark *lines;
	size_t n_lines;
	struct cuda_moment moment;
};

void cuda_mark__free(struct cuda_mark *mark)
{
	cuda_snapshot__free(mark->calls);
	free(mark->lines);
	free(mark);
}

int cuda_mark__fold_threads(struct cuda_mark *mark, const struct u64_table *threads)
{
	return cuda_snapshot__fold_threads(mark->calls, threads);
}

/* What was counted up to now, or up to the end. All is borrowed but what begins with "own". */
struct moment {
	struct cuda_snapshot *own_calls;
	json_t *own_probes, *own_libraries, *own_problems;
	const struct cuda_snapshot *calls;
	const struct cuda_line *lines;
	const pid_t *pids;
	pid_t *own_pids;
	const struct cuda_watch *watch; /* NULL: it has ended */
	size_t n_lines, n_pids;
	struct cuda_moment moment;
	bool unwatched;
};

static void moment__release(struct moment *m)
{
	cuda_snapshot__free(m->own_calls);
	json_decref(m->own_probes);
	json_decref(m->own_libraries);
	json_decref(m->own_problems);
	free(m->own_pids);
}

/* The sums of processes that ended long ago are in the windows of their time. */
static int drop_folded(struct moment *m)
{
	int ret = cuda_snapshot__new(&m->own_calls);

	ret = ret ?: cuda_snapshot__merge(m->own_calls, m->calls, 0);
	if (ret)
		return ret;
	cuda_snapshot__forget(m->own_calls, 0);
	m->calls = m->own_calls;
	return 0;
}

static int moment_of_end(const struct cuda_taken *end, struct moment *m)
{
	*m = (struct moment){
		.own_probes = json_incref(end->probes),
		.own_libraries = json_incref(end->libraries),
		.own_problems = json_incref(end->problems),
		.calls = end->calls,
		.lines = end->lines,
		.n_lines = end->n_lines,
		.pids = end->pids,
		.n_pids = end->n_pids,
		.moment = end->moment,
		.unwatched = end->estimated && !cuda_estimates__are_any(&end->moment.estimates),
	};
	return end->moment.folded ? drop_folded(m) : 0;
}

static int moment_of_now(struct cuda_watch *w, struct moment *m)
{
	int ret = cuda_watch__settle(w);

	ret = ret ?: cuda_watch__moment(w, &m->moment);
	ret = ret ?: cuda_watch__pids(w, &m->own_pids, &m->n_pids);
	if (ret)
		return ret;
	m->own_probes = cuda_watch__probes(w);
	m->own_libraries = cuda_watch__libraries(w);
	m->own_problems = cuda_watch__problems(w);
	m->calls = m->own_calls ?: w->total;
	m->watch = w;
	m->lines = w->lines.list;
	m->n_lines = w->lines.n;
	m->pids = m->own_pids;
	m->unwatched = w->unwatched;
	return m->own_probes && m->own_libraries && m->own_problems ? 0 : -ENOMEM;
}

static uint64_t rounded(double value)
{
	return value > 0 ? (uint64_t)(value + 0.5) : 0;
}

/* The lines that have calls since; moves their mark on. Differences of rounded figures add up to the rounded figure. */
static int take_lines(const struct moment *m, struct cuda_mark *mark, struct cuda_taken *since)
{
	since->lines = calloc(m->n_lines + 1, sizeof(*since->lines));
	if (!since->lines)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_lines; i++) {
		const struct cuda_line *now = &m->lines[i];
		struct cuda_line *out = &since->lines[since->n_lines];
		struct line_mark whole = { now->serial, rounded(now->calls), rounded(now->total_ns),
					   rounded(now->bytes), now->seen };

		if (mark->lines[i].serial != now->serial)
			mark->lines[i] = (struct line_mark){ .serial = now->serial };
		if (whole.calls <= mark->lines[i].calls)
			continue;
		*out = *now;
		out->calls = (double)(whole.calls - mark->lines[i].calls);
		out->total_ns = (double)(whole.total_ns - mark->lines[i].total_ns);
		out->bytes = (double)(whole.bytes - mark->lines[i].bytes);
		out->seen.calls -= mark->lines[i].seen.calls;
		out->seen.total_ns -= mark->lines[i].seen.total_ns;
		out->seen.bytes -= mark->lines[i].seen.bytes;
		mark->lines[i] = whole;
		since->n_lines++;
	}
	return 0;
}

/* The mark before with room for all lines; empty where there was none. */
static int copy_mark(const struct cuda_mark *from, size_t n_lines, struct cuda_mark **out)
{
	_cleanup_(cuda_mark) struct cuda_mark *mark = calloc(1, sizeof(*mark));
	int ret = mark ? cuda_snapshot__new(&mark->calls) : -ENOMEM;

	if (ret)
		return ret;
	mark->lines = calloc(n_lines + 1, sizeof(*mark->lines));
	if (!mark->lines)
		return -ENOMEM;
	mark->n_lines = n_lines;
	if (from) {
		/* A watch never has fewer places. */
		memcpy(mark->lines, from->lines, from->n_lines * sizeof(*mark->lines));
		ret = cuda_snapshot__merge(mark->calls, from->calls, 0);
	}
	if (!ret)
		*out = TAKE_PTR(mark);
	return ret;
}

static int take_counters(struct cuda_taken *since)
{
	const struct so_cuda_slot *slot = &since->moment.slot;
	json_auto_t *counters =
		json_pack("{s:I, s:I, s:I, s:I}", "hits", (json_int_t)slot->hits, "returns", (json_int_t)slot->returns,
			  "nested", (json_int_t)slot->nested, "stacks", (json_int_t)slot->stacks);

	return json_object_update(since->probes, counters) ? -ENOMEM : 0;
}

/* The numbers of libraries that have calls, or belong to a process that is still there. */
static int used_libraries(const struct moment *m, const struct cuda_snapshot *since, struct u64_table *used)
{
	const struct cuda_calls_entry *calls;
	const struct cuda_error_entry *errors;
	size_t n;
	int ret = 0;

	calls = cuda_snapshot__calls(since, &n);
	for (size_t i = 0; !ret && i < n; i++)
		ret = u64_table__set(used, calls[i].key.library, 1);
	errors = cuda_snapshot__errors(since, &n);
	for (size_t i = 0; !ret && i < n; i++)
		ret = u64_table__set(used, errors[i].key.library, 1);
	for (size_t i = 0; !ret && m->watch && i < m->watch->n_mapped; i++)
		if (!m->watch->mapped[i].gone)
			ret = u64_table__set(used, m->watch->mapped[i].number, 1);
	return ret;
}

/* Without the lists of probes, which are the same in every window, and without libraries that no longer matter. */
static int take_libraries(const struct moment *m, struct cuda_taken *since)
{
	struct u64_table used = { 0 };
	const json_t *library;
	uint32_t value;
	size_t i;
	int ret = used_libraries(m, since->calls, &used);

	since->libraries = json_array();
	json_array_foreach (m->own_libraries, i, library) {
		const json_t *id = json_object_get(library, "id");
		json_t *copy;

		/* At the end all count, so that the last window tells that there were some. */
		if (ret || (m->watch && !u64_table__get(&used, (uint64_t)json_integer_value(id), &value)))
			continue;
		copy = json_copy((json_t *)library);
		if (!copy || json_object_set_new(copy, "probes", json_array()) ||
		    json_array_append(since->libraries, copy))
			ret = -ENOMEM;
		json_decref(copy);
	}
	u64_table__release(&used);
	return ret;
}

/* As text that can be written: paths may hold any bytes. */
static int take_problems(const struct moment *m, struct cuda_taken *since)
{
	const json_t *problem;
	size_t i;

	since->problems = json_array();
	if (!since->problems)
		return -ENOMEM;
	json_array_foreach (m->own_problems, i, problem)
		if (json_array_append_new(since->problems, json_text__new(json_string_value(problem) ?: "")))
			return -ENOMEM;
	return 0;
}

static int take_pids(const struct moment *m, struct cuda_taken *since)
{
	since->pids = calloc(m->n_pids + 1, sizeof(*since->pids));
	if (!since->pids)
		return -ENOMEM;
	if (m->n_pids)
		memcpy(since->pids, m->pids, m->n_pids * sizeof(*since->pids));
	since->n_pids = m->n_pids;
	return 0;
}

static int subtract(const struct moment *m, const struct cuda_mark *from, struct cuda_mark *mark,
		    struct cuda_taken *since)
{
	/* The mark is a copy of `from`, or empty. */
	int ret = cuda_snapshot__subtract(m->calls, mark->calls, &since->calls);

	ret = ret ?: cuda_snapshot__merge(mark->calls, since->calls, 0);
	ret = ret ?: take_lines(m, mark, since);
	since->moment = m->moment;
	if (from)
		cuda_moment__subtract(&since->moment, &from->moment);
	mark->moment = m->moment;
	since->probes = json_copy(m->own_probes);
	ret = ret ?: take_counters(since);
	ret = ret ?: cuda_taken__report(since, m->unwatched);
	ret = ret ?: take_libraries(m, since);
	ret = ret ?: take_problems(m, since);
	return ret ?: take_pids(m, since);
}

int cuda_targets__window(struct cuda_targets *c, struct target *t, struct cuda_taken **since)
{
	__attribute__((cleanup(moment__release))) struct moment m = { 0 };
	_cleanup_(cuda_taken) struct cuda_taken *taken = NULL;
	_cleanup_(cuda_mark) struct cuda_mark *mark = NULL;
	const struct cuda_mark *from = t->cuda.mark;
	int ret = 0;

	*since = NULL;
	if (!t->cuda.end && (!t->cuda.wanted || !t->cuda.watch))
		return 0;
	ret = t->cuda.end ? moment_of_end(t->cuda.end, &m) : moment_of_now(t->cuda.watch, &m);
	ret = ret ?: copy_mark(from, m.n_lines, &mark);
	if (ret)
		return ret;
	taken = calloc(1, sizeof(*taken));
	ret = taken ? subtract(&m, from, mark, taken) : -ENOMEM;
	ret = ret ?: cuda_taken__copy_stacks(&t->cuda.stacks, taken);
	if (ret)
		return ret;
	if (!t->cuda.end) {
		cuda_probes__consume_names(c->probes);
		cuda_taken__remember_names(c, taken->calls, 0);
	}
	*since = TAKE_PTR(taken);
	t->cuda.next_mark = TAKE_PTR(mark);
	return 0;
}

void cuda_targets__end_window(struct target *t, bool taken)
{
	struct cuda_mark **drop = taken ? &t->cuda.mark : &t->cuda.next_mark;

	if (!t->cuda.next_mark)
		return;
	if (*drop)
		cuda_mark__free(TAKE_PTR(*drop));
	if (taken)
		t->cuda.mark = TAKE_PTR(t->cuda.next_mark);
}

void cuda_targets__end_windows(struct target *t)
{
	cuda_targets__end_window(t, false);
	if (t->cuda.mark)
		cuda_mark__free(TAKE_PTR(t->cuda.mark));
}
