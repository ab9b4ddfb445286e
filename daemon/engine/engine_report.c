// SPDX-License-Identifier: GPL-2.0-or-later
/* What the engine tells: a target's profile and figures, its own state. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "daemon/os/clock.h"
#include "daemon/engine/engine_files.h"
#include "daemon/os/limits.h"
#include "daemon/os/proc_info.h"
#include "daemon/profile/profile_export.h"

/*
 * What an interrupt of the clock event costs beside the program that it runs: entering and leaving the interrupt, the
 * timer and the perf core. Measured as the slow-down of a busy CPU at 10 kHz (.design/cost.md).
 */
#define INTERRUPT_NS 1500

static const char *const truncation_words[] = {
#define X(name, word, why) [SO_TRUNC_##name] = word,
	SO_TRUNCATIONS(X)
#undef X
};

static const char *const loss_words[] = {
#define X(name, word, why) [SO_LOSS_##name] = word,
	SO_LOSSES(X)
#undef X
};

static const char *const python_words[] = {
#define X(name, word, why) [SO_PYTHON_STATE_##name] = word,
	SO_PYTHON_STATES(X)
#undef X
};

static uint64_t rss_bytes(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/statm", "re");
	unsigned long size, resident;

	if (!f || fscanf(f, "%lu %lu", &size, &resident) != 2)
		return 0;
	return (uint64_t)resident * sysconf(_SC_PAGESIZE);
}

static uint64_t python_samples(const struct accumulator *acc)
{
	uint64_t n = 0;

	for (unsigned i = SO_PYTHON_STATE_NONE + 1; i < SO_PYTHON_STATE_COUNT; i++)
		n += acc->python[i];
	return n;
}

/* A view's interpreters and names are those of the target that takes its samples. */
static const struct target *python_target(const struct target *t)
{
	return t->of ?: t;
}

static bool has_python(const struct target *t)
{
	return t->pythons[0] || t->python_problem[0];
}

struct python_names_stats engine_names_stats(const struct target *t)
{
	return t->python_names ? python_names__stats(t->python_names) : (struct python_names_stats){ 0 };
}

void engine_fill_snapshot(struct engine *e, struct target *t, struct engine_snapshot *s)
{
	t->users++;
	s->target = t;
	s->python = has_python(python_target(t));
	memcpy(s->pythons, python_target(t)->pythons, sizeof(s->pythons));
	snprintf(s->python_problem, sizeof(s->python_problem), "%s", python_target(t)->python_problem);
	s->names = engine_names_stats(python_target(t));
	s->info = t->info;
	s->begin_ns = t->begin_ns;
	s->begin_wall_ns = t->begin_wall_ns;
	s->period_ns = t->period_ns;
	s->main_file = (t->of ?: t)->main_file;
	s->duration_ns = t->begin_ns ? (t->end_ns ? t->end_ns : clock__now_ns()) - t->begin_ns : 0;
	engine_target_lost(e, t, &s->slot);
	process_label_table__copy(engine_labels(t), &s->labels);
}

static int take_snapshot(struct engine *e, uint32_t id, struct engine_snapshot *s, struct so_error *err)
{
	struct target *t;
	int ret;

	pthread_mutex_lock(&e->lock);
	t = engine_target(e, id);
	if (!t) {
		pthread_mutex_unlock(&e->lock);
		return so_err(err, -ENOENT, "there is no target %u", id);
	}
	if (t->info.state == TARGET_SAMPLING)
		engine_drain(e);
	ret = engine_copy_samples(t, &s->acc);
	if (!ret) {
		engine_fill_snapshot(e, t, s);
		engine_since_oldest(t, s);
	}
	pthread_mutex_unlock(&e->lock);
	return ret ? so_err(err, ret, "out of memory") : 0;
}

void engine_release_snapshot(struct engine *e, struct engine_snapshot *s)
{
	accumulator__release(&s->acc);
	process_label_table__release(&s->labels);
	pthread_mutex_lock(&e->lock);
	engine_unhold(e, s->target);
	pthread_mutex_unlock(&e->lock);
}

static int add_comment(struct profile_builder *b, const char *key, const char *word, uint64_t value)
{
	char name[64], text[32];

	snprintf(name, sizeof(name), word ? "%s.%s" : "%s", key, word);
	snprintf(text, sizeof(text), "%" PRIu64, value);
	return profile_builder__comment(b, name, text);
}

static void version_text(uint16_t version, char text[16])
{
	snprintf(text, 16, "%u.%u", version >> 8, version & 0xff);
}

