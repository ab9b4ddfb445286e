// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/api/api.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "cuda/cuda_json.h"
#include "daemon/api/api_history.h"
#include "daemon/api/api_json.h"
#include "daemon/api/api_pull.h"
#include "daemon/api/api_rules.h"
#include "daemon/api/api_series.h"
#include "daemon/api/api_status.h"
#include "daemon/http/denials.h"
#include "daemon/api/lease.h"
#include "daemon/os/limits.h"
#include "daemon/metrics/metrics.h"
#include "daemon/http/pages.h"
#include "daemon/os/json_text.h"

#define DEFAULT_ENDED_IDLE_S   300
#define DEFAULT_RUNNING_IDLE_S 60

struct api {
	struct engine *engine;
	struct history *history;     /* NULL: none is kept */
	struct incidents *incidents; /* the same */
	struct match_scan *scan;     /* NULL: no rules */
	struct category_counters *categories;
	struct category_windows *category_windows;
	struct leases *leases;
	int cancel_fd; /* readable once waiting requests must end */
};

/* One request on its way through a route. */
struct call {
	struct api *api;
	const struct http_request *request;
	struct http_reply *reply;
	uint32_t id;           /* the ID or KEY of the path */
	unsigned error_status; /* 0: the one that fits the error's code */
	struct so_error error;
};

struct route {
	const char *method;
	const char *path; /* "ID" is a target's number, or the key of a history */
	int (*handle)(struct call *call);
	bool changes; /* begins, ends or drops something: not for a read-only caller */
};

static int fail(struct call *call, int code, const char *text)
{
	return so_err(&call->error, code, "%s", text);
}

/* Takes the reference. */
static int answer_json(struct call *call, unsigned status, json_t *value)
{
	char *text = value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
	size_t length;

	json_decref(value);
	if (!text)
		return fail(call, -ENOMEM, "out of memory");
	length = strlen(text);
	text[length] = '\n'; /* the length is sent, so the NUL may go */
	call->reply->status = status;
	call->reply->content_type = "application/json";
	call->reply->body = (uint8_t *)text;
	call->reply->body_bytes = length + 1;
	return 0;
}

static unsigned http_status(int code)
{
	switch (code) {
	case -EINVAL:
	case -ERANGE:
		return MHD_HTTP_BAD_REQUEST;
	case -EPERM:
	case -EACCES:
		return MHD_HTTP_FORBIDDEN;
	case -ENOENT:
	case -ESRCH:
		return MHD_HTTP_NOT_FOUND;
	case -EEXIST:
	case -ENODATA:
		return MHD_HTTP_CONFLICT;
	case -ENOSPC:
	case -EBUSY:
	case -ECANCELED:
		return MHD_HTTP_SERVICE_UNAVAILABLE;
	case -ENOTSUP:
		return MHD_HTTP_NOT_IMPLEMENTED;
	default:
		return MHD_HTTP_INTERNAL_SERVER_ERROR;
	}
}

static void answer_error(struct call *call, int code)
{
	const char *text = call->error.text[0] ? call->error.text : strerror(-code);
	unsigned status = call->error_status ? call->error_status : http_status(code);

	if (status == MHD_HTTP_FORBIDDEN)
		denials__add(&(struct denial){ .uid = call->request->peer_uid,
					       .pid = call->request->peer_pid,
					       .method = call->request->method,
					       .path = call->request->path,
					       .why = text });
	if (!answer_json(call, status, json_pack("{s:o}", "error", json_text__new(text))))
		return;
	*call->reply = (struct http_reply){
		.status = MHD_HTTP_INTERNAL_SERVER_ERROR,
		.content_type = "application/json",
	};
}

/* Where there is a history, there are incidents. */
static int check_incidents(const struct incidents *incidents, struct so_error *err)
{
	return incidents ? 0
			 : so_err(err, -ENODATA,
				  "the daemon keeps no history, and so no incidents: start it with --store DIR");
}

static bool may_see(const struct call *call, const struct target_info *info)
{
	return caller__sees(call->request->caller, info->viewer);
}

