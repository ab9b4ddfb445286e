// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A time line in Chrome's trace format (the "Trace Event Format" of the Chromium project), which Perfetto's interface
 * and chrome://tracing open: a track a thread, on it the Python functions as slices made of samples, with what each
 * called and what it waited for as the innermost one; a track of steps, and of each thread's CUDA calls. Only of a
 * profile that keeps times.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/frame_text.h"
#include "client/render/json_text.h"
#include "client/render/selection.h"
#include "client/render/trace_internal.h"
#include "profile/step_begins.h"
#include "stakeout/short_path.h"

#define NAME_BYTES 100
#define GPU        "stakeout.gpu="

static bool is_interpreter(const struct profile_line *line)
{
	const char *base = short_path(line->mapping);

	return !strncmp(base, "python3", 7) || !strncmp(base, "libpython3", 10);
}

static int name_of(struct tracer *t, const struct profile_line *line, uint32_t *number)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	int ret = frame_text__folded(line, true, text);

	ret = ret ?: intern__add(&t->names, text->bytes, text->length, number);
	return ret < 0 ? ret : 0;
}

/*
 * Python functions, outermost first, and below the innermost what it calls outside of the interpreter; without Python
 * the functions themselves, the outermost of them.
 */
static int stack_of(struct tracer *t, const struct profile_sample *sample, uint32_t *names, size_t *n)
{
	const struct profile *profile = t->profile;
	bool python = false, called = false;
	int ret = 0;

	*n = 0;
	for (size_t i = 0; i < sample->n_lines; i++)
		python |= profile->lines[sample->lines[i]].python;
	for (size_t i = sample->n_lines, left = 0; !ret && i-- > 0 && *n + 1 < TRACE_MAX_DEPTH;) {
		const struct profile_line *line = &profile->lines[sample->lines[i]];

		if (line->kernel)
			continue;
		left += line->python;
		if (python && !line->python) {
			/* Whether a Python frame is further in. */
			bool inner = false;

			for (size_t k = 0; k < i; k++)
				inner |= profile->lines[sample->lines[k]].python;
			if (inner || called || !left || is_interpreter(line))
				continue;
			called = true;
		}
		ret = name_of(t, line, &names[(*n)++]);
	}
	return ret;
}

static int wait_of(struct tracer *t, const struct profile_sample *sample, uint32_t *names, size_t *n)
{
	char text[48];
	int ret;

	if (!sample->state || !*sample->state || !strcmp(sample->state, "running") || *n == TRACE_MAX_DEPTH)
		return 0;
	snprintf(text, sizeof(text), "[%s]", sample->state);
	ret = intern__add(&t->names, text, strlen(text), &names[*n]);
	if (ret < 0)
		return ret;
	++*n;
	return 0;
}

/* Cut in its middle, lest a template's name be most of the file. */
static void write_name(struct tracer *t, const char *name, size_t length)
{
	size_t head = NAME_BYTES / 2, tail = length - NAME_BYTES / 2 + 3;
	char cut[NAME_BYTES + 8];
	int n;

	if (length <= NAME_BYTES) {
		json_text__write(t->out, name, length);
		return;
	}
	while (head > 0 && ((unsigned char)name[head] & 0xc0) == 0x80)
		head--;
	while (tail < length && ((unsigned char)name[tail] & 0xc0) == 0x80)
		tail++;
	n = snprintf(cut, sizeof(cut), "%.*s...%.*s", (int)head, name, (int)(length - tail), name + tail);
	json_text__write(t->out, cut, (size_t)n);
}

void trace__begin_event(struct tracer *t)
{
	fputs(t->any ? ",\n" : "\n", t->out);
	t->any = true;
}

void trace__begin_slice(struct tracer *t, const char *name, size_t length, int64_t begin_ns, int64_t end_ns)
{
	trace__begin_event(t);
	fputs("{\"ph\":\"X\",\"name\":", t->out);
	write_name(t, name, length);
	/* In microseconds. */
	fprintf(t->out, ",\"pid\":%" PRId64 ",\"tid\":%" PRId64 ",\"ts\":%.3f,\"dur\":%.3f", t->pid, t->tid,
		(double)(t->offset_ns + begin_ns) / 1e3, (double)(end_ns - begin_ns) / 1e3);
}

