/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The summary, and the few lines of it that end a recording. What was not measured is said to be so, never a 0. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "client/render/lines_missing.h"
#include "client/summary/summary.h"
#include "client/summary/summary_own.h"
#include "client/summary/summary_parts.h"
#include "client/summary/summary_tables.h"
#include "stakeout/intern.h"

/* Distinct processes and threads by their labels; 0 processes: there are no labels. */
static int count_threads(const struct profile *profile, size_t *processes, size_t *threads)
{
	struct intern pids = { .n_keys = 0 }, tids = { .n_keys = 0 };
	uint32_t number;
	int ret = 0;

	for (size_t i = 0; ret >= 0 && i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		const int64_t both[2] = { sample->pid, sample->tid };

		if (!sample->pid || !sample->count)
			continue;
		ret = intern__add(&pids, &both[0], sizeof(both[0]), &number);
		if (ret >= 0 && sample->tid)
			ret = intern__add(&tids, both, sizeof(both), &number);
	}
	*processes = pids.n_keys;
	*threads = tids.n_keys;
	intern__clear(&pids);
	intern__clear(&tids);
	return ret < 0 ? ret : 0;
}

static int64_t total_count(const struct profile *profile)
{
	int64_t total = 0;

	for (size_t i = 0; i < profile->n_samples; i++)
		total += profile->samples[i].count;
	return total;
}

static double cpu_seconds(const struct profile *profile)
{
	double ns = 0;

	for (size_t i = 0; i < profile->n_samples; i++)
		ns += (double)profile->samples[i].value_ns;
	return ns / 1e9;
}

/* Of a profile of CUDA calls, which are counted and not sampled; else NULL. */
static const char *event_of(const struct profile *profile)
{
	return profile__comment(profile, "event");
}

static void print_duration(const struct profile *profile, const json_t *stats, FILE *out)
{
	double seconds = (double)profile->duration_ns / 1e9, hz = 0;

	if (figures__number(stats, "duration_s", &seconds) || seconds > 0)
		fprintf(out, " in %.1f s", seconds);
	else
		fprintf(out, " in a time " NOT_MEASURED);
	if (event_of(profile))
		return;
	if (profile->period_ns)
		hz = 1e9 / (double)profile->period_ns;
	if (figures__number(stats, "sample_hz", &hz) || hz > 0)
		fprintf(out, " at %.*f Hz", fabs(hz - round(hz)) < 0.05 ? 0 : 1, hz);
	else
		fprintf(out, " at a rate " NOT_MEASURED);
}

/* Of the only process that there is. */
static int print_labels(const struct profile *profile, FILE *out)
{
	const char *rank = NULL, *container = NULL;

	for (size_t i = 0; i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];

		if (sample->rank && *sample->rank)
			rank = sample->rank;
		if (sample->container && *sample->container)
			container = sample->container;
	}
	return summary__print_labels(", ", rank, container, out);
}

static int print_head(const struct profile *profile, const json_t *stats, int64_t total, FILE *out)
{
	const char *event = event_of(profile);
	double cpu = cpu_seconds(profile);
	size_t processes, threads;
	int ret = count_threads(profile, &processes, &threads);

	if (ret < 0)
		return ret;
	if (profile->wall)
		fprintf(out, "%.2f s of wall time", (double)total / 1e6);
	else
		fprintf(out, "%" PRId64 " %s%s", total, event ? "call" : "sample", plural(total));
	if (event) {
		fprintf(out, " of ");
		summary__print_foreign(event, out);
	}
	print_duration(profile, stats, out);
	if (cpu > 0 && !profile->wall)
		fprintf(out, " (%.*f CPU s)", cpu < 100 ? 2 : 0, cpu);
	if (processes)
		fprintf(out, " of %zu process%s", processes, processes == 1 ? "" : "es");
	if (threads)
		fprintf(out, ", %zu thread%s", threads, plural((int64_t)threads));
	if (processes == 1)
		ret = print_labels(profile, out);
	fputc('\n', out);
	return ret;
}

/* A process that waits most of the time is asked about best in wall time. */
#define MOSTLY_WAITING 0.5

static void print_ran(const struct profile *profile, const json_t *stats, FILE *out)
{
	double seconds = (double)profile->duration_ns / 1e9, cpu = cpu_seconds(profile);

	figures__number(stats, "duration_s", &seconds);
	if (profile->wall || event_of(profile) || !(seconds > 0) || !profile__comment(profile, "pid") ||
	    cpu >= MOSTLY_WAITING * seconds)
		return;
	fprintf(out, "it ran %.2f s of %.1f s (%.0f %%); where it waits: stakeout record --wall\n", cpu, seconds,
		100 * cpu / seconds);
}

