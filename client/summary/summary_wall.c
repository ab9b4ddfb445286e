// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/summary/summary_wall.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/frame_text.h"
#include "client/summary/own_line.h"
#include "client/summary/summary_parts.h"
#include "profile/wall_states.h"
#include "stakeout/array.h"

#define TOP_HOLDERS 5
#define WORTH_SAYING 1 /* percent of a thread's time */

enum part { PART_RUNNING, PART_RUNNABLE, PART_WAITING, PARTS };

/* What is added up under one key of an intern. */
struct sums {
	struct intern keys;
	struct share *shares;
	size_t capacity;
};

struct wall_thread {
	struct share parts[PARTS];
	struct share idle;
	const struct profile_sample *name; /* its largest one: a thread may change its name */
	size_t role;                       /* line of the profile; SIZE_MAX: not known */
	size_t wait; /* index in waits_of_threads of what it mostly waits for; SIZE_MAX: nothing */
};

struct summary_wall {
	const struct scope *scope;
	struct intern texts, states;
	struct sums by_state;         /* state */
	struct sums waits;            /* state, line */
	struct sums waits_of_threads; /* thread, state, line */
	struct sums holders;          /* line */
	struct intern thread_ids;     /* pid, tid */
	struct wall_thread *threads;
	size_t thread_capacity;
	struct share total, gil;
	size_t *order; /* of threads: those that ran most first, idle ones last */
	size_t n_idle;
};

static int sums__add(struct sums *sums, const uint32_t *key, size_t n, const struct share *share)
{
	uint32_t number;
	int ret;

	if (ARRAY_RESERVE(sums->shares, sums->capacity, sums->keys.n_keys + 1))
		return -ENOMEM;
	ret = intern__add(&sums->keys, key, n * sizeof(*key), &number);
	if (ret < 0)
		return ret;
	if (ret)
		sums->shares[number] = (struct share){ 0 };
	share__add(&sums->shares[number], share);
	return 0;
}

static void sums__clear(struct sums *sums)
{
	intern__clear(&sums->keys);
	free(sums->shares);
}

static int text_number(struct intern *texts, const struct text *text, uint32_t *number)
{
	int ret = intern__add(texts, text->length ? text->bytes : "", text->length, number);

	return ret < 0 ? ret : 0;
}

static int line_number(struct summary_wall *w, const struct profile_sample *sample, uint32_t *number)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	int ret = own_line__text(w->scope->profile, sample, text);

	return ret < 0 ? ret : text_number(&w->texts, text, number);
}

static bool is_named(const struct profile_sample *sample)
{
	return sample->thread && *sample->thread;
}

static int thread_number(struct summary_wall *w, const struct profile_sample *sample, uint32_t *number)
{
	const int64_t id[2] = { sample->pid, sample->tid };
	int ret;

	if (ARRAY_RESERVE(w->threads, w->thread_capacity, w->thread_ids.n_keys + 1))
		return -ENOMEM;
	ret = intern__add(&w->thread_ids, id, sizeof(id), number);
	if (ret < 0)
		return ret;
	if (ret)
		w->threads[*number] = (struct wall_thread){ .wait = SIZE_MAX, .role = SIZE_MAX, .name = sample };
	if (w->threads[*number].role == SIZE_MAX)
		w->threads[*number].role = thread_role(w->scope->profile, sample);
	if (is_named(sample) != is_named(w->threads[*number].name) ? is_named(sample)
								   : sample->count > w->threads[*number].name->count)
		w->threads[*number].name = sample;
	return 0;
}

static enum part part_of(const char *state)
{
	if (!strcmp(state, "running"))
		return PART_RUNNING;
	return strcmp(state, "runnable") ? PART_WAITING : PART_RUNNABLE;
}

static int add_wait(struct summary_wall *w, uint32_t thread, uint32_t state, uint32_t line, const struct share *share)
{
	const uint32_t of_thread[3] = { thread, state, line };
	int ret = sums__add(&w->waits, &of_thread[1], 2, share);

	return ret ?: sums__add(&w->waits_of_threads, of_thread, 3, share);
}

