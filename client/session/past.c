// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/session/past.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/session/message.h"
#include "client/session/past_time.h"

bool past__wanted(const struct past_options *options)
{
	return options->since || options->until || options->at;
}

int past__range(const struct past_options *options, struct time_range *out, struct so_error *err)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return time_range__parse(options->since, options->until, options->at,
				 (int64_t)now.tv_sec * PAST_SECOND_NS + now.tv_nsec, out, err);
}

static int64_t number(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

/* A process that is watched has an open window, so its history goes on to now. */
static bool touches(const json_t *target, const struct time_range *range)
{
	int64_t first_ns = number(target, "first_ns"), last_ns = number(target, "last_ns");

	if (json_is_integer(json_object_get(target, "target")))
		return range->to_ns > (first_ns ? first_ns : number(target, "began_ns"));
	return first_ns && first_ns < range->to_ns && last_ns > range->from_ns;
}

/* A watched one before others, and a later one before an earlier. */
static bool better(const json_t *a, const json_t *b)
{
	bool a_now = json_is_integer(json_object_get(a, "target")),
	     b_now = json_is_integer(json_object_get(b, "target"));

	if (a_now != b_now)
		return a_now;
	return number(a, "last_ns") >= number(b, "last_ns");
}

/* Borrowed from the list. *any: whether there is history of another time. */
static const json_t *choose(const json_t *list, pid_t pid, const struct time_range *range, const json_t **any)
{
	const json_t *best = NULL;
	json_t *target;
	size_t i;

	json_array_foreach (json_object_get(list, "targets"), i, target) {
		if (number(target, "pid") != pid)
			continue;
		if (!*any || better(target, *any))
			*any = target;
		if (touches(target, range) && (!best || better(target, best)))
			best = target;
	}
	return best;
}

/* any: its history of another time; problem: why none is written now. Each may be NULL. */
static int none(pid_t pid, const json_t *any, const char *problem, struct so_error *err)
{
	char first[PAST_TIME_BYTES], last[PAST_TIME_BYTES], off[400];

	snprintf(off, sizeof(off), "%s", problem ? problem : "");
	message__clean(off);
	if (!any && off[0])
		return so_err(err, -ENOENT, "the daemon has no history of a process %d; it writes none now: %s", pid,
			      off);
	if (!any)
		return so_err(err, -ENOENT,
			      "the daemon has no history of a process %d: 'stakeout history' lists what there is", pid);
	if (!number(any, "first_ns"))
		return so_err(err, -ENOENT, "the history of process %d has no complete window yet", pid);
	past_time(number(any, "first_ns"), first);
	past_time(number(any, "last_ns"), last);
	return so_err(err, -ENOENT, "there is no history of process %d of that time: it goes from %s to %s", pid, first,
		      last);
}

/* A gap without an end is one moment: when history went on is not known. */
static bool gap_touches(const json_t *gap, int64_t key, const struct time_range *range)
{
	int64_t begin_ns = number(gap, "begin_ns"), end_ns = number(gap, "end_ns"), of = number(gap, "key");

	return (!of || of == key) && begin_ns < range->to_ns && (end_ns ? end_ns : begin_ns + 1) > range->from_ns;
}

static void tell_gaps(const json_t *list, int64_t key, const struct time_range *range)
{
	int64_t n = 0, first_ns = 0;
	char first[PAST_TIME_BYTES];
	json_t *gap;
	size_t i;

	json_array_foreach (json_object_get(list, "gaps"), i, gap) {
		if (!gap_touches(gap, key, range))
			continue;
		if (!n || number(gap, "begin_ns") < first_ns)
			first_ns = number(gap, "begin_ns");
		n += number(gap, "windows");
	}
	if (!n)
		return;
	past_time(first_ns, first);
	message__note("the history of that time lacks up to %" PRId64 " windows, the first from %s on: "
		      "'stakeout history' says why",
		      n, first);
}

/* What of the history is asked for, and what came: one of both. */
struct past_answer {
	const char *what; /* the last part of the path */
	uint8_t *bytes;
	size_t length;
	json_t *json;
};

static int get(struct api_client *api, const json_t *target, const struct time_range *range, struct past_answer *answer,
	       bool as_json, struct so_error *err)
{
	char path[128];

	snprintf(path, sizeof(path), "/v1/history/%" PRId64 "/%s?from_ns=%" PRId64 "&to_ns=%" PRId64,
		 number(target, "key"), answer->what, range->from_ns, range->to_ns);
	return as_json ? api_client__call(api, "GET", path, NULL, &answer->json, err)
		       : api_client__download(api, path, &answer->bytes, &answer->length, err);
}

static int find_and_get(struct api_client *api, pid_t pid, const struct time_range *range, struct past_answer *answer,
			bool as_json, struct so_error *err)
{
	const json_t *target, *any = NULL;
	json_auto_t *list = NULL;
	int ret = api_client__call(api, "GET", "/v1/history", NULL, &list, err);

	if (ret)
		return ret;
	target = choose(list, pid, range, &any);
	if (!target)
		ret = none(pid, any, json_string_value(json_object_get(list, "problem")), err);
	else
		ret = get(api, target, range, answer, as_json, err);
	if (!ret)
		tell_gaps(list, number(target, "key"), range);
	return ret;
}

int past__profile(struct api_client *api, pid_t pid, const struct time_range *range, uint8_t **out, size_t *length,
		  struct so_error *err)
{
	struct past_answer answer = { .what = "profile" };
	int ret = find_and_get(api, pid, range, &answer, false, err);

	if (ret)
		return ret;
	*out = answer.bytes;
	*length = answer.length;
	return 0;
}

void past__tell_profile(const struct profile *profile)
{
	char begin[PAST_TIME_BYTES];

	past_time(profile->time_ns, begin);
	message__note("from the history: %.1f s, from %s on", (double)profile->duration_ns / 1e9, begin);
}

/* From when to when, and what of that time has calls. */
static void tell_span(const json_t *answer)
{
	const json_t *span = json_object_get(answer, "history");
	double covered_s = json_number_value(json_object_get(span, "covered_s")),
	       timed_s = json_number_value(json_object_get(answer, "duration_s"));
	char begin[PAST_TIME_BYTES], end[PAST_TIME_BYTES];

	past_time(number(span, "begin_ns"), begin);
	past_time(number(span, "end_ns"), end);
	message__note("from the history: %s to %s", begin, end);
	if (number(span, "cuda_windows") < number(span, "windows"))
		message__note("CUDA calls were timed for %.1f s of the %.1f s that the history has of that time",
			      timed_s, covered_s);
	if (number(span, "damaged"))
		message__note("%" PRId64 " damaged windows are left out", number(span, "damaged"));
}

int past__cuda(struct api_client *api, pid_t pid, const struct time_range *range, bool quiet, json_t **out,
	       struct so_error *err)
{
	struct past_answer answer = { .what = "cuda" };
	int ret = find_and_get(api, pid, range, &answer, true, err);

	if (ret)
		return ret;
	if (!quiet)
		tell_span(answer.json);
	*out = answer.json;
	return 0;
}

int past__memory(struct api_client *api, pid_t pid, const struct time_range *range, json_t **out, struct so_error *err)
{
	struct past_answer answer = { .what = "memory" };
	int ret = find_and_get(api, pid, range, &answer, true, err);

	if (!ret)
		*out = answer.json;
	return ret;
}