/* The target of the path, if there is one and the caller may use it. Every such request renews its lease. */
static int target(struct call *call, struct target_info *info)
{
	int ret = engine__info(call->api->engine, call->id, info);

	if (ret)
		return so_err(&call->error, ret, "there is no target %u", call->id);
	if (!may_see(call, info))
		return so_err(&call->error, -EPERM,
			      "target %u is a process that only root, or another user, may profile", call->id);
	leases__touch(call->api->leases, call->id);
	return 0;
}

/* Figures of all its processes together are not for who may not see them all. */
static bool may_see_all(const struct call *call, const struct target_info *info)
{
	return may_see(call, info) && (!call->request->caller.uid || !info->hides);
}

/* Asked also after an answer of all processes was made: one may have become hidden meanwhile. what: "CUDA calls". */
static int check_sees_all(struct call *call, const char *what)
{
	struct target_info info;
	int ret = target(call, &info);

	if (ret || may_see_all(call, &info))
		return ret;
	return so_err(&call->error, -EPERM, "target %u has processes of other users: only root may see its %s",
		      call->id, what);
}

static int get_status(struct call *call)
{
	return answer_json(call, MHD_HTTP_OK,
			   api_status__json(call->api->engine, call->api->history, call->request->caller));
}

static int get_check(struct call *call)
{
	return answer_json(call, MHD_HTTP_OK, engine__check());
}

static int get_targets(struct call *call)
{
	_cleanup_free_ struct target_info *all = NULL;
	json_t *list = json_array();
	size_t n = 0;
	int ret = engine__list(call->api->engine, &all, &n);

	for (size_t i = 0; !ret && i < n; i++)
		if (may_see(call, &all[i]) && json_array_append_new(list, api_json__target(&all[i])))
			ret = -ENOMEM;
	if (ret) {
		json_decref(list);
		return ret;
	}
	return answer_json(call, MHD_HTTP_OK, list);
}

static int attach(struct call *call, struct api_attach *request)
{
	struct attach_options *options = &request->options;
	struct api *api = call->api;
	uint32_t id;
	int ret = request->incidents.n_rules ? check_incidents(api->incidents, &call->error) : 0;

	if (ret)
		return ret;
	options->caller = call->request->caller;
	ret = engine__attach(api->engine, options, &id, &call->error);
	if (ret)
		return ret;
	if (!options->keep && leases__add(api->leases, id, options->duration_s == 0)) {
		engine__detach(api->engine, id, NULL);
		return fail(call, -ENOMEM, "out of memory");
	}
	if (request->incidents.n_rules && incidents__watch(api->incidents, id, options->caller, &request->incidents)) {
		engine__detach(api->engine, id, NULL);
		return fail(call, -ENOMEM, "out of memory");
	}
	if (options->keep && api->history)
		history__watch(api->history, id);
	call->id = id;
	return 0;
}

static int post_targets(struct call *call)
{
	struct api_attach request;
	struct target_info info;
	int ret = api_json__attach(call->request->body, call->request->body_bytes, &request, &call->error);

	if (!ret)
		ret = attach(call, &request);
	if (!ret)
		ret = target(call, &info);
	if (ret)
		return ret;
	call->reply->header = MHD_HTTP_HEADER_LOCATION;
	snprintf(call->reply->header_value, sizeof(call->reply->header_value), "/v1/targets/%u", call->id);
	return answer_json(call, MHD_HTTP_CREATED, api_json__target(&info));
}

static int get_target(struct call *call)
{
	struct target_info info;
	int ret = target(call, &info);

	return ret ? ret : answer_json(call, MHD_HTTP_OK, api_json__target(&info));
}

static int post_stop(struct call *call)
{
	struct target_info info;
	int ret = target(call, &info);

	if (!ret)
		ret = engine__stop(call->api->engine, call->id, &call->error);
	return ret ? ret : get_target(call);
}

static int delete_target(struct call *call)
{
	struct target_info info;
	int ret = target(call, &info);

	if (!ret)
		ret = engine__detach(call->api->engine, call->id, &call->error);
	if (ret)
		return ret;
	leases__remove(call->api->leases, call->id);
	return answer_json(call, MHD_HTTP_OK, json_pack("{s:I, s:b}", "id", (json_int_t)call->id, "detached", 1));
}

