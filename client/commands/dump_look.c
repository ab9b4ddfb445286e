// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/commands/dump_look.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "client/session/interrupt.h"

/* Running threads are seen by sampling: this often, for so long. */
#define RATE_HZ   999
#define SAMPLE_MS 120

/* Attached at the same time: a user other than root may have 24 targets. */
#define MAX_ATTACHED 16

struct looking {
	struct session *session;
	struct dump_look *looks;
	size_t n;
	bool children;
};

/* A private daemon ends anyhow. */
static void detach(const struct looking *l, struct dump_look *look)
{
	if (look->attached && !session__private(l->session))
		target__detach(session__api(l->session), look->target.id, NULL);
	look->attached = false;
}

/* A process that the daemon watches already, in whatever way, is looked at through that target. */
static void attach(const struct looking *l, struct dump_look *look)
{
	const struct attach_request request = {
		.pid = look->pid, .rate_hz = RATE_HZ, .kernel = true, .children = l->children
	};
	struct api_client *api = session__api(l->session);

	look->target = (struct target){ 0 };
	look->ret = target__attach(api, &request, &look->target, &look->problem);
	look->attached = !look->ret;
	look->child = look->ret == -EEXIST &&
		      (target__find(api, look->pid, &look->target, NULL) || target__ended(&look->target));
	look->ret = look->ret == -EEXIST ? 0 : look->ret;
}

/* Of one that was attached a moment ago, as its parent's parent maybe. */
static int read_as_child(const struct looking *l, const struct dump_look *batch, struct dump_look *look,
			 uint8_t **bytes, size_t *length)
{
	struct api_client *api = session__api(l->session);

	for (const struct dump_look *above = batch; above < look; above++) {
		if (!above->attached || target__threads(api, above->target.id, look->pid, bytes, length, NULL))
			continue;
		look->target = above->target;
		return 0;
	}
	return target__threads_of_child(api, look->pid, &look->target, bytes, length, NULL) ? -EEXIST : 0;
}

/* The daemon's words for a process that cannot be attached stay where it turns out to be no child either. */
static int read_threads(const struct looking *l, const struct dump_look *batch, struct dump_look *look, uint8_t **bytes,
			size_t *length)
{
	if (look->child)
		return read_as_child(l, batch, look, bytes, length);
	look->problem.text[0] = '\0';
	return target__threads(session__api(l->session), look->target.id, look->pid, bytes, length, &look->problem);
}

static int read_profile(const struct looking *l, const struct dump_look *batch, struct dump_look *look)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	size_t length;
	int ret = read_threads(l, batch, look, &bytes, &length);

	if (ret)
		return ret;
	look->problem.text[0] = '\0';
	ret = profile__read(bytes, length, &look->profile, &look->problem);
	if (ret || look->profile->n_samples)
		return ret;
	profile__free(TAKE_PTR(look->profile));
	return so_err(&look->problem, -ESRCH, "process %d has ended", look->pid);
}

static int interrupted(struct so_error *err)
{
	return so_err(err, -EINTR, "interrupted before the threads were looked at");
}

static bool has_ended(pid_t pid)
{
	return kill(pid, 0) && errno == ESRCH;
}

/* From the first one on, as many as may be attached at the same time; returns how many. */
static size_t attach_batch(const struct looking *l, struct dump_look *first)
{
	struct dump_look *end = l->looks + l->n, *look = first;
	unsigned attached = 0;

	for (; look < end && (attached < MAX_ATTACHED || look->below) && !interrupt__pending(); look++) {
		/* Most likely it is a child of what is attached now. */
		look->child = look->below && attached;
		if (look->child)
			continue;
		attach(l, look);
		attached += look->attached;
	}
	return (size_t)(look - first);
}

static void read_all(const struct looking *l, struct dump_look *first, size_t n)
{
	if (!interrupt__pending())
		interrupt__sleep_ms(SAMPLE_MS);
	for (size_t i = 0; i < n && !interrupt__pending(); i++) {
		struct dump_look *look = &first[i];

		if (!look->profile && !look->ret)
			look->ret = read_profile(l, first, look);
	}
}

/* One that alone is asked for has the daemon's words. */
static bool may_be_tried_again(const struct looking *l, struct dump_look *look)
{
	if (!look->ret || look->again || (!look->target.id && (!look->child || l->n == 1)))
		return false;
	look->again = true;
	if (l->n == 1 || !has_ended(look->pid))
		return true;
	so_err(&look->problem, 0, "ended meanwhile");
	return false;
}

/*
 * Those whose target has just ended, a recording maybe, and those that are nobody's child after all, each once and as
 * many as may be attached at the same time. false: there is none.
 */
static bool attach_again(const struct looking *l, struct dump_look *first, size_t n)
{
	unsigned attached = 0;
	bool any = false;

	for (size_t i = 0; i < n && attached < MAX_ATTACHED && !interrupt__pending(); i++) {
		if (!may_be_tried_again(l, &first[i]))
			continue;
		attach(l, &first[i]);
		attached += first[i].attached;
		any = true;
	}
	return any;
}

static void detach_all(const struct looking *l, struct dump_look *first, size_t n)
{
	for (size_t i = 0; i < n; i++)
		detach(l, &first[i]);
}

static int look_at_batch(const struct looking *l, struct dump_look *first, size_t *n, struct so_error *err)
{
	*n = attach_batch(l, first);
	read_all(l, first, *n);
	detach_all(l, first, *n);
	while (attach_again(l, first, *n)) {
		read_all(l, first, *n);
		detach_all(l, first, *n);
	}
	return interrupt__pending() ? interrupted(err) : 0;
}

int dump_look__at(struct session *session, struct dump_look *looks, size_t n, bool children, struct so_error *err)
{
	const struct looking l = { .session = session, .looks = looks, .n = n, .children = children };
	size_t done = 0, more = 0;
	int ret = interrupt__pending() ? interrupted(err) : 0;

	for (; !ret && done < n; done += more)
		ret = look_at_batch(&l, looks + done, &more, err);
	if (!ret && n == 1 && looks[0].ret)
		return so_err(err, looks[0].ret, "%s", looks[0].problem.text);
	return ret;
}