static void close_to(struct tracer *t, size_t depth, int64_t end_ns)
{
	while (t->n_open > depth) {
		const struct slice *slice = &t->open[--t->n_open];

		trace__begin_slice(t, intern__key(&t->names, slice->name), intern__length(&t->names, slice->name),
				   slice->begin_ns, end_ns);
		fputc('}', t->out);
	}
}

/* end_ns: when the one before ended. In between it ran without a sample, in the functions that both have in common. */
static int add_segment(struct tracer *t, const struct segment *segment, int64_t end_ns, int64_t begin_ns)
{
	uint32_t names[TRACE_MAX_DEPTH];
	size_t n, same = 0;
	const struct profile_sample *sample = &t->profile->samples[segment->sample];
	int ret = stack_of(t, sample, names, &n);

	ret = ret ?: wait_of(t, sample, names, &n);
	if (ret)
		return ret;
	while (same < n && same < t->n_open && t->open[same].name == names[same])
		same++;
	close_to(t, same, end_ns);
	for (; t->n_open < n; t->n_open++)
		t->open[t->n_open] = (struct slice){ names[t->n_open], begin_ns };
	return 0;
}

/* A sample of one that ran stands for the time before it. */
static struct segment segment_of(const struct profile_sample *sample, size_t number)
{
	bool moment = profile_sample__is_moment(sample);
	int64_t begin = moment ? sample->time_ns - sample->value_ns : sample->time_ns;

	return (struct segment){ begin > 0 ? begin : 0, moment ? sample->time_ns : sample->time_ns + sample->value_ns,
				 number };
}

static int compare_segments(const void *a, const void *b, void *context)
{
	const struct profile_sample *samples = context;
	const struct segment *x = a, *y = b;
	const struct profile_sample *s = &samples[x->sample], *u = &samples[y->sample];

	if (s->pid != u->pid)
		return s->pid < u->pid ? -1 : 1;
	if (s->tid != u->tid)
		return s->tid < u->tid ? -1 : 1;
	/* When a sample was, or a wait began. */
	if (s->time_ns != u->time_ns)
		return s->time_ns < u->time_ns ? -1 : 1;
	return (x->sample > y->sample) - (x->sample < y->sample);
}

void trace__name_track(struct tracer *t, const char *name, size_t length)
{
	trace__begin_event(t);
	fprintf(t->out,
		"{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%" PRId64 ",\"tid\":%" PRId64 ",\"args\":{\"name\":",
		t->pid, t->tid);
	json_text__write(t->out, name, length);
	fputs("}}", t->out);
}

static int name_thread(struct tracer *t, const struct profile_sample *sample)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };
	int ret = frame_text__words(sample->thread && *sample->thread ? sample->thread : sample->comm, text);

	if (!ret)
		trace__name_track(t, text->length ? text->bytes : "?", text->length ? text->length : 1);
	return ret;
}

/*
 * Samples come at random distances, and in wall time a thread runs whenever it does not wait: from one sample to the
 * next one, the border in their middle, and up to what it waits for next.
 */
static void fill_gaps(const struct tracer *t, struct segment *segments, size_t n)
{
	const struct profile_sample *samples = t->profile->samples;
	int64_t most = TRACE_KNOWN_PERIODS * t->profile->period_ns;

	for (size_t i = 1; t->profile->wall && i < n; i++) {
		struct segment *before = &segments[i - 1], *here = &segments[i];
		const struct profile_sample *last = &samples[before->sample], *now = &samples[here->sample];

		if (profile_sample__is_moment(last) && profile_sample__is_moment(now) &&
		    now->time_ns - last->time_ns < most)
			before->end_ns = here->begin_ns = last->time_ns + (now->time_ns - last->time_ns) / 2;
		else if (profile_sample__is_moment(last) && !profile_sample__is_moment(now) &&
			 now->time_ns - last->time_ns < most)
			before->end_ns = here->begin_ns > last->time_ns ? here->begin_ns : last->time_ns;
		else if (!profile_sample__is_moment(last) && profile_sample__is_moment(now) &&
			 here->begin_ns - before->end_ns < most)
			here->begin_ns = before->end_ns;
	}
}

