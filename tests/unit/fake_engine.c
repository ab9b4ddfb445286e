// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/unit/fake_engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

struct fake_target {
	struct target_info info;
	double start_s, duration_s;
	bool windows, doomed; /* taken in windows; detached meanwhile */
	uint64_t in_windows;  /* samples */
	int64_t window_ns;    /* when the open one began */
};

struct engine {
	pthread_mutex_t lock;
	struct fake_target targets[ENGINE_MAX_TARGETS];
	size_t n;
	uint32_t last_id;
	uid_t owner;
	bool owner_set;
	pid_t child;
	int attach_code;
	char attach_text[128];
	struct attach_options last_attach;
	uint8_t *profile;
	size_t profile_bytes;
	uint64_t in_windows; /* samples of targets whose windows have ended */
	bool hides;
	bool memory_known;
	struct engine_memory_use memory;
};

/*
 * sample_type {cpu, nanoseconds} and {samples, count}; one sample of 3 with the one location "main": fields as
 * stakeout/profile.proto numbers them.
 */
static const uint8_t plain_profile[] = {
	0x0a, 0x04, 0x08, 0x01, 0x10, 0x02,                         /* sample_type samples/count */
	0x0a, 0x04, 0x08, 0x03, 0x10, 0x04,                         /* sample_type cpu/nanoseconds */
	0x12, 0x08, 0x0a, 0x01, 0x01, 0x12, 0x03, 0x03, 0x80, 0x7d, /* sample: location 1, values 3, 16000 */
	0x22, 0x06, 0x08, 0x01, 0x22, 0x02, 0x08, 0x01,             /* location 1, line of function 1 */
	0x2a, 0x04, 0x08, 0x01, 0x10, 0x05,                         /* function 1, named by string 5 */
	0x32, 0x00,                                                 /* "" */
	0x32, 0x07, 's',  'a',  'm',  'p',  'l',  'e',  's',        /* 1 */
	0x32, 0x05, 'c',  'o',  'u',  'n',  't',                    /* 2 */
	0x32, 0x03, 'c',  'p',  'u',                                /* 3 */
	0x32, 0x0b, 'n',  'a',  'n',  'o',  's',  'e',  'c',  'o',  'n', 'd', 's', /* 4 */
	0x32, 0x04, 'm',  'a',  'i',  'n',                                         /* 5 */
};

static int gzip(const uint8_t *bytes, size_t length, uint8_t **out, size_t *out_length)
{
	z_stream z = { .next_in = (uint8_t *)bytes, .avail_in = length };
	size_t room = length + 128;
	uint8_t *packed = malloc(room);

	if (!packed || deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
		free(packed);
		return -ENOMEM;
	}
	z.next_out = packed;
	z.avail_out = room;
	if (deflate(&z, Z_FINISH) != Z_STREAM_END)
		abort();
	*out_length = z.total_out;
	deflateEnd(&z);
	*out = packed;
	return 0;
}

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static void finish(struct fake_target *target, enum target_end end)
{
	if (target->info.state == TARGET_ENDED)
		return;
	target->info.state = TARGET_ENDED;
	target->info.end = end;
	target->info.processes = end == TARGET_END_EXITED ? 0 : 1;
}

/* Brings the target up to the present. */
static void advance(struct fake_target *target)
{
	if (target->info.state == TARGET_ENDED)
		return;
	target->info.elapsed_s = now_s() - target->start_s;
	if (target->duration_s > 0 && target->info.elapsed_s >= target->duration_s) {
		target->info.elapsed_s = target->duration_s;
		finish(target, TARGET_END_DURATION);
	}
	target->info.samples = (uint64_t)(target->info.elapsed_s * target->info.rate_hz);
}

static struct fake_target *find(struct engine *engine, uint32_t id)
{
	for (size_t i = 0; i < engine->n; i++)
		if (engine->targets[i].info.id == id && !engine->targets[i].doomed) {
			advance(&engine->targets[i]);
			return &engine->targets[i];
		}
	return NULL;
}

