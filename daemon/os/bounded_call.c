// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/bounded_call.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/os/limits.h"
#include "daemon/os/log.h"
#include "daemon/os/proc_file.h"

#define MS       1000000ull
#define MAX_IDLE 4
/* A wait that is shorter costs nobody anything. */
#define LONG_NS (2 * MS)
/* Of a file, from a slow disk perhaps. */
#define LONG_OPEN_NS (100 * MS)
#define N_USERS 64

/* Of one caller, on its stack. Under the pool's lock, as all below. */
struct waiting {
	bool done;
	uint64_t ran_ns; /* when it is done */
	pthread_cond_t changed;
};

/* A thread that makes calls. */
struct worker {
	struct worker *next;
	struct bounded_call call; /* no run(): it has nothing to do */
	struct waiting *waiting;  /* NULL: nobody waits for it any more */
	uid_t uid;                /* whose it is, of a call that is given up */
	uint64_t began_ns;        /* 0: it was not run yet, for want of a CPU */
	bool said;
	pthread_cond_t wake;
};

/* A user whose processes were waited for lately. */
struct slow_user {
	uid_t uid;
	enum bounded_call_kind kind;
	uint64_t since_ns, waited_ns;
};

/* One for the program: threads that hang cannot be given back. */
static struct {
	pthread_mutex_t lock;
	struct worker *workers;
	unsigned n_idle, n_stuck;
	struct slow_user users[N_USERS];
	unsigned n_users;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void describe(pid_t pid, char comm[16])
{
	struct proc_stat stat = { .comm = "?" };
	char text[512];

	if (proc_file__read(PROC_FILE_HERE, pid, "stat", text, sizeof(text)) > 0)
		proc_stat__parse(text, &stat);
	memcpy(comm, stat.comm, sizeof(stat.comm));
}

static void say_stuck(const struct bounded_call *call)
{
	pid_t pid = call->pid;
	char comm[16];

	if (call->kind == BOUNDED_CALL_PATHS) {
		log__error(
			"a file system keeps who opens a file for user %u waiting, as a debug file or a perf map: it "
			"is done without",
			call->uid);
		return;
	}
	describe(pid, comm);
	log__error("process %d (%s) keeps who reads its memory or its files waiting, as in uninterruptible sleep, "
		   "where it "
		   "holds the lock of its memory: what needs them waits until it lets go",
		   pid, comm);
}

static void say_free(const struct bounded_call *call)
{
	char comm[16];

	if (call->kind == BOUNDED_CALL_PATHS) {
		log__info("a file for user %u that was waited for could be opened, or not", call->uid);
		return;
	}
	describe(call->pid, comm);
	log__info("process %d (%s) has let go what was read of it, or ended", call->pid, comm);
}

/* Root's where it is not known. */
static uid_t uid_of(const struct bounded_call *call)
{
	uid_t uid;

	if (call->kind == BOUNDED_CALL_PATHS)
		return call->uid;
	return proc_file__uid(PROC_FILE_HERE, call->pid, &uid) ? 0 : uid;
}

/* With the lock, which is let go meanwhile. The call counts as stuck until its context is given back. */
static void forget(struct worker *w)
{
	pthread_mutex_unlock(&pool.lock);
	w->call.forget(w->call.context);
	pthread_mutex_lock(&pool.lock);
	if (!w->said)
		return;
	pthread_mutex_unlock(&pool.lock);
	say_free(&w->call);
	pthread_mutex_lock(&pool.lock);
}

/*
 * With the lock, which is let go while it works. It has nothing to do only at the end: forget() may wait for a lock of
 * the caller's, who must not be given this worker for another call meanwhile.
 */
static void work(struct worker *w)
{
	struct bounded_call call = w->call;

	w->began_ns = clock__now_ns();
	pthread_mutex_unlock(&pool.lock);
	call.run(call.context);
	pthread_mutex_lock(&pool.lock);
	if (w->waiting) {
		w->waiting->done = true;
		w->waiting->ran_ns = clock__now_ns() - w->began_ns;
		pthread_cond_signal(&w->waiting->changed);
	} else {
		forget(w);
		pool.n_stuck--;
	}
	pool.n_idle++;
	w->call.run = NULL;
	w->waiting = NULL;
}

static void *work_for_ever(void *context)
{
	struct worker *w = context, **at;

	pthread_mutex_lock(&pool.lock);
	for (;;) {
		while (!w->call.run)
			pthread_cond_wait(&w->wake, &pool.lock);
		work(w);
		if (pool.n_idle > MAX_IDLE && !w->call.run)
			break;
	}
	for (at = &pool.workers; *at != w; at = &(*at)->next)
		;
	*at = w->next;
	pool.n_idle--;
	pthread_mutex_unlock(&pool.lock);
	pthread_cond_destroy(&w->wake);
	free(w);
	return NULL;
}

static struct worker *new_worker(void)
{
	struct worker *w = calloc(1, sizeof(*w));
	pthread_attr_t attr;
	pthread_t thread;
	int ret;

