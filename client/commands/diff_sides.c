// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/commands/diff_sides.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/diff/common_lines.h"
#include "client/session/past.h"
#include "client/session/session.h"

#define PAST_BLOCKS SIDE_BLOCKS /* of a range of the history */

int diff_selection__prepare(struct diff_selection *s, struct so_error *err)
{
	int ret = only__check(&s->request.render.only, err);

	ret = ret ?: category_rules__load(s->categories, &s->rules, err);
	ret = ret ?: phases__new(s->phase_words.list, s->phase_words.n, &s->phases, err);
	s->request.rules = s->rules;
	s->request.phases = s->phases;
	return ret;
}

void diff_selection__clear(struct diff_selection *s)
{
	category_rules__free(s->rules);
	phases__free(s->phases);
}

void diff_sides__clear(struct diff_sides *sides)
{
	side__free(sides->base);
	side__free(sides->now);
}

size_t diff_sides__count(const char *const *paths)
{
	size_t n = 0;

	while (paths[n])
		n++;
	return n;
}

void diff_files__clear(struct diff_files *files)
{
	for (size_t i = 0; files->files && i < files->n; i++)
		profile_file__release(&files->files[i]);
	free(files->files);
	free(files->inputs);
	*files = (struct diff_files){ .n = 0 };
}

int diff_files__read(const char *const *paths, size_t n, const struct diff_selection *selection, struct diff_files *out,
		     struct so_error *err)
{
	_cleanup_(diff_files) struct diff_files *files = &(struct diff_files){ .n = n };
	struct so_error why = { .text = "" };
	int ret = 0;

	files->files = calloc(n, sizeof(*files->files));
	files->inputs = calloc(n, sizeof(*files->inputs));
	if (!files->files || !files->inputs)
		return so_err(err, -ENOMEM, "out of memory");
	for (size_t i = 0; !ret && i < n; i++) {
		ret = profile_file__read(paths[i], NULL, &files->files[i], &why);
		ret = ret ?: selection__check(files->files[i].profile, &selection->request.render, &why);
		/* The reader names the file where it cannot be opened. */
		if (ret)
			so_err(err, ret, "%s%s%.400s", strstr(why.text, paths[i]) ? "" : paths[i],
			       strstr(why.text, paths[i]) ? "" : ": ", why.text);
		files->inputs[i] = (struct side_input){ files->files[i].profile, paths[i], (unsigned)i };
	}
	if (ret)
		return ret;
	*out = *files;
	*files = (struct diff_files){ .n = 0 };
	return 0;
}

int diff_files__keep_common_lines(struct diff_files *base, struct diff_files *now, size_t *n, struct so_error *err)
{
	_cleanup_(common_lines) struct common_lines common = { .functions = { 0 } };
	const struct diff_files *sides[] = { base, now };
	int ret = 0;

	for (size_t side = 0; side < 2; side++)
		for (size_t i = 0; !ret && i < sides[side]->n; i++)
			ret = common_lines__note(&common, sides[side]->files[i].profile);
	if (ret)
		return so_err(err, ret, "out of memory");
	for (size_t side = 0; side < 2; side++)
		for (size_t i = 0; i < sides[side]->n; i++)
			common_lines__apply(&common, sides[side]->files[i].profile);
	*n = common.functions.n_keys;
	return 0;
}

int diff_files__side(const struct diff_files *files, const struct diff_selection *selection, struct side **out,
		     struct so_error *err)
{
	return side__new(files->inputs, files->n, &selection->request, out, err);
}

/* The past. */

static int parse_range(const char *option, const char *text, struct time_range *out, struct so_error *err)
{
	const char *dots = strstr(text, "..");
	_cleanup_free_ char *since = dots ? strndup(text, (size_t)(dots - text)) : NULL;
	struct so_error why = { .text = "" };
	int ret;

	if (!dots || dots == text || !dots[2])
		return so_err(err, -EINVAL, "--%s '%.60s': not of the form FROM..TO, as 03:00..03:10 or 2h..1h (ago)",
			      option, text);
	if (!since)
		return so_err(err, -ENOMEM, "out of memory");
	ret = past__range(&(struct past_options){ .since = since, .until = dots + 2 }, out, &why);
	return ret ? so_err(err, ret, "--%s '%.60s': %.400s", option, text, why.text) : 0;
}

