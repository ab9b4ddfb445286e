// SPDX-License-Identifier: GPL-2.0-or-later
/* The figures of a target, and of the engine itself, as JSON. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "daemon/engine/engine_internal.h"
#include "daemon/engine/words.h"
#include "daemon/os/clock.h"

static uint64_t rss_bytes(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/statm", "re");
	unsigned long size, resident;

	return !f || fscanf(f, "%lu %lu", &size, &resident) != 2 ? 0 : (uint64_t)resident * sysconf(_SC_PAGESIZE);
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
static json_t *programs_since(const struct engine *e, const struct target *t)
{
	json_t *now = sampler__programs(e->sampler), *one;
	const char *name, *key;

	json_object_foreach (now, name, one) {
		json_t *before = json_object_get(t->programs_before, name), *value;

		json_object_foreach (one, key, value) {
			if (json_is_integer(value))
				json_integer_set(value, json_integer_value(value) -
								json_integer_value(json_object_get(before, key)));
		}
	}
	return now;
}

/* Of its own samples: what other targets cost, and clock events that hit none, is not its. */
static json_t *overhead(const struct engine_snapshot *s)
{
	uint64_t target_ns = s->slot.taken * s->period_ns;

	if (!target_ns)
		return json_null();
	return json_real(100.0 * (double)engine_cost_ns(s) / (double)target_ns);
}

/* What unwinding has in use. */
struct unwind_stats {
	struct file_registry_stats files;
	struct table_pool_stats pool;
};

static struct unwind_stats unwind_stats(const struct engine *e)
{
	return (struct unwind_stats){ file_registry__stats(e->files), table_pool__stats(e->pool) };
}

static json_t *unwind_figures(const struct unwind_stats *u)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "files", (json_int_t)u->files.files,
			 "retired", (json_int_t)u->files.retired, "freed", (json_int_t)u->files.freed, "released_bytes",
			 (json_int_t)u->pool.released, "rows", (json_int_t)u->pool.rows, "rules",
			 (json_int_t)u->pool.rules, "bytes", (json_int_t)u->pool.bytes, "compiled",
			 (json_int_t)u->files.compiled, "from_cache", (json_int_t)u->files.from_cache,
			 "damaged_entries", (json_int_t)u->files.bad_fdes, "unsupported_rows",
			 (json_int_t)u->files.unsupported_rows);
}

static json_t *python_figures(const struct engine_snapshot *s)
{
	const struct python_facts *p = &s->python;
	json_t *versions = json_array(), *all;
	char version[16];

	for (unsigned i = 0; i < TARGET_MAX_PYTHONS && p->versions[i]; i++) {
		engine_python_version(p->versions[i], version);
		json_array_append_new(versions, json_string(version));
	}
	all = json_pack("{s:o, s:I, s:I, s:I, s:I, s:o, s:I, s:I}", "versions", versions, "samples",
			(json_int_t)accumulator__python_samples(&s->acc), "complete", (json_int_t)s->acc.python_named,
			"gil", (json_int_t)s->acc.gil, "no_gil", (json_int_t)s->acc.no_gil, "truncated",
			figures((const __u64 *)s->acc.python, python_words, SO_PYTHON_STATE_COMPLETE + 1,
				SO_PYTHON_STATE_COUNT),
			"stale_frames", (json_int_t)p->names.stale, "unreadable_frames",
			(json_int_t)p->names.unreadable);
	if (all && p->problem[0])
		json_object_set_new(all, "problem", json_string(p->problem));
	return all;
}

/* What the figures of a target are made of. */
struct stats {
	struct engine_snapshot target; /* acc: figures */
	json_t *programs;
	struct unwind_stats unwind;
};

static int take_stats(struct engine *e, uint32_t id, struct stats *s, struct so_error *err)
{
	struct target *t = targets__find(&e->targets, id);

	if (!t)
		return so_err(err, -ENOENT, "there is no target %u", id);
	if (t->info.state == TARGET_SAMPLING)
		collector__drain_unless_fresh(&e->collector);
	if (samples__figures(&t->samples, &s->target.acc))
		return so_err(err, -ENOMEM, "out of memory");
	engine_fill_snapshot(t, &s->target);
	s->programs = programs_since(e, t);
	s->unwind = unwind_stats(e);
	return 0;
}