static void print_complete(const json_t *figures, int64_t total, double truncated, FILE *out)
{
	double complete;

	/* truncated < 0: unknown. */
	if (!figures__number(figures, "complete", &complete))
		complete = truncated >= 0 ? (double)total - truncated : -1;
	figures__print_complete(complete, truncated >= 0 ? complete + truncated : (double)total, out);
}

static int print_quality(const json_t *figures, int64_t total, FILE *out)
{
	_cleanup_free_ char *text = NULL;
	double truncated = -1, lost = 0;
	size_t length = 0;
	FILE *memory = open_memstream(&text, &length);
	int ret;

	if (!memory)
		return -ENOMEM;
	/* The sum of the causes is needed before they are written. */
	ret = figures__print_causes("truncated", json_object_get(figures, "truncated"), &truncated, memory);
	if (fclose(memory))
		ret = -ENOMEM;
	if (ret < 0)
		return ret;
	print_complete(figures, total, truncated, out);
	fprintf(out, "   %s   ", text);
	ret = figures__print_causes("lost", json_object_get(figures, "lost"), &lost, out);
	fputc('\n', out);
	return ret;
}

/* Time in the programs that take samples, in nanoseconds; those that follow forks and ends are not theirs. */
static bool bpf_time(const json_t *stats, double *ns)
{
	const json_t *programs = json_object_get(json_object_get(stats, "bpf"), "programs");
	double sum = 0, runs = 0, one_ns, one_runs;
	const char *name;
	json_t *program;

	json_object_foreach ((json_t *)programs, name, program) {
		if (strncmp(name, "sample", strlen("sample")) != 0)
			continue;
		if (!figures__number(program, "run_ns", &one_ns) || !figures__number(program, "run_count", &one_runs))
			continue;
		sum += one_ns;
		runs += one_runs;
	}
	/* Without a single run nothing was measured. */
	*ns = sum;
	return runs > 0;
}

static void print_share(double percent, FILE *out)
{
	if (percent > 0 && percent < 0.005)
		fprintf(out, "< 0.01 %%");
	else
		fprintf(out, "%.*f %%", percent < 1 ? 2 : 1, percent);
}

static void print_daemon_cost(const json_t *stats, FILE *out)
{
	const json_t *daemon = json_object_get(stats, "daemon");
	double cpu_s, rss_bytes, duration_s;
	bool cpu = figures__number(daemon, "cpu_s", &cpu_s) && figures__number(stats, "duration_s", &duration_s) &&
		   duration_s > 0;
	bool rss = figures__number(daemon, "rss_bytes", &rss_bytes);

	fprintf(out, "daemon ");
	if (cpu)
		fprintf(out, "%.1f %% of a core", 100 * cpu_s / duration_s);
	else if (rss)
		fprintf(out, "CPU " NOT_MEASURED);
	else
		fprintf(out, NOT_MEASURED);
	if (rss)
		fprintf(out, ", %.0f MB", rss_bytes / 1e6);
	else if (cpu)
		fprintf(out, ", memory " NOT_MEASURED);
}

/* Of which the daemon measured the cost. */
static int64_t stats_samples(const json_t *stats, int64_t total)
{
	double samples = (double)total;

	figures__number(stats, "samples", &samples);
	return (int64_t)samples;
}

/* As a profile's comments have it. */
static void print_kept_cost(const struct profile *profile, const json_t *figures, int64_t total, FILE *out)
{
	const char *probes = profile__comment(profile, "cuda.overhead_percent");
	double cpu_s = cpu_seconds(profile), cost_ns;

	fprintf(out, "cost: ");
	if (probes) {
		print_share(strtod(probes, NULL), out);
		fprintf(out, " of the target's time\n");
		return;
	}
	if (!figures__number(figures, "cost-ns", &cost_ns) || total <= 0 || !(cpu_s > 0)) {
		fprintf(out, NOT_MEASURED "\n");
		return;
	}
	if (!profile->wall)
		fprintf(out, "%.1f µs a sample, ", cost_ns / (double)total / 1e3);
	print_share(100 * cost_ns / 1e9 / cpu_s, out);
	fprintf(out, " of the target's CPU time\n");
}