/* The stretches of a range, each a profile. */
struct stretches {
	struct profile *list[PAST_BLOCKS + 1];
	size_t n;
};

static void stretches__clear(struct stretches *s)
{
	for (size_t i = 0; i < s->n; i++)
		profile__free(s->list[i]);
}
CLEANUP_DEFINE(struct stretches *, stretches, stretches__clear)

/* As long as the daemon makes them now; older ones are longer. */
static int64_t window_of(struct api_client *api)
{
	json_auto_t *history = NULL;
	struct so_error err;
	double seconds = 0;

	if (!api_client__call(api, "GET", "/v1/history", NULL, &history, &err))
		seconds = json_number_value(json_object_get(history, "window_s"));
	return seconds > 1 && seconds <= 3600 ? (int64_t)(seconds * 1e9) : SIDE_BLOCK_NS;
}

/*
 * An answer has all windows that touch the time asked for, so the next stretch begins where the last one's windows end,
 * and each is asked for up to the middle of its last window. Stretches without history are left out; `why` keeps the
 * reason of the last.
 */
static int read_stretches(struct api_client *api, pid_t pid, const struct time_range *range, struct stretches *out,
			  struct so_error *why)
{
	int64_t length = (range->to_ns - range->from_ns) / PAST_BLOCKS, at = range->from_ns, window = window_of(api);

	length = length > window ? length : window;
	while (at + 1 < range->to_ns && out->n <= PAST_BLOCKS) {
		int64_t end = at + length < range->to_ns ? at + length : range->to_ns;
		struct time_range part = { at + 1, end - window / 2 > at + 1 ? end - window / 2 : end };
		_cleanup_free_ uint8_t *bytes = NULL;
		size_t n_bytes = 0;
		int ret = past__profile(api, pid, &part, &bytes, &n_bytes, why);
		struct profile *profile;

		if (ret == -ENOENT) {
			at = end;
			continue;
		}
		ret = ret ?: profile__read(bytes, n_bytes, &profile, why);
		if (ret)
			return ret;
		out->list[out->n++] = profile;
		at = profile->time_ns + profile->duration_ns > end ? profile->time_ns + profile->duration_ns : end;
	}
	return 0;
}

static int read_past(struct api_client *api, pid_t pid, const char *option, const struct time_range *range,
		     const struct diff_selection *selection, struct side **out, struct so_error *err)
{
	_cleanup_(stretches) struct stretches *stretches = &(struct stretches){ .n = 0 };
	struct side_input inputs[PAST_BLOCKS + 1];
	struct so_error why = { .text = "" };
	int ret = read_stretches(api, pid, range, stretches, &why);

	if (ret || !stretches->n)
		return so_err(err, ret ?: -ENOENT, "--%s: %.400s", option, why.text);
	for (size_t i = 0; i < stretches->n; i++)
		inputs[i] = (struct side_input){ stretches->list[i], option, 0 };
	return side__new(inputs, stretches->n, &selection->request, out, err);
}

int diff_sides__of_past(const struct globals *globals, pid_t pid, const char *base, const char *now,
			const struct diff_selection *selection, struct diff_sides *out, struct so_error *err)
{
	_cleanup_(session) struct session *session = NULL;
	struct time_range ranges[2];
	int ret = parse_range("base", base, &ranges[0], err);

	ret = ret ?: parse_range("new", now, &ranges[1], err);
	ret = ret ?: session__open(globals->socket, SESSION_RUNNING, &session, err);
	ret = ret ?: read_past(session__api(session), pid, "base", &ranges[0], selection, &out->base, err);
	return ret ?: read_past(session__api(session), pid, "new", &ranges[1], selection, &out->now, err);
}
