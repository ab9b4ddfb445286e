// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/commands/memory_look.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "client/session/interrupt.h"
#include "client/session/waiting_note.h"

#define WAIT_MS 100
/* It is stopped when it has been looked at; and by this later, if this program is killed. */
#define SPARE_S 30

int memory_look__wait(struct api_client *api, struct target *target, double duration_s, struct so_error *err)
{
	bool progress = isatty(STDERR_FILENO);
	int ret = 0;

	while (!ret && !target__ended(target) && !interrupt__pending() && target->elapsed_s < duration_s) {
		double left_ms = 1e3 * (duration_s - target->elapsed_s);

		if (progress)
			fprintf(stderr, "\r\033[Klooking at %d (%s): %.1f of %.0f s", target->pid, target->comm,
				target->elapsed_s, duration_s);
		interrupt__sleep_ms(left_ms > WAIT_MS ? WAIT_MS : (unsigned)left_ms + 1);
		ret = target__get(api, target->id, target, err);
	}
	if (progress)
		fputs("\r\033[K", stderr);
	return ret;
}

static int attach(struct api_client *api, pid_t pid, double duration_s, double budget_percent, struct target *target,
		  struct so_error *err)
{
	const struct attach_request request = { .pid = pid,
						.rate_hz = MEMORY_LOOK_RATE_HZ,
						.duration_s = duration_s + SPARE_S,
						.children = true,
						.kernel = true,
						.cuda = true,
						.cuda_budget_percent = budget_percent };
	struct waiting_note *note = waiting_note__begin("reading the tables of process %d", pid);
	int ret = target__attach_at_any_rate(api, &request, target, err);

	waiting_note__end(note);
	return ret;
}

static int read_calls(struct api_client *api, uint32_t id, struct cuda_memory *out, struct so_error *err)
{
	json_t *answer = NULL;
	int ret = target__cuda(api, id, &answer, err);

	ret = ret ?: cuda_memory__read(answer, out, err);
	json_decref(answer);
	return ret;
}

/* Whether there is anything to be waited for. */
static int check(struct api_client *api, uint32_t id, struct so_error *err)
{
	_cleanup_(cuda_memory) struct cuda_memory memory = { .report = NULL };
	int ret = read_calls(api, id, &memory, err);

	if (!ret && !cuda_memory__any(&memory))
		ret = so_err(err, -ENOTSUP, "there is no CUDA library in it either");
	return ret;
}

int memory_look__by_call(struct session *session, pid_t pid, double duration_s, double budget_percent, const char *why,
			 struct cuda_memory *out, struct so_error *err)
{
	double check_s = duration_s < MEMORY_LOOK_CHECK_S ? duration_s : MEMORY_LOOK_CHECK_S;
	struct api_client *api = session__api(session);
	struct so_error own = { .text = "" };
	struct target target;
	int ret = attach(api, pid, duration_s, budget_percent, &target, &own);

	if (ret)
		return so_err(err, ret, "%s; %s", why, own.text);
	ret = memory_look__wait(api, &target, check_s, &own);
	ret = ret ?: check(api, target.id, &own);
	ret = ret ?: memory_look__wait(api, &target, duration_s, &own);
	/* Of calls that are under way when it ends, and of the last stacks. */
	ret = ret ?: target__stop(api, target.id, &target, &own);
	ret = ret ?: read_calls(api, target.id, out, &own);
	if (!session__private(session))
		target__detach(api, target.id, NULL);
	return ret ? so_err(err, ret, "%s; %s", why, own.text) : 0;
}
