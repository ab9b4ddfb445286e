// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/rules/match_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/os/clock.h"
#include "daemon/os/log.h"
#include "daemon/rules/match_seen.h"
#include "stakeout/array.h"

#define SECOND_NS 1000000000ull
/* A round a second, or so seldom that rounds take a fiftieth of a core at most. */
#define PAUSE_NS     SECOND_NS
#define MAX_PAUSE_NS (5 * SECOND_NS)
#define COST_FACTOR  50
/* Short-lived commands are left alone: their command lines may hold a rule's own words, like this client's. */
#define MIN_AGE_NS (SECOND_NS / 2)
/* What could not be attached is tried again, each time after twice as long. */
#define RETRY_NS     (5 * SECOND_NS)
#define MAX_RETRY_NS (60 * SECOND_NS)
/* An ended target is forgotten after this: at once where the past is kept (it has the last window within a second). */
#define FORGET_KEPT_NS (5 * SECOND_NS)
#define FORGET_NS      (300 * SECOND_NS)
/* The same cause of a failure is logged again after this. */
#define LOG_AGAIN_NS (600 * SECOND_NS)

struct ended_target {
	uint32_t id; /* 0: a free place */
	uint64_t since_ns;
};

struct match_scan {
	struct engine *engine;
	struct history *history; /* NULL: none */
	struct match_table *table;
	int proc_fd;

	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	bool stop, look; /* look: the rules have changed */

	/* The thread's own. */
	struct seen_list seen;
	uint64_t removed; /* rules, at the last round */
	struct ended_target ended[ENGINE_MAX_TARGETS];
	uint64_t logged_ns[256]; /* by errno; 0: never */
	struct match_texts texts;

	bool runs; /* the thread; who starts and ends it knows */
};

/* One round's view. */
struct round {
	struct match_scan *scan;
	struct seen_list now;
	struct target_info *targets;
	size_t n_targets;
	uint32_t last_id;
	bool wants_cgroups, room;
	unsigned living; /* targets */
	uint64_t now_ns;
	uint64_t young_ticks; /* what started later is too young */
};

struct candidate {
	uint64_t start_ticks;
	size_t at; /* in now.list, in order of pid */
	struct match_rule_info rule;
};

static const struct target_info *find_target(const struct round *r, uint32_t id)
{
	for (size_t i = 0; i < r->n_targets; i++) {
		if (r->targets[i].id == id)
			return &r->targets[i];
	}
	return NULL;
}

/* Somebody detached or stopped what a rule had attached: that stands, for this process and what descends from it. */
static void check_target(struct round *r, struct seen *s)
{
	const struct target_info *t = find_target(r, s->target);
	struct match_rule_info rule;

	if (t && (t->state != TARGET_ENDED || t->end != TARGET_END_STOPPED))
		return;
	if (!match_table__get(r->scan->table, 0, s->rule, &rule))
		s->barred = r->last_id;
	s->target = 0;
}

static int list_processes(struct round *r, bool all_again)
{
	int ret = seen_list__read(&r->now, r->scan->proc_fd, &r->scan->seen, all_again);

	if (ret)
		return ret;
	for (size_t i = 0; i < r->now.n; i++) {
		if (r->now.list[i].target)
			check_target(r, &r->now.list[i]);
	}
	seen_list__inherit_bars(&r->now);
	return 0;
}

static bool is_stakeout(const struct match_entry *e)
{
	return !strcmp(e->comm, "stakeoutd") || !strcmp(e->comm, "stakeout");
}

static bool is_due(const struct round *r, const struct seen *s)
{
	if (s->is.unfit || s->target || s->looked >= r->last_id || s->barred >= r->last_id)
		return false;
	/* As targets, those that this process descends from would have it among their children. */
	if (s->is.start_ticks > r->young_ticks || is_stakeout(&s->is) ||
	    seen_list__descends(&r->now, getpid(), s->is.pid))
		return false;
	return r->now_ns >= s->retry_ns || (s->no_room && r->room);
}

