// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/api/api_pull.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/api/api_json.h"
#include "daemon/os/clock.h"
#include "daemon/os/limits.h"
#include "daemon/profile/profile_builder.h"
#include "daemon/profile/profile_merge.h"
#include "profile/gunzip.h"
#include "stakeout/array.h"

#define DEFAULT_S 30
#define MAX_S     3600
#define POLL_MS   100

/* Recordings that run for this request: of one process, or of all that are watched. */
struct recordings {
	const struct api_pull *pull;
	bool all;
	double duration_s;
	uint64_t begin_ns; /* clock__now_ns() */
	struct recording {
		uint32_t id; /* 0: it has ended, and is in the sum */
		uint32_t of; /* the watched target that it is of; 0: of one process */
	} * entries;
	size_t n, capacity;
	struct profile_merge *sum; /* of all; NULL: nothing yet */
	unsigned missed;           /* recordings that somebody else has forgotten, or that there was no room for */
};

static void forget(struct recordings *r, struct recording *one)
{
	engine__detach(r->pull->engine, one->id, NULL);
	leases__remove(r->pull->leases, one->id);
	one->id = 0;
}

static void recordings__end(struct recordings *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->entries[i].id)
			forget(r, &r->entries[i]);
	free(r->entries);
	profile_merge__free(r->sum);
}

int api_pull__read_pid(const struct http_request *request, pid_t *pid, struct so_error *err)
{
	const char *who = http_request__argument(request, "pid");
	long value = 0;
	char *end;

	if (who) {
		errno = 0;
		value = strtol(who, &end, 10);
		if (errno || end == who || *end || value < 1 || value > API_MAX_PID)
			return so_err(err, -EINVAL, "pid must be a whole number from 1 to %d", API_MAX_PID);
	}
	*pid = (pid_t)value;
	return 0;
}

static int read_arguments(struct recordings *r, pid_t *pid, struct so_error *err)
{
	const struct http_request *request = r->pull->request;
	const char *seconds = http_request__argument(request, "seconds");
	char *end;
	int ret = api_pull__read_pid(request, pid, err);

	r->duration_s = DEFAULT_S;
	if (ret || !seconds)
		return ret;
	r->duration_s = strtod(seconds, &end);
	if (end == seconds || *end || !(r->duration_s > 0 && r->duration_s <= MAX_S))
		return so_err(err, -EINVAL, "seconds must be a number above 0 and up to %d", MAX_S);
	return 0;
}

static double elapsed_s(const struct recordings *r)
{
	return (double)(clock__now_ns() - r->begin_ns) / 1e9;
}

/* of: the target that has the process, if it must be watched already; else 0. */
static int begin_one(struct recordings *r, pid_t pid, uint32_t of, bool only_watched, struct so_error *err)
{
	double left_s = r->duration_s - elapsed_s(r);
	struct attach_options options = { .pid = pid,
					  .rate_hz = ENGINE_DEFAULT_RATE_HZ,
					  .duration_s = left_s > 0 ? left_s : 1e-3,
					  .children = true,
					  .kernel = true,
					  .as_watched = true,
					  .only_watched = only_watched,
					  .caller = r->pull->request->caller };
	uint32_t id;
	int ret = engine__attach(r->pull->engine, &options, &id, err);

	if (ret)
		return ret;
	if (ARRAY_RESERVE(r->entries, r->capacity, r->n + 1) || leases__add(r->pull->leases, id, false)) {
		engine__detach(r->pull->engine, id, NULL);
		return so_err(err, -ENOMEM, "out of memory");
	}
	r->entries[r->n].id = id;
	r->entries[r->n++].of = of;
	return 0;
}

static bool has(const struct recordings *r, uint32_t of)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->entries[i].of == of)
			return true;
	return false;
}

/*
 * Of all that are watched and are not recorded yet: those that are there at first, and those that come later, from then
 * on. One that ends, or is detached, meanwhile is none any more.
 */