/* Takes the reference of the programs. */
static json_t *stats_json(struct engine *e, const struct stats *all)
{
	const struct engine_snapshot *s = &all->target;
	const struct accumulator *acc = &s->acc;
	json_t *stats;

	stats = json_pack("{s:f, s:i, s:I, s:I, s:I, s:o, s:o, s:I, s:o, s:o, s:f, s:o, s:o, s:i}", "duration_s",
			  s->duration_ns / 1e9, "sample_hz", (int)s->info.rate_hz, "samples",
			  (json_int_t)(acc->samples + s->lost), "taken", (json_int_t)s->slot.taken, "complete",
			  (json_int_t)acc->truncated[SO_TRUNC_NONE], "truncated",
			  figures((const __u64 *)acc->truncated, truncation_words, SO_TRUNC_NONE + 1, SO_TRUNC_COUNT),
			  "lost", figures(s->slot.lost, loss_words, 0, SO_LOSS_COUNT), "frame_pointer",
			  (json_int_t)acc->frame_pointer, "bpf", json_pack("{s:o}", "programs", all->programs),
			  "unwind", unwind_figures(&all->unwind), "attach_ms", s->attach_ns / 1e6, "daemon",
			  json_pack("{s:f, s:I}", "cpu_s", (engine_cpu_ns(e) - s->cpu_ns_before) / 1e9, "rss_bytes",
				    (json_int_t)rss_bytes()),
			  "overhead_percent", overhead(s), "processes", (int)s->seen_processes);
	if (stats && python_facts__any(&s->python))
		json_object_set_new(stats, "python", python_figures(s));
	return stats;
}

json_t *engine__stats(struct engine *e, uint32_t id, struct so_error *err)
{
	struct stats s = { 0 };
	json_t *stats;
	int ret;

	pthread_mutex_lock(&e->lock);
	ret = take_stats(e, id, &s, err);
	pthread_mutex_unlock(&e->lock);
	if (ret)
		return NULL;
	stats = stats_json(e, &s);
	engine_release_snapshot(e, &s.target);
	if (!stats)
		so_err(err, -ENOMEM, "out of memory");
	return stats;
}

json_t *engine__cost(struct engine *e, uint32_t id)
{
	struct engine_snapshot s = { 0 };
	json_t *cuda = NULL;
	struct target *t;
	size_t bytes = 0;

	pthread_mutex_lock(&e->lock);
	t = targets__find(&e->targets, id);
	if (t) {
		/* A view that goes on has its samples in its target. */
		engine_fill_snapshot(t, &s);
		cuda = cuda_targets__overhead(target__proper(t));
		bytes = target__bytes(target__proper(t));
	}
	pthread_mutex_unlock(&e->lock);
	return t ? json_pack("{s:o, s:o, s:I}", "overhead_percent", overhead(&s), "cuda_overhead_percent", cuda,
			     "sample_bytes", (json_int_t)bytes)
		 : NULL;
}

static json_t *source_line_figures(struct engine *e)
{
	struct source_lines_stats stats = source_lines__stats(e->source_lines);

	return json_pack("{s:I, s:I, s:I, s:f, s:I}", "files", (json_int_t)stats.files, "failed_files",
			 (json_int_t)stats.failed, "addresses", (json_int_t)stats.read, "cpu_s",
			 (double)stats.cpu_ns / 1e9, "reader_bytes", (json_int_t)stats.bytes);
}

static json_t *mechanisms(struct engine *e)
{
	json_t *all = sampler__mechanisms(e->sampler);
	char text[256];

	mapping_watch__mechanism(&e->mappings, text, sizeof(text));
	if (all)
		json_object_set_new(all, "mappings", json_string(text));
	return all;
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
	const struct target *t;
	struct unwind_stats unwind;
	unsigned targets = 0;
	json_t *status;

	pthread_mutex_lock(&e->lock);
	file_life__count(&e->file_life);
	TARGETS_EACH(t, &e->targets)
	targets += !t->doomed && !t->view;
	limits__set(LIMIT_VIEWS, targets__count(&e->targets, true));
	unwind = unwind_stats(e);
	status = json_pack(
		"{s:s, s:i, s:f, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "version", STAKEOUT_VERSION, "pid",
		(int)getpid(), "uptime_s", (clock__now_ns() - e->started_ns) / 1e9, "targets", (int)targets,
		"processes", (int)process_table__count(e->processes), "max_targets", ENGINE_MAX_TARGETS, "mechanisms",
		mechanisms(e), "cpus", cpu_list(e), "unwind", unwind_figures(&unwind), "cache", cache_figures(e), "bpf",
		json_pack("{s:o, s:I}", "programs", sampler__programs(e->sampler), "table_bytes",
			  (json_int_t)sampler__table_bytes(e->sampler)),
		"daemon",
		json_pack("{s:f, s:I}", "cpu_s", engine_cpu_ns(e) / 1e9, "rss_bytes", (json_int_t)rss_bytes()));
	if (status && e->source_lines)
		json_object_set_new(status, "source_lines", source_line_figures(e));
	pthread_mutex_unlock(&e->lock);
	return status;
}
