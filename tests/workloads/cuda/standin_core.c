/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "standin.h"
#include "standin_state.h"

/* A sleep ends late by the timer slack (50 µs) and a wake-up; the rest of a wait is spun. */
#define SLEEP_FROM_NS   1000000
#define SLEEP_MARGIN_NS 200000

static struct standin_script script;
static struct standin_totals ended;  /* of threads that have ended; under `lock` */
static struct standin_local *locals; /* under `lock` */
static const char *images[STANDIN_IMAGES] = { "libcuda.so.1" };
static unsigned image_count = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t at_thread_end;
static char *truth_path;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void wait_until(uint64_t deadline_ns)
{
	uint64_t now = now_ns();

	if (!script.spin && now + SLEEP_FROM_NS < deadline_ns) {
		uint64_t wake = deadline_ns - SLEEP_MARGIN_NS;
		struct timespec t = { (time_t)(wake / 1000000000), (long)(wake % 1000000000) };

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
			;
	}
	while (now_ns() < deadline_ns)
		;
}

static int before(struct standin_call *call)
{
	struct standin_rule *rule = &script.rules[call->api];
	uint64_t turn = __atomic_fetch_add(&rule->turns, 1, __ATOMIC_RELAXED);

	call->measured = rule->measured && call->local->thread->depth == 1;
	call->wait_ns = rule->steps ? rule->wait_ns[turn % rule->steps] : 0;
	if (call->measured)
		call->start_ns = now_ns();
	return rule->every && turn % rule->every == rule->every - 1 ? rule->code : 0;
}

static void after(struct standin_call *call)
{
	struct standin_slot *slot = &call->local->slots[call->api];
	uint64_t ns;

	if (call->wait_ns)
		wait_until(now_ns() + call->wait_ns);
	if (!call->measured)
		return;
	ns = now_ns() - call->start_ns;
	if (!slot->timed || ns < slot->min_ns)
		__atomic_store_n(&slot->min_ns, ns, __ATOMIC_RELAXED);
	if (ns > slot->max_ns)
		__atomic_store_n(&slot->max_ns, ns, __ATOMIC_RELAXED);
	standin_add(&slot->sum_ns, ns);
	standin_add(&slot->timed, 1);
	__atomic_store_n(&slot->times[standin_bucket__of(ns)], slot->times[standin_bucket__of(ns)] + 1,
			 __ATOMIC_RELAXED);
}

/* All slots of a thread at once; a call that comes later still, from another destructor, begins anew with others. */
static void thread_ended(void *thread)
{
	pthread_mutex_lock(&lock);
	for (struct standin_local **p = &locals, *local; (local = *p);) {
		if (local->thread != thread) {
			p = &local->next;
			continue;
		}
		*p = local->next;
		*local->home = NULL;
		totals__add_local(&ended, local);
		free(local);
	}
	totals__add_thread(&ended, thread);
	pthread_mutex_unlock(&lock);
	free(thread);
}

static struct standin_local *enter(unsigned image, struct standin_local **home)
{
	struct standin_local *local = calloc(1, sizeof(*local));
	struct standin_thread *thread = pthread_getspecific(at_thread_end);

	if (!thread) {
		thread = calloc(1, sizeof(*thread));
		pthread_setspecific(at_thread_end, thread);
	}
	if (!local || !thread) {
		fputs("standin: no memory\n", stderr);
		_exit(2);
	}
	/* Most of its pages, which are for times, stay untouched. */
	local->home = home;
	local->thread = thread;
	local->rules = script.rules;
	local->core = standin_core();
	local->image = image;
	pthread_mutex_lock(&lock);
	local->next = locals;
	locals = local;
	pthread_mutex_unlock(&lock);
	*home = local;
	return local;
}

static unsigned add_image(const char *name)
{
	unsigned i = 0;

	pthread_mutex_lock(&lock);
	while (i < image_count && strcmp(images[i], name) != 0)
		i++;
	if (i == STANDIN_IMAGES) {
		fputs("standin: too many runtimes in one process\n", stderr);
		_exit(2);
	}
	if (i == image_count)
		images[image_count++] = strdup(name);
	pthread_mutex_unlock(&lock);
	return i;
}

STANDIN_ENTRY void standin_truth_print(FILE *f)
{
	struct standin_totals *totals = malloc(sizeof(*totals));

	if (!totals)
		return;
	pthread_mutex_lock(&lock);
	*totals = ended;
	for (struct standin_local *local = locals; local; local = local->next) {
		bool counted = false;

		totals__add_local(totals, local);
		for (struct standin_local *other = locals; other != local; other = other->next)
			counted |= other->thread == local->thread;
		if (!counted)
			totals__add_thread(totals, local->thread);
	}
	totals__print(totals, images, image_count, f);
	pthread_mutex_unlock(&lock);
	free(totals);
}

static void print(void *file)
{
	standin_truth_print(file);
}

STANDIN_ENTRY const struct standin_core *standin_core(void)
{
	static const struct standin_core core = { add_image, enter, before, after, print };

	return &core;
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

/* A child has made no calls yet; the parent's other threads are not in it. */
static void in_child(void)
{
	memset(&ended, 0, sizeof(ended));
	for (struct standin_local *local = locals; local; local = local->next) {
		struct standin_thread *thread = local->thread;

		memset(local->slots, 0, sizeof(local->slots));
		memset(thread->launches, 0, sizeof(thread->launches));
		memset(&thread->device, 0, sizeof(thread->device));
		memset(&thread->host, 0, sizeof(thread->host));
	}
	pthread_mutex_unlock(&lock);
}

static __attribute__((constructor)) void start(void)
{
	const char *path = getenv("STANDIN_CUDA_TRUTH");

	script__read(&script, getenv("STANDIN_CUDA"));
	pthread_key_create(&at_thread_end, thread_ended);
	pthread_atfork(before_fork, in_parent, in_child);
	truth_path = path && *path ? strdup(path) : NULL;
}

static __attribute__((destructor)) void finish(void)
{
	char *mark = truth_path ? strstr(truth_path, "%p") : NULL;
	char path[4096];
	FILE *f;

	if (!truth_path)
		return;
	if (mark)
		snprintf(path, sizeof(path), "%.*s%d%s", (int)(mark - truth_path), truth_path, (int)getpid(),
			 mark + 2);
	else
		snprintf(path, sizeof(path), "%s", truth_path);
	f = fopen(path, "w");
	if (!f) {
		perror(path);
		return;
	}
	standin_truth_print(f);
	if (fclose(f))
		perror(path);
}
