// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/session/target.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "client/session/json_value.h"

#define PATH_BYTES 64

void target__read(const json_t *json, struct target *out)
{
	*out = (struct target){
		.id = (uint32_t)json_value__number(json, "id"),
		.pid = (pid_t)json_value__number(json, "pid"),
		.rate_hz = (unsigned)json_value__number(json, "rate_hz"),
		.keep = json_is_true(json_object_get(json, "keep")),
		.children = json_is_true(json_object_get(json, "children")),
		.kernel = json_is_true(json_object_get(json, "kernel")),
		.elapsed_s = json_number_value(json_object_get(json, "elapsed_s")),
		.processes = json_value__number(json, "processes"),
		.samples = json_value__number(json, "samples"),
		.lost = json_value__number(json, "lost"),
		.rule = (uint32_t)json_value__number(json, "rule"),
	};
	out->slow_step_ns = json_value__number(json_object_get(json, "slow_step"), "ns");
	out->usual_step_ns = json_value__number(json_object_get(json, "slow_step"), "p95_ns");
	json_value__text(json, "comm", out->comm, sizeof(out->comm));
	json_value__text(json, "state", out->state, sizeof(out->state));
	json_value__text(json, "end", out->end, sizeof(out->end));
	json_value__text(json_object_get(json, "labels"), "rank", out->rank, sizeof(out->rank));
	json_value__text(json_object_get(json, "labels"), "container", out->container, sizeof(out->container));
}

bool target__ended(const struct target *target)
{
	return !strcmp(target->state, "ended");
}

static int call(struct api_client *api, const char *method, const char *path, const json_t *body, struct target *out,
		struct so_error *err)
{
	json_auto_t *json = NULL;
	int ret = api_client__call(api, method, path, body, &json, err);

	if (ret)
		return ret;
	target__read(json, out);
	return out->id ? 0 : so_err(err, -EIO, "the daemon's answer describes no target");
}

static int add_counted(json_t *body, const struct attach_request *request)
{
	json_t *list = json_array();
	int ret = json_object_set_new(body, "counted", list);

	for (size_t i = 0; !ret && i < request->n_counted; i++)
		ret = json_array_append_new(list, json_string(request->counted[i]));
	return ret;
}

int target__attach(struct api_client *api, const struct attach_request *request, struct target *out,
		   struct so_error *err)
{
	json_auto_t *body =
		json_pack("{s:i, s:i, s:f, s:b, s:b, s:b}", "pid", (int)request->pid, "rate_hz", (int)request->rate_hz,
			  "duration_s", request->duration_s, "children", (int)request->children, "kernel",
			  (int)request->kernel, "keep", (int)request->keep);

	if (!body)
		return so_err(err, -ENOMEM, "out of memory");
	if (request->wall)
		json_object_set_new(body, "wall", json_true());
	if (request->timed)
		json_object_set_new(body, "timed", json_true());
	if (request->memory)
		json_object_set_new(body, "memory", json_true());
	if (request->gpu_memory)
		json_object_set_new(body, "gpu_memory", json_true());
	if (request->allocations)
		json_object_set_new(body, "allocations", json_true());
	if (request->step && json_object_set_new(body, "step", json_string(request->step)))
		return so_err(err, -EINVAL, "the function's name is not UTF-8");
	if (request->n_counted && add_counted(body, request))
		return so_err(err, -EINVAL, "a function's name is not UTF-8");
	if (request->steps) {
		json_object_set_new(body, "steps", json_integer(request->steps));
		json_object_set_new(body, "skip_steps", json_integer(request->skip_steps));
	}
	if (request->until_slow > 0)
		json_object_set_new(body, "until_slow", json_real(request->until_slow));
	if (request->save_on && json_object_set_new(body, "save_on", json_string(request->save_on)))
		return so_err(err, -EINVAL, "the rule is not UTF-8");
	if (request->save_last_s > 0)
		json_object_set_new(body, "save_last_s", json_real(request->save_last_s));
	if (request->save_pause_s > 0)
		json_object_set_new(body, "save_pause_s", json_real(request->save_pause_s));
	if (request->cuda)
		json_object_set_new(body, "cuda", json_true());
	if (request->cuda_budget_percent > 0)
		json_object_set_new(body, "cuda_budget_percent", json_real(request->cuda_budget_percent));
	return call(api, "POST", "/v1/targets", body, out, err);
}

static void target_path(char path[PATH_BYTES], uint32_t id, const char *what)
{
	snprintf(path, PATH_BYTES, "/v1/targets/%" PRIu32 "%s", id, what);
}

int target__get(struct api_client *api, uint32_t id, struct target *out, struct so_error *err)
{
	char path[PATH_BYTES];

	target_path(path, id, "");
	return call(api, "GET", path, NULL, out, err);
}

static unsigned rank(const struct target *target)
{
	return (target__ended(target) ? 0 : 2) + (target->keep ? 1 : 0);
}