static int add_sample(struct summary_wall *w, const struct profile_sample *sample, const struct share *share)
{
	const char *state = wall_states[*sample->state ? wall_state__index(sample->state) : 0];
	enum part part = part_of(state);
	bool idle = !strcmp(state, "idle");
	uint32_t number, thread, line;
	int ret = intern__add(&w->states, state, strlen(state), &number);

	if (ret < 0)
		return ret;
	ret = line_number(w, sample, &line);
	ret = ret ?: thread_number(w, sample, &thread);
	if (ret < 0)
		return ret;
	share__add(&w->total, share);
	share__add(&w->threads[thread].parts[part], share);
	if (idle)
		share__add(&w->threads[thread].idle, share);
	if (!strcmp(state, "gil"))
		share__add(&w->gil, share);
	ret = sums__add(&w->by_state, &number, 1, share);
	if (!ret && part == PART_WAITING && !idle)
		ret = add_wait(w, thread, number, line, share);
	if (!ret && sample->gil == PROFILE_GIL_HELD)
		ret = sums__add(&w->holders, &line, 1, share);
	return ret;
}

/* The key of a sum, and the part of it that says which thread, state, line it is. */
static const uint32_t *key_at(const struct sums *sums, size_t i)
{
	return intern__key(&sums->keys, i);
}

static void find_leading_waits(struct summary_wall *w)
{
	for (size_t i = 0; i < w->waits_of_threads.keys.n_keys; i++) {
		struct wall_thread *thread = &w->threads[key_at(&w->waits_of_threads, i)[0]];

		if (thread->wait == SIZE_MAX ||
		    w->waits_of_threads.shares[i].ns > w->waits_of_threads.shares[thread->wait].ns)
			thread->wait = i;
	}
}

static bool is_idle(const struct wall_thread *thread)
{
	double all = thread->parts[PART_RUNNING].ns + thread->parts[PART_RUNNABLE].ns + thread->parts[PART_WAITING].ns;

	return thread->idle.ns > 0.95 * all;
}

static int compare_threads(const void *a, const void *b, void *context)
{
	const struct summary_wall *w = context;
	const struct wall_thread *x = &w->threads[*(const size_t *)a], *y = &w->threads[*(const size_t *)b];

	if (is_idle(x) != is_idle(y))
		return is_idle(x) ? 1 : -1;
	for (unsigned i = 0; i < PARTS; i++)
		if (x->parts[i].ns != y->parts[i].ns)
			return x->parts[i].ns < y->parts[i].ns ? 1 : -1;
	return (x->name->tid > y->name->tid) - (x->name->tid < y->name->tid);
}

static int order_threads(struct summary_wall *w)
{
	size_t n = w->thread_ids.n_keys;

	w->order = calloc(n + 1, sizeof(*w->order));
	if (!w->order)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		w->order[i] = i;
		w->n_idle += is_idle(&w->threads[i]);
	}
	qsort_r(w->order, n, sizeof(*w->order), compare_threads, w);
	return 0;
}

int summary_wall__new(const struct scope *scope, struct summary_wall **out)
{
	_cleanup_(summary_wall) struct summary_wall *w = NULL;
	struct share share;
	int ret = 0;

	*out = NULL;
	if (!scope->profile->wall)
		return 0;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->scope = scope;
	for (size_t i = 0; !ret && i < scope->profile->n_samples; i++)
		if (scope__share(scope, &scope->profile->samples[i], &share))
			ret = add_sample(w, &scope->profile->samples[i], &share);
	if (ret < 0)
		return ret;
	find_leading_waits(w);
	ret = order_threads(w);
	if (!ret)
		*out = TAKE_PTR(w);
	return ret;
}

void summary_wall__free(struct summary_wall *w)
{
	if (!w)
		return;
	sums__clear(&w->by_state);
	sums__clear(&w->waits);
	sums__clear(&w->waits_of_threads);
	sums__clear(&w->holders);
	intern__clear(&w->texts);
	intern__clear(&w->states);
	intern__clear(&w->thread_ids);
	free(w->threads);
	free(w->order);
	free(w);
}

