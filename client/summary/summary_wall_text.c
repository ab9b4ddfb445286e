// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/summary/summary_wall_internal.h"

#include <stdlib.h>
#include <string.h>

#include "profile/wall_states.h"

#define TOP_HOLDERS   5
#define PLACES        3
#define WORTH_SAYING  1 /* percent of a thread's time */
#define WORTH_PERCENT 0.05

static void print_text(const struct intern *texts, uint32_t number, FILE *out)
{
	summary__print_name(intern__key(texts, number), intern__length(texts, number), out);
}

static void print_name(const struct summary_wall *w, const struct wall_thread *thread, FILE *out)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };

	if (!wall_thread__name(w, thread, text))
		summary__print_name(text->bytes, text->length, out);
}

/* "lock in consume (loop.py:12)" */
static void print_wait(const struct summary_wall *w, const uint32_t *state_and_line, FILE *out)
{
	fputs(wall_states[state_and_line[0]], out);
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
	if (thread->wait != SIZE_MAX && percent(thread->parts[PART_WAITING].ns, all) >= WORTH_PERCENT) {
		fprintf(out, "  ");
		print_wait(w, sums__key(&w->of_threads, thread->wait) + 1, out);
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
	_cleanup_free_ size_t *order = sums__sorted(&w->by_state);

	for (size_t i = 0; order && i < w->by_state.keys.n_keys; i++) {
		double share = percent(w->by_state.shares[order[i]].ns, w->total.ns);

		if (share < 0.05)
			continue;
		fprintf(out, i ? ", " : "  ");
		fputs(wall_states[sums__key(&w->by_state, order[i])[0]], out);
		fprintf(out, " %.1f %%", share);
	}
	fputc('\n', out);
}

/* Of one thread, all that it did in one state. */
static struct share in_state(const struct summary_wall *w, uint32_t thread, uint32_t state)
{
	struct share sum = { 0 };

	for (size_t i = 0; i < w->of_threads.keys.n_keys; i++)
		if (sums__key(&w->of_threads, i)[0] == thread && sums__key(&w->of_threads, i)[1] == state)
			share__add(&sum, &w->of_threads.shares[i]);
	return sum;
}

/* The state in which the thread was longest. */
static uint32_t leading_state(const struct summary_wall *w, uint32_t thread)
{
	uint32_t best = 0;
	double most_ns = 0;

	for (uint32_t state = 0; state < WALL_STATE_COUNT; state++) {
		double ns = in_state(w, thread, state).ns;

		if (ns > most_ns) {
			most_ns = ns;
			best = state;
		}
	}
	return best;
}

/* Where the thread was longest in that state, as an index in of_threads. */
static size_t leading_line(const struct summary_wall *w, uint32_t thread, uint32_t state)
{
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < w->of_threads.keys.n_keys; i++) {
		const uint32_t *key = sums__key(&w->of_threads, i);

		if (key[0] == thread && key[1] == state &&
		    (best == SIZE_MAX || w->of_threads.shares[i].ns > w->of_threads.shares[best].ns))
			best = i;
	}
	return best;
}

/* "  look at: consume (train.py:14) 82.6 %, main (train.py:3) 2.0 %"; all: of the thread's shares. */
static void print_places(const struct summary_wall *w, uint32_t thread, uint32_t state, const struct share *all,
			 FILE *out)
{
	_cleanup_free_ size_t *order = sums__sorted(&w->of_threads);
	size_t shown = 0;

	fprintf(out, "  look at: ");
	for (size_t i = 0; order && i < w->of_threads.keys.n_keys && shown < PLACES; i++) {
		const uint32_t *key = sums__key(&w->of_threads, order[i]);
		double share = summary__percent(&w->of_threads.shares[order[i]], all);

		if (key[0] != thread || key[1] != state || (shown && share < WORTH_SAYING))
			continue;
		fputs(shown++ ? ", " : "", out);
		print_text(&w->texts, key[2], out);
		fprintf(out, " %.1f %%", share);
	}
}

static bool is_any_of(uint32_t state, const char *const words[], size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(wall_states[state], words[i]))
			return true;
	return false;
}