/* Which rule wants it, if any. */
static bool wants(struct round *r, struct seen *s, struct match_rule_info *rule)
{
	uint32_t after = s->looked > s->barred ? s->looked : s->barred;
	struct match_process process;

	int ret = match_proc__describe(r->scan->proc_fd, s->is.pid, r->wants_cgroups, &r->scan->texts, &process);
	/* Any other failure will pass: it is this daemon's own, or that of a process which hangs. */
	if (!ret || ret == -ESRCH)
		s->looked = r->last_id;
	return !ret && !match_table__find(r->scan->table, &process, after, rule);
}

static void retry_later(struct round *r, struct seen *s, bool no_room)
{
	uint64_t wait_ns = RETRY_NS << (s->tries < 8 ? s->tries : 8);

	s->tries++;
	s->no_room = no_room;
	s->retry_ns = r->now_ns + (wait_ns < MAX_RETRY_NS ? wait_ns : MAX_RETRY_NS);
	s->looked = 0;
}

static void log_failure(struct round *r, const struct seen *s, const struct match_rule_info *rule, int code,
			const char *why)
{
	uint64_t *logged = &r->scan->logged_ns[-code < 256 ? -code : 0];

	match_table__failed(r->scan->table, rule->id, why);
	if (*logged && r->now_ns - *logged < LOG_AGAIN_NS)
		return;
	*logged = r->now_ns;
	log__error("rule %u cannot attach process %d (%s), and tries again: %s", rule->id, s->is.pid, s->is.comm, why);
}

/* Whether the process that was attached is the one that was looked at, and not one that got its number since. */
static bool is_same(const struct round *r, const struct seen *s)
{
	struct match_entry now;

	return !match_proc__read(r->scan->proc_fd, s->is.pid, &now) && now.start_ticks == s->is.start_ticks;
}

static void attach(struct round *r, struct seen *s, const struct match_rule_info *rule)
{
	const struct attach_options options = {
		.pid = s->is.pid,
		.rate_hz = rule->rate_hz,
		.children = true,
		.kernel = true,
		.keep = true,
		.cuda = rule->cuda,
		.wall = rule->wall,
		.caller = { rule->owner, rule->group },
		.rule = rule->id,
	};
	struct so_error err = { .text = "" };
	uint32_t id = 0;
	int ret = engine__attach(r->scan->engine, &options, &id, &err);

	/* -EEXIST: somebody else's target may end before the process does. */
	if (ret && ret != -EEXIST && ret != -ESRCH)
		log_failure(r, s, rule, ret, err.text);
	if (ret && ret != -ESRCH)
		retry_later(r, s, ret == -ENOSPC && r->living >= ENGINE_MAX_TARGETS);
	if (ret)
		return;
	/* A rule that is removed from here on finds the target by its number. */
	if (!match_table__attached(r->scan->table, rule->id) || !is_same(r, s)) {
		engine__detach(r->scan->engine, id, NULL);
		s->looked = 0;
		return;
	}
	r->living++;
	s->target = id;
	s->rule = rule->id;
	s->tries = 0;
	if (r->scan->history)
		history__watch(r->scan->history, id);
	log__info("rule %u attached process %d (%s) as target %u", rule->id, s->is.pid, s->is.comm, id);
}

/* In order of their starts: who began others comes first, and they are followed. */
static int compare_start(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->start_ticks != y->start_ticks)
		return x->start_ticks < y->start_ticks ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

static bool is_stopping(struct match_scan *scan)
{
	bool stop;

	pthread_mutex_lock(&scan->lock);
	stop = scan->stop;
	pthread_mutex_unlock(&scan->lock);
	return stop;
}