int engine__new(const struct engine_options *options, struct engine **out, struct so_error *err)
{
	struct engine *engine = calloc(1, sizeof(*engine));

	if (!engine || gzip(plain_profile, sizeof(plain_profile), &engine->profile, &engine->profile_bytes)) {
		free(engine);
		return so_err(err, -ENOMEM, "out of memory");
	}
	pthread_mutex_init(&engine->lock, NULL);
	*out = engine;
	return 0;
}

void engine__free(struct engine *engine)
{
	if (!engine)
		return;
	pthread_mutex_destroy(&engine->lock);
	free(engine->profile);
	free(engine);
}

static int try_attach(struct engine *engine, const struct attach_options *options, uint32_t *id, struct so_error *err)
{
	struct fake_target *target = &engine->targets[engine->n];
	int code = engine->attach_code;

	engine->last_attach = *options;
	if (code) {
		engine->attach_code = 0;
		return so_err(err, code, "%s", engine->attach_text);
	}
	if (options->pid == engine->child)
		return so_err(err, -EEXIST, "process %d is sampled already, as a child", options->pid);
	for (size_t i = 0; i < engine->n; i++)
		if (engine->targets[i].info.pid == options->pid && engine->targets[i].info.state != TARGET_ENDED)
			return so_err(err, -EEXIST, "process %d is target %u already", options->pid,
				      engine->targets[i].info.id);
	if (engine->n == ENGINE_MAX_TARGETS)
		return so_err(err, -ENOSPC, "no more than %d targets", ENGINE_MAX_TARGETS);
	*target = (struct fake_target){ .start_s = now_s(), .duration_s = options->duration_s };
	target->info = (struct target_info){
		.id = ++engine->last_id,
		.pid = options->pid,
		.uid = engine->owner_set ? engine->owner : options->caller.uid,
		.viewer = { engine->owner_set ? engine->owner : options->caller.uid, 0 },
		.comm = "fake \xff\x1b;",
		.state = TARGET_SAMPLING,
		.rate_hz = options->rate_hz,
		.children = options->children,
		.kernel = options->kernel,
		.keep = options->keep,
		.rule = options->rule,
		.processes = 1,
	};
	engine->n++;
	*id = target->info.id;
	return 0;
}

int engine__attach(struct engine *engine, const struct attach_options *options, uint32_t *id, struct so_error *err)
{
	int ret;

	pthread_mutex_lock(&engine->lock);
	ret = try_attach(engine, options, id, err);
	pthread_mutex_unlock(&engine->lock);
	return ret;
}

int engine__stop(struct engine *engine, uint32_t id, struct so_error *err)
{
	struct fake_target *target;

	pthread_mutex_lock(&engine->lock);
	target = find(engine, id);
	if (target)
		finish(target, TARGET_END_STOPPED);
	pthread_mutex_unlock(&engine->lock);
	return target ? 0 : so_err(err, -ENOENT, "there is no target %u", id);
}

int engine__detach(struct engine *engine, uint32_t id, struct so_error *err)
{
	struct fake_target *target;

	pthread_mutex_lock(&engine->lock);
	target = find(engine, id);
	if (target && target->windows) {
		finish(target, TARGET_END_STOPPED);
		target->doomed = true;
	} else if (target) {
		*target = engine->targets[--engine->n];
	}
	pthread_mutex_unlock(&engine->lock);
	return target ? 0 : so_err(err, -ENOENT, "there is no target %u", id);
}

static struct fake_target *find_windowed(struct engine *engine, uint32_t id)
{
	for (size_t i = 0; i < engine->n; i++)
		if (engine->targets[i].info.id == id && engine->targets[i].windows)
			return &engine->targets[i];
	return NULL;
}

static int64_t wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int engine__begin_windows(struct engine *engine, uint32_t id, bool cuda, struct so_error *err)
{
	struct fake_target *target;

	pthread_mutex_lock(&engine->lock);
	target = find(engine, id);
	if (target) {
		target->windows = true;
		target->window_ns = wall_ns();
	}
	pthread_mutex_unlock(&engine->lock);
	return target ? 0 : so_err(err, -ENOENT, "there is no target %u", id);
}