/* Of the threads that have work the n-th busiest, of those in the user's own code first; SIZE_MAX: there is none. */
static size_t busiest(const struct summary_wall *w, size_t n)
{
	size_t busy = w->thread_ids.n_keys - w->n_idle, found = 0;

	for (size_t i = 0; i < 2 * busy; i++) {
		size_t thread = w->order[i % busy];

		if (w->threads[thread].own == (i < busy) && found++ == n)
			return thread;
	}
	return n ? SIZE_MAX : w->order[0];
}

/*
 * Who works while that thread waits: the one that ran most, if it ran for half of that time, as autograd's does in the
 * backward pass. SIZE_MAX: nobody. Threads are in the order of how long they ran.
 */
static size_t worker(const struct summary_wall *w, size_t waiting, double ns)
{
	for (size_t i = 0; i < w->thread_ids.n_keys && i < 2; i++)
		if (w->order[i] != waiting)
			return w->threads[w->order[i]].parts[PART_RUNNING].ns >= ns / 2 ? w->order[i] : SIZE_MAX;
	return SIZE_MAX;
}

/* "; meanwhile python3-12/35 (loader): sleep in load (train.py:4)": who works, or the next of those that have work. */
static void print_meanwhile(const struct summary_wall *w, size_t waiting, double ns, FILE *out)
{
	size_t works = worker(w, waiting, ns), next = works == SIZE_MAX ? busiest(w, 1) : works, line;
	uint32_t thread = (uint32_t)next;

	if (next == SIZE_MAX)
		return;
	line = leading_line(w, thread, works == SIZE_MAX ? leading_state(w, thread) : 0);
	if (line == SIZE_MAX)
		return;
	fprintf(out, "; meanwhile ");
	print_name(w, &w->threads[thread], out);
	if (works != SIZE_MAX)
		fprintf(out, " runs %.1f %% of the time; there",
			percent(w->threads[works].parts[PART_RUNNING].ns, all_ns(&w->threads[works])));
	fprintf(out, ": ");
	print_wait(w, sums__key(&w->of_threads, line) + 1, out);
}

/* Whether where the thread was longest in that state it ran until the GPU had done something. */
static bool spins(const struct summary_wall *w, size_t thread, uint32_t state)
{
	size_t line = leading_line(w, (uint32_t)thread, state);

	for (size_t i = 0; line != SIZE_MAX && i < w->spins.keys.n_keys; i++)
		if (!memcmp(sums__key(&w->spins, i), sums__key(&w->of_threads, line), 3 * sizeof(uint32_t)))
			return true;
	return false;
}

/* What the thread's own line does not say of why it is there; share: what it did most. */
static void print_cause(const struct summary_wall *w, size_t thread, uint32_t state, const struct share *share,
			FILE *out)
{
	static const char *const others[] = { "lock", "pipe", "poll", "child", "io-net" };
	_cleanup_free_ size_t *order = sums__sorted(summary_wall__blamed(w));

	if (is_any_of(state, others, sizeof(others) / sizeof(others[0]))) {
		print_meanwhile(w, thread, share->ns, out);
	} else if (spins(w, thread, state)) {
		fprintf(out, "; it waits for the GPU there: CUDA lets the thread run until the GPU is done");
	} else if (!strcmp(wall_states[state], "runnable")) {
		fprintf(out, "; more threads want to run than there are CPUs for them");
	} else if (!strcmp(wall_states[state], "gil") && order && w->holders.keys.n_keys) {
		fprintf(out, "; the lock was held most in ");
		print_text(&w->texts, sums__key(&w->holders, order[0])[0], out);
	}
}

/*
 * "largest: lock in consume (train.py:14), 82.6 % [76.5, 87.3] of the time of python3-12/34, the busiest thread": the
 * thread that ran most is the one that the others work for, or that works for them. Where no line has half of what it
 * does most, it is "largest: running, 90.0 %".
 */
