// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/commands/look.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "client/session/api_client.h"
#include "client/session/interrupt.h"
#include "client/session/target.h"
#include "client/session/waiting_note.h"

#define RATE_HZ 99
#define STEP_MS 100
#define AFTER_S 1 /* that the daemon goes on for after a slow step */

static int wait_for_end(struct api_client *api, struct target *target, double duration_s, struct so_error *err)
{
	bool progress = isatty(STDERR_FILENO);
	int ret = 0;

	while (!ret && !target__ended(target) && !interrupt__pending()) {
		if (progress && duration_s > 0)
			fprintf(stderr, "\r\033[Klooking at %d (%s): %.1f of %.0f s", target->pid, target->comm,
				target->elapsed_s, duration_s);
		else if (progress)
			fprintf(stderr, "\r\033[Kwaiting for a slow step of %d (%s): %.0f s", target->pid, target->comm,
				target->elapsed_s);
		interrupt__sleep_ms(STEP_MS);
		ret = target__get(api, target->id, target, err);
	}
	if (progress)
		fputs("\r\033[K", stderr);
	return ret;
}

/* What led to a slow step, that step, and what came after it. 0: all. */
static double close_seconds(const struct look_request *close)
{
	return close->last_s > 0 ? close->last_s + (double)close->slow_step_ns / 1e9 + AFTER_S : 0;
}

static int look(struct session *session, const struct attach_request *request, struct look_request *close,
		uint8_t **profile, size_t *length, json_t **stats, struct so_error *err)
{
	struct api_client *api = session__api(session);
	struct target target;
	struct waiting_note *note = waiting_note__begin("reading the tables of process %d", request->pid);
	int ret = target__attach(api, request, &target, err);

	waiting_note__end(note);
	if (ret)
		return ret;
	ret = wait_for_end(api, &target, request->duration_s, err);
	ret = ret ?: target__stop(api, target.id, &target, err);
	ret = ret ?: target__stats(api, target.id, stats, err);
	if (!ret && close) {
		close->slow_step_ns = target.slow_step_ns;
		close->usual_step_ns = target.usual_step_ns;
	}
	ret = ret ?: target__last(api, target.id, close ? close_seconds(close) : 0, profile, length, err);
	/* A private daemon ends anyhow. */
	if (!session__private(session))
		target__detach(api, target.id, NULL);
	return ret;
}

int look__at(struct session *session, pid_t pid, double duration_s, uint8_t **profile, size_t *length, json_t **stats,
	     struct so_error *err)
{
	const struct attach_request request = {
		.pid = pid, .rate_hz = RATE_HZ, .duration_s = duration_s, .children = true, .kernel = true, .wall = true
	};

	return look(session, &request, NULL, profile, length, stats, err);
}

int look__closely(struct session *session, struct look_request *request, uint8_t **profile, size_t *length,
		  json_t **stats, struct so_error *err)
{
	const struct attach_request attach = { .pid = request->pid,
					       .rate_hz = request->rate_hz,
					       .duration_s = request->duration_s,
					       .children = true,
					       .kernel = true,
					       .wall = true,
					       .timed = true,
					       .step = request->step,
					       .counted = request->counted,
					       .n_counted = request->n_counted,
					       .until_slow = request->until_slow,
					       .keep = request->until_slow > 0 };

	return look(session, &attach, request, profile, length, stats, err);
}
