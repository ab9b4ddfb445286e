/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The few lines at the end of a recording: how much was sampled, how well, at what cost, and where the time went.
 * What was not measured is said to be so; it is never shown as 0.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/frame_text.h"
#include "client/render.h"
#include "stakeout/array.h"
#include "stakeout/intern.h"
#include "stakeout/utf8.h"

#define TOP_FUNCTIONS     10
#define NAME_COLUMNS      100
#define TEXT_BUDGET_BYTES ((size_t)4 << 30) /* of names read, as in folded.c */
#define NOT_MEASURED      "not measured"

/* A figure of the `--stats` object. false: absent, null or no number. */
static bool figure(const json_t *object, const char *key, double *out)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_number(value))
		return false;
	*out = json_number_value(value);
	return isfinite(*out);
}

static const char *plural(int64_t n)
{
	return n == 1 ? "" : "s";
}

/* Distinct processes and threads by their labels; 0 processes: there are no labels. */
static int count_threads(const struct profile *profile, size_t *processes, size_t *threads)
{
	struct intern pids = { .n_keys = 0 }, tids = { .n_keys = 0 };
	uint32_t number;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		const int64_t both[2] = { sample->pid, sample->tid };

		if (!sample->pid || !sample->count)
			continue;
		r = intern__add(&pids, &both[0], sizeof(both[0]), &number);
		if (r >= 0 && sample->tid)
			r = intern__add(&tids, both, sizeof(both), &number);
	}
	*processes = pids.n_keys;
	*threads = tids.n_keys;
	intern__clear(&pids);
	intern__clear(&tids);
	return r < 0 ? r : 0;
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

static void print_duration(const struct profile *profile, const json_t *stats, FILE *out)
{
	double seconds = (double)profile->duration_ns / 1e9, hz = 0;

	if (figure(stats, "duration_s", &seconds) || seconds > 0)
		fprintf(out, " in %.1f s", seconds);
	else
		fprintf(out, " in a time " NOT_MEASURED);
	if (profile->period_ns)
		hz = 1e9 / (double)profile->period_ns;
	if (figure(stats, "sample_hz", &hz) || hz > 0)
		fprintf(out, " at %.*f Hz", fabs(hz - round(hz)) < 0.05 ? 0 : 1, hz);
	else
		fprintf(out, " at a rate " NOT_MEASURED);
}

static int print_head(const struct profile *profile, const json_t *stats, int64_t total, FILE *out)
{
	double cpu = cpu_seconds(profile);
	size_t processes, threads;
	int r = count_threads(profile, &processes, &threads);

	if (r < 0)
		return r;
	fprintf(out, "%" PRId64 " sample%s", total, plural(total));
	print_duration(profile, stats, out);
	if (cpu > 0)
		fprintf(out, " (%.*f CPU s)", cpu < 100 ? 2 : 0, cpu);
	if (processes)
		fprintf(out, " of %zu process%s", processes, processes == 1 ? "" : "es");
	if (threads)
		fprintf(out, ", %zu thread%s", threads, plural((int64_t)threads));
	fputc('\n', out);
	return 0;
}

struct cause {
	const char *word;
	double n;
};

static int compare_causes(const void *a, const void *b)
{
	const struct cause *x = a, *y = b;

	if (x->n != y->n)
		return x->n < y->n ? 1 : -1;
	return strcmp(x->word, y->word);
}

