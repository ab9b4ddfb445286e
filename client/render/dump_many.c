// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/render/dump_many.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/dump_internal.h"
#include "stakeout/intern.h"
#include "stakeout/utf8.h"

#define COLUMNS   80
#define NAMES_MAX 3 /* of a group's threads; more are "…" */

/* As much of a clean text as has room. */
static void print_cut(const char *text, size_t columns, FILE *out)
{
	size_t length = strlen(text), n = 0, cut = 0, at = 0;

	for (size_t bytes; at < length; at += bytes, n++) {
		bytes = utf8__sequence(text + at, length - at);
		if (n + 1 == columns)
			cut = at;
	}
	if (n <= columns)
		fprintf(out, "%s", text);
	else
		fprintf(out, "%.*s…", (int)cut, text);
}

/* Those of the same command, which is that of the first of them. */
static int print_command(const struct dump *const *dumps, size_t n, FILE *out)
{
	_cleanup_free_ char *command = dump_clean(dumps[0]->command), *rank = dump_clean(dump_rank(dumps[0]));
	char head[64];

	if (!command || !rank)
		return -ENOMEM;
	if (n == 1)
		snprintf(head, sizeof(head), "Process %d%s%.16s: ", dumps[0]->pid, *rank ? ", rank " : "", rank);
	else
		snprintf(head, sizeof(head), "%zu processes: ", n);
	fprintf(out, "%s", head);
	print_cut(command, COLUMNS - strlen(head), out);
	fputc('\n', out);
	return n == 1 ? 0 : dump_print_processes(dumps, n, out);
}

static bool is_known(const struct dump *dump)
{
	return dump->profile;
}

/* In order of their first processes. */
static int print_commands(const struct dump *dumps, size_t n, FILE *out)
{
	_cleanup_free_ bool *done = calloc(n + 1, sizeof(*done));
	_cleanup_free_ const struct dump **same = calloc(n + 1, sizeof(struct dump *));
	int ret = done && same ? 0 : -ENOMEM;

	for (size_t i = 0; !ret && i < n; i++) {
		size_t n_same = 0;

		for (size_t k = i; k < n && !done[i]; k++) {
			if (!is_known(&dumps[k]) || done[k] || strcmp(dumps[k].command, dumps[i].command))
				continue;
			done[k] = k > i;
			same[n_same++] = &dumps[k];
		}
		if (n_same)
			ret = print_command(same, n_same, out);
	}
	return ret;
}

static bool have_same_problem(const struct dump *x, const struct dump *y)
{
	return !is_known(x) && !is_known(y) && !strcmp(x->problem, y->problem);
}

/* "Process 5 (sh) is left out: …", or "3 processes (the first: 5, sh) are left out: …". */
static int print_problem(const struct dump *dump, size_t n, FILE *out)
{
	_cleanup_free_ char *command = dump_clean(dump->command);
	int ret;

	if (!command)
		return -ENOMEM;
	if (n > 1)
		fprintf(out, "%zu processes (the first: %d, ", n, dump->pid);
	else
		fprintf(out, "Process %d (", dump->pid);
	print_cut(command, 24, out);
	ret = dump_print_words(n > 1 ? ") are left out: " : ") is left out: ", dump->problem, out);
	fputc('\n', out);
	return ret;
}

static int print_problems(const struct dump *dumps, size_t n, FILE *out)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < n; i++) {
		size_t before = 0, same = 0;

		for (size_t k = 0; k < n && !is_known(&dumps[i]); k++) {
			before += k < i && have_same_problem(&dumps[k], &dumps[i]);
			same += have_same_problem(&dumps[k], &dumps[i]);
		}
		if (same && !before)
			ret = print_problem(&dumps[i], same, out);
	}
	return ret;
}

