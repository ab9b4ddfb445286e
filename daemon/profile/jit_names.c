// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/profile/jit_names.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/os/bounded_call.h"
#include "daemon/os/clock.h"
#include "daemon/os/u64_table.h"
#include "daemon/symbols/perf_map.h"
#include "stakeout/array.h"

#define RETRY_NS         1000000000ull /* after a map could not be opened, or not be read in time */
#define POLL_PATIENCE_MS 250
#define MAX_FRESH        65536 /* lines */

struct range {
	uint64_t start, end;
};

/* The file's length before the first sample, and after the last, bytes. */
struct window {
	uint64_t from, to;
};

struct jit_process {
	pid_t tgid;
	int fd;                 /* of its map; -1: not open */
	uid_t uid;              /* the map's owner */
	bool ended;             /* the process has, so the map grows no more */
	uint64_t not_before_ns; /* the next poll */
	uint64_t seen_ns;
	uint64_t from, at;   /* the file's length at the window's start and at the latest poll, in whole lines */
	struct range *fresh; /* of the lines in between; disjoint and by start if sorted */
	size_t n_fresh, room;
	bool sorted, all_fresh;     /* all_fresh: any address may have a line in between */
	struct u64_table addresses; /* sampled ones, with 1 + 2 * the turn since which the name is unchanged */
	struct window *windows;     /* numbered from 1 */
	size_t n_windows, windows_room;
	size_t old_windows;  /* the first N are of a file that has been replaced */
	bool late;           /* the latest poll timed out */
	size_t late_windows; /* how many there were by then: the others' `to` is set by the next poll */
};

struct jit_names {
	pthread_mutex_t lock;
	struct jit_process *list[JIT_NAMES_MAX_PROCESSES];
	size_t n;
	uint32_t turn; /* counts drained windows */
	uint64_t polled_ns;
	bool polling;
};

int jit_names__new(struct jit_names **out)
{
	struct jit_names *j = calloc(1, sizeof(*j));

	if (!j)
		return -ENOMEM;
	pthread_mutex_init(&j->lock, NULL);
	j->turn = 1;
	*out = j;
	return 0;
}

static void free_process(struct jit_process *p)
{
	if (p->fd >= 0)
		close(p->fd);
	u64_table__release(&p->addresses);
	free(p->fresh);
	free(p->windows);
	free(p);
}

void jit_names__free(struct jit_names *j)
{
	if (!j)
		return;
	for (size_t i = 0; i < j->n; i++)
		free_process(j->list[i]);
	pthread_mutex_destroy(&j->lock);
	free(j);
}

static struct jit_process *find(const struct jit_names *j, pid_t tgid)
{
	for (size_t i = 0; i < j->n; i++) {
		if (j->list[i]->tgid == tgid)
			return j->list[i];
	}
	return NULL;
}

/* How many of the processes that have a map belong to the same user. */
static size_t share_of(const struct jit_names *j, const struct jit_process *p)
{
	size_t n = 0;

	for (size_t i = 0; p->fd >= 0 && i < j->n; i++)
		n += j->list[i]->fd >= 0 && j->list[i]->uid == p->uid;
	return n;
}

/* One without a map, else one of the user who has most; of these the least recently sampled one. */
static size_t least_needed(const struct jit_names *j)
{
	size_t found = 0, found_share = share_of(j, j->list[0]);

	for (size_t i = 1; i < j->n; i++) {
		size_t share = share_of(j, j->list[i]);

		if (found_share == share ? j->list[i]->seen_ns < j->list[found]->seen_ns
					 : !share || (found_share && share > found_share)) {
			found = i;
			found_share = share;
		}
	}
	return found;
}

static struct jit_process *add(struct jit_names *j, pid_t tgid)
{
	struct jit_process *p = calloc(1, sizeof(*p));
	size_t at = j->n;

	if (!p)
		return NULL;
	*p = (struct jit_process){ .tgid = tgid, .fd = -1 };
	if (j->n == JIT_NAMES_MAX_PROCESSES) {
		at = least_needed(j);
		free_process(j->list[at]);
	} else {
		j->n++;
	}
	j->list[at] = p;
	return p;
}