/* Takes the bytes. */
static void answer_bytes(struct call *call, uint8_t *bytes, size_t length)
{
	call->reply->status = MHD_HTTP_OK;
	call->reply->content_type = "application/octet-stream";
	call->reply->body = bytes;
	call->reply->body_bytes = length;
}

/* event: one of CUDA's, or SO_CUDA_EVENT_COUNT: the samples. */
static int answer_profile(struct call *call, enum so_cuda_event event, double last_s)
{
	struct engine *engine = call->api->engine;
	uint8_t *bytes;
	size_t length;
	int ret = limits__wait_profile(call->request->caller.uid, &call->error);

	if (ret)
		return ret;
	ret = event == SO_CUDA_EVENT_COUNT
		      ? engine__profile(engine, call->id, call->request->caller, last_s, &bytes, &length, &call->error)
		      : engine__cuda_profile(engine, call->id, event, &bytes, &length, &call->error);
	limits__give_of(LIMIT_PROFILES, call->request->caller.uid, 1);
	if (ret)
		return ret;
	ret = event == SO_CUDA_EVENT_COUNT ? 0 : check_sees_all(call, "CUDA calls");
	if (ret) {
		free(bytes);
		return ret;
	}
	/* Building it may have taken longer than a lease. */
	leases__touch(call->api->leases, call->id);
	answer_bytes(call, bytes, length);
	return 0;
}

static int answer_history(struct call *call, int64_t key, const struct history_range *range)
{
	struct history_profile profile;
	/* One at a time is read, so that these leave live profiles their places. */
	int ret = history__profile(call->api->history, call->request->caller, key, range->from_ns, range->to_ns,
				   &profile, &call->error);
	if (ret)
		return ret;
	answer_bytes(call, profile.bytes, profile.length);
	if (!profile.span.damaged)
		return 0;
	call->reply->header = "Stakeout-Damaged-Windows";
	snprintf(call->reply->header_value, sizeof(call->reply->header_value), "%llu",
		 (unsigned long long)profile.span.damaged);
	return 0;
}

/* The latest seconds alone; 0: all. */
static int read_last(struct call *call, double *last_s)
{
	const char *text = http_request__argument(call->request, "last_s");
	char *end;

	*last_s = 0;
	if (!text)
		return 0;
	*last_s = strtod(text, &end);
	if (end == text || *end || !(*last_s > 0 && *last_s <= API_MAX_DURATION_S))
		return so_err(&call->error, -EINVAL, "last_s must be a number of seconds above 0");
	return 0;
}

static int get_profile(struct call *call)
{
	struct target_info info;
	const char *word = http_request__argument(call->request, "event");
	enum so_cuda_event event = word ? so_cuda_event__find(word) : SO_CUDA_EVENT_COUNT;
	struct history_range range;
	double last_s;
	int64_t key;
	int ret = target(call, &info);

	if (!ret && word && event == SO_CUDA_EVENT_COUNT)
		ret = so_err(&call->error, -EINVAL, "there is no event '%.40s', only " SO_CUDA_EVENT_LIST, word);
	if (!ret && word && api_history__wants_range(call->request))
		ret = so_err(&call->error, -EINVAL,
			     "the history keeps no stacks of CUDA calls: leave since and until out");
	ret = ret ?: read_last(call, &last_s);
	if (ret || !api_history__wants_range(call->request))
		return ret ? ret : answer_profile(call, event, last_s);
	ret = api_history__ago(call->request, &range, &call->error);
	ret = ret ?: api_history__check(call->api->history, &call->error);
	ret = ret ?: history__key(call->api->history, call->id, &key, &call->error);
	return ret ?: answer_history(call, key, &range);
}