static int begin_new(struct recordings *r, const struct target_info *all, size_t n, struct so_error *err)
{
	struct caller caller = r->pull->request->caller;
	int ret;

	for (size_t i = 0; i < n; i++) {
		if (!all[i].keep || all[i].state != TARGET_SAMPLING || !caller__sees(caller, all[i].viewer) ||
		    has(r, all[i].id))
			continue;
		ret = begin_one(r, all[i].pid, all[i].id, true, err);
		/* For one that came there is no room: the others are not thrown away for it. */
		if (ret == -ENOSPC && r->n && !ARRAY_RESERVE(r->entries, r->capacity, r->n + 1)) {
			r->entries[r->n++] = (struct recording){ 0, all[i].id };
			r->missed++;
			continue;
		}
		if (ret && ret != -ENOENT && ret != -ESRCH && ret != -EPERM)
			return ret;
	}
	err->text[0] = '\0';
	return 0;
}

static int add_profile(struct recordings *r, uint32_t id, struct so_error *err)
{
	_cleanup_free_ uint8_t *packed = NULL, *message = NULL;
	size_t packed_bytes, length;
	int ret = engine__profile(r->pull->engine, id, r->pull->request->caller, 0, &packed, &packed_bytes, err);

	if (ret)
		return ret;
	if (!r->sum)
		r->sum = profile_merge__new();
	ret = r->sum ? gunzip(packed, packed_bytes, PROFILE_MERGE_MAX_MESSAGE_BYTES, &message, &length, NULL) : -ENOMEM;
	if (ret)
		return so_err(err, ret, "the profile cannot be added up: %s", strerror(-ret));
	return profile_merge__add(r->sum, message, length, err);
}

/* One that somebody else has forgotten is missing, which the profile says. */
static int finish_one(struct recordings *r, struct recording *one, struct so_error *err)
{
	int ret = engine__stop(r->pull->engine, one->id, err);

	ret = ret ?: add_profile(r, one->id, err);
	if (ret && ret != -ENOENT)
		return ret;
	r->missed += ret == -ENOENT;
	forget(r, one);
	err->text[0] = '\0';
	return 0;
}

static bool goes_on(const struct recording *one, const struct target_info *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (all[i].id == one->id)
			return all[i].state != TARGET_ENDED;
	return false;
}

/*
 * Jobs that are restarted all the time would fill the daemon with recordings that have ended. When others build
 * profiles there is time later.
 */
static int finish_ended(struct recordings *r, const struct target_info *all, size_t n, struct so_error *err)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < r->n; i++) {
		struct recording *one = &r->entries[i];

		if (!one->id || goes_on(one, all, n))
			continue;
		if (!limits__take_of(LIMIT_PROFILES, r->pull->request->caller.uid, 1))
			return 0;
		ret = finish_one(r, one, err);
		limits__give_of(LIMIT_PROFILES, r->pull->request->caller.uid, 1);
	}
	return ret;
}

static int look_at_all(struct recordings *r, struct so_error *err)
{
	_cleanup_free_ struct target_info *all = NULL;
	size_t n = 0;
	int ret = engine__list(r->pull->engine, &all, &n);

	if (ret)
		return so_err(err, ret, "out of memory");
	return finish_ended(r, all, n, err) ?: begin_new(r, all, n, err);
}

/* 1: there is nothing to wait for. Of all, others may come. */
static int is_over(struct recordings *r, struct so_error *err)
{
	struct target_info info;
	int ret;

	if (r->all)
		return look_at_all(r, err);
	ret = engine__info(r->pull->engine, r->entries[0].id, &info);
	if (ret)
		return so_err(err, ret, "the recording was detached by another request");
	return info.state == TARGET_ENDED;
}

/*
 * poll() without wanted events reports a connection that the peer closed for both directions; a client that only closed
 * its sending side still reads.
 */
