// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/top/top_source.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/session/process_arguments.h"
#include "client/session/target.h"
#include "stakeout/array.h"

#define RATE_HZ    99
#define VIEW_S     30 /* a recording whose client is gone ends by itself */
#define CUDA_STEPS 5  /* from one answer to the next: it takes longer to make */
#define NAME_STEPS 5  /* a process may become another program */

struct top_target {
	struct target base; /* whose samples they are */
	bool own;           /* attached here */
	bool gone;          /* it has ended */
	uint32_t view;      /* the recording that runs; 0: none */
	struct profile *newest[TOP_MAX_SPAN];
	unsigned n;
	bool without_cuda;
	struct top_cuda cuda;
};

struct top_source {
	struct session *session;
	struct top_request request;
	struct top_target **targets;
	size_t n, capacity;
	unsigned long steps;
	char title[1024];
	struct so_error note;
};

double top_source__now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static struct api_client *api_of(const struct top_source *source)
{
	return session__api(source->session);
}

/* A private daemon ends anyhow. */
static void detach(const struct top_source *source, uint32_t id)
{
	if (id && !session__private(source->session))
		target__detach(api_of(source), id, NULL);
}

static void free_target(const struct top_source *source, struct top_target *t)
{
	detach(source, t->view);
	detach(source, t->own ? t->base.id : 0);
	for (unsigned i = 0; i < t->n; i++)
		profile__free(t->newest[i]);
	top_cuda__clear(&t->cuda);
	free(t);
}

void top_source__free(struct top_source *source)
{
	if (!source)
		return;
	for (size_t i = 0; i < source->n; i++)
		free_target(source, source->targets[i]);
	free(source->targets);
	free(source);
}

/* One that is watched is shown as it is watched; another is attached for as long as it is shown. */
static int find_base(struct top_source *source, struct top_target *t, struct so_error *err)
{
	const struct attach_request request = { .pid = source->request.pid,
						.rate_hz = RATE_HZ,
						.children = true,
						.kernel = true,
						.wall = true,
						.cuda = source->request.cuda };
	struct api_client *api = api_of(source);
	int ret = session__private(source->session) ? -ENOENT : target__find(api, source->request.pid, &t->base, err);

	t->own = false;
	if (ret && ret != -ENOENT)
		return ret;
	if (!ret && !target__ended(&t->base))
		return 0;
	ret = target__attach(api, &request, &t->base, err);
	t->own = !ret;
	return ret;
}

static int begin_view(struct top_source *source, struct top_target *t, struct so_error *err)
{
	const struct attach_request request = { .pid = t->base.pid,
						.rate_hz = t->base.rate_hz,
						.duration_s = VIEW_S,
						.children = t->base.children,
						.kernel = t->base.kernel,
						.wall = true };
	struct target view;
	int ret = target__attach(api_of(source), &request, &view, err);

	if (!ret)
		t->view = view.id;
	return ret;
}

static void add_newest(struct top_source *source, struct top_target *t, struct profile *profile)
{
	unsigned span = source->request.span;

	if (t->n == span)
		profile__free(t->newest[--t->n]);
	memmove(t->newest + 1, t->newest, t->n * sizeof(t->newest[0]));
	t->newest[0] = profile;
	t->n++;
}

static int take_view(struct top_source *source, struct top_target *t, uint32_t id, struct so_error *err)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	struct profile *profile;
	size_t length = 0;
	int ret = target__profile(api_of(source), id, &bytes, &length, err);

	detach(source, id);
	ret = ret ?: profile__read(bytes, length, &profile, err);
	if (!ret)
		add_newest(source, t, profile);
	return ret;
}

/* First at once, then at the end of each span. Where calls are not timed, or are others', it is not asked for again. */
static int take_cuda(struct top_source *source, struct top_target *t, struct so_error *err)
{
	unsigned steps = source->request.span < CUDA_STEPS ? source->request.span : CUDA_STEPS;
	json_auto_t *answer = NULL;
	int ret;

	if (t->without_cuda || (t->cuda.at_s > 0 && (source->steps + 1) % steps))
		return 0;
	ret = target__cuda(api_of(source), t->base.id, &answer, NULL);
	t->without_cuda = ret == -EEXIST || ret == -EPERM;
	return ret ? 0 : top_cuda__take(&t->cuda, answer, top_source__now_s(), err);
}

/* Somebody else's recording ended, whose process goes on. */
static int look_for_base(struct top_source *source, struct top_target *t, struct so_error *err)
{
	int ret = target__get(api_of(source), t->base.id, &t->base, err);

	if (ret && ret != -ENOENT)
		return ret;
	if (!ret && !target__ended(&t->base))
		return 0;
	t->gone = true;
	if (!source->request.pid || !strcmp(t->base.end, "exited") || find_base(source, t, err))
		return 0;
	t->gone = false;
	return 0;
}

/* The next recording begins before the last one is taken: what lies between is in both, a few milliseconds. */
static int step_target(struct top_source *source, struct top_target *t, struct so_error *err)
{
	uint32_t before = t->view;
	int ret = look_for_base(source, t, err), taken = 0;

	if (ret)
		return ret;
	t->view = 0;
	if (!t->gone)
		ret = begin_view(source, t, err);
	if (ret == -ESRCH || ret == -ENOENT) {
		t->gone = true;
		ret = 0;
	}
	if (before)
		taken = take_view(source, t, before, ret ? NULL : err);
	/* One that ended with the daemon's target may be gone as well. */
	if (taken && !(t->gone && taken == -ENOENT))
		ret = ret ?: taken;
	if (!ret && !t->gone)
		ret = take_cuda(source, t, err);
	return ret;
}

