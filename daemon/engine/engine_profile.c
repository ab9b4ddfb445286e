// SPDX-License-Identifier: GPL-2.0-or-later
/* A target's samples as a profile, and what it says in its comments. */
#include <errno.h>
#include <inttypes.h>

#include "daemon/engine/engine_internal.h"
#include "daemon/engine/words.h"
#include "daemon/profile/profile_wall.h"

static int add_comment(struct profile_builder *b, const char *key, const char *word, uint64_t value)
{
	char name[64], text[32];

	snprintf(name, sizeof(name), word ? "%s.%s" : "%s", key, word);
	snprintf(text, sizeof(text), "%" PRIu64, value);
	return profile_builder__comment(b, name, text);
}

void engine_python_version(uint16_t version, char text[16])
{
	snprintf(text, 16, "%u.%u", version >> 8, version & 0xff);
}

int engine_add_python_comments(const struct python_facts *python, struct profile_builder *b)
{
	char version[16];
	int ret = 0;

	for (unsigned i = 0; !ret && i < TARGET_MAX_PYTHONS && python->versions[i]; i++) {
		engine_python_version(python->versions[i], version);
		ret = profile_builder__comment(b, "python.version", version);
	}
	if (!ret && python->problem[0])
		ret = profile_builder__comment(b, "python.problem", python->problem);
	return ret;
}

static int add_python_comments(struct profile_builder *b, const struct engine_snapshot *s)
{
	int ret;

	if (!python_facts__any(&s->python))
		return 0;
	ret = engine_add_python_comments(&s->python, b);
	ret = ret ?: add_comment(b, "python.samples", NULL, accumulator__python_samples(&s->acc));
	ret = ret ?: add_comment(b, "python.complete", NULL, s->acc.python_named);
	ret = ret ?: add_comment(b, "python.gil", NULL, s->acc.gil);
	ret = ret ?: add_comment(b, "python.stale", NULL, s->python.names.stale);
	ret = ret ?: add_comment(b, "python.unreadable", NULL, s->python.names.unreadable);
	for (unsigned i = SO_PYTHON_STATE_COMPLETE + 1; !ret && i < SO_PYTHON_STATE_COUNT; i++) {
		if (s->acc.python[i])
			ret = add_comment(b, "python.truncated", python_words[i], s->acc.python[i]);
	}
	return ret;
}

static int add_comments(struct profile_builder *b, const struct engine_snapshot *s)
{
	int ret = add_comment(b, "pid", NULL, s->info.pid);

	ret = ret ?: add_comment(b, "sample_hz", NULL, s->info.rate_hz);
	ret = ret ?: add_comment(b, "cost-ns", NULL, engine_cost_ns(s));
	ret = ret ?: add_comment(b, "complete", NULL, s->acc.truncated[SO_TRUNC_NONE]);
	for (unsigned i = SO_TRUNC_NONE + 1; !ret && i < SO_TRUNC_COUNT; i++) {
		if (s->acc.truncated[i])
			ret = add_comment(b, "truncated", truncation_words[i], s->acc.truncated[i]);
	}
	for (unsigned i = 0; !ret && i < SO_LOSS_COUNT; i++) {
		if (s->slot.lost[i])
			ret = add_comment(b, "lost", loss_words[i], s->slot.lost[i]);
	}
	if (!ret && s->forgotten)
		ret = add_comment(b, "forgotten", NULL, s->forgotten);
	return ret ?: add_python_comments(b, s);
}

int engine_build_profile(struct engine *e, const struct engine_snapshot *s, bool hasty, uint8_t **out, size_t *length)
{
	bool wall = s->info.wall;
	_cleanup_(profile_builder) struct profile_builder *b =
		wall ? profile_builder__new_wall(s->begin_wall_ns, s->duration_ns, s->period_ns)
		     : profile_builder__new(s->begin_wall_ns, s->duration_ns, s->period_ns);
	struct profile_source source = { .acc = &s->acc,
					 .files = e->files,
					 .main_file = s->main_file,
					 .kernel = s->info.kernel ? e->kernel_symbols : NULL,
					 .since_ns = s->begin_ns,
					 .own_namespaces = s->own_namespaces,
					 .uid = s->info.uid,
					 .labels = &s->labels,
					 .thread_names = &s->thread_names,
					 .hidden = &s->hidden,
					 .waited = e->waited_files,
					 .hasty = hasty };
	int ret;

	if (!b)
		return -ENOMEM;
	ret = wall ? profile_wall__samples(&source, s->period_ns, s->wall_hz, b) : profile_export__samples(&source, b);
	if (!ret && wall)
		ret = add_comment(b, "wall_hz", NULL, s->wall_hz);
	if (!ret && wall && s->wall_lost_ns)
		ret = add_comment(b, "wall.lost_ns", NULL, s->wall_lost_ns);
	ret = ret ?: add_comments(b, s);
	return ret ?: profile_builder__finish(b, out, length);
}

static int build_and_say(struct engine *e, const struct engine_snapshot *s, uint8_t **out, size_t *length,
			 struct so_error *err)
{
	int ret = engine_build_profile(e, s, false, out, length);

	return ret ? so_err(err, ret, "cannot build the profile: %s", strerror(-ret)) : 0;
}

int engine__profile(struct engine *e, uint32_t id, struct caller caller, uint8_t **out, size_t *length,
		    struct so_error *err)
{
	struct engine_snapshot s = { 0 };
	int ret = engine_take_snapshot(e, id, caller, &s, err);

	ret = ret ?: build_and_say(e, &s, out, length, err);
	engine_release_snapshot(e, &s);
	return ret;
}