static int wait_for(struct recordings *r, struct so_error *err)
{
	struct pollfd fds[] = {
		{ .fd = r->pull->cancel_fd, .events = POLLIN },
		{ .fd = r->pull->request->fd },
	};
	uint64_t deadline_ns = r->begin_ns + (uint64_t)(r->duration_s * 1e9), now_ns;
	int ret;

	while ((now_ns = clock__now_ns()) < deadline_ns) {
		uint64_t left_ms = (deadline_ns - now_ns) / 1000000 + 1;

		if (poll(fds, 2, left_ms < POLL_MS ? (int)left_ms : POLL_MS) < 0 && errno != EINTR)
			return so_err(err, -errno, "cannot wait for the recording: %s", strerror(errno));
		if (fds[0].revents)
			return so_err(err, -ECANCELED, "the daemon is shutting down");
		if (fds[1].revents)
			return so_err(err, -ECANCELED, "the client hung up");
		ret = is_over(r, err);
		if (ret)
			return ret < 0 ? ret : 0;
	}
	return 0;
}

/*
 * Without samples: on an idle node too there is an answer, and what pulls it goes on. The comments say what is not in
 * the profile.
 */
static int add_comments(struct recordings *r, struct so_error *err)
{
	_cleanup_(profile_builder) struct profile_builder *none =
		profile_builder__new(clock__read_ns(CLOCK_REALTIME), 0, 1000000000 / ENGINE_DEFAULT_RATE_HZ);
	_cleanup_free_ uint8_t *packed = NULL, *message = NULL;
	size_t packed_bytes, length;
	char text[16];
	int ret = none ? 0 : -ENOMEM;

	if (!r->sum)
		r->sum = profile_merge__new();
	snprintf(text, sizeof(text), "%u", r->missed);
	if (!r->n)
		ret = ret ?: profile_builder__comment(none, "watched", "nothing");
	if (r->missed)
		ret = ret ?: profile_builder__comment(none, "missed_recordings", text);
	ret = ret ?: profile_builder__finish(none, &packed, &packed_bytes);
	ret = ret ?: gunzip(packed, packed_bytes, PROFILE_MERGE_MAX_MESSAGE_BYTES, &message, &length, NULL);
	if (ret || !r->sum)
		return so_err(err, -ENOMEM, "out of memory");
	return profile_merge__add(r->sum, message, length, err);
}

static int add_up(struct recordings *r, double seconds, uint8_t **out, size_t *length, struct so_error *err)
{
	int64_t duration_ns = (int64_t)(seconds * 1e9);
	int ret = 0;

	for (size_t i = 0; !ret && i < r->n; i++)
		if (r->entries[i].id)
			ret = finish_one(r, &r->entries[i], err);
	if (!ret && (!r->n || r->missed))
		ret = add_comments(r, err);
	if (ret)
		return ret;
	/* They ran beside each other. */
	profile_merge__set_times(r->sum, (int64_t)clock__read_ns(CLOCK_REALTIME) - duration_ns, duration_ns);
	ret = profile_merge__finish(r->sum, true, out, length);
	return ret ? so_err(err, ret, "the profiles cannot be added up: %s", strerror(-ret)) : 0;
}

/* All end at one time, before the first is added up. */
static void stop_all(const struct recordings *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->entries[i].id)
			engine__stop(r->pull->engine, r->entries[i].id, NULL);
}

static int answer(struct recordings *r, double seconds, uint8_t **out, size_t *length, struct so_error *err)
{
	int ret = limits__wait_profile(r->pull->request->caller.uid, err);

	if (ret)
		return ret;
	ret = r->all ? add_up(r, seconds, out, length, err)
		     : engine__profile(r->pull->engine, r->entries[0].id, r->pull->request->caller, 0, out, length,
				       err);
	limits__give_of(LIMIT_PROFILES, r->pull->request->caller.uid, 1);
	return ret;
}

int api_pull__run(const struct api_pull *pull, uint8_t **out, size_t *length, struct so_error *err)
{
	__attribute__((cleanup(recordings__end))) struct recordings r = { .pull = pull, .begin_ns = clock__now_ns() };
	double seconds;
	pid_t pid;
	int ret = read_arguments(&r, &pid, err);

	r.all = !pid;
	if (!ret)
		ret = pid ? begin_one(&r, pid, 0, pull->request->read_only, err) : look_at_all(&r, err);
	/* Attaching takes time, which is not part of what was asked for. */
	r.begin_ns = clock__now_ns();
	ret = ret ?: wait_for(&r, err);
	stop_all(&r);
	seconds = elapsed_s(&r);
	return ret ?: answer(&r, seconds, out, length, err);
}