/* The profile is always the same; its FAKE_ENGINE_PROFILE_SAMPLES are what a window has. */
int engine__window(struct engine *engine, uint32_t id, struct engine_window *out, struct so_error *err)
{
	struct fake_target *target;
	int ret = -ENOENT;

	pthread_mutex_lock(&engine->lock);
	target = find_windowed(engine, id);
	if (target) {
		*out = (struct engine_window){
			.profile = malloc(engine->profile_bytes),
			.length = engine->profile_bytes,
			.begin_ns = target->window_ns,
			.end_ns = wall_ns(),
			.samples = FAKE_ENGINE_PROFILE_SAMPLES,
			.last = target->info.state == TARGET_ENDED,
			.hides = engine->hides,
		};
		target->window_ns = out->end_ns;
		target->in_windows += out->samples;
		ret = out->profile ? 0 : -ENOMEM;
	}
	if (!ret)
		memcpy(out->profile, engine->profile, engine->profile_bytes);
	pthread_mutex_unlock(&engine->lock);
	return ret ? so_err(err, ret, "there are no windows of a target %u", id) : 0;
}

void engine__end_windows(struct engine *engine, uint32_t id)
{
	struct fake_target *target;

	pthread_mutex_lock(&engine->lock);
	target = find_windowed(engine, id);
	if (target) {
		target->windows = false;
		engine->in_windows += target->in_windows;
		if (target->doomed)
			*target = engine->targets[--engine->n];
	}
	pthread_mutex_unlock(&engine->lock);
}

uint64_t fake_engine__in_windows(struct engine *engine)
{
	uint64_t n;

	pthread_mutex_lock(&engine->lock);
	n = engine->in_windows;
	pthread_mutex_unlock(&engine->lock);
	return n;
}

uint32_t fake_engine__target_of(struct engine *engine, pid_t pid)
{
	uint32_t id = 0;

	pthread_mutex_lock(&engine->lock);
	for (size_t i = 0; i < engine->n; i++)
		if (engine->targets[i].info.pid == pid && engine->targets[i].info.state != TARGET_ENDED)
			id = engine->targets[i].info.id;
	pthread_mutex_unlock(&engine->lock);
	return id;
}

int engine__info(struct engine *engine, uint32_t id, struct target_info *out)
{
	struct fake_target *target;

	pthread_mutex_lock(&engine->lock);
	target = find(engine, id);
	if (target)
		*out = target->info;
	pthread_mutex_unlock(&engine->lock);
	return target ? 0 : -ENOENT;
}

int engine__list(struct engine *engine, struct target_info **out, size_t *n)
{
	struct target_info *all = calloc(ENGINE_MAX_TARGETS, sizeof(*all));

	if (!all)
		return -ENOMEM;
	pthread_mutex_lock(&engine->lock);
	*n = 0;
	for (size_t i = 0; i < engine->n; i++) {
		advance(&engine->targets[i]);
		if (!engine->targets[i].doomed)
			all[(*n)++] = engine->targets[i].info;
	}
	pthread_mutex_unlock(&engine->lock);
	*out = all;
	return 0;
}

int engine__profile(struct engine *engine, uint32_t id, struct caller caller, double last_s, uint8_t **out,
		    size_t *length, struct so_error *err)
{
	uint8_t *copy = NULL;

	pthread_mutex_lock(&engine->lock);
	if (find(engine, id)) {
		copy = malloc(engine->profile_bytes ? engine->profile_bytes : 1);
		if (copy) {
			memcpy(copy, engine->profile, engine->profile_bytes);
			*length = engine->profile_bytes;
		}
	}
	pthread_mutex_unlock(&engine->lock);
	if (!copy)
		return so_err(err, -ENOENT, "there is no target %u", id);
	*out = copy;
	return 0;
}