static int compare_shares(const void *a, const void *b, void *context)
{
	const struct sums *sums = context;
	double x = sums->shares[*(const size_t *)a].ns, y = sums->shares[*(const size_t *)b].ns;

	if (x != y)
		return x < y ? 1 : -1;
	return *(const size_t *)a < *(const size_t *)b ? -1 : 1;
}

/* Their indices, the largest first; NULL: no memory. */
static size_t *sorted(const struct sums *sums)
{
	size_t n = sums->keys.n_keys, *order = calloc(n + 1, sizeof(*order));

	for (size_t i = 0; order && i < n; i++)
		order[i] = i;
	if (order && n)
		qsort_r(order, n, sizeof(*order), compare_shares, (void *)sums);
	return order;
}

static void print_text(const struct intern *texts, uint32_t number, FILE *out)
{
	summary__print_name(intern__key(texts, number), intern__length(texts, number), out);
}

/* "python3-12/34 (loader-3)"; without a name by what it was started to do: "python3-12/34 (producer)". */
static int name_of(const struct summary_wall *w, const struct wall_thread *thread, struct text *text)
{
	int ret = frame_text__thread(thread->name, true, text);

	ret = ret ?: frame_text__thread_name(thread->name, ' ', text);
	if (ret || thread->role == SIZE_MAX || is_named(thread->name))
		return ret;
	return frame_text__between(" (", w->scope->profile->lines[thread->role].function, ")", text);
}

static void print_name(const struct summary_wall *w, const struct wall_thread *thread, FILE *out)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };

	if (!name_of(w, thread, text))
		summary__print_name(text->bytes, text->length, out);
}

/* "lock in consume (loop.py:12)" */
static void print_wait(const struct summary_wall *w, const uint32_t *state_and_line, FILE *out)
{
	print_text(&w->states, state_and_line[0], out);
	if (!intern__length(&w->texts, state_and_line[1]))
		return;
	fprintf(out, " in ");
	print_text(&w->texts, state_and_line[1], out);
}

static double all_ns(const struct wall_thread *thread)
{
	double ns = 0;

	for (unsigned i = 0; i < PARTS; i++)
		ns += thread->parts[i].ns;
	return ns;
}

static double percent(double part, double all)
{
	return all > 0 ? 100 * part / all : 0;
}

static void print_thread(const struct summary_wall *w, const struct wall_thread *thread, FILE *out)
{
	double all = all_ns(thread);

	for (unsigned i = 0; i < PARTS; i++)
		fprintf(out, "%6.1f %%  ", percent(thread->parts[i].ns, all));
	fprintf(out, "%8.2f  ", all / 1e9);
	print_name(w, thread, out);
	if (thread->wait != SIZE_MAX) {
		fprintf(out, "  ");
		print_wait(w, key_at(&w->waits_of_threads, thread->wait) + 1, out);
	}
	fputc('\n', out);
}

static void print_threads(const struct summary_wall *w, FILE *out)
{
	size_t n = w->thread_ids.n_keys, busy = n - w->n_idle,
	       shown = busy < w->scope->style->top ? busy : w->scope->style->top;

	summary__title(w->scope, "Threads, and what each mostly waits for", out);
	fprintf(out, " running  runnable  waiting    wall s  thread, and what it mostly waits for\n");
	for (size_t i = 0; i < shown; i++)
		print_thread(w, &w->threads[w->order[i]], out);
	if (busy > shown)
		fprintf(out, "and %zu more thread%s\n", busy - shown, plural((int64_t)(busy - shown)));
	if (w->n_idle)
		fprintf(out, "and %zu idle thread%s of pools\n", w->n_idle, plural((int64_t)w->n_idle));
}

