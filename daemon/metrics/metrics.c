// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/metrics/metrics.h"

#include <errno.h>
#include <string.h>

#include "daemon/metrics/metrics_text.h"
#include "stakeout/abi.h"

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

static const char *const state_words[] = {
	[TARGET_ATTACHING] = "attaching",
	[TARGET_SAMPLING] = "sampling",
	[TARGET_ENDED] = "ended",
};

/*
 * Everything that one scrape shows, taken before anything is printed: a family's samples of all targets lie together.
 */
struct scrape {
	json_t *status;
	struct metrics_target targets[METRICS_MAX_TARGETS];
	size_t n, left_out;
};

static void scrape__free(struct scrape *s)
{
	json_decref(s->status);
	for (size_t i = 0; i < s->n; i++) {
		json_decref(s->targets[i].stats);
		json_decref(s->targets[i].cuda);
	}
	free(s);
}
CLEANUP_DEFINE(struct scrape *, scrape, scrape__free)

static void take_target(struct engine *engine, const struct target_info *info, struct scrape *s)
{
	struct metrics_target *t = &s->targets[s->n];
	json_t *stats = engine__stats(engine, info->id, NULL);

	if (!stats)
		return;
	*t = (struct metrics_target){ .info = *info, .stats = stats };
	snprintf(t->id, sizeof(t->id), "%u", info->id);
	snprintf(t->pid, sizeof(t->pid), "%d", info->pid);
	memcpy(t->comm, info->comm, sizeof(info->comm));
	if (engine__cuda_calls(engine, info->id, &t->cuda, NULL))
		t->cuda = NULL;
	s->n++;
}

static void print_one(FILE *out, const char *name, const char *type, const char *help, const json_t *value)
{
	if (!json_is_number(value))
		return;
	metrics_text__family(out, name, type, help);
	metrics_text__sample(out, name, NULL, 0, json_number_value(value));
}

static void print_programs(FILE *out, json_t *programs, const char *name, const char *help, const char *field,
			   double unit)
{
	const char *program;
	json_t *figures;

	metrics_text__family(out, name, "counter", help);
	json_object_foreach (programs, program, figures) {
		const json_t *value = json_object_get(figures, field);

		if (json_is_number(value))
			metrics_text__sample(out, name, &(struct metrics_label){ "program", program }, 1,
					     json_number_value(value) * unit);
	}
}

static void print_daemon(FILE *out, json_t *status)
{
	const char *version = json_string_value(json_object_get(status, "version"));
	json_t *daemon = json_object_get(status, "daemon"), *unwind = json_object_get(status, "unwind");
	json_t *programs = json_object_get(json_object_get(status, "bpf"), "programs");

	metrics_text__family(out, "stakeout_build_info", "gauge", "Always 1; the version of the daemon.");
	metrics_text__sample(out, "stakeout_build_info", &(struct metrics_label){ "version", version ? version : "" },
			     1, 1);
	print_one(out, "stakeout_uptime_seconds", "gauge", "Since the daemon loaded its programs.",
		  json_object_get(status, "uptime_s"));
	print_one(out, "stakeout_daemon_cpu_seconds_total", "counter", "CPU time of the daemon itself.",
		  json_object_get(daemon, "cpu_s"));
	print_one(out, "stakeout_daemon_resident_memory_bytes", "gauge", "Resident memory of the daemon.",
		  json_object_get(daemon, "rss_bytes"));
	print_one(out, "stakeout_unwind_tables_bytes", "gauge", "Unwind tables in memory.",
		  json_object_get(unwind, "bytes"));
	print_one(out, "stakeout_processes", "gauge", "Processes watched, of all targets of all users.",
		  json_object_get(status, "processes"));
	print_programs(out, programs, "stakeout_bpf_runs_total",
		       "Runs of an eBPF program, those that found no target among them.", "run_count", 1);
	print_programs(out, programs, "stakeout_bpf_run_seconds_total",
		       "Time in an eBPF program. The rate of those named sample*, over the rate of "
		       "stakeout_target_samples_total of all targets, is the time a sample.",
		       "run_ns", 1e-9);
}

static void print_states(FILE *out, const struct scrape *s)
{
	unsigned counts[TARGET_ENDED + 1] = { 0 };

	for (size_t i = 0; i < s->n; i++)
		if ((unsigned)s->targets[i].info.state <= TARGET_ENDED)
			counts[s->targets[i].info.state]++;
	metrics_text__family(out, "stakeout_targets", "gauge", "Targets that the caller may see, by state.");
	for (unsigned i = 0; i <= TARGET_ENDED; i++)
		metrics_text__sample(out, "stakeout_targets", &(struct metrics_label){ "state", state_words[i] }, 1,
				     counts[i]);
	metrics_text__family(out, "stakeout_targets_left_out", "gauge",
			     "Targets that are not here because there are more than 64.");
	metrics_text__sample(out, "stakeout_targets_left_out", NULL, 0, (double)s->left_out);
}

static void print_target(FILE *out, const char *name, const struct metrics_target *t, const char *cause, double value)
{
	const struct metrics_label labels[] = {
		{ "id", t->id }, { "pid", t->pid }, { "comm", t->comm }, { cause ? "cause" : NULL, cause }
	};

	metrics_text__sample(out, name, labels, sizeof(labels) / sizeof(labels[0]), value);
}