static int add_versions(struct profile_builder *b, const uint16_t *pythons, const char *problem)
{
	char version[16];
	int ret = 0;

	for (unsigned i = 0; !ret && i < TARGET_MAX_PYTHONS && pythons[i]; i++) {
		version_text(pythons[i], version);
		ret = profile_builder__comment(b, "python.version", version);
	}
	if (!ret && problem[0])
		ret = profile_builder__comment(b, "python.problem", problem);
	return ret;
}

int engine_add_python_comments(const struct target *t, struct profile_builder *b)
{
	return add_versions(b, python_target(t)->pythons, python_target(t)->python_problem);
}

static int add_python_comments(struct profile_builder *b, const struct engine_snapshot *s)
{
	int ret;

	if (!s->python)
		return 0;
	ret = add_versions(b, s->pythons, s->python_problem);
	ret = ret ?: add_comment(b, "python.samples", NULL, python_samples(&s->acc));
	ret = ret ?: add_comment(b, "python.complete", NULL, s->acc.python_named);
	ret = ret ?: add_comment(b, "python.gil", NULL, s->acc.gil);
	ret = ret ?: add_comment(b, "python.stale", NULL, s->names.stale);
	ret = ret ?: add_comment(b, "python.unreadable", NULL, s->names.unreadable);
	for (unsigned i = SO_PYTHON_STATE_COMPLETE + 1; !ret && i < SO_PYTHON_STATE_COUNT; i++) {
		if (s->acc.python[i])
			ret = add_comment(b, "python.truncated", python_words[i], s->acc.python[i]);
	}
	return ret;
}

static int add_comments(struct profile_builder *b, const struct engine_snapshot *s)
{
	int ret = add_comment(b, "pid", NULL, s->info.pid);

	ret = ret ?: add_comment(b, "sample_hz", NULL, s->info.rate_hz);
	ret = ret ?: add_comment(b, "complete", NULL, s->acc.truncated[SO_TRUNC_NONE]);
	for (unsigned i = SO_TRUNC_NONE + 1; !ret && i < SO_TRUNC_COUNT; i++) {
		if (s->acc.truncated[i])
			ret = add_comment(b, "truncated", truncation_words[i], s->acc.truncated[i]);
	}
	for (unsigned i = 0; !ret && i < SO_LOSS_COUNT; i++) {
		if (s->slot.lost[i])
			ret = add_comment(b, "lost", loss_words[i], s->slot.lost[i]);
	}
	if (!ret && s->forgotten)
		ret = add_comment(b, "forgotten", NULL, s->forgotten);
	return ret ?: add_python_comments(b, s);
}

int engine_build_profile(struct engine *e, const struct engine_snapshot *s, bool hasty, uint8_t **out,
			 size_t *length)
{
	_cleanup_(profile_builder) struct profile_builder *b =
		profile_builder__new(s->begin_wall_ns, s->duration_ns, s->period_ns);
	struct profile_source source = { .acc = &s->acc,
					 .files = e->files,
					 .main_file = s->main_file,
					 .kernel = s->info.kernel ? e->kernel_symbols : NULL,
					 .since_ns = s->begin_ns,
					 .own_namespaces = s->target->own_namespaces,
					 .uid = s->info.uid,
					 .labels = &s->labels,
					 .hasty = hasty };
	int ret;

	if (!b)
		return -ENOMEM;
	ret = profile_export__samples(&source, b);
	ret = ret ?: add_comments(b, s);
	return ret ?: profile_builder__finish(b, out, length);
}

int engine__profile(struct engine *e, uint32_t id, uint8_t **out, size_t *length, struct so_error *err)
{
	struct engine_snapshot s = { 0 };
	int ret = take_snapshot(e, id, &s, err);

	if (ret)
		return ret;
	ret = engine_build_profile(e, &s, false, out, length);
	engine_release_snapshot(e, &s);
	return ret ? so_err(err, ret, "cannot build the profile: %s", strerror(-ret)) : 0;
}

static json_t *figures(const __u64 *values, const char *const *words, unsigned from, unsigned n)
{
	json_t *all = json_object();

	for (unsigned i = from; i < n; i++) {
		if (values[i])
			json_object_set_new(all, words[i], json_integer(values[i]));
	}
	return all;
}

/* Figures of each program since the target was attached. */
static json_t *programs_since(struct engine *e, const struct target *t)
{
	json_t *now = sampler__programs(e->sampler), *one;
	const char *name, *key;

	json_object_foreach (now, name, one) {
		json_t *before = json_object_get(t->programs_before, name), *value;

		json_object_foreach (one, key, value) {
			if (json_is_integer(value))
				json_integer_set(value,
						 json_integer_value(value) -
							 json_integer_value(json_object_get(before, key)));
		}
	}
	return now;
}