int engine__threads(struct engine *engine, uint32_t id, pid_t pid, struct caller caller, uint8_t **out, size_t *length,
		    struct so_error *err)
{
	struct target_info info;
	int ret = engine__info(engine, id, &info);

	if (!ret && pid && pid != info.pid && pid != engine->child)
		return so_err(err, -ESRCH, "process %d is none of target %u", pid, id);
	return engine__profile(engine, id, caller, 0, out, length, err);
}

int engine__tasks(struct engine *engine, uint32_t id, pid_t pid, struct caller caller, json_t **out,
		  struct so_error *err)
{
	struct target_info info;

	if (engine__info(engine, id, &info))
		return so_err(err, -ENOENT, "there is no target %u", id);
	if (pid && pid != info.pid && pid != engine->child)
		return so_err(err, -ESRCH, "process %d is none of target %u", pid, id);
	*out = json_pack("{s:[], s:[]}", "tasks", "chains");
	return *out ? 0 : -ENOMEM;
}

int engine__memory(struct engine *engine, uint32_t id, struct caller caller, uint8_t **out, size_t *length,
		   struct so_error *err)
{
	struct target_info info;

	if (engine__info(engine, id, &info))
		return so_err(err, -ENOENT, "there is no target %u", id);
	if (!fake_engine__last_attach(engine).memory)
		return so_err(err, -ENODATA, "target %u was attached without \"memory\": its growth is not watched",
			      id);
	return engine__profile(engine, id, caller, 0, out, length, err);
}

int engine__gpu_memory(struct engine *engine, uint32_t id, struct caller caller, uint8_t **out, size_t *length,
		       struct so_error *err)
{
	struct target_info info;

	if (engine__info(engine, id, &info))
		return so_err(err, -ENOENT, "there is no target %u", id);
	if (!fake_engine__last_attach(engine).gpu_memory)
		return so_err(err, -ENODATA,
			      "target %u was attached without \"gpu_memory\": its memory on GPUs is not watched", id);
	return engine__profile(engine, id, caller, 0, out, length, err);
}

int engine__allocations(struct engine *engine, uint32_t id, struct caller caller, uint8_t **out, size_t *length,
			struct so_error *err)
{
	struct target_info info;

	if (engine__info(engine, id, &info))
		return so_err(err, -ENOENT, "there is no target %u", id);
	if (!fake_engine__last_attach(engine).allocations)
		return so_err(err, -ENODATA,
			      "target %u was attached without \"allocations\": its allocations are not watched", id);
	return engine__profile(engine, id, caller, 0, out, length, err);
}

int engine__cuda_calls(struct engine *engine, uint32_t id, json_t **out, struct so_error *err)
{
	return engine__cuda(engine, id, out, err);
}

int engine__cuda(struct engine *engine, uint32_t id, json_t **out, struct so_error *err)
{
	struct target_info info;

	if (engine__info(engine, id, &info))
		return so_err(err, -ENOENT, "there is no target %u", id);
	if (!fake_engine__last_attach(engine).cuda)
		return so_err(err, -ENODATA, "target %u was attached without \"cuda\": its CUDA calls are not timed",
			      id);
	*out = json_pack("{s:i, s:f}", "pid", (int)info.pid, "budget",
			 fake_engine__last_attach(engine).cuda_budget_percent);
	return 0;
}

int engine__cuda_profile(struct engine *engine, uint32_t id, enum so_cuda_event event, uint8_t **out, size_t *length,
			 struct so_error *err)
{
	json_t *cuda;
	int ret = engine__cuda(engine, id, &cuda, err);

	if (ret)
		return ret;
	json_decref(cuda);
	*out = (uint8_t *)strdup(so_cuda_events[event].word);
	*length = *out ? strlen(so_cuda_events[event].word) : 0;
	return *out ? 0 : -ENOMEM;
}