static void look_at_all(struct round *r)
{
	_cleanup_free_ struct candidate *candidates = NULL;
	size_t n = 0, capacity = 0;

	for (size_t i = 0; i < r->now.n && !is_stopping(r->scan); i++) {
		struct seen *s = &r->now.list[i];
		struct match_rule_info rule;

		if (!is_due(r, s) || !wants(r, s, &rule))
			continue;
		if (ARRAY_RESERVE(candidates, capacity, n + 1)) {
			s->looked = 0;
			continue;
		}
		candidates[n++] = (struct candidate){ s->is.start_ticks, i, rule };
	}
	if (n)
		qsort(candidates, n, sizeof(*candidates), compare_start);
	for (size_t i = 0; i < n && !is_stopping(r->scan); i++) {
		struct seen *s = &r->now.list[candidates[i].at];

		if (!seen_list__is_followed(&r->now, s))
			attach(r, s, &candidates[i].rule);
	}
}

/* How long a target has been seen ended. */
static uint64_t ended_for(struct match_scan *scan, uint32_t id, uint64_t now_ns)
{
	struct ended_target *place = NULL;

	for (size_t i = 0; i < ENGINE_MAX_TARGETS; i++) {
		if (scan->ended[i].id == id)
			return now_ns - scan->ended[i].since_ns;
		if (!scan->ended[i].id)
			place = &scan->ended[i];
	}
	if (place)
		*place = (struct ended_target){ id, now_ns };
	return 0;
}

/* Targets of jobs that are restarted all the time must not stay for ever; their history does. */
static void forget_ended(struct round *r)
{
	struct match_scan *scan = r->scan;
	uint64_t after_ns = scan->history ? FORGET_KEPT_NS : FORGET_NS;

	for (size_t i = 0; i < ENGINE_MAX_TARGETS; i++) {
		if (scan->ended[i].id && !find_target(r, scan->ended[i].id))
			scan->ended[i].id = 0;
	}
	for (size_t i = 0; i < r->n_targets; i++) {
		const struct target_info *t = &r->targets[i];

		if (!t->rule || t->state != TARGET_ENDED || t->end == TARGET_END_STOPPED)
			continue;
		if (ended_for(scan, t->id, r->now_ns) >= after_ns)
			engine__detach(scan->engine, t->id, NULL);
	}
}

static unsigned count_living(const struct round *r)
{
	unsigned n = 0;

	for (size_t i = 0; i < r->n_targets; i++)
		n += r->targets[i].state != TARGET_ENDED;
	return n;
}

/* Start times count from boot, in clock ticks. */
static uint64_t young_ticks(void)
{
	uint64_t boot_ns = clock__read_ns(CLOCK_BOOTTIME), tick_ns = SECOND_NS / (uint64_t)sysconf(_SC_CLK_TCK);

	return boot_ns > MIN_AGE_NS ? (boot_ns - MIN_AGE_NS) / tick_ns : 0;
}

void match_scan__round(struct match_scan *scan)
{
	struct round r = { .scan = scan, .now_ns = clock__now_ns(), .young_ticks = young_ticks() };
	uint64_t removed;

	match_table__state(scan->table, &r.last_id, &removed, &r.wants_cgroups);
	if (engine__list(scan->engine, &r.targets, &r.n_targets))
		return;
	forget_ended(&r);
	r.living = count_living(&r);
	r.room = r.living < ENGINE_MAX_TARGETS;
	/* Another rule may want what the removed one had; what they match is unchanged: nothing barred comes back. */
	if (r.last_id && !list_processes(&r, removed != scan->removed)) {
		look_at_all(&r);
		seen_list__release(&scan->seen);
		scan->seen = r.now;
		r.now = (struct seen_list){ 0 };
		scan->removed = removed;
	}
	seen_list__release(&r.now);
	free(r.targets);
}