/* "running 17.0 %, runnable 0.1 %, lock 82.9 %" */
static void print_states(const struct summary_wall *w, FILE *out)
{
	_cleanup_free_ size_t *order = sorted(&w->by_state);

	for (size_t i = 0; order && i < w->by_state.keys.n_keys; i++) {
		double share = percent(w->by_state.shares[order[i]].ns, w->total.ns);

		if (share < 0.05)
			continue;
		fprintf(out, i ? ", " : "  ");
		print_text(&w->states, key_at(&w->by_state, order[i])[0], out);
		fprintf(out, " %.1f %%", share);
	}
	fputc('\n', out);
}

/* The thread that ran most is the one that the others work for, or that works for them. */
static void print_busiest(const struct summary_wall *w, const struct wall_thread *first, FILE *out)
{
	double all = all_ns(first), runnable = first->parts[PART_RUNNABLE].ns,
	       wait = first->wait == SIZE_MAX ? 0 : w->waits_of_threads.shares[first->wait].ns;

	fprintf(out, "the busiest, ");
	print_name(w, first, out);
	fprintf(out, ", ran %.1f %% of its time", percent(first->parts[PART_RUNNING].ns, all));
	if (runnable > wait && percent(runnable, all) >= WORTH_SAYING) {
		fprintf(out, "; for %.1f %% it could have run, but had no CPU", percent(runnable, all));
	} else if (percent(wait, all) >= WORTH_SAYING) {
		fprintf(out, "; it waits mostly for ");
		print_wait(w, key_at(&w->waits_of_threads, first->wait) + 1, out);
		fprintf(out, ", %.1f %%", percent(wait, all));
	}
	fputc('\n', out);
}

static void print_head(const struct summary_wall *w, FILE *out)
{
	double seconds = (double)w->scope->profile->duration_ns / 1e9, ran = 0;
	size_t n = w->thread_ids.n_keys;

	for (size_t i = 0; i < n; i++)
		ran += w->threads[i].parts[PART_RUNNING].ns / 1e9;
	fprintf(out, "%zu thread%s ran %.2f s", n, plural((int64_t)n), ran);
	if (seconds > 0)
		fprintf(out, " in %.1f s (%.0f %% of one CPU)", seconds, percent(ran, seconds));
	fprintf(out, "; of their wall time, %.1f s:\n", w->total.ns / 1e9);
	print_states(w, out);
	if (n)
		print_busiest(w, &w->threads[w->order[0]], out);
}

/* What a profile says is not in it. */
static void print_missing(const struct summary_wall *w, const char *key, const char *words, FILE *out)
{
	const char *text = profile__comment(w->scope->profile, key);
	double ns = text ? strtod(text, NULL) : 0;

	if (ns > 0)
		fprintf(out, "for %.1f %s\n", ns / 1e9, words);
}

static void print_waits(const struct summary_wall *w, FILE *out)
{
	_cleanup_free_ size_t *order = sorted(&w->waits);
	size_t n = w->waits.keys.n_keys;

	if (!n || !order)
		return;
	summary__title(w->scope, "Waits", out);
	fprintf(out,
		"   wait  [95 %% interval]     wall s  for what, and in which line (all shares are of the whole)\n");
	for (size_t i = 0; i < n && i < w->scope->style->top; i++) {
		summary__print_share(&w->waits.shares[order[i]], w->scope, out);
		print_wait(w, key_at(&w->waits, order[i]), out);
		fputc('\n', out);
	}
	if (n > w->scope->style->top)
		fprintf(out, "and %zu more place%s\n", n - w->scope->style->top,
			plural((int64_t)(n - w->scope->style->top)));
}

/* Whoever has the lock keeps the others from it: by how long each line had it. */
static void print_holders(const struct summary_wall *w, FILE *out)
{
	_cleanup_free_ size_t *order = sorted(&w->holders);
	struct share held = { 0 };

	if (!(w->gil.ns > 0) || !order)
		return;
	for (size_t i = 0; i < w->holders.keys.n_keys; i++)
		share__add(&held, &w->holders.shares[i]);
	summary__title(w->scope, "Who held the GIL", out);
	fprintf(out, "threads waited %.2f s for the GIL, which these lines held (%.2f s in all):\n", w->gil.ns / 1e9,
		held.ns / 1e9);
	for (size_t i = 0; i < w->holders.keys.n_keys && i < TOP_HOLDERS; i++) {
		const struct share *share = &w->holders.shares[order[i]];
		char interval[32];

		summary__interval(w->scope->profile, share->samples, held.samples, interval);
		fprintf(out, "%5.1f %%  %-15s  %8.2f  ", summary__percent(share, &held), interval, share->ns / 1e9);
		print_text(&w->texts, key_at(&w->holders, order[i])[0], out);
		fputc('\n', out);
	}
}