static struct top_target *add_target(struct top_source *source)
{
	struct top_target *t = calloc(1, sizeof(*t));

	if (!t || ARRAY_RESERVE(source->targets, source->capacity, source->n + 1)) {
		free(t);
		return NULL;
	}
	source->targets[source->n++] = t;
	return t;
}

static struct top_target *find_target(struct top_source *source, uint32_t id)
{
	for (size_t i = 0; i < source->n; i++)
		if (source->targets[i]->base.id == id)
			return source->targets[i];
	return NULL;
}

/* What is watched since the last look. */
static int add_watched(struct top_source *source, struct so_error *err)
{
	json_t *list, *json;
	struct top_target *t;
	struct target next;
	size_t i;
	int ret = api_client__call(api_of(source), "GET", "/v1/targets", NULL, &list, err);

	if (ret)
		return ret;
	json_array_foreach (list, i, json) {
		target__read(json, &next);
		if (!next.id || !next.keep || target__ended(&next) || find_target(source, next.id))
			continue;
		t = add_target(source);
		if (!t) {
			ret = so_err(err, -ENOMEM, "out of memory");
			break;
		}
		t->base = next;
	}
	json_decref(list);
	return ret;
}

static void drop_gone(struct top_source *source)
{
	size_t to = 0;

	for (size_t i = 0; i < source->n; i++) {
		if (source->targets[i]->gone)
			free_target(source, source->targets[i]);
		else
			source->targets[to++] = source->targets[i];
	}
	source->n = to;
}

static void note_empty(struct top_source *source)
{
	if (!source->n)
		so_err(&source->note, 0,
		       "the daemon watches nothing: 'stakeout attach -p PID' or 'stakeout top PID' makes it watch");
}

/* Where there is no room for a recording of one more, the others are shown, and that is said. */
static int step_all(struct top_source *source, struct so_error *err)
{
	struct so_error why = { .text = "" };
	size_t missed = 0;
	int ret = add_watched(source, err);

	if (ret)
		return ret;
	for (size_t i = 0; i < source->n; i++) {
		ret = step_target(source, source->targets[i], &why);
		if (ret == -ECONNREFUSED || ret == -EIO)
			return so_err(err, ret, "%s", why.text);
		missed += ret != 0;
	}
	drop_gone(source);
	source->note.text[0] = '\0';
	if (missed)
		so_err(&source->note, 0, "%zu of %zu targets are not shown: %.400s", missed, source->n, why.text);
	note_empty(source);
	snprintf(source->title, sizeof(source->title), "%zu watched target%s", source->n, source->n == 1 ? "" : "s");
	return 0;
}

static void make_title(struct top_source *source, const struct top_target *t)
{
	char command[800];
	ssize_t n = process_arguments__read(t->base.pid, command, sizeof(command));

	if (n > 0)
		process_arguments__join(command, (size_t)n, sizeof(command));
	snprintf(source->title, sizeof(source->title), "%d  %s", t->base.pid, n > 0 ? command : t->base.comm);
}

static int open_one(struct top_source *source, struct so_error *err)
{
	struct top_target *t = add_target(source);
	int ret = t ? find_base(source, t, err) : so_err(err, -ENOMEM, "out of memory");

	ret = ret ?: begin_view(source, t, err);
	if (!ret)
		make_title(source, t);
	return ret;
}

int top_source__new(struct session *session, const struct top_request *request, struct top_source **out,
		    struct so_error *err)
{
	_cleanup_(top_source) struct top_source *source = calloc(1, sizeof(*source));
	int ret;

	if (!source)
		return so_err(err, -ENOMEM, "out of memory");
	source->session = session;
	source->request = *request;
	ret = request->pid ? open_one(source, err) : step_all(source, err);
	if (ret)
		return ret;
	*out = TAKE_PTR(source);
	return 0;
}

int top_source__step(struct top_source *source, bool *ended, struct so_error *err)
{
	int ret = source->request.pid ? step_target(source, source->targets[0], err) : step_all(source, err);

	if (!ret && source->request.pid && source->steps % NAME_STEPS == 0)
		make_title(source, source->targets[0]);
	source->steps++;
	*ended = source->request.pid && source->targets[0]->gone;
	return ret;
}

int top_source__sum(const struct top_source *source, struct top_sums *out)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < source->n; i++) {
		const struct top_target *t = source->targets[i];
		double ns = 0;

		for (unsigned k = 0; !ret && k < t->n; k++) {
			ns += (double)t->newest[k]->duration_ns;
			ret = top_sums__add(out, t->newest[k], k == 0);
		}
		out->duration_ns = fmax(out->duration_ns, ns);
	}
	return ret;
}

void top_source__describe(const struct top_source *source, struct top_screen *screen)
{
	screen->title = source->title;
	screen->note = *source->note.text ? source->note.text : NULL;
	screen->watched_s = source->request.pid && source->n ? source->targets[0]->base.elapsed_s : NAN;
	screen->n_cuda = 0;
	for (size_t i = 0; i < source->n && screen->n_cuda < TOP_CUDA_LINES; i++)
		if (source->targets[i]->cuda.compared)
			screen->cuda[screen->n_cuda++] = &source->targets[i]->cuda;
}