static int get_history(struct call *call)
{
	json_t *list;
	int ret = api_history__check(call->api->history, &call->error);

	ret = ret ?: history__list(call->api->history, call->request->caller, &list, &call->error);
	if (!ret &&
	    json_object_set_new(list, "incidents",
				call->api->incidents ? incidents__list(call->api->incidents, call->request->caller)
						     : json_array())) {
		json_decref(list);
		return so_err(&call->error, -ENOMEM, "out of memory");
	}
	return ret ?: answer_json(call, MHD_HTTP_OK, list);
}

static int get_history_profile(struct call *call)
{
	struct history_range range;
	int ret = api_history__check(call->api->history, &call->error);

	ret = ret ?: api_history__range(call->request, &range, &call->error);
	return ret ?: answer_history(call, call->id, &range);
}

static int get_history_series(struct call *call)
{
	json_t *answer;
	int ret = api_series__get(call->api->history, call->api->categories, call->request, call->id, &answer,
				  &call->error);

	return ret ?: answer_json(call, MHD_HTTP_OK, answer);
}

static int post_save(struct call *call)
{
	struct target_info info;
	double last_s;
	json_t *saved = NULL;
	int ret = target(call, &info);

	ret = ret ?: read_last(call, &last_s);
	ret = ret ?: check_incidents(call->api->incidents, &call->error);
	ret = ret
		      ?: incidents__save(call->api->incidents, call->id, call->request->caller, last_s, &saved,
					 &call->error);
	return ret ?: answer_json(call, MHD_HTTP_CREATED, saved);
}

static int get_incidents(struct call *call)
{
	int ret = check_incidents(call->api->incidents, &call->error);

	return ret ?: answer_json(call, MHD_HTTP_OK, incidents__list(call->api->incidents, call->request->caller));
}

static int get_incident_profile(struct call *call)
{
	uint8_t *bytes;
	size_t length;
	int ret = check_incidents(call->api->incidents, &call->error);

	ret = ret
		      ?: incidents__read(call->api->incidents, call->request->caller, call->id, &bytes, &length,
					 &call->error);
	if (!ret)
		answer_bytes(call, bytes, length);
	return ret;
}

static int delete_incident(struct call *call)
{
	int ret = check_incidents(call->api->incidents, &call->error);

	ret = ret ?: incidents__remove(call->api->incidents, call->request->caller, call->id, &call->error);
	return ret ?: answer_json(call, MHD_HTTP_OK, json_pack("{s:I, s:b}", "id", (json_int_t)call->id, "removed", 1));
}

static int get_rules(struct call *call)
{
	json_t *list;
	int ret = api_rules__list(call->api->scan, call->api->engine, call->request, &list, &call->error);

	return ret ?: answer_json(call, MHD_HTTP_OK, list);
}

static int post_rules(struct call *call)
{
	json_t *rule;
	int ret = api_rules__add(call->api->scan, call->request, &rule, &call->error);

	return ret ?: answer_json(call, MHD_HTTP_CREATED, rule);
}

static int delete_rule(struct call *call)
{
	json_t *answer;
	int ret = api_rules__remove(call->api->scan, call->request, call->id, &answer, &call->error);

	return ret ?: answer_json(call, MHD_HTTP_OK, answer);
}

static int get_threads(struct call *call)
{
	struct target_info info;
	uint8_t *bytes;
	size_t length;
	pid_t pid;
	int ret = target(call, &info);

	ret = ret ?: api_pull__read_pid(call->request, &pid, &call->error);
	ret = ret
		      ?: engine__threads(call->api->engine, call->id, pid, call->request->caller, &bytes, &length,
					 &call->error);
	if (ret)
		return ret;
	answer_bytes(call, bytes, length);
	return 0;
}

static int get_tasks(struct call *call)
{
	uid_t uid = call->request->caller.uid;
	struct target_info info;
	json_t *tasks = NULL;
	pid_t pid;
	int ret = target(call, &info);

	ret = ret ?: api_pull__read_pid(call->request, &pid, &call->error);
	ret = ret ?: limits__wait_profile(uid, &call->error);
	if (ret)
		return ret;
	ret = engine__tasks(call->api->engine, call->id, pid, call->request->caller, &tasks, &call->error);
	ret = ret ?: answer_json(call, MHD_HTTP_OK, tasks);
	limits__give_of(LIMIT_PROFILES, uid, 1);
	return ret;
}