/* Until the next round is due: at once when the rules change, without a rule only then. True: the thread must end. */
static bool wait_for_round(struct match_scan *scan, uint64_t pause_ns)
{
	uint64_t at_ns = clock__now_ns() + pause_ns, removed;
	bool stop, cgroups;
	uint32_t last_id;

	pthread_mutex_lock(&scan->lock);
	for (;;) {
		match_table__state(scan->table, &last_id, &removed, &cgroups);
		if (scan->stop || scan->look ||
		    clock__wait(&scan->wake, &scan->lock, last_id ? at_ns : UINT64_MAX) == ETIMEDOUT)
			break;
	}
	scan->look = false;
	stop = scan->stop;
	pthread_mutex_unlock(&scan->lock);
	return stop;
}

static uint64_t thread_cpu_ns(void)
{
	return clock__read_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void *run(void *context)
{
	struct match_scan *scan = context;
	uint64_t pause_ns = PAUSE_NS;

	while (!wait_for_round(scan, pause_ns)) {
		uint64_t began_ns = thread_cpu_ns();

		match_scan__round(scan);
		pause_ns = (thread_cpu_ns() - began_ns) * COST_FACTOR;
		if (pause_ns < PAUSE_NS)
			pause_ns = PAUSE_NS;
		if (pause_ns > MAX_PAUSE_NS)
			pause_ns = MAX_PAUSE_NS;
	}
	return NULL;
}

int match_scan__new(struct engine *engine, struct history *history, const char *proc, struct match_scan **out,
		    struct so_error *err)
{
	_cleanup_free_ struct match_scan *scan = calloc(1, sizeof(*scan));
	_cleanup_(match_table) struct match_table *table = NULL;

	if (!scan || match_table__new(&table))
		return so_err(err, -ENOMEM, "out of memory");
	scan->proc_fd = open(proc ?: "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (scan->proc_fd < 0)
		return so_err(err, -errno, "cannot open %s: %s", proc ?: "/proc", strerror(errno));
	scan->engine = engine;
	scan->history = history;
	scan->table = TAKE_PTR(table);
	pthread_mutex_init(&scan->lock, NULL);
	clock__init_cond(&scan->wake);
	*out = TAKE_PTR(scan);
	return 0;
}

int match_scan__start(struct match_scan *scan, struct so_error *err)
{
	int ret = pthread_create(&scan->thread, NULL, run, scan);

	if (ret)
		return so_err(err, -ret, "cannot start a thread: %s", strerror(ret));
	scan->runs = true;
	return 0;
}

static void wake(struct match_scan *scan, bool stop)
{
	pthread_mutex_lock(&scan->lock);
	scan->stop |= stop;
	scan->look = true;
	pthread_cond_signal(&scan->wake);
	pthread_mutex_unlock(&scan->lock);
}

void match_scan__free(struct match_scan *scan)
{
	if (!scan)
		return;
	wake(scan, true);
	if (scan->runs)
		pthread_join(scan->thread, NULL);
	match_table__free(scan->table);
	close(scan->proc_fd);
	seen_list__release(&scan->seen);
	pthread_cond_destroy(&scan->wake);
	pthread_mutex_destroy(&scan->lock);
	free(scan);
}

struct match_table *match_scan__table(struct match_scan *scan)
{
	return scan->table;
}

int match_scan__add(struct match_scan *scan, const char *text, struct caller owner, bool configured, uint32_t *id,
		    struct so_error *err)
{
	int ret = match_table__add(scan->table, text, owner, configured, id, err);

	if (!ret)
		wake(scan, false);
	return ret;
}

int match_scan__remove(struct match_scan *scan, uid_t uid, uint32_t id, unsigned *detached, struct so_error *err)
{
	_cleanup_free_ struct target_info *targets = NULL;
	size_t n = 0;
	int ret = match_table__remove(scan->table, uid, id, err);

	if (ret)
		return ret;
	*detached = 0;
	if (!engine__list(scan->engine, &targets, &n)) {
		for (size_t i = 0; i < n; i++) {
			if (targets[i].rule == id && !engine__detach(scan->engine, targets[i].id, NULL))
				*detached += targets[i].state != TARGET_ENDED;
		}
	}
	wake(scan, false);
	return 0;
}