/* Of its own samples: what other targets cost, and clock events that hit none, is not its. */
static json_t *overhead(const struct target *t, const struct so_slot *slot)
{
	uint64_t target_ns = slot->taken * t->period_ns;

	if (!target_ns)
		return json_null();
	return json_real(100.0 * (double)(slot->run_ns + slot->taken * INTERRUPT_NS) / (double)target_ns);
}

static json_t *unwind_figures(struct engine *e)
{
	struct file_registry_stats files = file_registry__stats(e->files);
	struct table_pool_stats pool = table_pool__stats(e->pool);

	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "files",
			 (json_int_t)files.files, "retired", (json_int_t)files.retired, "freed",
			 (json_int_t)files.freed, "released_bytes", (json_int_t)pool.released, "rows",
			 (json_int_t)pool.rows, "rules", (json_int_t)pool.rules, "bytes",
			 (json_int_t)pool.bytes, "compiled", (json_int_t)files.compiled, "from_cache",
			 (json_int_t)files.from_cache, "damaged_entries", (json_int_t)files.bad_fdes,
			 "unsupported_rows", (json_int_t)files.unsupported_rows);
}

static json_t *python_figures(const struct target *t, const struct accumulator *acc)
{
	struct python_names_stats names = engine_names_stats(t);
	json_t *versions = json_array(), *all;
	char version[16];

	for (unsigned i = 0; i < TARGET_MAX_PYTHONS && t->pythons[i]; i++) {
		version_text(t->pythons[i], version);
		json_array_append_new(versions, json_string(version));
	}
	all = json_pack("{s:o, s:I, s:I, s:I, s:o, s:I, s:I}", "versions", versions, "samples",
			(json_int_t)python_samples(acc), "complete", (json_int_t)acc->python_named, "gil",
			(json_int_t)acc->gil, "truncated",
			figures((const __u64 *)acc->python, python_words, SO_PYTHON_STATE_COMPLETE + 1,
				SO_PYTHON_STATE_COUNT),
			"stale_frames", (json_int_t)names.stale, "unreadable_frames",
			(json_int_t)names.unreadable);
	if (all && t->python_problem[0])
		json_object_set_new(all, "problem", json_string(t->python_problem));
	return all;
}

uint64_t engine_cpu_ns(struct engine *e)
{
	uint64_t reader_ns = e->source_lines ? source_lines__stats(e->source_lines).cpu_ns : 0;

	return clock__read_ns(CLOCK_PROCESS_CPUTIME_ID) + reader_ns;
}

static json_t *stats_locked(struct engine *e, struct target *t, const struct accumulator *acc)
{
	struct so_slot slot;
	uint64_t sum, end = t->end_ns ? t->end_ns : clock__now_ns();
	json_t *programs = programs_since(e, t), *stats;

	sum = engine_target_lost(e, t, &slot);
	stats = json_pack(
		"{s:f, s:i, s:I, s:I, s:I, s:o, s:o, s:I, s:o, s:o, s:f, s:o, s:o, s:i}", "duration_s",
		t->begin_ns ? (end - t->begin_ns) / 1e9 : 0.0, "sample_hz", (int)t->info.rate_hz, "samples",
		(json_int_t)(acc->samples + sum), "taken", (json_int_t)slot.taken, "complete",
		(json_int_t)acc->truncated[SO_TRUNC_NONE], "truncated",
		figures((const __u64 *)acc->truncated, truncation_words, SO_TRUNC_NONE + 1, SO_TRUNC_COUNT),
		"lost", figures(slot.lost, loss_words, 0, SO_LOSS_COUNT), "frame_pointer",
		(json_int_t)acc->frame_pointer, "bpf", json_pack("{s:o}", "programs", programs), "unwind",
		unwind_figures(e), "attach_ms", t->attach_ns / 1e6, "daemon",
		json_pack("{s:f, s:I}", "cpu_s", (engine_cpu_ns(e) - t->cpu_ns_before) / 1e9, "rss_bytes",
			  (json_int_t)rss_bytes()),
		"overhead_percent", overhead(t, &slot), "processes", (int)t->seen_processes);
	if (stats && has_python(python_target(t)))
		json_object_set_new(stats, "python", python_figures(python_target(t), acc));
	return stats;
}