int target__find(struct api_client *api, pid_t pid, struct target *out, struct so_error *err)
{
	struct target best = { 0 }, next;
	json_t *list, *json;
	size_t i;
	int ret = api_client__call(api, "GET", "/v1/targets", NULL, &list, err);

	if (ret)
		return ret;
	json_array_foreach (list, i, json) {
		target__read(json, &next);
		if (next.pid == pid && next.id && (!best.id || rank(&next) >= rank(&best)))
			best = next;
	}
	json_decref(list);
	if (!best.id && kill(pid, 0) && errno == ESRCH)
		return so_err(err, -ENOENT,
			      "there is no process %d: 'stakeout history' lists whose past the daemon has", pid);
	if (!best.id)
		return so_err(err, -ENOENT,
			      "process %d is no target of the daemon: 'stakeout attach -p %d' makes it one", pid, pid);
	*out = best;
	return 0;
}

int target__attach_at_any_rate(struct api_client *api, const struct attach_request *request, struct target *out,
			       struct so_error *err)
{
	struct attach_request again = *request;
	struct target running;
	int ret = target__attach(api, request, out, err);

	if (ret != -EEXIST || target__find(api, request->pid, &running, NULL) || target__ended(&running))
		return ret;
	again.rate_hz = running.rate_hz;
	return target__attach(api, &again, out, err);
}

int target__stop(struct api_client *api, uint32_t id, struct target *out, struct so_error *err)
{
	char path[PATH_BYTES];

	target_path(path, id, "/stop");
	return call(api, "POST", path, NULL, out, err);
}

int target__detach(struct api_client *api, uint32_t id, struct so_error *err)
{
	char path[PATH_BYTES];

	target_path(path, id, "");
	return api_client__call(api, "DELETE", path, NULL, NULL, err);
}

int target__last(struct api_client *api, uint32_t id, double last_s, uint8_t **out, size_t *length,
		 struct so_error *err)
{
	char path[PATH_BYTES], what[40];

	snprintf(what, sizeof(what), last_s > 0 ? "/profile?last_s=%.3f" : "/profile", last_s);
	target_path(path, id, what);
	return api_client__download(api, path, out, length, err);
}

int target__profile(struct api_client *api, uint32_t id, uint8_t **out, size_t *length, struct so_error *err)
{
	char path[PATH_BYTES];

	target_path(path, id, "/profile");
	return api_client__download(api, path, out, length, err);
}

int target__cuda_profile(struct api_client *api, uint32_t id, const char *event, uint8_t **out, size_t *length,
			 struct so_error *err)
{
	char path[PATH_BYTES], what[PATH_BYTES / 2];

	snprintf(what, sizeof(what), "/profile?event=%s", event);
	target_path(path, id, what);
	return api_client__download(api, path, out, length, err);
}

int target__threads(struct api_client *api, uint32_t id, pid_t pid, uint8_t **out, size_t *length, struct so_error *err)
{
	char path[PATH_BYTES], what[PATH_BYTES / 2];

	snprintf(what, sizeof(what), "/threads?pid=%d", pid);
	target_path(path, id, what);
	return api_client__download(api, path, out, length, err);
}

int target__threads_of_child(struct api_client *api, pid_t pid, struct target *of, uint8_t **out, size_t *length,
			     struct so_error *err)
{
	struct target next;
	json_t *list, *json;
	size_t i;
	int ret = api_client__call(api, "GET", "/v1/targets", NULL, &list, err);

	if (ret)
		return ret;
	ret = -ENOENT;
	/* Only the daemon knows whose child it is: its parent may have ended. */
	json_array_foreach (list, i, json) {
		target__read(json, &next);
		if (ret && next.id && !target__ended(&next))
			ret = target__threads(api, next.id, pid, out, length, NULL);
		if (!ret) {
			*of = next;
			break;
		}
	}
	json_decref(list);
	return ret ? so_err(err, -ENOENT, "process %d is no child of a target", pid) : 0;
}

int target__cuda(struct api_client *api, uint32_t id, json_t **out, struct so_error *err)
{
	char path[PATH_BYTES];

	target_path(path, id, "/cuda");
	return api_client__call(api, "GET", path, NULL, out, err);
}

int target__tasks(struct api_client *api, uint32_t id, json_t **out, struct so_error *err)
{
	char path[PATH_BYTES];

	target_path(path, id, "/tasks");
	return api_client__call(api, "GET", path, NULL, out, err);
}

int target__memory(struct api_client *api, uint32_t id, uint8_t **out, size_t *length, struct so_error *err)
{
	char path[PATH_BYTES];

	target_path(path, id, "/memory");
	return api_client__download(api, path, out, length, err);
}

int target__gpu_memory(struct api_client *api, uint32_t id, uint8_t **out, size_t *length, struct so_error *err)
{
	char path[PATH_BYTES];

	target_path(path, id, "/gpu-memory");
	return api_client__download(api, path, out, length, err);
}

int target__allocations(struct api_client *api, uint32_t id, uint8_t **out, size_t *length, struct so_error *err)
{
	char path[PATH_BYTES];

	target_path(path, id, "/allocations");
	return api_client__download(api, path, out, length, err);
}

int target__stats(struct api_client *api, uint32_t id, json_t **out, struct so_error *err)
{
	char path[PATH_BYTES];

	target_path(path, id, "/stats");
	return api_client__call(api, "GET", path, NULL, out, err);
}
