// SPDX-License-Identifier: GPL-2.0-or-later
/* What GET /v1/targets/ID/cuda answers (.design/cuda.md). */
#include <errno.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/cuda/cuda_rows.h"
#include "daemon/targets/cuda_taken.h"
#include "daemon/targets/cuda_window.h"
#include "daemon/engine/engine_internal.h"
#include "daemon/nvml/nvml_watch.h"
#include "daemon/profile/profile_export.h"
#include "stakeout/array.h"
#include "stakeout/cuda_caller.h"
#include "stakeout/cuda_document.h"
#include "stakeout/short_path.h"

#define MAX_LINES 20000 /* of the answer; the ones with the least time are left out, and counted */

/* What a location reads as. */
struct seen_frame {
	json_t *text;
	bool python, native; /* native: not CUDA's */
	char *name;          /* of a native one, and of a stub */
	bool stub;           /* CUDA's, called by a kernel's host function */
};

struct thread_name {
	char comm[32];
};

struct answer {
	struct engine *engine;
	struct target *target;
	struct cuda_taken *taken;
	struct profile_builder *builder;
	struct profile_export *export;
	bool stored; /* the form of daemon/history/cuda_merge.h that holds each frame once */
	struct u64_table frame_by_location;
	struct seen_frame *frames;
	size_t n_frames, cap_frames;
	struct u64_table name_by_thread;
	struct thread_name *names;
	size_t n_names, cap_names;
	char unnamed[32];
	char *kernel;
	bool brief; /* neither lines nor allocations */
	uint64_t lines_left_out;
};

static void forget_frame(struct seen_frame *frame)
{
	json_decref(frame->text);
	free(frame->name);
}

static void answer__clear(struct answer *a)
{
	for (size_t i = 0; i < a->n_frames; i++)
		forget_frame(&a->frames[i]);
	free(a->frames);
	free(a->names);
	free(a->kernel);
	u64_table__release(&a->frame_by_location);
	u64_table__release(&a->name_by_thread);
}

/* "function (file.py:12)", "function (file.cpp:12 in libname.so)", "function", "[libname.so]" */
static void frame_text(const struct profile_frame *f, const char *mapping, char *out, size_t size)
{
	if (f->name[0] && mapping[0] && f->filename[0] && f->line > 0)
		snprintf(out, size, "%s (%s:%lld in %s)", f->name, short_path(f->filename), (long long)f->line,
			 short_path(mapping));
	else if (f->name[0] && !mapping[0] && f->filename[0])
		snprintf(out, size, "%s (%s:%lld)", f->name, short_path__python(f->filename), (long long)f->line);
	else if (f->name[0])
		snprintf(out, size, "%s", f->name);
	else
		snprintf(out, size, "[%s]", mapping[0] ? short_path(mapping) : "unknown");
}

static bool is_cuda_file(const struct answer *a, const char *mapping)
{
	const json_t *library;
	size_t i;

	json_array_foreach (a->taken->libraries, i, library) {
		if (!json_is_true(json_object_get(library, "static")) &&
		    !strcmp(mapping, json_string_value(json_object_get(library, "path")) ?: ""))
			return true;
	}
	return false;
}

/* Bytes of names are the target's own. */
static json_t *any_string(const char *text)
{
	return json_string(text) ?: json_string("?");
}

/* The place of one of a location's frames among all; SIZE_MAX: out of memory. */
static size_t see_frame(struct answer *a, uint64_t location, size_t frame)
{
	uint64_t key = location * PROFILE_MAX_INLINED + frame;
	struct profile_frame f;
	const char *mapping;
	char text[4096];
	uint32_t at;

	if (u64_table__get(&a->frame_by_location, key, &at))
		return at;
	if (ARRAY_RESERVE(a->frames, a->cap_frames, a->n_frames + 1))
		return SIZE_MAX;
	profile_builder__describe(a->builder, location, frame, &f, &mapping);
	frame_text(&f, mapping, text, sizeof(text));
	a->frames[a->n_frames] = (struct seen_frame){ .text = any_string(text),
						      .python = !mapping[0] && f.filename[0],
						      .native = mapping[0] && !is_cuda_file(a, mapping) &&
								!cuda_caller__is_cuda(f.name, f.filename),
						      .name = mapping[0] ? strdup(f.name) : NULL,
						      .stub = mapping[0] && cuda_caller__is_stub(f.name) };
	if (!a->frames[a->n_frames].text || (mapping[0] && !a->frames[a->n_frames].name) ||
	    u64_table__set(&a->frame_by_location, key, (uint32_t)a->n_frames)) {
		forget_frame(&a->frames[a->n_frames]);
		return SIZE_MAX;
	}
	return a->n_frames++;
}