/* "truncated 3: no-rules 2, depth 1". causes: an object of numbers; *sum is their sum, untouched without one. */
static int print_causes(const char *what, const json_t *causes, double *sum, FILE *out)
{
	_cleanup_free_ struct cause *list = NULL;
	const char *word;
	double total = 0;
	size_t n = 0;
	json_t *value;

	if (!json_is_object(causes)) {
		fprintf(out, "%s " NOT_MEASURED, what);
		return 0;
	}
	list = calloc(json_object_size(causes) + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	json_object_foreach ((json_t *)causes, word, value) {
		if (!json_is_number(value) || !(json_number_value(value) > 0))
			continue;
		list[n++] = (struct cause){ word, json_number_value(value) };
		total += json_number_value(value);
	}
	qsort(list, n, sizeof(*list), compare_causes);
	fprintf(out, "%s %.0f", what, total);
	for (size_t i = 0; i < n; i++)
		fprintf(out, "%s %s %.0f", i ? "," : ":", list[i].word, list[i].n);
	*sum = total;
	return 0;
}

/* "PREFIX.CAUSE=N" of a comment goes to causes[CAUSE]. What stakeout would not have written is passed over. */
static void take_cause(json_t *causes, const char *prefix, const char *comment)
{
	size_t skip = strlen(prefix), n;
	char word[64], *end;
	long long value;

	if (strncmp(comment, prefix, skip))
		return;
	n = strspn(comment + skip, "abcdefghijklmnopqrstuvwxyz0123456789-");
	if (!n || n >= sizeof(word) || comment[skip + n] != '=')
		return;
	snprintf(word, sizeof(word), "%.*s", (int)n, comment + skip);
	errno = 0;
	value = strtoll(comment + skip + n + 1, &end, 10);
	if (!errno && !*end && value >= 0)
		json_object_set_new(causes, word, json_integer(value));
}

/*
 * The part of the figures that the daemon keeps in the profile itself, as comments (.design/profile-format.md):
 * "complete", and each cause that occurred. New reference; NULL when there is no "complete": another tool's profile
 * says nothing about its stacks.
 */
static json_t *figures_in_comments(const struct profile *profile)
{
	json_t *figures = json_object(), *truncated = json_object(), *lost = json_object();

	for (size_t i = 0; i < profile->n_comments; i++) {
		take_cause(figures, "stakeout.", profile->comments[i]);
		take_cause(truncated, "stakeout.truncated.", profile->comments[i]);
		take_cause(lost, "stakeout.lost.", profile->comments[i]);
	}
	json_object_set_new(figures, "truncated", truncated);
	json_object_set_new(figures, "lost", lost);
	if (json_object_get(figures, "complete"))
		return figures;
	json_decref(figures);
	return NULL;
}

static void print_complete(const json_t *figures, int64_t total, double truncated, FILE *out)
{
	double complete, all, percent;

	/* truncated < 0: unknown. */
	if (!figure(figures, "complete", &complete))
		complete = truncated >= 0 ? (double)total - truncated : -1;
	all = truncated >= 0 ? complete + truncated : (double)total;
	if (complete < 0 || !(all > 0)) {
		fprintf(out, "complete " NOT_MEASURED);
		return;
	}
	percent = 100 * complete / all;
	/* 100.0 means all of them. */
	if (complete < all && percent > 99.9)
		percent = 99.9;
	fprintf(out, "complete %.1f %%", percent);
}

static int print_quality(const json_t *figures, int64_t total, FILE *out)
{
	_cleanup_free_ char *text = NULL;
	double truncated = -1, lost = 0;
	size_t length = 0;
	FILE *memory = open_memstream(&text, &length);
	int r;

	if (!memory)
		return -ENOMEM;
	/* The sum of the causes is needed before they are written. */
	r = print_causes("truncated", json_object_get(figures, "truncated"), &truncated, memory);
	if (fclose(memory))
		r = -ENOMEM;
	if (r < 0)
		return r;
	print_complete(figures, total, truncated, out);
	fprintf(out, "   %s   ", text);
	r = print_causes("lost", json_object_get(figures, "lost"), &lost, out);
	fputc('\n', out);
	return r;
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
		if (!figure(program, "run_ns", &one_ns) || !figure(program, "run_count", &one_runs))
			continue;
		sum += one_ns;
		runs += one_runs;
	}
	/* Without a single run the kernel's statistics were off. */
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
	bool cpu =
		figure(daemon, "cpu_s", &cpu_s) && figure(stats, "duration_s", &duration_s) && duration_s > 0;
	bool rss = figure(daemon, "rss_bytes", &rss_bytes);

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

static void print_cost(const json_t *stats, int64_t total, FILE *out)
{
	double bpf_ns, overhead;
	bool time = bpf_time(stats, &bpf_ns) && total > 0, share = figure(stats, "overhead_percent", &overhead);

	fprintf(out, "cost: ");
	if (!stats) {
		fprintf(out, NOT_MEASURED "\n");
		return;
	}
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

struct self_time {
	const char *text; /* not terminated */
	size_t length;
	int64_t count;
};

static int compare_self(const void *a, const void *b)
{
	const struct self_time *x = a, *y = b;
	size_t n = x->length < y->length ? x->length : y->length;
	int r;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	r = memcmp(x->text, y->text, n);
	return r ? r : (x->length > y->length) - (x->length < y->length);
}

/* Samples by innermost line; the last element is for those without a stack. */
static int64_t *self_by_line(const struct profile *profile)
{
	int64_t *self = calloc(profile->n_lines + 1, sizeof(*self));

	for (size_t i = 0; self && i < profile->n_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];

		self[sample->n_lines ? sample->lines[0] : profile->n_lines] += sample->count;
	}
	return self;
}

static int group_by_function(const struct profile *profile, const int64_t *self, struct intern *functions,
			     int64_t **counts)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	struct profile_line none = { .function = "[no stack]", .filename = "", .mapping = "" };
	size_t capacity = 0, text_bytes = 0;
	uint32_t number;
	int r;

	for (size_t i = 0; i <= profile->n_lines; i++) {
		if (!self[i])
			continue;
		text->length = 0;
		r = frame_text__function(i < profile->n_lines ? &profile->lines[i] : &none, text);
		if (r < 0)
			return r;
		text_bytes += text->length;
		if (text_bytes > TEXT_BUDGET_BYTES)
			return -EFBIG;
		if (ARRAY_RESERVE(*counts, capacity, functions->n_keys + 1))
			return -ENOMEM;
		r = intern__add(functions, text->bytes, text->length, &number);
		if (r < 0)
			return r;
		(*counts)[number] = (r ? 0 : (*counts)[number]) + self[i];
	}
	return 0;
}