/* One thread's; its segments may overlap a little, and what begins later goes on. */
static int write_thread(struct tracer *t, struct segment *segments, size_t n)
{
	int64_t end = 0;
	int ret;

	t->pid = t->pid_offset + t->profile->samples[segments[0].sample].pid;
	t->tid = t->profile->samples[segments[0].sample].tid;
	ret = name_thread(t, &t->profile->samples[segments[0].sample]);
	fill_gaps(t, segments, n);
	for (size_t i = 0; !ret && i < n; i++) {
		int64_t begin = segments[i].begin_ns > end ? segments[i].begin_ns : end;

		if (segments[i].end_ns <= begin)
			continue;
		ret = add_segment(t, &segments[i], begin - end < t->profile->period_ns ? begin : end, begin);
		end = segments[i].end_ns;
	}
	close_to(t, 0, end);
	return ret;
}

/* Behind the last of the segments from `at` on that are of the same process, or of the same thread of it. */
static size_t end_of(const struct profile *profile, const struct segment *all, size_t n, size_t at, bool thread)
{
	const struct profile_sample *first = &profile->samples[all[at].sample];
	size_t end = at + 1;

	while (end < n && profile->samples[all[end].sample].pid == first->pid &&
	       (!thread || profile->samples[all[end].sample].tid == first->tid))
		end++;
	return end;
}

static int write_process(struct tracer *t, struct segment *segments, size_t n)
{
	int ret;

	t->pid = t->pid_offset + t->profile->samples[segments[0].sample].pid;
	ret = trace__write_process(t, segments, n);
	for (size_t i = 0, end; !ret && i < n; i = end) {
		end = end_of(t->profile, segments, n, i, true);
		ret = write_thread(t, &segments[i], end - i);
	}
	return ret;
}

static int write_processes(struct tracer *t, const struct render_options *options)
{
	const struct profile *profile = t->profile;
	_cleanup_free_ struct segment *all = calloc(profile->n_samples + 1, sizeof(*all));
	size_t n = 0;
	int ret = all ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < profile->n_samples; i++)
		if (profile->samples[i].time_ns && profile->samples[i].time_ns < TRACE_MOST_NS &&
		    profile->samples[i].value_ns < TRACE_MOST_NS &&
		    (!options || selection__takes(options, &profile->samples[i])))
			all[n++] = segment_of(&profile->samples[i], i);
	if (!ret && n)
		qsort_r(all, n, sizeof(*all), compare_segments, profile->samples);
	for (size_t i = 0, end; !ret && i < n; i = end) {
		end = end_of(profile, all, n, i, false);
		ret = write_process(t, &all[i], end - i);
	}
	return ret;
}

/* A track of its own, by a number that no thread has. */
static int write_steps(struct tracer *t, const char *text)
{
	_cleanup_(step_begins) struct step_begins *begins = &(struct step_begins){ .ns = NULL };
	int ret = step_begins__read(text, begins);

	if (ret || begins->tid < 0)
		return ret == -ENOMEM ? ret : 0;
	t->pid = t->pid_offset + begins->pid;
	t->tid = -begins->tid;
	trace__name_track(t, "steps", strlen("steps"));
	for (size_t i = 0; i + 1 < begins->n; i++) {
		trace__begin_slice(t, "step", strlen("step"), begins->ns[i], begins->ns[i + 1]);
		fputc('}', t->out);
	}
	return 0;
}