static void print_cost(const json_t *stats, int64_t total, FILE *out)
{
	double bpf_ns, overhead;
	bool time = bpf_time(stats, &bpf_ns) && total > 0,
	     share = figures__number(stats, "overhead_percent", &overhead);

	fprintf(out, "cost: ");
	if (time)
		fprintf(out, "%.1f µs a sample, ", bpf_ns / (double)total / 1e3);
	else
		fprintf(out, "time a sample " NOT_MEASURED ", ");
	if (share)
		print_share(overhead, out);
	else
		fprintf(out, "share");
	fprintf(out, " of the target's CPU time%s; ", share ? "" : " " NOT_MEASURED);
	print_daemon_cost(stats, out);
	fputc('\n', out);
}

static void print_why_empty(const struct profile *profile, const json_t *figures, FILE *out)
{
	const json_t *losses = json_object_get(figures, "lost");
	const char *word;
	double lost = 0;
	json_t *value;

	json_object_foreach ((json_t *)losses, word, value)
		lost += json_number_value(value);
	if (profile__comment(profile, "watched"))
		fprintf(out, "The daemon watched nothing: 'stakeout attach -p PID' or 'stakeout attach --match RULE' "
			     "makes it watch.\n");
	else if (lost > 0)
		fprintf(out, "All samples were lost; the causes are above.\n");
	else
		fprintf(out, "The process was never seen running: it probably slept or waited (for I/O, a "
			     "lock, the GPU) "
			     "all the time.\nSampling sees only threads that are on a CPU.\n");
}

/* All tables, or those that end a recording. */
struct part_of_summary {
	const struct summary_request *request;
	bool all;
};

/* The user's own code first, mechanisms last. */
static int print_page(struct summary_tables *tables, const struct part_of_summary *part, FILE *out)
{
	const struct scope *scope = &tables->scope;
	int ret = phases__print(part->request->phases, scope, &tables->all_names, out);

	if (ret < 0)
		return ret;
	if (scope->idle.samples)
		fprintf(out, "\nBelow, what threads of pools waited for work is left out: %.1f %% of the whole.\n",
			summary__percent(&scope->idle, &scope->total));
	summary_own__print(&tables->own, scope, out);
	summary__totals(&tables->functions, scope, out);
	summary_categories__print(tables->categories, scope, out);
	rows__sort_by_self(&tables->functions);
	summary__functions(&tables->functions, scope, out);
	if (scope->style->details)
		summary__lines(&tables->lines, &tables->line_names, scope, out);
	summary__threads(&tables->threads, "thread", scope, out);
	ret = summary__processes(&tables->processes, scope, out);
	summary_categories__print_means(tables->categories, scope, out);
	return ret;
}

static int print_tables(struct summary_tables *tables, const struct part_of_summary *part, FILE *out)
{
	if (part->all)
		return print_page(tables, part, out);
	summary__functions(&tables->functions, &tables->scope, out);
	summary__lines(&tables->lines, &tables->line_names, &tables->scope, out);
	return 0;
}

static bool is_part(const struct render_options *options)
{
	return options->gil || options->only.n;
}

static int print_verdict(const struct summary_tables *tables, FILE *out)
{
	return summary_own__print_verdict(&tables->own, tables->categories, &tables->all_names, &tables->scope, out);
}

/* The tables, of the samples that the options let through. */
static int print_where(struct summary_tables *tables, const struct part_of_summary *part, FILE *out)
{
	int64_t taken = tables->scope.total.samples;
	int ret = 0;

	if (is_part(&part->request->render)) {
		fprintf(out, "of the %" PRId64 " sample%s %s:\n", taken, plural(taken),
			!part->request->render.only.n ? "that held the GIL"
			: part->request->render.gil   ? "of --only that held the GIL"
						      : "of --only");
		ret = print_verdict(tables, out);
	}
	return ret < 0 || !tables->scope.total.samples ? ret : print_tables(tables, part, out);
}

static void print_lines_missing(const struct profile *profile, FILE *out)
{
	json_t *figures = figures__from_comments(profile);
	char text[LINES_MISSING_TEXT_BYTES];
	double missing = 0;

	if (figures && figures__number(figures, LINES_MISSING_COMMENT, &missing) && missing >= 1)
		fprintf(out, "%s\n", lines_missing__text((uint64_t)missing, text));
	json_decref(figures);
}