/* of_all: the answer's sums are of all processes, also of those that the caller may not look into. */
static int answer_memory(struct call *call, bool of_all,
			 int (*read)(struct engine *engine, uint32_t id, struct caller caller, uint8_t **out,
				     size_t *length, struct so_error *err))
{
	uid_t uid = call->request->caller.uid;
	struct target_info info;
	uint8_t *bytes;
	size_t length;
	int ret = of_all ? check_sees_all(call, "memory") : target(call, &info);

	ret = ret ?: limits__wait_profile(uid, &call->error);
	if (ret)
		return ret;
	ret = read(call->api->engine, call->id, call->request->caller, &bytes, &length, &call->error);
	limits__give_of(LIMIT_PROFILES, uid, 1);
	if (ret)
		return ret;
	ret = of_all ? check_sees_all(call, "memory") : 0;
	if (ret) {
		free(bytes);
		return ret;
	}
	answer_bytes(call, bytes, length);
	return 0;
}

static int get_memory(struct call *call)
{
	return answer_memory(call, true, engine__memory);
}

static int get_gpu_memory(struct call *call)
{
	return answer_memory(call, false, engine__gpu_memory);
}

static int get_allocations(struct call *call)
{
	return answer_memory(call, true, engine__allocations);
}

static int get_stats(struct call *call)
{
	struct target_info info;
	json_t *stats;
	int ret = target(call, &info);

	if (ret)
		return ret;
	stats = engine__stats(call->api->engine, call->id, &call->error);
	if (!stats)
		return -EIO;
	return answer_json(call, MHD_HTTP_OK, stats);
}

/* The answer is taken over. With summary=1: and what `stakeout cuda` makes of it, which takes as much as a profile. */
static int answer_cuda(struct call *call, json_t *answer)
{
	const char *wanted = http_request__argument(call->request, "summary");
	uid_t uid = call->request->caller.uid;
	int ret = 0;

	if (wanted && strcmp(wanted, "1") != 0)
		ret = so_err(&call->error, -EINVAL, "summary is 1 or left out, not '%.40s'", wanted);
	if (!ret && wanted && !(ret = limits__wait_profile(uid, &call->error))) {
		ret = cuda_json__add_summary(answer, &call->error);
		limits__give_of(LIMIT_PROFILES, uid, 1);
	}
	if (!ret)
		return answer_json(call, MHD_HTTP_OK, answer);
	json_decref(answer);
	return ret;
}

static int answer_history_cuda(struct call *call, int64_t key, const struct history_range *range)
{
	json_t *answer;
	int ret = history__cuda(call->api->history, call->request->caller, key, range->from_ns, range->to_ns, &answer,
				&call->error);

	return ret ?: answer_cuda(call, answer);
}

static int get_history_cuda(struct call *call)
{
	struct history_range range;
	int ret = api_history__check(call->api->history, &call->error);

	ret = ret ?: api_history__range(call->request, &range, &call->error);
	return ret ?: answer_history_cuda(call, call->id, &range);
}

static int get_history_memory(struct call *call)
{
	struct history_range range;
	json_t *answer;
	int ret = api_history__check(call->api->history, &call->error);

	if (!ret && api_history__wants_range(call->request))
		ret = api_history__ago(call->request, &range, &call->error);
	else if (!ret)
		ret = api_history__range(call->request, &range, &call->error);
	ret = ret
		      ?: history__memory(call->api->history, call->request->caller, call->id, range.from_ns,
					 range.to_ns, &answer, &call->error);
	return ret ?: answer_json(call, MHD_HTTP_OK, answer);
}

static int get_past_cuda(struct call *call)
{
	struct history_range range;
	int64_t key;
	int ret = api_history__ago(call->request, &range, &call->error);

	ret = ret ?: api_history__check(call->api->history, &call->error);
	ret = ret ?: history__key(call->api->history, call->id, &key, &call->error);
	return ret ?: answer_history_cuda(call, key, &range);
}