/* Comments of all processes that begin so, each once, in a row. */
static int print_comments(const struct dump *dumps, size_t n, const char *begin, const char *head, const char *comma,
			  FILE *out)
{
	struct intern seen = { 0 };
	uint32_t number;
	int ret = 0;

	for (size_t i = 0; ret >= 0 && i < n; i++) {
		for (size_t k = 0; ret >= 0 && is_known(&dumps[i]) && k < dumps[i].profile->n_comments; k++) {
			const char *comment = dumps[i].profile->comments[k];

			if (strncmp(comment, begin, strlen(begin)))
				continue;
			ret = intern__add(&seen, comment, strlen(comment), &number);
			if (ret > 0)
				ret = dump_print_words(seen.n_keys > 1 ? comma : head, comment + strlen(begin), out);
		}
	}
	if (ret >= 0 && seen.n_keys)
		fputc('\n', out);
	intern__clear(&seen);
	return ret < 0 ? ret : 0;
}

static int print_heads(const struct dump *dumps, size_t n, FILE *out)
{
	int ret = print_commands(dumps, n, out);

	ret = ret ?: print_comments(dumps, n, "stakeout.python.version=", "CPython ", ", ", out);
	ret = ret ?: print_comments(dumps, n, "stakeout.python.problem=", "Python: ", "; ", out);
	return ret ?: print_problems(dumps, n, out);
}

/* Its digits as one '*', as of "pool-17": the threads of a pool are numbered. */
static void generalise(char *name)
{
	char *out = name;

	for (const char *at = name; *at;) {
		if (!isdigit((unsigned char)*at)) {
			*out++ = *at++;
			continue;
		}
		while (isdigit((unsigned char)*at))
			at++;
		*out++ = '*';
	}
	*out = '\0';
}

static bool is_called_alike(const struct profile_sample *a, const struct profile_sample *b)
{
	return !strcmp(a->comm, b->comm) && !strcmp(a->thread ?: "", b->thread ?: "");
}

/* ": python3", or ": pool-*, writer" where they are called differently. */
static int print_names(const struct dump_group *group, FILE *out)
{
	struct intern seen = { 0 };
	bool alike = true;
	int ret = 0;

	for (size_t i = 1; alike && i < group->n; i++)
		alike = is_called_alike(group->threads[i]->sample, group->threads[0]->sample);
	for (size_t i = 0; ret >= 0 && i < (alike ? 1 : group->n) && seen.n_keys <= NAMES_MAX; i++) {
		_cleanup_free_ char *name = dump_thread_name(group->threads[i]->sample);
		uint32_t number;

		if (name && !alike)
			generalise(name);
		ret = name ? intern__add(&seen, name, strlen(name), &number) : -ENOMEM;
		if (ret > 0)
			fprintf(out, "%s%s", seen.n_keys > 1 ? ", " : ": ", seen.n_keys > NAMES_MAX ? "…" : name);
	}
	fputc('\n', out);
	intern__clear(&seen);
	return ret < 0 ? ret : 0;
}

static void print_count(const struct dump_group *group, FILE *out)
{
	if (group->main && group->n == 1 && group->peers == 1)
		fprintf(out, "\nMain thread");
	else if (group->main && group->n == group->peers)
		fprintf(out, "\nAll %zu main threads", group->n);
	else if (group->main)
		fprintf(out, "\n%zu of %zu main threads", group->n, group->peers);
	else if (group->n == 1)
		fprintf(out, "\nThread %" PRId64, group->threads[0]->sample->tid);
	else
		fprintf(out, "\n%zu threads", group->n);
	if (!group->main && group->processes > 1)
		fprintf(out, " of %zu processes", group->processes);
}

static int print_group(const struct dump_group *group, bool one_process, const struct dump_part *part, FILE *out)
{
	const struct dump_thread *first = group->threads[0];
	int ret;

	if (one_process && group->n == 1) {
		ret = dump_print_thread_head(first->sample, out);
		return ret ?: dump_print_frames(first->dump->profile, part, first->sample, out);
	}
	print_count(group, out);
	ret = dump_print_doing(first->sample, out);
	ret = ret ?: print_names(group, out);
	ret = ret ?: dump_print_where(group, one_process, out);
	return ret ?: dump_print_frames(first->dump->profile, part, first->sample, out);
}

