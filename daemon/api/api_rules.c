// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/api/api_rules.h"

#include <errno.h>
#include <string.h>

#include "daemon/api/api_json.h"
#include "daemon/os/json_text.h"

static int check(const struct match_scan *scan, struct so_error *err)
{
	return scan ? 0 : so_err(err, -ENOENT, "this daemon has no rules");
}

/* Living targets of a rule. */
static json_int_t count_targets(const struct target_info *targets, size_t n, uint32_t rule)
{
	json_int_t found = 0;

	for (size_t i = 0; i < n; i++)
		found += targets[i].rule == rule && targets[i].state != TARGET_ENDED;
	return found;
}

static json_t *rule_json(const struct match_rule_info *rule, json_int_t targets)
{
	return json_pack("{s:I, s:o, s:I, s:s, s:i, s:b, s:b, s:I, s:I, s:o}", "id", (json_int_t)rule->id, "match",
			 json_text__new(rule->text), "uid", (json_int_t)rule->owner, "lasts",
			 rule->configured ? "configuration" : "until the daemon ends", "rate_hz", (int)rule->rate_hz,
			 "cuda", (int)rule->cuda, "wall", (int)rule->wall, "targets", targets, "attached",
			 (json_int_t)rule->attached, "problem",
			 rule->problem[0] ? json_text__new(rule->problem) : json_null());
}

int api_rules__list(struct match_scan *scan, struct engine *engine, const struct http_request *request, json_t **out,
		    struct so_error *err)
{
	_cleanup_free_ struct match_rule_info *rules = calloc(MATCH_RULES_MAX, sizeof(*rules));
	_cleanup_free_ struct target_info *targets = NULL;
	json_t *list = json_array();
	size_t n_rules, n = 0;
	int ret = check(scan, err);

	if (!ret && (!rules || !list || engine__list(engine, &targets, &n)))
		ret = so_err(err, -ENOMEM, "out of memory");
	n_rules = ret ? 0 : match_table__list(match_scan__table(scan), request->caller.uid, rules);
	for (size_t i = 0; i < n_rules; i++)
		json_array_append_new(list, rule_json(&rules[i], count_targets(targets, n, rules[i].id)));
	if (ret)
		json_decref(list);
	else
		*out = list;
	return ret;
}

/* The one field of the body; borrowed from *root. */
static int read_body(const struct http_request *request, json_t **root, const char **text, struct so_error *err)
{
	json_error_t why;
	const char *name;
	json_t *value;

	*root = json_loadb(request->body, request->body_bytes, JSON_REJECT_DUPLICATES, &why);
	if (!*root)
		return so_err(err, -EINVAL, "the body is not JSON: %.*s (line %d, column %d)",
			      (int)strcspn(why.text, "\n"), why.text, why.line, why.column);
	if (!json_is_object(*root))
		return so_err(err, -EINVAL, "the body must be a JSON object");
	json_object_foreach (*root, name, value) {
		if (strcmp(name, "match") != 0)
			return so_err(err, -EINVAL, "unknown field '%.60s'", name);
	}
	*text = json_string_value(json_object_get(*root, "match"));
	return *text ? 0 : so_err(err, -EINVAL, "match must be the text of a rule");
}

int api_rules__add(struct match_scan *scan, const struct http_request *request, json_t **out, struct so_error *err)
{
	struct match_rule_info info;
	const char *text = NULL;
	json_t *root = NULL;
	uint32_t id = 0;
	int ret = check(scan, err);

	ret = ret ?: read_body(request, &root, &text, err);
	ret = ret ?: match_scan__add(scan, text, request->caller, false, &id, err);
	json_decref(root);
	if (ret)
		return ret;
	ret = match_table__get(match_scan__table(scan), request->caller.uid, id, &info);
	if (ret)
		return so_err(err, ret, "rule %u was removed by another request", id);
	*out = rule_json(&info, 0);
	return *out ? 0 : so_err(err, -ENOMEM, "out of memory");
}

int api_rules__remove(struct match_scan *scan, const struct http_request *request, uint32_t id, json_t **out,
		      struct so_error *err)
{
	unsigned detached = 0;
	int ret = check(scan, err);

	ret = ret ?: match_scan__remove(scan, request->caller.uid, id, &detached, err);
	if (ret)
		return ret;
	*out = json_pack("{s:I, s:b, s:i}", "id", (json_int_t)id, "removed", 1, "detached", (int)detached);
	return *out ? 0 : so_err(err, -ENOMEM, "out of memory");
}