/* The innermost Python frame, else the innermost native one that is not CUDA's. *frames: outermost first. */
static const char *describe_stack(struct answer *a, uint64_t hash, json_t **frames)
{
	const uint64_t *locations;
	json_t *stack = json_array(), *line = NULL;
	size_t native = SIZE_MAX, before = SIZE_MAX; /* places: the frames may move */
	uint32_t at;
	size_t n = 0;

	if (u64_table__get(&a->taken->stacks.stack_by_hash, hash, &at) &&
	    profile_export__locations(a->export, a->taken->stacks.stacks[at], &locations, &n))
		n = 0;
	/* Going inwards, the last one is the innermost. */
	for (size_t i = n; i > 0; i--) {
		for (size_t j = profile_builder__frames(a->builder, locations[i - 1]); j > 0; j--) {
			size_t place = see_frame(a, locations[i - 1], j - 1);
			const struct seen_frame *f = place == SIZE_MAX ? NULL : &a->frames[place];

			json_array_append_new(stack, !f          ? json_string("?")
						     : a->stored ? json_integer((json_int_t)place)
								 : json_incref(f->text));
			if (f && f->python)
				line = f->text;
			/* Without the kernel's host function. */
			if (f && f->stub && native != SIZE_MAX && before != SIZE_MAX &&
			    cuda_caller__is_kernel(a->frames[native].name, f->name))
				native = before;
			if (f && f->native) {
				before = native;
				native = place;
			}
		}
	}
	if (!line && native != SIZE_MAX)
		line = a->frames[native].text;
	*frames = stack;
	return line ? json_string_value(line) : "?";
}

static const char *site(void *data, uint32_t tgid, uint64_t stack, json_t **frames)
{
	return stack ? describe_stack(data, stack, frames) : NULL;
}

/* A thread has a row for each API and more. */
static const char *comm(void *data, uint32_t tgid, uint32_t tid)
{
	struct answer *a = data;
	uint64_t key = (uint64_t)tgid << 32 | tid;
	uint32_t at;

	if (u64_table__get(&a->name_by_thread, key, &at))
		return a->names[at].comm;
	if (ARRAY_RESERVE(a->names, a->cap_names, a->n_names + 1) ||
	    u64_table__set(&a->name_by_thread, key, (uint32_t)a->n_names)) {
		cuda_taken__comm(a->target, tgid, tid, a->unnamed, sizeof(a->unnamed));
		return a->unnamed;
	}
	cuda_taken__comm(a->target, tgid, tid, a->names[a->n_names].comm, sizeof(a->names[0].comm));
	return a->names[a->n_names++].comm;
}

/* A copy: another thread may learn a better name meanwhile. */
static const char *kernel(void *data, uint32_t tgid, uint64_t handle)
{
	struct answer *a = data;
	const char *name;

	free(a->kernel);
	pthread_mutex_lock(&a->engine->lock);
	name = cuda_taken__kernel(a->engine->cuda, tgid, handle);
	a->kernel = name ? strdup(name) : NULL;
	pthread_mutex_unlock(&a->engine->lock);
	return a->kernel;
}

static int by_time(const void *a, const void *b)
{
	const struct cuda_line *x = a, *y = b;

	return x->total_ns < y->total_ns ? 1 : x->total_ns > y->total_ns ? -1 : 0;
}