static int get_cuda(struct call *call)
{
	struct target_info info;
	json_t *answer = NULL;
	int ret = target(call, &info);

	if (!ret && api_history__wants_range(call->request))
		return get_past_cuda(call);
	if (!ret)
		ret = engine__cuda(call->api->engine, call->id, &answer, &call->error)
			      ?: check_sees_all(call, "CUDA calls");
	if (ret)
		json_decref(answer);
	return ret ? ret : answer_cuda(call, answer);
}

/*
 * Of the targets that the caller may see. Renews no lease: what is scraped for ever must not keep a recording whose
 * client is gone.
 */
static int get_metrics(struct call *call)
{
	struct api *api = call->api;
	_cleanup_free_ struct match_rule_info *rules = calloc(MATCH_RULES_MAX, sizeof(*rules));
	struct metrics_more more = { .categories = api->categories, .rules = rules, .has_rules = api->scan };
	_cleanup_free_ struct target_info *all = NULL;
	size_t n = 0, seen = 0, length;
	char *text;
	int ret = rules ? engine__list(api->engine, &all, &n) : -ENOMEM;

	for (size_t i = 0; !ret && i < n; i++)
		if (may_see_all(call, &all[i]))
			all[seen++] = all[i];
	if (!ret && api->category_windows)
		category_windows__refresh(api->category_windows, all, seen);
	if (!ret && api->scan)
		more.n_rules = match_table__list(match_scan__table(api->scan), call->request->caller.uid, rules);
	ret = ret ?: metrics__text(api->engine, all, seen, &more, &text, &length);
	if (ret)
		return ret;
	answer_bytes(call, (uint8_t *)text, length);
	call->reply->content_type = METRICS_CONTENT_TYPE;
	return 0;
}

static int get_pull(struct call *call)
{
	const struct api_pull pull = { .engine = call->api->engine,
				       .leases = call->api->leases,
				       .request = call->request,
				       .cancel_fd = call->api->cancel_fd };
	uint8_t *bytes;
	size_t length;
	int ret = api_pull__run(&pull, &bytes, &length, &call->error);

	if (!ret)
		answer_bytes(call, bytes, length);
	return ret;
}

static int get_page(struct call *call)
{
	return pages__get(call->request->path, call->reply) ? 0 : fail(call, -ENOENT, "there is no such page");
}

static const struct route routes[] = {
	{ "GET", "/", get_page, false },
	{ "GET", "/flamegraph.html", get_page, false },
	{ "GET", "/v1/status", get_status, false },
	{ "GET", "/v1/check", get_check, false },
	{ "GET", "/v1/targets", get_targets, false },
	{ "POST", "/v1/targets", post_targets, true },
	{ "GET", "/v1/targets/ID", get_target, false },
	{ "DELETE", "/v1/targets/ID", delete_target, true },
	{ "POST", "/v1/targets/ID/stop", post_stop, true },
	{ "GET", "/v1/targets/ID/profile", get_profile, false },
	{ "GET", "/v1/targets/ID/threads", get_threads, false },
	{ "GET", "/v1/targets/ID/tasks", get_tasks, false },
	{ "POST", "/v1/targets/ID/save", post_save, true },
	{ "GET", "/v1/incidents", get_incidents, false },
	{ "DELETE", "/v1/incidents/ID", delete_incident, true },
	{ "GET", "/v1/incidents/ID/profile", get_incident_profile, false },
	{ "GET", "/v1/rules", get_rules, false },
	{ "POST", "/v1/rules", post_rules, true },
	{ "DELETE", "/v1/rules/ID", delete_rule, true },
	{ "GET", "/v1/targets/ID/stats", get_stats, false },
	{ "GET", "/v1/targets/ID/cuda", get_cuda, false },
	{ "GET", "/v1/targets/ID/memory", get_memory, false },
	{ "GET", "/v1/targets/ID/gpu-memory", get_gpu_memory, false },
	{ "GET", "/v1/targets/ID/allocations", get_allocations, false },
	{ "GET", "/v1/history", get_history, false },
	{ "GET", "/v1/history/ID/profile", get_history_profile, false },
	{ "GET", "/v1/history/ID/cuda", get_history_cuda, false },
	{ "GET", "/v1/history/ID/memory", get_history_memory, false },
	{ "GET", "/v1/history/ID/series", get_history_series, false },
	{ "GET", "/metrics", get_metrics, false },
	{ "GET", "/debug/pprof/profile", get_pull, false },
};