/* A counter by itself: a GPU is of no process. "INDEX/NAME:AFTER+PERCENT,…" */
static void write_gpu(struct tracer *t, const char *text)
{
	const char *list = strchr(text, ':');
	int64_t when = 0;

	if (!list)
		return;
	for (const char *c = list + 1; *c;) {
		char *end;
		long long after = strtoll(c, &end, 10), percent;

		if (end == c || *end != '+' || after < 0 || __builtin_add_overflow(when, after, &when) ||
		    when >= TRACE_MOST_NS)
			return;
		percent = strtoll(end + 1, &end, 10);
		if (percent < 0 || percent > 100 || (*end && *end != ','))
			return;
		trace__begin_event(t);
		fputs("{\"ph\":\"C\",\"name\":", t->out);
		json_text__write(t->out, text, (size_t)(list - text));
		fprintf(t->out, ",\"pid\":%" PRId64 ",\"ts\":%.1f,\"args\":{\"percent\":%lld}}",
			t->pid_offset + TRACE_GPU_PID, (double)(t->offset_ns + when) / 1e3, percent);
		c = *end ? end + 1 : end;
	}
}

static void name_gpus(struct tracer *t)
{
	trace__begin_event(t);
	fprintf(t->out,
		"{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%" PRId64 ",\"args\":{\"name\":\"GPUs, how busy\"}}",
		t->pid_offset + TRACE_GPU_PID);
}

static bool has_times(const struct profile *profile)
{
	for (size_t i = 0; i < profile->n_samples; i++)
		if (profile->samples[i].time_ns)
			return true;
	return false;
}

static int write_profile(struct tracer *t, const struct render_options *options)
{
	const struct profile *profile = t->profile;
	int ret = write_processes(t, options);

	for (size_t i = 0; !ret && i < profile->n_comments; i++) {
		const char *comment = profile->comments[i], *steps = step_begins__text(comment);

		if (steps)
			ret = write_steps(t, steps);
		else if (!strncmp(comment, GPU, strlen(GPU)))
			write_gpu(t, comment + strlen(GPU));
	}
	if (!ret && profile__comment(profile, "gpu"))
		name_gpus(t);
	ret = ret ?: trace__write_calls(t);
	return ret;
}

/* When the first of them begins. */
static int64_t first_begin(const struct profile *const *profiles, size_t n)
{
	int64_t first = profiles[0]->time_ns;

	for (size_t i = 1; i < n; i++)
		first = profiles[i]->time_ns < first ? profiles[i]->time_ns : first;
	return first;
}

int render__traces(const struct profile *const *profiles, size_t n, const struct render_options *options, FILE *out,
		   struct so_error *err)
{
	struct tracer t = { .out = out };
	int64_t begin = first_begin(profiles, n);
	int ret = 0;

	for (size_t i = 0; i < n; i++) {
		if (!has_times(profiles[i]))
			return so_err(
				err, -ENODATA,
				"there are no times in it: a trace is made of 'stakeout record --timeline --wall'");
		if (__builtin_sub_overflow(profiles[i]->time_ns, begin, &t.offset_ns) || t.offset_ns >= TRACE_MOST_NS)
			return so_err(err, -ERANGE, "the recordings are years apart: they have no common time line");
	}
	fprintf(out,
		"{\"displayTimeUnit\":\"ms\",\"otherData\":{\"made by\":\"stakeout\",\"slices\":\"of samples, %.0f a "
		"second of "
		"CPU time\"},\"traceEvents\":[",
		profiles[0]->period_ns ? 1e9 / (double)profiles[0]->period_ns : 0);
	for (size_t i = 0; !ret && i < n; i++) {
		t.profile = profiles[i];
		t.offset_ns = profiles[i]->time_ns - begin;
		t.pid_offset = (int64_t)i * TRACE_FILE_PIDS;
		ret = write_profile(&t, options);
	}
	fputs("\n]}\n", out);
	intern__clear(&t.names);
	if (ret)
		return so_err(err, ret, "out of memory");
	return ferror(out) ? so_err(err, -EIO, "cannot write the trace") : 0;
}

int render__trace(const struct profile *profile, const struct render_options *options, FILE *out, struct so_error *err)
{
	return render__traces(&profile, 1, options, out, err);
}