static int compare_start(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static void sort_fresh(struct jit_process *p)
{
	size_t n = 0;

	qsort(p->fresh, p->n_fresh, sizeof(*p->fresh), compare_start);
	for (size_t i = 0; i < p->n_fresh; i++) {
		if (n && p->fresh[i].start <= p->fresh[n - 1].end) {
			if (p->fresh[i].end > p->fresh[n - 1].end)
				p->fresh[n - 1].end = p->fresh[i].end;
		} else {
			p->fresh[n++] = p->fresh[i];
		}
	}
	p->n_fresh = n;
	p->sorted = true;
}

static bool is_fresh(struct jit_process *p, uint64_t address)
{
	size_t before;

	if (p->all_fresh || !p->n_fresh)
		return p->all_fresh;
	if (!p->sorted)
		sort_fresh(p);
	before = ARRAY_BEFORE(i, p->n_fresh, p->fresh[i].start <= address);
	return before && address < p->fresh[before - 1].end;
}

/* Input and results of one poll, owned by the call. */
struct poll {
	pid_t tgid;
	int fd; /* -1: to be opened */
	uint64_t at;
	uid_t uid;
	bool opened, replaced, all_fresh;
	struct range *fresh;
	size_t n, room;
};

static void forget_poll(void *context)
{
	struct poll *l = context;

	if (l->fd >= 0)
		close(l->fd);
	free(l->fresh);
	free(l);
}

static void add_fresh(void *context, uint64_t start, uint64_t end)
{
	struct poll *l = context;

	if (l->n == MAX_FRESH || ARRAY_RESERVE(l->fresh, l->room, l->n + 1))
		l->all_fresh = true;
	else
		l->fresh[l->n++] = (struct range){ start, end };
}

static void read_fresh(struct poll *l, uint64_t size)
{
	_cleanup_free_ char *text = NULL;
	ssize_t n;

	if (size - l->at > JIT_NAMES_MAX_BYTES) {
		l->all_fresh = true;
		l->at = size;
		return;
	}
	text = malloc(size - l->at + 1);
	n = text ? pread(l->fd, text, size - l->at, (off_t)l->at) : -1;
	if (n > 0)
		l->at += perf_map__each_range(text, (size_t)n, add_fresh, l);
}

/* A file that is shorter now, or unlinked, has been replaced. */
static void run_poll(void *context)
{
	struct poll *l = context;
	struct stat st = { 0 };

	if (l->fd >= 0 && !fstat(l->fd, &st) && st.st_nlink && (uint64_t)st.st_size >= l->at) {
		read_fresh(l, (uint64_t)st.st_size);
		return;
	}
	l->replaced = l->fd >= 0;
	if (l->replaced)
		close(l->fd);
	l->fd = perf_map__open(l->tgid, NULL);
	l->opened = l->fd >= 0 && !fstat(l->fd, &st);
	l->at = (uint64_t)st.st_size;
	l->uid = st.st_uid;
}

/* NULL: nothing to poll, or out of memory. */
static struct poll *begin_poll(struct jit_process *p, uint64_t now_ns)
{
	struct poll *l;

	p->ended |= kill(p->tgid, 0) && errno == ESRCH;
	if (p->ended || now_ns < p->not_before_ns)
		return NULL;
	l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	l->tgid = p->tgid;
	l->at = p->at;
	l->fd = p->fd < 0 ? -1 : dup(p->fd);
	if (p->fd < 0)
		p->not_before_ns = now_ns + RETRY_NS;
	return l;
}

/* Its length in earlier windows is unknown: they get its present one. */
static void note_opened(struct jit_process *p, struct poll *l)
{
	p->fd = l->fd;
	l->fd = -1;
	p->uid = l->uid;
	p->not_before_ns = 0;
	p->late = false;
	p->at = p->from = l->at;
	for (size_t i = p->old_windows; i < p->n_windows; i++)
		p->windows[i] = (struct window){ p->at, p->at };
}

static void end_poll(struct jit_process *p, struct poll *l)
{
	if (l->replaced) {
		close(p->fd);
		p->fd = -1;
		p->old_windows = p->n_windows;
		p->all_fresh = true;
	}
	if (l->opened)
		note_opened(p, l);
	if (p->fd < 0 || l->opened)
		return;
	p->at = l->at;
	for (size_t i = p->late_windows; p->late && i < p->n_windows; i++)
		p->windows[i].to = p->at;
	p->late = false;
	p->all_fresh |= l->all_fresh || p->n_fresh + l->n > MAX_FRESH;
	if (p->all_fresh || !l->n)
		return;
	if (ARRAY_RESERVE(p->fresh, p->room, p->n_fresh + l->n)) {
		p->all_fresh = true;
		return;
	}
	memcpy(&p->fresh[p->n_fresh], l->fresh, l->n * sizeof(*l->fresh));
	p->n_fresh += l->n;
	p->sorted = false;
}

static void miss_poll(struct jit_process *p, uint64_t now_ns)
{
	p->not_before_ns = now_ns + RETRY_NS;
	if (p->fd < 0)
		return;
	if (!p->late)
		p->late_windows = p->n_windows;
	p->late = true;
	p->all_fresh = true;
}

static void poll_process(struct jit_names *j, pid_t tgid, uint64_t now_ns)
{
	struct jit_process *p;
	struct poll *l;
	int ret;

	pthread_mutex_lock(&j->lock);
	p = find(j, tgid);
	l = p ? begin_poll(p, now_ns) : NULL;
	pthread_mutex_unlock(&j->lock);
	if (!l)
		return;
	ret = bounded_call__make(&(struct bounded_call){ .kind = BOUNDED_CALL_FILES,
							 .pid = tgid,
							 .patience_ms = POLL_PATIENCE_MS,
							 .run = run_poll,
							 .forget = forget_poll,
							 .context = l });
	pthread_mutex_lock(&j->lock);
	p = find(j, tgid);
	if (p && ret)
		miss_poll(p, clock__now_ns());
	else if (p)
		end_poll(p, l);
	pthread_mutex_unlock(&j->lock);
	if (!ret)
		forget_poll(l);
}

void jit_names__poll(struct jit_names *j, uint64_t min_interval_ns)
{
	pid_t list[JIT_NAMES_MAX_PROCESSES];
	uint64_t now_ns = clock__now_ns();
	size_t n = 0;

	pthread_mutex_lock(&j->lock);
	if (!j->polling && now_ns - j->polled_ns >= min_interval_ns) {
		for (size_t i = 0; i < j->n; i++)
			list[n++] = j->list[i]->tgid;
	}
	j->polling |= n > 0;
	pthread_mutex_unlock(&j->lock);
	if (!n)
		return;
	for (size_t i = 0; i < n; i++)
		poll_process(j, list[i], now_ns);
	pthread_mutex_lock(&j->lock);
	j->polling = false;
	j->polled_ns = clock__now_ns();
	pthread_mutex_unlock(&j->lock);
}

bool jit_names__follows_any(struct jit_names *j)
{
	uint64_t now_ns = clock__now_ns();
	bool any = false;

	pthread_mutex_lock(&j->lock);
	for (size_t i = 0; i < j->n && !any; i++)
		any = j->list[i]->fd >= 0 && now_ns - j->list[i]->seen_ns < JIT_NAMES_FOLLOWED_NS;
	pthread_mutex_unlock(&j->lock);
	return any;
}

/* By the turn since which the address's name is unchanged. */
static uint64_t mix_address(const struct jit_names *j, struct jit_process *p, uint64_t hash, uint64_t address)
{
	uint32_t certain = 2 * j->turn + 1;
	bool fresh = is_fresh(p, address), known = u64_table__get(&p->addresses, address, &certain);

	if (!known && (p->addresses.n == JIT_NAMES_MAX_ADDRESSES || u64_table__set(&p->addresses, address, certain)))
		return so_mix(hash, 1);
	return so_mix(hash, fresh ? 2 * j->turn : certain);
}

/* The current window's number; 0: there are too many. */
static uint32_t this_window(struct jit_process *p)
{
	size_t others = p->late && p->late_windows > p->old_windows ? p->late_windows : p->old_windows;
	const struct window *last = p->n_windows > others ? &p->windows[p->n_windows - 1] : NULL;

	if (last && last->from == p->from && last->to == p->at)
		return (uint32_t)p->n_windows;
	if (p->n_windows == JIT_NAMES_MAX_WINDOWS || ARRAY_RESERVE(p->windows, p->windows_room, p->n_windows + 1))
		return 0;
	p->windows[p->n_windows++] = (struct window){ p->from, p->at };
	return (uint32_t)p->n_windows;
}

static uint32_t window_of(struct jit_names *j, const struct so_stack_record *r, const uint64_t *frames, uint64_t *hash)
{
	struct jit_process *p = find(j, (pid_t)r->tgid) ?: add(j, (pid_t)r->tgid);

	if (!p)
		return 0;
	p->seen_ns = clock__now_ns();
	for (unsigned i = 0; i < r->n_user; i++) {
		if (!SO_FRAME_FILE(frames[i]))
			*hash = mix_address(j, p, *hash, SO_FRAME_ADDR(frames[i]));
	}
	return this_window(p);
}

uint32_t jit_names__window(struct jit_names *j, const struct so_stack_record *record, const uint64_t *frames,
			   uint64_t *hash)
{
	unsigned i = 0;
	uint32_t window;

	while (i < record->n_user && SO_FRAME_FILE(frames[i]))
		i++;
	if (i == record->n_user)
		return 0;
	pthread_mutex_lock(&j->lock);
	window = window_of(j, record, frames, hash);
	pthread_mutex_unlock(&j->lock);
	return window;
}

static void turn(const struct jit_names *j, struct jit_process *p)
{
	for (size_t i = 0; (p->n_fresh || p->all_fresh) && i < p->addresses.capacity; i++) {
		struct u64_entry *address = &p->addresses.entries[i];

		if (address->used && is_fresh(p, address->key))
			address->value = 2 * j->turn + 1;
	}
	p->n_fresh = 0;
	p->all_fresh = p->late;
	p->from = p->at;
}

void jit_names__turn(struct jit_names *j)
{
	pthread_mutex_lock(&j->lock);
	for (size_t i = 0; i < j->n; i++)
		turn(j, j->list[i]);
	j->turn++;
	pthread_mutex_unlock(&j->lock);
}

bool jit_names__file_then(struct jit_names *j, pid_t tgid, uint32_t window, uint64_t *from, uint64_t *to)
{
	const struct jit_process *p;
	bool known = false;

	if (!j || !window)
		return false;
	pthread_mutex_lock(&j->lock);
	p = find(j, tgid);
	if (p && p->fd >= 0 && window > p->old_windows && window <= p->n_windows) {
		*from = p->windows[window - 1].from;
		*to = p->windows[window - 1].to;
		known = true;
	}
	pthread_mutex_unlock(&j->lock);
	return known;
}