/* What is summarised: whole, lost, at what cost. */
struct subject {
	const struct profile *profile;
	const json_t *stats;   /* NULL: a file alone */
	const json_t *figures; /* the same, or what the comments say */
	const json_t *same;    /* the stats, unless they are of more than the profile */
	int64_t total;
};

static int print_facts(const struct subject *of, FILE *out)
{
	double forgotten = 0;
	int ret = print_head(of->profile, of->same, of->total, out);

	if (figures__number(of->figures, "forgotten", &forgotten) && forgotten > 0)
		fprintf(out,
			"older: %.0f samples are in memory no more (--since 1h and the like read the "
			"history)\n",
			forgotten);
	print_lines_missing(of->profile, out);
	if (!ret && !event_of(of->profile))
		ret = print_quality(of->figures, of->total, out);
	ret = ret ?: summary__python(of->profile, of->same, of->figures, out);
	if (ret < 0)
		return ret;
	if (of->stats)
		print_cost(of->stats, stats_samples(of->stats, of->total), out);
	else
		print_kept_cost(of->profile, of->figures, of->total, out);
	return summary__python_threads(of->profile, of->total, out);
}

/* A page ends with what it was made of; the end of a recording begins with it. */
static int print_parts(struct summary_tables *tables, const struct subject *of, const struct part_of_summary *part,
		       FILE *out)
{
	bool page = part->all && of->total > 0;
	int ret = 0;

	summary_wall__print(tables->wall, out);
	if (!is_part(&part->request->render) && !of->profile->wall)
		ret = print_verdict(tables, out);
	if (!ret && of->total > 0) {
		print_ran(of->profile, of->same, out);
		summary__jit(of->profile, of->total, out);
	}
	if (!ret && !page)
		ret = print_facts(of, out);
	if (!ret && of->total > 0)
		ret = print_where(tables, part, out);
	else if (!ret)
		print_why_empty(of->profile, of->figures, out);
	if (ret || !page)
		return ret;
	summary__title(&tables->scope, "What this was made of", out);
	return print_facts(of, out);
}

static int print_all(const struct profile *profile, const json_t *stats, const json_t *figures,
		     const struct part_of_summary *part, FILE *out)
{
	_cleanup_(summary_tables) struct summary_tables *tables = &(struct summary_tables){ .categories = NULL };
	/* The daemon's figures are of all since the target was attached. */
	double forgotten = 0;
	const struct subject of = { profile, stats, figures,
				    figures__number(figures, "forgotten", &forgotten) ? NULL : stats,
				    total_count(profile) };
	int ret = summary_tables__init(profile, part->request, tables);

	return ret < 0 ? ret : print_parts(tables, &of, part, out);
}

static int print(const struct profile *profile, const json_t *stats, const struct part_of_summary *part, FILE *out,
		 struct so_error *err)
{
	json_t *kept = figures__of(profile, stats);
	int ret = print_all(profile, stats, kept ? kept : stats, part, out);

	json_decref(kept);
	if (ret == -EFBIG)
		return so_err(err, ret, "cannot summarise: the profile's names are too long");
	if (ret < 0)
		return so_err(err, ret, "cannot summarise: not enough memory");
	errno = 0;
	if (fflush(out) || ferror(out))
		return so_err(err, -EIO, "cannot write the summary: %s", strerror(errno ? errno : EIO));
	return 0;
}

int summary__print(const struct profile *profile, const json_t *stats, const struct summary_request *request, FILE *out,
		   struct so_error *err)
{
	return print(profile, stats, &(struct part_of_summary){ request, true }, out, err);
}

/* By the shipped rules alone, without phases. */
static int print_plain(const struct profile *profile, const json_t *stats, const struct render_options *options,
		       bool all, FILE *out, struct so_error *err)
{
	_cleanup_(category_rules) struct category_rules *rules = NULL;
	struct summary_request request = {
		.render = *options,
		.style = { .page = all, .details = true, .top = SUMMARY_TOP_ROWS },
	};
	int ret = category_rules__load(NULL, &rules, err);

	request.rules = rules;
	return ret ? ret : print(profile, stats, &(struct part_of_summary){ &request, all }, out, err);
}

int render__summary_of(const struct profile *profile, const json_t *stats, const struct render_options *options,
		       FILE *out, struct so_error *err)
{
	return print_plain(profile, stats, options, true, out, err);
}

int render__summary(const struct profile *profile, const json_t *stats, FILE *out, struct so_error *err)
{
	static const struct render_options all = { .gil = false };

	return print_plain(profile, stats, &all, false, out, err);
}