static json_t *line(struct answer *a, const struct cuda_line *l)
{
	json_t *frames;
	const char *place = describe_stack(a, l->stack, &frames);
	struct so_cuda_line_row row = { .line = place,
					.stack_json = frames,
					.event_word = cuda_names__does(l->api),
					.api = cuda_names__api(l->api),
					.pid = l->tgid,
					.tid = l->tid,
					.calls = (uint64_t)(l->calls + 0.5),
					.total_ns = (uint64_t)(l->total_ns + 0.5),
					.bytes = (uint64_t)(l->bytes + 0.5),
					.stacks = (uint64_t)(l->seen.calls + 0.5),
					.sampled = l->sampled,
					.needless = (uint64_t)(l->needless + 0.5),
					.needless_ns = (uint64_t)(l->needless_ns + 0.5),
					.stacks_ns = (uint64_t)(l->seen.total_ns + 0.5),
					.stacks_bytes = (uint64_t)(l->seen.bytes + 0.5) };

	return so_cuda_row__write(SO_CUDA_ROW_LINE, &row, a->stored);
}

static json_t *lines(struct answer *a)
{
	_cleanup_free_ struct cuda_line *sorted = NULL;
	_cleanup_(json) json_t *all = json_array();

	/* A history adds up what was sampled, and then makes of the sum what is made of it here. */
	if (cuda_taken__lines(a->taken, a->stored, &sorted))
		return NULL;
	qsort(sorted, a->taken->n_lines, sizeof(*sorted), by_time);
	for (size_t i = 0; i < a->taken->n_lines; i++) {
		if (sorted[i].calls < 0.5)
			continue;
		if (json_array_size(all) == MAX_LINES)
			a->lines_left_out += (uint64_t)(sorted[i].calls + 0.5);
		else if (json_array_append_new(all, line(a, &sorted[i])))
			return NULL;
	}
	return TAKE_PTR(all);
}

/* After the lines. */
static json_t *lost(const struct answer *a)
{
	json_t *all = cuda_rows__lost(&a->taken->moment.slot);
	uint64_t lines = a->taken->moment.lines_lost + a->lines_left_out;

	if (all && lines)
		json_object_set_new(all, "lines-lost", json_integer((json_int_t)lines));
	if (all && a->taken->moment.lines_forgotten)
		json_object_set_new(all, "lines-forgotten", json_integer((json_int_t)a->taken->moment.lines_forgotten));
	if (all && a->taken->moment.folded)
		json_object_set_new(all, "processes-folded", json_integer((json_int_t)a->taken->moment.folded));
	return all;
}

static int add_gpu(struct answer *a, json_t *root)
{
	char problem[NVML_WATCH_TEXT_BYTES];
	json_t *gpu = cuda_targets__gpu(a->engine->cuda, a->taken, problem);

	if (!gpu && json_object_set_new(root, "gpu_problem", any_string(problem)))
		return -ENOMEM;
	return json_object_set_new(root, "gpu", gpu ?: json_null());
}

/* A part that could not be made for want of memory is NULL: better no answer than one that counts nothing. */
static json_t *build(struct answer *a)
{
	const struct cuda_rows_world world = { a, NULL, comm, kernel, site };
	const struct cuda_taken *taken = a->taken;
	pid_t pid = a->target->info.pid;
	_cleanup_(json) json_t *name = any_string(comm(a, pid, pid));
	const struct so_cuda_head_row head = { .pid = pid,
					       .comm = json_string_value(name),
					       .duration_s =
						       (double)(taken->moment.at_ns - taken->moment.begin_ns) / 1e9,
					       .cpu_s = (double)taken->moment.cpu_ns / 1e9,
					       .estimated = taken->estimated,
					       .steps = taken->steps,
					       .steps_s = (double)taken->steps_ns / 1e9,
					       .available = json_array_size(taken->libraries) > 0 };
	_cleanup_(json) json_t *root = so_cuda_row__write(SO_CUDA_ROW_HEAD, &head, a->stored);
	json_t *by_line = a->brief ? json_array() : lines(a); /* says what is lost */
	_cleanup_(json) json_t *parts = json_pack(
		"{s:o, s:O, s:O, s:O, s:o, s:o, s:o, s:o, s:o, s:o}", "estimate",
		cuda_estimates__json(&taken->moment.estimates), "problems", taken->problems, "probes", taken->probes,
		"libraries", taken->libraries, "calls", cuda_rows__calls(taken->reported, &world), "errors",
		cuda_rows__errors(taken->reported, &world), "lines", by_line, "allocations",
		a->brief ? json_array() : cuda_rows__allocations(taken->reported, &world), "lost", lost(a),
		"in_progress", taken->in_progress ? json_incref(taken->in_progress) : json_array());
	/* Known now that all the names above were asked for. */
	json_int_t missing = (json_int_t)profile_export__lines_missing(a->export);

	if (!name || !parts || json_object_update(root, parts) || add_gpu(a, root) ||
	    json_object_set_new(root, "lines_missing", json_integer(missing)))
		return NULL;
	return TAKE_PTR(root);
}