/* Digits up to the next '/' or the end; their value is 0, which no target has, when it does not fit. */
static const char *parse_id(const char *p, uint32_t *id)
{
	const char *start = p;
	uint64_t value = 0;

	for (; *p >= '0' && *p <= '9'; p++)
		value = value > UINT32_MAX ? value : value * 10 + (uint64_t)(*p - '0');
	if (p == start)
		return NULL;
	*id = value > UINT32_MAX ? 0 : (uint32_t)value;
	return p;
}

static bool path_matches(const char *pattern, const char *path, uint32_t *id)
{
	const char *variable = strstr(pattern, "ID");
	size_t fixed = variable ? (size_t)(variable - pattern) : strlen(pattern);

	if (strncmp(pattern, path, fixed))
		return false;
	if (!variable)
		return !path[fixed];
	path = parse_id(path + fixed, id);
	return path && !strcmp(path, variable + 2);
}

static const struct route *find_route(struct call *call)
{
	char *allow = call->reply->header_value;
	size_t used = 0, size = sizeof(call->reply->header_value);

	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		if (!path_matches(routes[i].path, call->request->path, &call->id))
			continue;
		if (!strcmp(routes[i].method, call->request->method))
			return &routes[i];
		used += (size_t)snprintf(allow + used, size - used, "%s%s", used ? ", " : "", routes[i].method);
		call->reply->header = MHD_HTTP_HEADER_ALLOW;
	}
	return NULL;
}

void api__handle(void *context, const struct http_request *request, struct http_reply *reply)
{
	struct call call = { .api = context, .request = request, .reply = reply };
	const struct route *route = find_route(&call);
	int ret;

	if (route && route->changes && request->read_only) {
		reply->header = NULL;
		ret = so_err(&call.error, -EPERM, "%.20s %.100s is possible over the Unix socket only", request->method,
			     request->path);
	} else if (route) {
		reply->header = NULL;
		ret = route->handle(&call);
	} else if (reply->header) {
		call.error_status = MHD_HTTP_METHOD_NOT_ALLOWED;
		ret = so_err(&call.error, -EINVAL, "%.20s is not possible on %.100s, only %s", request->method,
			     request->path, reply->header_value);
	} else {
		ret = so_err(&call.error, -ENOENT, "there is no %.100s here", request->path);
	}
	if (ret)
		answer_error(&call, ret);
}

int api__new(struct engine *engine, const struct api_options *options, struct api **out, struct so_error *err)
{
	double ended_s = options && options->ended_idle_s > 0 ? options->ended_idle_s : DEFAULT_ENDED_IDLE_S;
	double running_s = options && options->running_idle_s > 0 ? options->running_idle_s : DEFAULT_RUNNING_IDLE_S;
	_cleanup_(api) struct api *api = calloc(1, sizeof(*api));
	int ret;

	if (!api)
		return so_err(err, -ENOMEM, "out of memory");
	api->engine = engine;
	api->history = options ? options->history : NULL;
	api->incidents = options ? options->incidents : NULL;
	api->scan = options ? options->scan : NULL;
	api->categories = options ? options->categories : NULL;
	api->category_windows = options ? options->category_windows : NULL;
	api->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (api->cancel_fd < 0)
		return so_err(err, -errno, "cannot make an eventfd: %s", strerror(errno));
	ret = leases__new(engine, ended_s, running_s, &api->leases, err);
	if (ret)
		return ret;
	*out = TAKE_PTR(api);
	return 0;
}

void api__cancel(struct api *api)
{
	eventfd_write(api->cancel_fd, 1);
}

void api__free(struct api *api)
{
	if (!api)
		return;
	leases__free(api->leases);
	cleanup__close(&api->cancel_fd);
	free(api);
}