json_t *engine__stats(struct engine *engine, uint32_t id, struct so_error *err)
{
	struct target_info info;

	if (engine__info(engine, id, &info)) {
		so_err(err, -ENOENT, "there is no target %u", id);
		return NULL;
	}
	return json_pack("{s:f, s:i, s:I, s:I, s:{}, s:{}}", "duration_s", info.elapsed_s, "sample_hz",
			 (int)info.rate_hz, "samples", (json_int_t)info.samples, "complete", (json_int_t)info.samples,
			 "truncated", "lost");
}

json_t *engine__cost(struct engine *engine, uint32_t id)
{
	struct target_info info;

	if (engine__info(engine, id, &info))
		return NULL;
	return json_pack("{s:f, s:n, s:i}", "overhead_percent", 0.5, "cuda_overhead_percent", "sample_bytes", 1000);
}

json_t *engine__status(struct engine *engine)
{
	return json_pack("{s:s, s:i, s:{s:b}, s:[s,s]}", "version", "fake", "targets", (int)fake_engine__count(engine),
			 "mechanisms", "bpf_loop", 1, "notes", "one", "two");
}

json_t *engine__check(void)
{
	return json_pack("[{s:s, s:b, s:b, s:s, s:s}]", "name", "BTF", "found", 1, "required", 1, "used",
			 "struct offsets of this kernel", "without", "nothing can be sampled");
}

void fake_engine__set_owner(struct engine *engine, uid_t uid)
{
	engine->owner = uid;
	engine->owner_set = true;
}

void fake_engine__set_child(struct engine *engine, pid_t pid)
{
	engine->child = pid;
}

void fake_engine__fail_attach(struct engine *engine, int code, const char *text)
{
	snprintf(engine->attach_text, sizeof(engine->attach_text), "%s", text);
	engine->attach_code = code;
}

void fake_engine__set_profile(struct engine *engine, const void *bytes, size_t length)
{
	uint8_t *copy = malloc(length ? length : 1);

	if (!copy)
		abort();
	memcpy(copy, bytes, length);
	free(engine->profile);
	engine->profile = copy;
	engine->profile_bytes = length;
}

void fake_engine__exit(struct engine *engine, uint32_t id)
{
	struct fake_target *target;

	pthread_mutex_lock(&engine->lock);
	target = find(engine, id);
	if (target)
		finish(target, TARGET_END_EXITED);
	pthread_mutex_unlock(&engine->lock);
}

void fake_engine__carry(struct engine *engine, bool carries)
{
	pthread_mutex_lock(&engine->lock);
	for (size_t i = 0; i < engine->n; i++)
		engine->targets[i].info.window_carries = carries;
	pthread_mutex_unlock(&engine->lock);
}

void fake_engine__hide(struct engine *engine, bool hides)
{
	pthread_mutex_lock(&engine->lock);
	engine->hides = hides;
	pthread_mutex_unlock(&engine->lock);
}

size_t fake_engine__count(struct engine *engine)
{
	size_t n;

	pthread_mutex_lock(&engine->lock);
	n = engine->n;
	pthread_mutex_unlock(&engine->lock);
	return n;
}

struct attach_options fake_engine__last_attach(struct engine *engine)
{
	struct attach_options last;

	pthread_mutex_lock(&engine->lock);
	last = engine->last_attach;
	pthread_mutex_unlock(&engine->lock);
	return last;
}

void fake_engine__set_memory(struct engine *engine, const struct engine_memory_use *use)
{
	pthread_mutex_lock(&engine->lock);
	engine->memory_known = true;
	engine->memory = *use;
	pthread_mutex_unlock(&engine->lock);
}

int engine__memory_use(struct engine *engine, uint32_t id, struct engine_memory_use *out)
{
	struct fake_target *target;
	int ret = 0;

	pthread_mutex_lock(&engine->lock);
	target = find_windowed(engine, id);
	if (!target)
		ret = -ENOENT;
	else if (!engine->memory_known || target->info.state == TARGET_ENDED)
		ret = -ESRCH;
	else
		*out = engine->memory;
	pthread_mutex_unlock(&engine->lock);
	return ret;
}
