// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/session/rules.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/session/json_value.h"

static void rule__read(const json_t *json, struct rule *out)
{
	const char *lasts = json_string_value(json_object_get(json, "lasts"));

	*out = (struct rule){
		.id = (uint32_t)json_value__number(json, "id"),
		.configured = lasts && !strcmp(lasts, "configuration"),
		.targets = json_value__number(json, "targets"),
		.attached = json_value__number(json, "attached"),
	};
	json_value__text(json, "match", out->match, sizeof(out->match));
	json_value__text(json, "problem", out->problem, sizeof(out->problem));
}

int rules__add(struct api_client *api, const char *match, struct rule *out, struct so_error *err)
{
	json_auto_t *body = json_pack("{s:s}", "match", match), *answer = NULL;
	int ret;

	if (!body)
		return so_err(err, -EINVAL, "the rule is not UTF-8");
	ret = api_client__call(api, "POST", "/v1/rules", body, &answer, err);
	if (ret)
		return ret;
	rule__read(answer, out);
	return out->id ? 0 : so_err(err, -EIO, "the daemon's answer describes no rule");
}

/* Digits alone are a number. */
static bool is_named(const struct rule *rule, const char *word)
{
	if (strspn(word, "0123456789") == strlen(word))
		return rule->id == strtoull(word, NULL, 10);
	return !strcmp(rule->match, word);
}

int rules__find(struct api_client *api, const char *word, struct rule *out, struct so_error *err)
{
	struct rule rule, found = { .id = 0 };
	json_t *list, *json;
	size_t i, n = 0;
	int ret = api_client__call(api, "GET", "/v1/rules", NULL, &list, err);

	if (ret)
		return ret;
	json_array_foreach (list, i, json) {
		rule__read(json, &rule);
		if (!rule.id || !is_named(&rule, word))
			continue;
		found = rule;
		n++;
	}
	json_decref(list);
	if (!found.id)
		return so_err(err, -ENOENT, "the daemon has no rule '%.200s': 'stakeout list' shows them", word);
	if (n > 1)
		return so_err(err, -EEXIST, "%zu users have a rule '%.200s': say which by its number ('stakeout list')",
			      n, word);
	*out = found;
	return 0;
}

int rules__remove(struct api_client *api, uint32_t id, uint64_t *detached, struct so_error *err)
{
	json_auto_t *answer = NULL;
	char path[64];
	int ret;

	snprintf(path, sizeof(path), "/v1/rules/%" PRIu32, id);
	ret = api_client__call(api, "DELETE", path, NULL, &answer, err);
	if (!ret)
		*detached = json_value__number(answer, "detached");
	return ret;
}

static void print_rule(const struct rule *rule)
{
	printf("%4" PRIu32 " %7" PRIu64 " %8" PRIu64 "  %-10s %s\n", rule->id, rule->targets, rule->attached,
	       rule->configured ? "configured" : "this run", rule->match);
	if (rule->problem[0])
		printf("%34scannot attach: %s\n", "", rule->problem);
}

int rules__print(struct api_client *api, struct so_error *err)
{
	struct rule rule;
	json_auto_t *list = NULL;
	json_t *json;
	size_t i;
	int ret = api_client__call(api, "GET", "/v1/rules", NULL, &list, err);

	if (ret)
		return ret == -ENOENT ? 0 : ret;
	if (json_array_size(list))
		printf("\n%4s %7s %8s  %-10s %s\n", "RULE", "TARGETS", "ATTACHED", "LASTS", "MATCH");
	json_array_foreach (list, i, json) {
		rule__read(json, &rule);
		print_rule(&rule);
	}
	return 0;
}