void summary_wall__print(const struct summary_wall *w, FILE *out)
{
	if (!w || !w->thread_ids.n_keys)
		return;
	print_head(w, out);
	print_missing(w, "wall.without_ns", "s of this there was no look at waiting threads: only who ran is in it",
		      out);
	print_missing(w, "wall.lost_ns", "s of threads' time there was no memory: it is missing", out);
	print_threads(w, out);
	print_waits(w, out);
	print_holders(w, out);
}

static json_t *text_json(const struct intern *texts, uint32_t number)
{
	return json_stringn(intern__key(texts, number), intern__length(texts, number));
}

static json_t *seconds(const struct share *share)
{
	return json_real(share->ns / 1e9);
}

static json_t *wait_json(const struct summary_wall *w, const uint32_t *state_and_line, const struct share *share)
{
	return json_pack("{s:o, s:o, s:o}", "state", text_json(&w->states, state_and_line[0]), "line",
			 text_json(&w->texts, state_and_line[1]), "wall_s", seconds(share));
}

static json_t *thread_json(const struct summary_wall *w, size_t i)
{
	const struct wall_thread *thread = &w->threads[i];
	const struct share *wait = thread->wait == SIZE_MAX ? NULL : &w->waits_of_threads.shares[thread->wait];
	json_t *leading = wait ? wait_json(w, key_at(&w->waits_of_threads, thread->wait) + 1, wait) : json_null();

	_cleanup_(text) struct text *name = &(struct text){ .length = 0 };

	name_of(w, thread, name);
	return json_pack("{s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "name", json_stringn(name->bytes, name->length),
			 "pid", (json_int_t)thread->name->pid, "tid", (json_int_t)thread->name->tid, "running_s",
			 seconds(&thread->parts[PART_RUNNING]), "runnable_s", seconds(&thread->parts[PART_RUNNABLE]),
			 "waiting_s", seconds(&thread->parts[PART_WAITING]), "idle_s", seconds(&thread->idle),
			 "waits_for", leading);
}

json_t *summary_wall__json(const struct summary_wall *w)
{
	json_t *states, *threads, *waits, *holders;
	size_t *order;

	if (!w)
		return json_null();
	states = json_array();
	threads = json_array();
	waits = json_array();
	holders = json_array();
	order = sorted(&w->by_state);
	for (size_t i = 0; order && i < w->by_state.keys.n_keys; i++)
		json_array_append_new(states, json_pack("{s:o, s:o}", "state",
							text_json(&w->states, key_at(&w->by_state, order[i])[0]),
							"wall_s", seconds(&w->by_state.shares[order[i]])));
	free(order);
	for (size_t i = 0; i < w->thread_ids.n_keys; i++)
		json_array_append_new(threads, thread_json(w, w->order[i]));
	order = sorted(&w->waits);
	for (size_t i = 0; order && i < w->waits.keys.n_keys; i++)
		json_array_append_new(waits, wait_json(w, key_at(&w->waits, order[i]), &w->waits.shares[order[i]]));
	free(order);
	order = sorted(&w->holders);
	for (size_t i = 0; order && i < w->holders.keys.n_keys; i++)
		json_array_append_new(holders, json_pack("{s:o, s:o}", "line",
							 text_json(&w->texts, key_at(&w->holders, order[i])[0]),
							 "wall_s", seconds(&w->holders.shares[order[i]])));
	free(order);
	return json_pack("{s:o, s:o, s:o, s:o}", "states", states, "threads", threads, "waits", waits, "gil_holders",
			 holders);
}
