// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/api/api_status.h"

#include <string.h>

#include "daemon/api/api_json.h"
#include "daemon/http/denials.h"
#include "daemon/os/limits.h"
#include "daemon/os/bounded_call.h"
#include "daemon/os/privileges.h"
#include "daemon/os/json_text.h"

/* NULL: it has gone meanwhile. */
static json_t *cost_of(struct engine *engine, const struct target_info *info)
{
	json_t *cost = engine__cost(engine, info->id);
	char comm[sizeof(info->comm) + 1] = "";

	if (!cost)
		return NULL;
	memcpy(comm, info->comm, sizeof(info->comm));
	json_object_set_new(cost, "id", json_integer((json_int_t)info->id));
	json_object_set_new(cost, "pid", json_integer(info->pid));
	json_object_set_new(cost, "comm", json_text__new(comm));
	json_object_set_new(cost, "processes", json_integer((json_int_t)info->processes));
	json_object_set_new(cost, "samples", json_integer((json_int_t)info->samples));
	json_object_set_new(cost, "lost", json_integer((json_int_t)info->lost));
	return cost;
}

static json_t *costs(struct engine *engine, struct caller caller)
{
	_cleanup_free_ struct target_info *all = NULL;
	json_t *list = json_array(), *cost;
	size_t n = 0;

	if (engine__list(engine, &all, &n))
		n = 0;
	for (size_t i = 0; i < n; i++) {
		if (!caller__sees(caller, all[i].viewer))
			continue;
		cost = cost_of(engine, &all[i]);
		if (cost)
			json_array_append_new(list, cost);
	}
	return list;
}

/* What the store may hold is said at its start; what is beyond goes, oldest first, which is no refusal to count. */
static json_t *limits(const json_t *status, const json_t *history)
{
	const json_t *limit = json_object_get(history, "retain_bytes");
	json_t *list;

	limits__set(LIMIT_STUCK, bounded_call__stuck());
	limits__set(LIMIT_TARGETS, (uint64_t)json_integer_value(json_object_get(status, "targets")));
	limits__set(LIMIT_PROCESSES, (uint64_t)json_integer_value(json_object_get(status, "processes")));
	list = limits__json();
	if (list && json_is_integer(limit))
		json_array_append_new(list, json_pack("{s:s, s:I, s:O?, s:n}", "name", "store_bytes", "limit",
						      json_integer_value(limit), "now",
						      json_object_get(history, "bytes"), "hit"));
	return list;
}

json_t *api_status__json(struct engine *engine, struct history *history, struct caller caller)
{
	json_t *status = engine__status(engine);
	json_t *kept = history ? history__status(history) : NULL;
	int ret;

	if (!status) {
		json_decref(kept);
		return NULL;
	}
	ret = json_object_set_new(status, "privileges", privileges__json());
	ret |= json_object_set_new(status, "denials", json_integer((json_int_t)denials__count()));
	ret |= json_object_set_new(status, "limits", limits(status, kept));
	ret |= json_object_set_new(status, "costs", costs(engine, caller));
	if (kept)
		ret |= json_object_set_new(status, "history", kept);
	if (ret) {
		json_decref(status);
		return NULL;
	}
	return status;
}
