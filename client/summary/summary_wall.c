// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/summary/summary_wall_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/frame_text.h"
#include "client/summary/own_line.h"
#include "profile/wall_states.h"
#include "stakeout/array.h"

int sums__add(struct sums *sums, const uint32_t *key, size_t n, const struct share *share)
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

int summary_wall__line(struct summary_wall *w, const struct profile_sample *sample, uint32_t *number)
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

static enum part part_of(size_t state)
{
	if (!strcmp(wall_states[state], "running"))
		return PART_RUNNING;
	return strcmp(wall_states[state], "runnable") ? PART_WAITING : PART_RUNNABLE;
}

static int add_to_lines(struct summary_wall *w, uint32_t thread, uint32_t state, uint32_t line,
			const struct share *share, bool waits)
{
	const uint32_t of_thread[3] = { thread, state, line };
	int ret = waits ? sums__add(&w->waits, &of_thread[1], 2, share) : 0;

	return ret ?: sums__add(&w->of_threads, of_thread, 3, share);
}

static bool is_in_own_code(const struct profile *profile, const struct profile_sample *sample)
{
	size_t line = own_line(profile, sample);

	return line != SIZE_MAX && is_own_code(&profile->lines[line]);
}

static int add_sample(struct summary_wall *w, const struct profile_sample *sample, const struct share *share)
{
	uint32_t state = *sample->state ? (uint32_t)wall_state__index(sample->state) : 0, thread = 0, line = 0;
	bool idle = !strcmp(wall_states[state], "idle");
	enum part part = part_of(state);
	int ret = summary_wall__line(w, sample, &line);

	ret = ret ?: thread_number(w, sample, &thread);
	if (ret < 0)
		return ret;
	share__add(&w->total, share);
	share__add(&w->threads[thread].parts[part], share);
	w->threads[thread].own |= is_in_own_code(w->scope->profile, sample);
	if (idle)
		share__add(&w->threads[thread].idle, share);
	if (!strcmp(wall_states[state], "gil"))
		share__add(&w->gil, share);
	ret = sums__add(&w->by_state, &state, 1, share);
	if (!ret)
		ret = add_to_lines(w, thread, state, line, share, part == PART_WAITING && !idle);
	if (!ret && part == PART_RUNNING && own_line__gpu_wait(w->scope->profile, sample))
		ret = sums__add(&w->spins, (const uint32_t[]){ thread, state, line }, 3, share);
	if (!ret && sample->gil == PROFILE_GIL_HELD)
		ret = sums__add(&w->holders, &line, 1, share);
	return ret;
}

const struct sums *summary_wall__blamed(const struct summary_wall *w)
{
	return w->timed ? &w->blocking : &w->holders;
}

static void find_leading_waits(struct summary_wall *w)
{
	for (size_t i = 0; i < w->of_threads.keys.n_keys; i++) {
		const uint32_t *key = sums__key(&w->of_threads, i);
		struct wall_thread *thread = &w->threads[key[0]];

		if (part_of(key[1]) != PART_WAITING || !strcmp(wall_states[key[1]], "idle"))
			continue;
		if (thread->wait == SIZE_MAX || w->of_threads.shares[i].ns > w->of_threads.shares[thread->wait].ns)
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
		if (scope__share_any(scope, &scope->profile->samples[i], &share))
			ret = add_sample(w, &scope->profile->samples[i], &share);
	if (ret >= 0)
		ret = summary_gil__attribute(w);
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
	sums__clear(&w->of_threads);
	sums__clear(&w->holders);
	sums__clear(&w->blocking);
	sums__clear(&w->spins);
	intern__clear(&w->texts);
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

size_t *sums__sorted(const struct sums *sums)
{
	size_t n = sums->keys.n_keys, *order = calloc(n + 1, sizeof(*order));

	for (size_t i = 0; order && i < n; i++)
		order[i] = i;
	if (order && n)
		qsort_r(order, n, sizeof(*order), compare_shares, (void *)sums);
	return order;
}

int wall_thread__name(const struct summary_wall *w, const struct wall_thread *thread, struct text *text)
{
	int ret = frame_text__thread(thread->name, true, text);

	ret = ret ?: frame_text__thread_name(thread->name, ' ', text);
	if (ret || thread->role == SIZE_MAX || is_named(thread->name))
		return ret;
	return frame_text__between(" (", w->scope->profile->lines[thread->role].function, ")", text);
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
	return json_pack("{s:o, s:o, s:o}", "state", json_string(wall_states[state_and_line[0]]), "line",
			 text_json(&w->texts, state_and_line[1]), "wall_s", seconds(share));
}

static json_t *thread_json(const struct summary_wall *w, size_t i)
{
	const struct wall_thread *thread = &w->threads[i];
	const struct share *wait = thread->wait == SIZE_MAX ? NULL : &w->of_threads.shares[thread->wait];
	json_t *leading = wait ? wait_json(w, sums__key(&w->of_threads, thread->wait) + 1, wait) : json_null();

	_cleanup_(text) struct text *name = &(struct text){ .length = 0 };

	wall_thread__name(w, thread, name);
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
	order = sums__sorted(&w->by_state);
	for (size_t i = 0; order && i < w->by_state.keys.n_keys; i++)
		json_array_append_new(states, json_pack("{s:o, s:o}", "state",
							json_string(wall_states[sums__key(&w->by_state, order[i])[0]]),
							"wall_s", seconds(&w->by_state.shares[order[i]])));
	free(order);
	for (size_t i = 0; i < w->thread_ids.n_keys; i++)
		json_array_append_new(threads, thread_json(w, w->order[i]));
	order = sums__sorted(&w->waits);
	for (size_t i = 0; order && i < w->waits.keys.n_keys; i++)
		json_array_append_new(waits, wait_json(w, sums__key(&w->waits, order[i]), &w->waits.shares[order[i]]));
	free(order);
	order = sums__sorted(summary_wall__blamed(w));
	for (size_t i = 0; order && i < w->holders.keys.n_keys; i++)
		json_array_append_new(holders,
				      json_pack("{s:o, s:o, s:o}", "line",
						text_json(&w->texts, sums__key(&w->holders, order[i])[0]), "wall_s",
						seconds(&w->holders.shares[order[i]]), "others_waited_s",
						w->timed ? seconds(&w->blocking.shares[order[i]]) : json_null()));
	free(order);
	return json_pack("{s:o, s:o, s:o, s:o}", "states", states, "threads", threads, "waits", waits, "gil_holders",
			 holders);
}