static int print_each(const struct dump *dumps, size_t n, const struct dump_part *part, FILE *out, struct so_error *err)
{
	int ret = 0, shown = 0;

	for (size_t i = 0; !ret && i < n; i++) {
		if (!is_known(&dumps[i]))
			continue;
		if (shown++)
			fputc('\n', out);
		ret = dump_text__print(&dumps[i], part, out, err);
	}
	if (ret)
		return ret;
	if (n > 1)
		ret = print_problems(dumps, n, out);
	return dump_finish(ret, out, err);
}

int dump_many__print(const struct dump *dumps, size_t n, const struct dump_part *part, FILE *out, struct so_error *err)
{
	_cleanup_(dump_groups) struct dump_groups groups = { 0 };
	int ret;

	if (!part->merge)
		return print_each(dumps, n, part, out, err);
	ret = dump_groups__make(dumps, n, part, &groups);
	if (ret)
		return dump_finish(ret, out, err);
	if (n == 1 && groups.n == groups.n_threads)
		return print_each(dumps, n, part, out, err);
	ret = n == 1 ? dump_print_head(dumps, out) : print_heads(dumps, n, out);
	for (size_t i = 0; !ret && i < groups.n; i++)
		ret = print_group(&groups.groups[i], n == 1, part, out);
	return dump_finish(ret, out, err);
}

/* NULL: out of memory. Takes the threads of the groups that are this process's, from *at on. */
static json_t *threads_json(const struct dump *dump, const struct dump_part *part, const struct dump_groups *groups,
			    size_t *at)
{
	json_t *array = json_array();

	for (; array && *at < groups->n_threads && groups->threads[*at].dump == dump; ++*at) {
		const struct dump_thread *thread = &groups->threads[*at];
		json_t *json = dump_thread_json(dump->profile, part, thread->sample);

		if (!json || json_object_set_new(json, "group", json_integer((json_int_t)thread->group)) ||
		    json_array_append(array, json)) {
			json_decref(json);
			json_decref(array);
			return NULL;
		}
		json_decref(json);
	}
	return array;
}

/* A rank is a whole number; null where it is none. */
static json_t *number_or_null(const char *text)
{
	char *end;
	long long number = text ? strtoll(text, &end, 10) : 0;

	return text && *text && !*end ? json_integer(number) : json_null();
}

static json_t *process_json(const struct dump *dump, json_t *threads)
{
	const struct profile_sample *sample =
		is_known(dump) && dump->profile->n_samples ? dump->profile->samples : NULL;
	_cleanup_free_ char *command = dump_clean(dump->command), *problem = dump_clean(dump->problem ?: "");

	if (!threads || !command || !problem) {
		json_decref(threads);
		return NULL;
	}
	return json_pack("{s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "pid", (int)dump->pid, "ppid", (int)dump->ppid, "rank",
			 number_or_null(sample ? sample->rank : NULL), "local_rank",
			 number_or_null(sample ? sample->local_rank : NULL), "command", dump_text_or_null(command),
			 "error", dump_text_or_null(problem), "threads", threads);
}

int dump_many__json(const struct dump *dumps, size_t n, const struct dump_part *part, FILE *out, struct so_error *err)
{
	_cleanup_(dump_groups) struct dump_groups groups = { 0 };
	json_t *array = json_array();
	int ret = array ? dump_groups__make(dumps, n, part, &groups) : -ENOMEM;
	size_t at = 0;

	for (size_t i = 0; !ret && i < n; i++) {
		json_t *threads = threads_json(&dumps[i], part, &groups, &at);

		if (json_array_append_new(array, process_json(&dumps[i], threads)))
			ret = -ENOMEM;
	}
	if (!ret && json_dumpf(array, out, JSON_INDENT(2)) && !ferror(out))
		ret = -ENOMEM;
	fputc('\n', out);
	json_decref(array);
	return dump_finish(ret, out, err);
}
