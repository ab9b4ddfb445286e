/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/nvml/nvml_watch.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NS 1000000000ull /* in a second */

struct nvml_watch {
	const char *path, *helper;
	uint64_t interval_ns;          /* of attempts */
	struct nvml_refusals refusals; /* the attempt's */
	pthread_mutex_t lock;          /* of all below */
	unsigned users;                /* the owner, and the thread of an attempt */
	struct nvml *nvml;             /* NULL: never opened */
	char problem[NVML_WATCH_TEXT_BYTES];
	bool tried;
	bool trying;       /* an attempt calls the library: nobody else does, for NVML's helper serves one */
	bool late;         /* which has been said */
	uint64_t began_ns; /* the last attempt */
	uint64_t again_ns; /* no attempt before */
};

static uint64_t interval_ns(void)
{
	const char *text = getenv("STAKEOUT_NVML_AGAIN_S");
	uint64_t seconds = text ? strtoul(text, NULL, 10) : 0;

	return seconds > 0 && seconds < NVML_WATCH_AGAIN_NS / NS ? seconds * NS : NVML_WATCH_AGAIN_NS;
}

int nvml_watch__new(const char *path, const char *helper, struct nvml_watch **out)
{
	struct nvml_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->path = path;
	w->helper = helper;
	w->interval_ns = interval_ns();
	w->users = 1;
	pthread_mutex_init(&w->lock, NULL);
	*out = w;
	return 0;
}

static void unref(struct nvml_watch *w)
{
	bool last;

	pthread_mutex_lock(&w->lock);
	last = --w->users == 0;
	pthread_mutex_unlock(&w->lock);
	if (!last)
		return;
	nvml__close(w->nvml);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

/* With the lock held since the attempt's problem was written: a tick between the two might write that it is late. */
static void end_attempt(struct nvml_watch *w)
{
	w->trying = w->late = false;
}

static void ask_again(struct nvml_watch *w)
{
	nvml__ask_again(w->nvml, &w->lock);
	pthread_mutex_lock(&w->lock);
	w->problem[0] = '\0';
	if (!nvml__is_lost(w->nvml))
		nvml__set_problem(w->nvml, "");
	end_attempt(w);
	pthread_mutex_unlock(&w->lock);
}

static void open_anew(struct nvml_watch *w)
{
	struct so_error why = { "" };
	struct nvml *fresh = NULL;

	pthread_mutex_lock(&w->lock);
	if (w->nvml)
		nvml__let_go(w->nvml);
	pthread_mutex_unlock(&w->lock);
	nvml__open(w->path, w->helper, &w->refusals, &fresh, &why);
	pthread_mutex_lock(&w->lock);
	snprintf(w->problem, sizeof(w->problem), "%s", why.text);
	if (fresh) {
		if (w->nvml)
			nvml__inherit(fresh, w->nvml);
		nvml__close(w->nvml);
		w->nvml = fresh;
		w->problem[0] = '\0';
	} else if (w->nvml) {
		nvml__set_problem(w->nvml, why.text);
	}
	end_attempt(w);
	pthread_mutex_unlock(&w->lock);
}

/* With `trying` set, and without the lock: the driver may take seconds to start the GPUs. */
static void attempt(struct nvml_watch *w)
{
	if (w->nvml && !nvml__is_lost(w->nvml))
		ask_again(w);
	else
		open_anew(w);
}

static void *attempt_thread(void *arg)
{
	struct nvml_watch *w = arg;

	attempt(w);
	unref(w);
	return NULL;
}

/* True when it is this caller's to try. */
static bool begin(struct nvml_watch *w, uint64_t now_ns)
{
	if (w->trying || now_ns < w->again_ns)
		return false;
	w->tried = w->trying = true;
	w->began_ns = now_ns;
	w->again_ns = now_ns + w->interval_ns;
	return true;
}

void nvml_watch__open(struct nvml_watch *w, uint64_t now_ns)
{
	bool first;

	pthread_mutex_lock(&w->lock);
	first = !w->tried && begin(w, now_ns);
	pthread_mutex_unlock(&w->lock);
	if (first)
		attempt(w);
}

/* With the lock held. Where there is no thread to be had, the next attempt is a minute later as well. */
static void begin_thread(struct nvml_watch *w)
{
	pthread_t thread;

	w->users++;
	if (pthread_create(&thread, NULL, attempt_thread, w)) {
		w->users--;
		w->trying = false;
		return;
	}
	pthread_setname_np(thread, "nvml");
	pthread_detach(thread);
}

/* With the lock held. The attempt goes on, and takes that back when it ends. */
static void tell_when_late(struct nvml_watch *w, uint64_t now_ns)
{
	if (!w->trying || w->late || now_ns < w->began_ns + NVML_WATCH_LATE_NS)
		return;
	w->late = true;
	snprintf(w->problem, sizeof(w->problem), "the driver does not answer");
	if (w->nvml)
		nvml__set_problem(w->nvml, w->problem);
}

void nvml_watch__tick(struct nvml_watch *w, uint64_t now_ns)
{
	pthread_mutex_lock(&w->lock);
	tell_when_late(w, now_ns);
	if (w->nvml && !w->trying && !nvml__is_lost(w->nvml))
		nvml__sample(w->nvml, now_ns);
	if (w->tried && (!w->nvml || nvml__is_lost(w->nvml) || nvml__lacks_device(w->nvml)) && begin(w, now_ns))
		begin_thread(w);
	pthread_mutex_unlock(&w->lock);
}

json_t *nvml_watch__report(struct nvml_watch *w, const pid_t *pids, size_t n, uint64_t since_ns,
			   char problem[NVML_WATCH_TEXT_BYTES])
{
	json_t *report;

	pthread_mutex_lock(&w->lock);
	report = w->nvml ? nvml__report(w->nvml, pids, n, since_ns) : NULL;
	memcpy(problem, w->problem, NVML_WATCH_TEXT_BYTES);
	pthread_mutex_unlock(&w->lock);
	return report;
}

int nvml_watch__series(struct nvml_watch *w, unsigned index, uint64_t since_ns, uint64_t until_ns, char **out)
{
	int ret;

	*out = NULL;
	pthread_mutex_lock(&w->lock);
	ret = w->nvml ? nvml__series(w->nvml, index, since_ns, until_ns, out) : 0;
	pthread_mutex_unlock(&w->lock);
	return ret;
}

void nvml_watch__free(struct nvml_watch *w)
{
	if (w)
		unref(w);
}