/* In the stored form; the places of frames are those in `frames`. */
static json_t *stored_frames(const struct answer *a)
{
	json_t *frames = json_array();

	for (size_t i = 0; frames && i < a->n_frames; i++)
		json_array_append(frames, a->frames[i].text);
	return frames;
}

static int make(struct answer *a, json_t **out)
{
	const struct profile_source source = { .acc = &a->taken->stacks,
					       .files = a->engine->files,
					       .kernel = NULL,
					       .own_namespaces = a->target->own_namespaces,
					       .uid = a->target->info.uid,
					       .hasty = a->stored };
	json_t *answer;

	a->export = profile_export__new(&source, a->builder);
	if (!a->export)
		return -ENOMEM;
	answer = build(a);
	if (a->stored)
		json_object_set_new(answer, "frames", stored_frames(a));
	profile_export__free(a->export);
	*out = answer;
	return answer ? 0 : -ENOMEM;
}

int engine_cuda_document(struct engine *e, struct target *t, struct cuda_taken *taken, json_t **out)
{
	_cleanup_(profile_builder) struct profile_builder *builder = profile_builder__new(0, 0, 1);
	__attribute__((cleanup(answer__clear))) struct answer a = {
		.engine = e, .target = t, .taken = taken, .builder = builder, .stored = true
	};

	return builder ? make(&a, out) : -ENOMEM;
}

int engine_cuda_taken(struct engine *e, uint32_t id, bool fresh, struct cuda_taken **out, bool *own,
		      struct target **held, struct so_error *err)
{
	struct target *t = targets__find(&e->targets, id);
	struct cuda_taken *taken;
	int ret = 0;

	if (!t)
		return so_err(err, -ENOENT, "there is no target %u", id);
	if (!t->cuda.wanted && !t->cuda.end)
		return so_err(err, -ENODATA, "target %u was attached without \"cuda\": its CUDA calls are not timed",
			      id);
	taken = t->cuda.end;
	*own = !taken;
	if (*own) {
		if (fresh)
			collector__drain(&e->collector);
		else
			collector__drain_unless_fresh(&e->collector);
		ret = cuda_taken__new(e->cuda, t, &taken);
	}
	if (ret)
		return so_err(err, ret, "cannot read the counters of CUDA calls: %s", strerror(-ret));
	*out = taken;
	t->users++;
	*held = t;
	return 0;
}

static int answer_now(struct engine *e, uint32_t id, bool brief, json_t **out, struct so_error *err)
{
	_cleanup_(profile_builder) struct profile_builder *builder = profile_builder__new(0, 0, 1);
	__attribute__((cleanup(answer__clear))) struct answer a = { .engine = e, .builder = builder, .brief = brief };
	bool own = false;
	int ret;

	if (!builder)
		return so_err(err, -ENOMEM, "out of memory");
	pthread_mutex_lock(&e->lock);
	ret = engine_cuda_taken(e, id, !brief, &a.taken, &own, &a.target, err);
	pthread_mutex_unlock(&e->lock);
	if (ret)
		return ret;
	ret = make(&a, out);
	if (ret)
		so_err(err, ret, "out of memory");
	if (own)
		cuda_taken__free(a.taken);
	pthread_mutex_lock(&e->lock);
	engine_unhold(e, a.target);
	pthread_mutex_unlock(&e->lock);
	return ret;
}

int engine__cuda(struct engine *e, uint32_t id, json_t **out, struct so_error *err)
{
	return answer_now(e, id, false, out, err);
}

int engine__cuda_calls(struct engine *e, uint32_t id, json_t **out, struct so_error *err)
{
	return answer_now(e, id, true, out, err);
}