static json_t *stats_of(struct engine *e, struct target *t)
{
	struct accumulator acc = t->forgotten;
	json_t *stats;

	if (!t->of || t->info.state == TARGET_ENDED) {
		accumulator__add_figures(&acc, &t->older);
		accumulator__add_figures(&acc, &t->acc);
		return stats_locked(e, t, &acc);
	}
	if (engine_copy_view(t, &acc))
		return NULL;
	stats = stats_locked(e, t, &acc);
	accumulator__release(&acc);
	return stats;
}

static json_t *source_line_figures(struct engine *e)
{
	struct source_lines_stats stats = source_lines__stats(e->source_lines);

	return json_pack("{s:I, s:I, s:I, s:f, s:I}", "files", (json_int_t)stats.files, "failed_files",
			 (json_int_t)stats.failed, "addresses", (json_int_t)stats.read, "cpu_s",
			 (double)stats.cpu_ns / 1e9, "reader_bytes", (json_int_t)stats.bytes);
}

json_t *engine__stats(struct engine *e, uint32_t id, struct so_error *err)
{
	json_t *stats = NULL;
	struct target *t;

	pthread_mutex_lock(&e->lock);
	t = engine_target(e, id);
	if (!t) {
		so_err(err, -ENOENT, "there is no target %u", id);
	} else {
		if (t->info.state == TARGET_SAMPLING)
			engine_drain_unless_fresh(e);
		stats = stats_of(e, t);
		if (!stats)
			so_err(err, -ENOMEM, "out of memory");
	}
	pthread_mutex_unlock(&e->lock);
	return stats;
}

json_t *engine__cost(struct engine *e, uint32_t id)
{
	json_t *cost = NULL;
	struct target *t;

	pthread_mutex_lock(&e->lock);
	t = engine_target(e, id);
	if (t) {
		/* A view that goes on has its samples in its target. */
		const struct target *p = t->of && t->info.state != TARGET_ENDED ? t->of : t;
		struct so_slot slot;

		engine_target_lost(e, t, &slot);
		cost = json_pack("{s:o, s:o, s:I}", "overhead_percent", overhead(t, &slot),
				 "cuda_overhead_percent", cuda_targets__overhead(p), "sample_bytes",
				 (json_int_t)engine_target_bytes(p));
	}
	pthread_mutex_unlock(&e->lock);
	return cost;
}

static json_t *cpu_list(struct engine *e)
{
	json_t *list = json_array();
	cpu_set_t cpus;

	sampler__event_cpus(e->sampler, &cpus);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &cpus))
			json_array_append_new(list, json_integer(cpu));
	}
	return list;
}

static json_t *cache_figures(struct engine *e)
{
	struct unwind_cache_stats s;

	if (!e->cache)
		return json_pack("{s:b, s:s}", "used", 0, "why", e->cache_problem);
	s = unwind_cache__stats(e->cache);
	return json_pack("{s:b, s:I, s:I, s:I, s:I, s:I}", "used", 1, "hits", (json_int_t)s.hits, "misses",
			 (json_int_t)s.misses, "corrupt", (json_int_t)s.corrupt, "stored", (json_int_t)s.stored,
			 "store_failed", (json_int_t)s.store_failed);
}

json_t *engine__status(struct engine *e)
{
	unsigned targets = 0, views = 0;
	json_t *status;

	pthread_mutex_lock(&e->lock);
	engine_files_count(e);
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++)
		targets += e->targets[i] && !e->targets[i]->doomed && !e->targets[i]->view;
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++)
		views += e->targets[i] && e->targets[i]->view;
	limits__set(LIMIT_VIEWS, views);
	status = json_pack(
		"{s:s, s:i, s:f, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "version", STAKEOUT_VERSION,
		"pid", (int)getpid(), "uptime_s", (clock__now_ns() - e->started_ns) / 1e9, "targets",
		(int)targets, "processes", (int)process_table__count(e->processes), "max_targets",
		ENGINE_MAX_TARGETS, "mechanisms", sampler__mechanisms(e->sampler), "cpus", cpu_list(e),
		"unwind", unwind_figures(e), "cache", cache_figures(e), "bpf",
		json_pack("{s:o, s:I}", "programs", sampler__programs(e->sampler), "table_bytes",
			  (json_int_t)sampler__table_bytes(e->sampler)),
		"daemon",
		json_pack("{s:f, s:I}", "cpu_s", engine_cpu_ns(e) / 1e9, "rss_bytes", (json_int_t)rss_bytes()));
	if (status && e->source_lines)
		json_object_set_new(status, "source_lines", source_line_figures(e));
	pthread_mutex_unlock(&e->lock);
	return status;
}