	if (!w)
		return NULL;
	pthread_cond_init(&w->wake, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	ret = pthread_create(&thread, &attr, work_for_ever, w);
	pthread_attr_destroy(&attr);
	if (ret) {
		pthread_cond_destroy(&w->wake);
		free(w);
		return NULL;
	}
	pthread_setname_np(thread, "bounded call");
	w->next = pool.workers;
	pool.workers = w;
	pool.n_idle++;
	return w;
}

static struct worker *idle_worker(void)
{
	for (struct worker *w = pool.workers; w; w = w->next)
		if (!w->call.run)
			return w;
	return new_worker();
}

static bool is_stuck(const struct worker *w)
{
	return w->call.run && !w->waiting;
}

static bool is_about_same(const struct bounded_call *a, const struct bounded_call *b)
{
	if (a->kind != b->kind)
		return false;
	return a->kind == BOUNDED_CALL_PATHS ? a->uid == b->uid : a->pid == b->pid;
}

/* A user's files lie in many places, of which one may hang. */
static bool is_hanging(const struct bounded_call *call)
{
	if (call->kind == BOUNDED_CALL_PATHS)
		return false;
	for (const struct worker *w = pool.workers; w; w = w->next)
		if (is_stuck(w) && is_about_same(&w->call, call))
			return true;
	return false;
}

static unsigned stuck_of(uid_t uid)
{
	unsigned n = 0;

	for (const struct worker *w = pool.workers; w; w = w->next)
		n += is_stuck(w) && w->uid == uid;
	return n;
}

/* The users whose time is over are forgotten. NULL: none of these. */
static struct slow_user *find_user(uid_t uid, enum bounded_call_kind kind, uint64_t now_ns)
{
	struct slow_user *found = NULL;
	unsigned n = 0;

	for (unsigned i = 0; i < pool.n_users; i++) {
		if (now_ns - pool.users[i].since_ns >= BOUNDED_CALL_PERIOD_MS * MS)
			continue;
		pool.users[n] = pool.users[i];
		if (pool.users[n].uid == uid && pool.users[n].kind == kind)
			found = &pool.users[n];
		n++;
	}
	pool.n_users = n;
	return found;
}

/* Where one more user is noted: in the place of who was first, if there is no other. */
static struct slow_user *user_place(void)
{
	struct slow_user *first = &pool.users[0];

