// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/rules/match_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engine/engine.h"

struct rule {
	struct match_rule *rule;
	gid_t group;
	uint32_t id;
	bool configured;
	uint64_t attached;
	char problem[256];
};

struct match_table {
	pthread_mutex_t lock;
	struct rule rules[MATCH_RULES_MAX]; /* in order of id */
	size_t n;
	uint32_t last_id; /* ever given */
	uint64_t removed;
};

int match_table__new(struct match_table **out)
{
	struct match_table *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	pthread_mutex_init(&t->lock, NULL);
	*out = t;
	return 0;
}

void match_table__free(struct match_table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++)
		match_rule__free(t->rules[i].rule);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* These want the lock. */

static struct rule *find_rule(struct match_table *t, uint32_t id)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->rules[i].id == id)
			return &t->rules[i];
	}
	return NULL;
}

static bool may_see(const struct rule *r, uid_t uid)
{
	return !uid || match_rule__owner(r->rule) == uid;
}

static void fill_info(const struct rule *r, struct match_rule_info *out)
{
	*out = (struct match_rule_info){
		.id = r->id,
		.owner = match_rule__owner(r->rule),
		.group = r->group,
		.configured = r->configured,
		.rate_hz = match_rule__rate_hz(r->rule) ?: ENGINE_DEFAULT_RATE_HZ,
		.cuda = match_rule__cuda(r->rule),
		.wall = match_rule__wall(r->rule),
		.attached = r->attached,
	};
	snprintf(out->text, sizeof(out->text), "%s", match_rule__text(r->rule));
	memcpy(out->problem, r->problem, sizeof(out->problem));
}

static int check_room(struct match_table *t, const struct match_rule *rule, struct so_error *err)
{
	uid_t owner = match_rule__owner(rule);
	size_t of_owner = 0;

	for (size_t i = 0; i < t->n; i++) {
		if (match_rule__owner(t->rules[i].rule) != owner)
			continue;
		of_owner++;
		if (!strcmp(match_rule__text(t->rules[i].rule), match_rule__text(rule)))
			return so_err(err, -EEXIST, "rule %u says that already", t->rules[i].id);
	}
	if (owner && of_owner >= MATCH_RULES_MAX_USER)
		return so_err(err, -ENOSPC, "a user has %d rules at most", MATCH_RULES_MAX_USER);
	if (owner && t->n >= MATCH_RULES_MAX - MATCH_RULES_MAX_USER)
		return so_err(err, -ENOSPC, "there are %zu rules already; the places that are left are root's", t->n);
	return t->n == MATCH_RULES_MAX ? so_err(err, -ENOSPC, "there are %d rules at most", MATCH_RULES_MAX) : 0;
}

int match_table__add(struct match_table *t, const char *text, struct caller owner, bool configured, uint32_t *id,
		     struct so_error *err)
{
	_cleanup_(match_rule) struct match_rule *rule = NULL;
	int ret = match_rule__parse(text, owner.uid, &rule, err);

	if (ret)
		return ret;
	pthread_mutex_lock(&t->lock);
	ret = check_room(t, rule, err);
	if (!ret) {
		t->rules[t->n++] = (struct rule){ TAKE_PTR(rule), owner.gid, ++t->last_id, configured, 0, "" };
		*id = t->last_id;
	}
	pthread_mutex_unlock(&t->lock);
	return ret;
}

int match_table__remove(struct match_table *t, uid_t uid, uint32_t id, struct so_error *err)
{
	struct match_rule *rule = NULL;
	struct rule *r;

	pthread_mutex_lock(&t->lock);
	r = find_rule(t, id);
	if (r && may_see(r, uid)) {
		rule = r->rule;
		memmove(r, r + 1, (size_t)(&t->rules[t->n] - (r + 1)) * sizeof(*r));
		t->n--;
		t->removed++;
	}
	pthread_mutex_unlock(&t->lock);
	if (!rule)
		return so_err(err, -ENOENT, "there is no rule %u", id);
	match_rule__free(rule);
	return 0;
}

size_t match_table__list(struct match_table *t, uid_t uid, struct match_rule_info out[MATCH_RULES_MAX])
{
	size_t n = 0;

	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < t->n; i++) {
		if (may_see(&t->rules[i], uid))
			fill_info(&t->rules[i], &out[n++]);
	}
	pthread_mutex_unlock(&t->lock);
	return n;
}

int match_table__get(struct match_table *t, uid_t uid, uint32_t id, struct match_rule_info *out)
{
	struct rule *r;
	bool found;

	pthread_mutex_lock(&t->lock);
	r = find_rule(t, id);
	found = r && may_see(r, uid);
	if (found)
		fill_info(r, out);
	pthread_mutex_unlock(&t->lock);
	return found ? 0 : -ENOENT;
}

void match_table__state(struct match_table *t, uint32_t *last_id, uint64_t *removed, bool *wants_cgroups)
{
	pthread_mutex_lock(&t->lock);
	*last_id = t->n ? t->rules[t->n - 1].id : 0;
	*removed = t->removed;
	*wants_cgroups = false;
	for (size_t i = 0; i < t->n; i++)
		*wants_cgroups |= match_rule__wants_cgroup(t->rules[i].rule);
	pthread_mutex_unlock(&t->lock);
}

int match_table__find(struct match_table *t, const struct match_process *process, uint32_t after,
		      struct match_rule_info *out)
{
	int ret = -ENOENT;

	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; ret && i < t->n; i++) {
		if (t->rules[i].id <= after || !match_rule__matches(t->rules[i].rule, process))
			continue;
		fill_info(&t->rules[i], out);
		ret = 0;
	}
	pthread_mutex_unlock(&t->lock);
	return ret;
}

bool match_table__attached(struct match_table *t, uint32_t id)
{
	struct rule *r;

	pthread_mutex_lock(&t->lock);
	r = find_rule(t, id);
	if (r) {
		r->attached++;
		r->problem[0] = '\0';
	}
	pthread_mutex_unlock(&t->lock);
	return r;
}

void match_table__failed(struct match_table *t, uint32_t id, const char *why)
{
	struct rule *r;

	pthread_mutex_lock(&t->lock);
	r = find_rule(t, id);
	if (r)
		snprintf(r->problem, sizeof(r->problem), "%.255s", why);
	pthread_mutex_unlock(&t->lock);
}
