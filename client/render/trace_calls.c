// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * CUDA calls on a time line, as the comments `calls` and `kernel` of a profile have them (.design/profile-format.md):
 * a track for each thread beside its own, as theirs are moments and its slices are samples.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/json_text.h"
#include "client/render/trace_internal.h"
#include "stakeout/cleanup.h"

#define CALLS        "stakeout.calls="
#define KERNEL       "stakeout.kernel="
#define MOST_KERNELS 65536
#define SHORTEST_NS  100 /* of a slice: what was not timed has a length that one can see */

struct kernels {
	const char *names[MOST_KERNELS]; /* NULL: not known */
};

/* One of a list: "BEGIN+TOOK[xBYTES][sSTREAM][kKERNEL][wTID.AGO]". */
struct call {
	int64_t begin_ns, ns;
	int64_t bytes;
	bool has_stream;
	uint64_t stream;
	const char *kernel; /* NULL: none, or its name is not known */
	int64_t awaited_tid,
		awaited_ns; /* the launch that it waited for: who made it, how long before; -1: not known */
};

/* "NUMBER:NAME" */
static void take_kernel(struct kernels *kernels, const char *text)
{
	char *end;
	unsigned long long number = strtoull(text, &end, 10);

	if (end != text && *end == ':' && number < MOST_KERNELS)
		kernels->names[number] = end + 1;
}

/* What stands behind a letter, where there is one; false: a wrong number. */
static bool read_number(const char **at, char letter, int base, uint64_t *value, bool *any)
{
	char *end;

	*any = **at == letter;
	if (!*any)
		return true;
	*value = strtoull(*at + 1, &end, base);
	if (end == *at + 1)
		return false;
	*at = end;
	return true;
}

static bool read_details(const char **at, const struct kernels *kernels, struct call *call)
{
	uint64_t bytes = 0, kernel = 0, tid = 0, ago = 0;
	bool any, waited;

	if (!read_number(at, 'x', 10, &bytes, &any) || bytes > INT64_MAX ||
	    !read_number(at, 's', 16, &call->stream, &call->has_stream) || !read_number(at, 'k', 10, &kernel, &any) ||
	    !read_number(at, 'w', 10, &tid, &waited) || (waited && !read_number(at, '.', 10, &ago, &waited)))
		return false;
	call->bytes = (int64_t)bytes;
	if (any && kernel < MOST_KERNELS)
		call->kernel = kernels->names[kernel];
	if (waited && tid < TRACE_CALLS_TRACK && ago < TRACE_MOST_NS) {
		call->awaited_tid = (int64_t)tid;
		call->awaited_ns = (int64_t)ago;
	}
	return true;
}

/* The call at *at, which goes behind it and the comma. *when: the begin of the one before. False: there is none. */
static bool read_call(const char **at, int64_t *when, const struct kernels *kernels, struct call *call)
{
	char *end;
	long long more = strtoll(*at, &end, 10);

	*call = (struct call){ .awaited_tid = -1 };
	if (end == *at || *end != '+' || more < 0 || __builtin_add_overflow(*when, more, when) ||
	    *when >= TRACE_MOST_NS)
		return false;
	call->begin_ns = *when;
	call->ns = strtoll(end + 1, &end, 10);
	*at = end;
	if (call->ns < 0 || call->ns >= TRACE_MOST_NS || !read_details(at, kernels, call) || (**at && **at != ','))
		return false;
	*at += **at == ',';
	return true;
}

/* n: of the arguments before it. */
static void begin_argument(FILE *out, unsigned *n, const char *name)
{
	fprintf(out, (*n)++ ? ",\"%s\":" : ",\"args\":{\"%s\":", name);
}

static void write_details(FILE *out, const struct call *call)
{
	unsigned n = 0;

	if (call->kernel) {
		begin_argument(out, &n, "kernel");
		json_text__write(out, call->kernel, strlen(call->kernel));
	}
	if (call->bytes) {
		begin_argument(out, &n, "bytes");
		fprintf(out, "%" PRId64, call->bytes);
	}
	if (call->has_stream) {
		begin_argument(out, &n, "stream");
		fprintf(out, call->stream ? "\"0x%" PRIx64 "\"" : "\"default\"", call->stream);
	}
	if (!call->ns) {
		begin_argument(out, &n, "timed");
		fputs("false", out);
	}
	if (n)
		fputc('}', out);
}

static void write_end_of_flow(struct tracer *t, const char *phase, int64_t tid, int64_t when_ns)
{
	trace__begin_event(t);
	fprintf(t->out,
		"{\"ph\":%s,\"cat\":\"cuda\",\"name\":\"waited for\",\"id\":%" PRIu64 ",\"pid\":%" PRId64
		",\"tid\":%" PRId64 ",\"ts\":%.3f}",
		phase, t->flows, t->pid, TRACE_CALLS_TRACK + tid, (double)(t->offset_ns + when_ns) / 1e3);
}

/* An arrow between two slices; the launch's is on its thread's track. */
static void write_flow(struct tracer *t, const struct call *wait, int64_t tid)
{
	int64_t launched_ns = wait->begin_ns - wait->awaited_ns;

	if (wait->awaited_tid < 0 || launched_ns < 0)
		return;
	write_end_of_flow(t, "\"s\"", wait->awaited_tid, launched_ns);
	/* It binds to the slice that encloses it, not to the next one. */
	write_end_of_flow(t, "\"f\",\"bp\":\"e\"", tid, wait->begin_ns);
	t->flows++;
}

/* "PID/TID/NAME:" and a thread's calls of that function. */
static void write_list(struct tracer *t, const struct kernels *kernels, const char *text)
{
	int64_t pid, tid, when = 0;
	const char *list = strchr(text, ':'), *name;
	struct call call;
	char track[48];
	int at = 0;

	if (!list || sscanf(text, "%" SCNd64 "/%" SCNd64 "/%n", &pid, &tid, &at) != 2 || !at || tid < 0 ||
	    tid >= TRACE_CALLS_TRACK || text + at > list)
		return;
	name = text + at;
	t->pid = t->pid_offset + pid;
	t->tid = TRACE_CALLS_TRACK + tid;
	snprintf(track, sizeof(track), "CUDA calls of %" PRId64, tid);
	trace__name_track(t, track, strlen(track));
	for (const char *c = list + 1; *c && read_call(&c, &when, kernels, &call);) {
		trace__begin_slice(t, name, (size_t)(list - name), when,
				   when + (call.ns > SHORTEST_NS ? call.ns : SHORTEST_NS));
		write_details(t->out, &call);
		fputc('}', t->out);
		write_flow(t, &call, tid);
	}
}

int trace__write_calls(struct tracer *t)
{
	_cleanup_free_ struct kernels *kernels = NULL;
	const struct profile *profile = t->profile;

	if (!profile__comment(profile, "calls"))
		return 0;
	kernels = calloc(1, sizeof(*kernels));
	if (!kernels)
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_comments; i++)
		if (!strncmp(profile->comments[i], KERNEL, strlen(KERNEL)))
			take_kernel(kernels, profile->comments[i] + strlen(KERNEL));
	for (size_t i = 0; i < profile->n_comments; i++)
		if (!strncmp(profile->comments[i], CALLS, strlen(CALLS)))
			write_list(t, kernels, profile->comments[i] + strlen(CALLS));
	return 0;
}