static void print_verdict(const struct summary_wall *w, FILE *out)
{
	uint32_t thread = (uint32_t)busiest(w, 0), state = leading_state(w, thread);
	const struct wall_thread *first = &w->threads[thread];
	size_t line = leading_line(w, thread, state);
	struct share all = { 0 }, share = in_state(w, thread, state);
	char interval[32];

	for (unsigned i = 0; i < PARTS; i++)
		share__add(&all, &first->parts[i]);
	summary__bold(w->scope, out);
	fprintf(out, "largest: ");
	if (line != SIZE_MAX && w->of_threads.shares[line].ns >= share.ns / 2) {
		share = w->of_threads.shares[line];
		print_wait(w, sums__key(&w->of_threads, line) + 1, out);
	} else {
		fputs(wall_states[state], out);
	}
	summary__interval(w->scope->profile, share.samples, all.samples, interval);
	fprintf(out, ", %.1f %% %s of the time of ", summary__percent(&share, &all), interval);
	print_name(w, first, out);
	if (w->thread_ids.n_keys > 1)
		fprintf(out, ", the busiest thread%s", first->own ? " of your code" : "");
	summary__plain(w->scope, out);
	fputc('\n', out);
	summary__how_sure(w->scope, all.samples, out);
	print_places(w, thread, state, &all, out);
	print_cause(w, thread, state, &share, out);
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
	_cleanup_free_ size_t *order = sums__sorted(&w->waits);
	size_t n = w->waits.keys.n_keys;

	if (!n || !order)
		return;
	summary__title(w->scope, "Waits", out);
	fprintf(out,
		"   wait  [95 %% interval]     wall s  for what, and in which line (all shares are of the whole)\n");
	for (size_t i = 0; i < n && i < w->scope->style->top; i++) {
		summary__print_share(&w->waits.shares[order[i]], w->scope, out);
		print_wait(w, sums__key(&w->waits, order[i]), out);
		fputc('\n', out);
	}
	if (n > w->scope->style->top)
		fprintf(out, "and %zu more place%s\n", n - w->scope->style->top,
			plural((int64_t)(n - w->scope->style->top)));
}

/* Whoever has the lock keeps the others from it: by how long these waited, or how long each line had it. */
static void print_holders(const struct summary_wall *w, FILE *out)
{
	_cleanup_free_ size_t *order = sums__sorted(summary_wall__blamed(w));
	struct share held = { 0 };

	if (!(w->gil.ns > 0) || !order)
		return;
	for (size_t i = 0; i < w->holders.keys.n_keys; i++)
		share__add(&held, &w->holders.shares[i]);
	summary__title(w->scope, "Who held the GIL", out);
	fprintf(out, "threads waited %.2f s for the GIL, which these lines held (%.2f s in all):\n", w->gil.ns / 1e9,
		held.ns / 1e9);
	if (w->timed)
		fprintf(out, "  held  [95 %% interval]    held s  others waited s meanwhile\n");
	else if (w->holders.keys.n_keys > 1)
		fprintf(out, "(whether just then somebody waited needs times: record --wall --timeline)\n");
	for (size_t i = 0; i < w->holders.keys.n_keys && i < TOP_HOLDERS; i++) {
		const struct share *share = &w->holders.shares[order[i]];
		char interval[32];

		summary__interval(w->scope->profile, share->samples, held.samples, interval);
		fprintf(out, "%5.1f %%  %-15s  %8.2f  ", summary__percent(share, &held), interval, share->ns / 1e9);
		if (w->timed)
			fprintf(out, "%15.2f  ", w->blocking.shares[order[i]].ns / 1e9);
		print_text(&w->texts, sums__key(&w->holders, order[i])[0], out);
		fputc('\n', out);
	}
}

void summary_wall__print(const struct summary_wall *w, FILE *out)
{
	if (!w || !w->thread_ids.n_keys)
		return;
	print_verdict(w, out);
	print_head(w, out);
	print_missing(w, "wall.without_ns", "s of this there was no look at waiting threads: only who ran is in it",
		      out);
	print_missing(w, "wall.lost_ns", "s of threads' time there was no memory: it is missing", out);
	print_threads(w, out);
	print_waits(w, out);
	print_holders(w, out);
}