	if (pool.n_users < N_USERS)
		return &pool.users[pool.n_users++];
	for (unsigned i = 1; i < N_USERS; i++)
		if (pool.users[i].since_ns < first->since_ns)
			first = &pool.users[i];
	return first;
}

static void note_wait(const struct bounded_call *call, uint64_t waited_ns)
{
	uint64_t now_ns = clock__now_ns();
	uid_t uid = uid_of(call);
	struct slow_user *user = find_user(uid, call->kind, now_ns);

	if (!user) {
		user = user_place();
		*user = (struct slow_user){ .uid = uid, .kind = call->kind, .since_ns = now_ns };
	}
	user->waited_ns += waited_ns < BOUNDED_CALL_MOST_MS * MS ? waited_ns : BOUNDED_CALL_MOST_MS * MS;
}

/* Nothing is asked about the user while nobody is slow. */
static int may_begin(const struct bounded_call *call, unsigned *patience_ms)
{
	const struct slow_user *user;
	bool bounded;
	uid_t uid;

	*patience_ms = call->patience_ms;
	if (!pool.n_users && !pool.n_stuck)
		return 0;
	if (is_hanging(call))
		return -EBUSY;
	uid = uid_of(call);
	bounded = uid || call->kind == BOUNDED_CALL_PATHS;
	if (pool.n_stuck >= BOUNDED_CALL_MAX_STUCK || (bounded && stuck_of(uid) >= BOUNDED_CALL_USER_STUCK)) {
		limits__hit(LIMIT_STUCK, 1);
		return -EBUSY;
	}
	user = find_user(uid, call->kind, clock__now_ns());
	if (!uid || !user || user->waited_ns < BOUNDED_CALL_USER_MS * MS)
		return 0;
	*patience_ms = 0;
	return call->kind == BOUNDED_CALL_FILES ? 0 : -EBUSY;
}

static void await(struct waiting *waiting, unsigned patience_ms)
{
	uint64_t until_ns = clock__now_ns() + patience_ms * MS;

	while (!waiting->done && clock__wait(&waiting->changed, &pool.lock, until_ns) != ETIMEDOUT)
		;
}

static void give_up(struct worker *w)
{
	w->waiting = NULL;
	w->uid = uid_of(&w->call);
	pool.n_stuck++;
	if (w->began_ns)
		note_wait(&w->call, clock__now_ns() - w->began_ns);
}

static int make_locked(const struct bounded_call *call, unsigned things)
{
	struct waiting waiting = { .done = false };
	unsigned patience_ms;
	struct worker *w = may_begin(call, &patience_ms) ? NULL : idle_worker();

	if (!w)
		return -EBUSY;
	clock__init_cond(&waiting.changed);
	pool.n_idle--;
	w->call = *call;
	w->waiting = &waiting;
	w->began_ns = 0;
	w->said = false;
	pthread_cond_signal(&w->wake);
	await(&waiting, patience_ms);
	pthread_cond_destroy(&waiting.changed);
	if (waiting.ran_ns > things * (call->kind == BOUNDED_CALL_PATHS ? LONG_OPEN_NS : LONG_NS))
		note_wait(call, waiting.ran_ns);
	if (waiting.done)
		return 0;
	give_up(w);
	return -EINPROGRESS;
}

static bool is_said(const struct bounded_call *call)
{
	for (const struct worker *w = pool.workers; w; w = w->next)
		if (is_stuck(w) && w->said && is_about_same(&w->call, call))
			return true;
	return false;
}

/* A call that hangs for long and was not logged, nor another one like it. */
static bool take_unsaid(struct bounded_call *out)
{
	uint64_t now_ns = clock__now_ns();

	for (struct worker *w = pool.workers; w; w = w->next) {
		if (!is_stuck(w) || is_said(&w->call))
			continue;
		if (w->began_ns && now_ns - w->began_ns >= BOUNDED_CALL_SAID_MS * MS) {
			w->said = true;
			*out = w->call;
			return true;
		}
	}
	return false;
}

static void say_all(void)
{
	struct bounded_call call;
	bool found;

	do {
		pthread_mutex_lock(&pool.lock);
		found = take_unsaid(&call);
		pthread_mutex_unlock(&pool.lock);
		if (found)
			say_stuck(&call);
	} while (found);
}

int bounded_call__make(const struct bounded_call *call)
{
	return bounded_call__make_of(call, 1);
}

int bounded_call__make_of(const struct bounded_call *call, unsigned things)
{
	int ret;

	pthread_mutex_lock(&pool.lock);
	ret = make_locked(call, things);
	pthread_mutex_unlock(&pool.lock);
	if (ret == -EBUSY)
		call->forget(call->context);
	if (ret)
		say_all();
	return ret;
}

unsigned bounded_call__stuck(void)
{
	unsigned n = 0;

	say_all();
	pthread_mutex_lock(&pool.lock);
	for (const struct worker *w = pool.workers; w; w = w->next)
		n += is_stuck(w) && w->said;
	pthread_mutex_unlock(&pool.lock);
	return n;
}