/* A long name loses its middle: C++ keeps the scope in front and the arguments behind. The text is valid UTF-8. */
static void print_name(const char *text, size_t length, FILE *out)
{
	const size_t tail = NAME_COLUMNS / 3, head = NAME_COLUMNS - 1 - tail;
	size_t columns = 0, head_end = 0, tail_begin = 0;

	for (size_t i = 0; i < length; i += utf8__sequence(text + i, length - i))
		columns++;
	if (columns <= NAME_COLUMNS) {
		fwrite(text, 1, length, out);
		return;
	}
	for (size_t i = 0, column = 0; column < columns - tail; column++) {
		i += utf8__sequence(text + i, length - i);
		if (column + 1 == head)
			head_end = i;
		tail_begin = i;
	}
	fprintf(out, "%.*s…", (int)head_end, text);
	fwrite(text + tail_begin, 1, length - tail_begin, out);
}

static void print_function(const struct self_time *function, int64_t total, FILE *out)
{
	double low, high;
	char interval[32];

	wilson_interval((uint64_t)function->count, (uint64_t)total, &low, &high);
	snprintf(interval, sizeof(interval), "[%4.1f, %4.1f]", 100 * low, 100 * high);
	fprintf(out, "%5.1f %%  %-15s  ", 100 * (double)function->count / (double)total, interval);
	print_name(function->text, function->length, out);
	fputc('\n', out);
}

static int print_functions(const struct intern *functions, const int64_t *counts, int64_t total, FILE *out)
{
	size_t n = functions->n_keys;
	_cleanup_free_ struct self_time *list = calloc(n + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		list[i] = (struct self_time){ intern__key(functions, i), intern__length(functions, i),
					      counts[i] };
	qsort(list, n, sizeof(*list), compare_self);
	fprintf(out, "   self  [95 %% interval]  function (file)\n");
	for (size_t i = 0; i < n && i < TOP_FUNCTIONS; i++)
		print_function(&list[i], total, out);
	if (n > TOP_FUNCTIONS)
		fprintf(out, "and %zu more function%s\n", n - TOP_FUNCTIONS,
			plural((int64_t)(n - TOP_FUNCTIONS)));
	return 0;
}

static int print_self(const struct profile *profile, int64_t total, FILE *out)
{
	_cleanup_free_ int64_t *self = self_by_line(profile);
	_cleanup_free_ int64_t *counts = NULL;
	struct intern functions = { .n_keys = 0 };
	int r;

	if (!self)
		return -ENOMEM;
	r = group_by_function(profile, self, &functions, &counts);
	if (!r)
		r = print_functions(&functions, counts, total, out);
	intern__clear(&functions);
	return r;
}

static void print_why_empty(const json_t *figures, FILE *out)
{
	const json_t *losses = json_object_get(figures, "lost");
	const char *word;
	double lost = 0;
	json_t *value;

	json_object_foreach ((json_t *)losses, word, value)
		lost += json_number_value(value);
	if (lost > 0)
		fprintf(out, "All samples were lost; the causes are above.\n");
	else
		fprintf(out, "The process was never seen running: it probably slept or waited (for I/O, a "
			     "lock, the GPU) "
			     "all the time.\nSampling sees only threads that are on a CPU.\n");
}

static int print_all(const struct profile *profile, const json_t *stats, const json_t *figures, FILE *out)
{
	int64_t total = total_count(profile);
	int r = print_head(profile, stats, total, out);

	if (!r)
		r = print_quality(figures, total, out);
	if (r < 0)
		return r;
	print_cost(stats, total, out);
	if (total > 0)
		return print_self(profile, total, out);
	print_why_empty(figures, out);
	return 0;
}

int render__summary(const struct profile *profile, const json_t *stats, FILE *out, struct so_error *err)
{
	json_t *kept = stats ? NULL : figures_in_comments(profile);
	int r = print_all(profile, stats, stats ? stats : kept, out);

	json_decref(kept);
	if (r == -EFBIG)
		return so_err(err, r, "cannot summarise: the profile's names are too long");
	if (r < 0)
		return so_err(err, r, "cannot summarise: not enough memory");
	errno = 0;
	if (fflush(out) || ferror(out))
		return so_err(err, -EIO, "cannot write the summary: %s", strerror(errno ? errno : EIO));
	return 0;
}