/* Figures of a target that are one number in its stats; null and absent ones have no sample. */
static const struct figure {
	const char *name, *type, *help, *field;
	double unit;
} figures[] = {
	{ "stakeout_target_samples_total", "counter", "Samples taken, lost ones included.", "samples", 1 },
	{ "stakeout_target_complete_samples_total", "counter",
	  "Samples whose stack reaches the thread's outermost frame.", "complete", 1 },
	{ "stakeout_target_elapsed_seconds", "gauge", "Time during which the target was sampled.", "duration_s", 1 },
	{ "stakeout_target_sample_rate_hertz", "gauge", "Samples asked for, a second of CPU time.", "sample_hz", 1 },
	{ "stakeout_target_attach_seconds", "gauge", "From the request to the first possible sample.", "attach_ms",
	  1e-3 },
	{ "stakeout_target_overhead_ratio", "gauge",
	  "Time of eBPF programs and interrupts, as a share of the target's CPU time, since it was attached.",
	  "overhead_percent", 1e-2 },
};

static void print_figures(FILE *out, const struct scrape *s)
{
	for (size_t f = 0; f < sizeof(figures) / sizeof(figures[0]); f++) {
		const struct figure *figure = &figures[f];

		metrics_text__family(out, figure->name, figure->type, figure->help);
		for (size_t i = 0; i < s->n; i++) {
			const json_t *value = json_object_get(s->targets[i].stats, figure->field);

			if (json_is_number(value))
				print_target(out, figure->name, &s->targets[i], NULL,
					     json_number_value(value) * figure->unit);
		}
	}
	metrics_text__family(out, "stakeout_target_processes", "gauge", "Processes of the target that live now.");
	for (size_t i = 0; i < s->n; i++)
		print_target(out, "stakeout_target_processes", &s->targets[i], NULL, s->targets[i].info.processes);
}

/*
 * All causes, also those that the stats leave out because they are 0: a rate needs the series before its first event.
 */
static void print_causes(FILE *out, const struct scrape *s, const char *name, const char *help, const char *field,
			 const char *const *words, unsigned from, unsigned to)
{
	metrics_text__family(out, name, "counter", help);
	for (size_t i = 0; i < s->n; i++) {
		const json_t *causes = json_object_get(s->targets[i].stats, field);

		for (unsigned c = from; c < to; c++)
			print_target(out, name, &s->targets[i], words[c],
				     json_number_value(json_object_get(causes, words[c])));
	}
}

/* Of those that are attached with `memory`; deriv() of the anonymous kind is the growth. */
static void print_memory(FILE *out, const struct scrape *s)
{
	static const char name[] = "stakeout_target_memory_bytes";

	metrics_text__family(out, name, "gauge",
			     "Memory of the target's processes, by kind; what is shared counts in each of them.");
	for (size_t i = 0; i < s->n; i++) {
		const struct metrics_target *t = &s->targets[i];
		const struct target_memory_now *m = &t->info.memory;
		const struct {
			const char *kind;
			uint64_t bytes;
		} kinds[] = {
			{ "anonymous", m->anonymous },
			{ "file", m->file },
			{ "shared", m->shared },
			{ "swapped", m->swapped },
		};

		for (size_t k = 0; m->known && k < sizeof(kinds) / sizeof(kinds[0]); k++)
			metrics_text__sample(out, name,
					     (struct metrics_label[]){ { "id", t->id },
								       { "pid", t->pid },
								       { "comm", t->comm },
								       { "kind", kinds[k].kind } },
					     4, (double)kinds[k].bytes);
	}
}

static int print(FILE *out, const struct scrape *s, const struct metrics_more *more)
{
	print_daemon(out, s->status);
	print_states(out, s);
	if (more->has_rules)
		metrics_labels__print_rules(more->rules, more->n_rules, out);
	metrics_labels__print(s->targets, s->n, out);
	print_figures(out, s);
	print_causes(out, s, "stakeout_target_lost_samples_total", "Samples that are in no profile, by cause.", "lost",
		     loss_words, 0, SO_LOSS_COUNT);
	print_causes(out, s, "stakeout_target_truncated_samples_total",
		     "Samples whose stack ends before the thread's outermost frame, by cause.", "truncated",
		     truncation_words, SO_TRUNC_NONE + 1, SO_TRUNC_COUNT);
	print_memory(out, s);
	if (more->categories)
		metrics_categories__print(more->categories, s->targets, s->n, out);
	return metrics_cuda__print(s->targets, s->n, out);
}

int metrics__text(struct engine *engine, const struct target_info *targets, size_t n, const struct metrics_more *more,
		  char **out, size_t *length)
{
	_cleanup_(scrape) struct scrape *s = calloc(1, sizeof(*s));
	_cleanup_free_ char *text = NULL;
	size_t bytes = 0;
	FILE *f;
	int ret;

	if (!s)
		return -ENOMEM;
	for (size_t i = 0; i < n && i < METRICS_MAX_TARGETS; i++)
		take_target(engine, &targets[i], s);
	s->left_out = n > METRICS_MAX_TARGETS ? n - METRICS_MAX_TARGETS : 0;
	s->status = engine__status(engine);
	f = s->status ? open_memstream(&text, &bytes) : NULL;
	if (!f)
		return -ENOMEM;
	ret = print(f, s, more);
	if (ferror(f))
		ret = -ENOMEM;
	if (fclose(f) || ret)
		return -ENOMEM;
	*out = TAKE_PTR(text);
	*length = bytes;
	return 0;
}
