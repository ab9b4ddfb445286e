// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout dump: every thread's stack, now. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/commands/commands.h"
#include "client/commands/dump_look.h"
#include "client/commands/dump_processes.h"
#include "client/commands/running.h"
#include "client/session/named_process.h"
#include "client/render/dump_many.h"
#include "client/render/dump_text.h"
#include "client/session/interrupt.h"
#include "client/render/lines_missing.h"
#include "client/session/message.h"
#include "client/session/process_arguments.h"
#include "stakeout/options.h"
#include "client/session/output.h"
#include "client/render/selection.h"
#include "client/session/session.h"

#define COMMAND_BYTES 4096

struct dumping {
	struct dump_choice choice;
	bool children, no_children, no_merge, as_json;
	struct dump_part part;
	struct output *output;
	struct session *session;
	struct dump_process *processes;
	struct dump_look *looks; /* at those that live */
	struct dump *dumps;      /* their commands are malloc'ed */
	size_t n, n_looks, n_dumps;
	size_t n_denied; /* that match, and are not the user's */
};

static void cleanup__dumping(struct dumping *d)
{
	for (size_t i = 0; i < d->n_looks; i++)
		profile__free(d->looks[i].profile);
	for (size_t i = 0; i < d->n_dumps; i++)
		free((char *)d->dumps[i].command);
	free(d->looks);
	free(d->dumps);
	free(d->processes);
	session__free(d->session);
	output__free(d->output);
}

/* Whose form is that of several processes, however many there are. */
static bool asks_for_several(const struct dumping *d)
{
	return d->choice.match || d->children;
}

static const char *main_comm(const struct dump_look *look)
{
	for (size_t i = 0; i < look->profile->n_samples; i++) {
		if (look->profile->samples[i].tid == look->pid)
			return look->profile->samples[i].comm;
	}
	return "";
}

/* Its name, where it has no command line. */
static const char *name_of(const struct dump_process *process, const struct dump_look *look)
{
	if (look && look->profile && look->target.pid == process->pid)
		return look->target.comm;
	return look && look->profile && *main_comm(look) ? main_comm(look) : process->comm;
}

static int add_dump(struct dumping *d, const struct dump_process *process, const struct dump_look *look)
{
	struct dump *dump = &d->dumps[d->n_dumps];
	char command[COMMAND_BYTES];
	ssize_t n = process_arguments__read(process->pid, command, sizeof(command));

	process_arguments__join(command, n > 0 ? (size_t)n : 0, sizeof(command));
	*dump = (struct dump){
		.pid = process->pid,
		.ppid = process->ppid,
		.depth = process->depth,
		.command = strdup(n > 0 ? command : name_of(process, look)),
		.profile = look ? look->profile : NULL,
	};
	if (!dump->command)
		return -ENOMEM;
	d->n_dumps++;
	if (!look)
		dump->problem = "ended, and not waited for by its parent";
	else if (!look->profile)
		dump->problem = look->problem.text;
	return 0;
}

static bool is_denied(const struct dump_look *look)
{
	return look && (look->ret == -EPERM || look->ret == -EACCES);
}

/* Of processes that others name, those of other users are none of the answer. */
static int add_dumps(struct dumping *d, struct so_error *err)
{
	size_t at = 0;
	int ret = 0;

	d->dumps = calloc(d->n + 1, sizeof(*d->dumps));
	if (!d->dumps)
		return so_err(err, -ENOMEM, "out of memory");
	for (size_t i = 0; !ret && i < d->n; i++) {
		bool looked_at = at < d->n_looks && d->looks[at].pid == d->processes[i].pid;
		const struct dump_look *look = looked_at ? &d->looks[at++] : NULL;

		if (d->choice.match && is_denied(look))
			d->n_denied++;
		else
			ret = add_dump(d, &d->processes[i], look);
	}
	return ret ? so_err(err, ret, "out of memory") : 0;
}

/* One process fails in its own words. */
static int check_dumps(const struct dumping *d, struct so_error *err)
{
	for (size_t i = 0; i < d->n_dumps; i++) {
		if (d->dumps[i].profile)
			return 0;
	}
	if (!d->n_dumps)
		return so_err(err, -EPERM, "all %zu processes found by '%.100s' are other users'", d->n_denied,
			      d->choice.match);
	return so_err(err, -ESRCH, "none of %zu processes could be looked at; the first, %d: %.300s", d->n_dumps,
		      d->dumps[0].pid, d->dumps[0].problem);
}

/* One that has ended is asked for all the same where it is the only one: the daemon says what is wrong. */
static int choose(struct dumping *d, struct so_error *err)
{
	int ret = dump_processes__choose(&d->choice, &d->processes, &d->n, err);

	if (ret)
		return ret;
	d->looks = calloc(d->n + 1, sizeof(*d->looks));
	if (!d->looks)
		return so_err(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < d->n; i++) {
		const struct dump_process *process = &d->processes[i];

		if (process->ended && d->n > 1)
			continue;
		d->looks[d->n_looks].pid = process->pid;
		d->looks[d->n_looks++].below = process->depth;
	}
	return 0;
}

static int fetch(const struct globals *globals, struct dumping *d, struct so_error *err)
{
	int ret = choose(d, err);

	ret = ret ?: session__open(globals->socket, SESSION_ANY, &d->session, err);
	ret = ret ?: dump_look__at(d->session, d->looks, d->n_looks, d->n > 1, err);
	ret = ret ?: add_dumps(d, err);
	return ret ?: check_dumps(d, err);
}

/* As for a recording: nobody holding the lock is an answer, nobody knowing of one is none. */
static bool knows_gil(const struct profile *profile)
{
	if (!profile__comment(profile, "python.problem") && profile__comment(profile, "python.version"))
		return true;
	for (size_t i = 0; i < profile->n_samples; i++) {
		if (profile->samples[i].gil != PROFILE_GIL_NONE)
			return true;
	}
	return false;
}

/* Whether all Python threads are of free-threaded interpreters. */
static bool lacks_gil(const struct profile *profile)
{
	bool lacks = false;

	for (size_t i = 0; i < profile->n_samples; i++) {
		if (profile->samples[i].gil > PROFILE_GIL_DISABLED)
			return false;
		lacks |= profile->samples[i].gil == PROFILE_GIL_DISABLED;
	}
	return lacks;
}

static int check_gil(const struct dumping *d, struct so_error *err)
{
	const char *problem = NULL;
	bool lacking = false;

	for (size_t i = 0; i < d->n_dumps; i++) {
		const struct profile *profile = d->dumps[i].profile;

		if (!d->part.gil || (profile && knows_gil(profile) && !lacks_gil(profile)))
			return 0;
		lacking |= profile && lacks_gil(profile);
		problem = problem ?: profile ? profile__comment(profile, "python.problem") : NULL;
	}
	if (lacking)
		return so_err(err, -ENODATA,
			      "--gil shows nothing here: this Python is free-threaded and runs without a GIL");
	if (d->n_dumps > 1)
		return so_err(err, -ENODATA,
			      "--gil shows nothing here: no thread of the %zu processes is a Python thread%s%.300s%s",
			      d->n_dumps, problem ? " (" : "", problem ?: "", problem ? ")" : "");
	return so_err(err, -ENODATA, "--gil shows nothing here: no thread of process %d is a Python thread%s%.300s%s",
		      d->dumps[0].pid, problem ? " (" : "", problem ?: "", problem ? ")" : "");
}

/* Where writing failed, the commit knows the system's reason. */
static int print(struct dumping *d, struct so_error *err)
{
	FILE *out = output__file(d->output);
	int ret = check_gil(d, err);

	if (ret)
		return ret;
	if (!d->as_json)
		ret = dump_many__print(d->dumps, d->n_dumps, &d->part, out, err);
	else if (asks_for_several(d))
		ret = dump_many__json(d->dumps, d->n_dumps, &d->part, out, err);
	else
		ret = dump_text__json(d->dumps, &d->part, out, err);
	return ret && ret != -EIO ? ret : output__commit(d->output, err);
}

/* What JSON does not have of Python, each once. */
static void say_problems(const struct dumping *d)
{
	const char *said = "";

	for (size_t i = 0; d->as_json && i < d->n_dumps; i++) {
		const struct profile *profile = d->dumps[i].profile;
		const char *problem = profile ? profile__comment(profile, "python.problem") : NULL;

		if (problem && strcmp(problem, said))
			message__note("Python: %s", problem);
		said = problem ?: said;
	}
}

/* What the output itself does not say. */
static void say_notes(const struct dumping *d)
{
	struct dump_left_out left_out = { 0 };
	uint64_t n_missing = 0;
	char note[LINES_MISSING_TEXT_BYTES];

	for (size_t i = 0; i < d->n_dumps; i++) {
		const struct profile *profile = d->dumps[i].profile;
		const char *missing = profile ? profile__comment(profile, LINES_MISSING_COMMENT) : NULL;

		n_missing += missing ? strtoull(missing, NULL, 10) : 0;
		if (profile)
			dump_text__count(profile, &d->part, &left_out);
	}
	if (n_missing)
		message__note("%s", lines_missing__text(n_missing, note));
	say_problems(d);
	if (dump_text__note(&left_out, note, sizeof(note)))
		message__note("%s", note);
	if (d->n_denied)
		message__note("%zu more are other users' processes", d->n_denied);
}

static int check_options(struct dumping *d, struct so_error *err)
{
	if (!d->choice.pid && !d->choice.match)
		return so_err(err, -EINVAL,
			      "which process? Give its ID with -p PID, or a part of its command line "
			      "with --match PATTERN");
	if (d->choice.pid && d->choice.match)
		return so_err(err, -EINVAL, "-p and --match exclude each other");
	if (d->children && d->no_children)
		return so_err(err, -EINVAL, "--children and --no-children exclude each other");
	d->part.merge = !d->no_merge;
	if (d->children)
		d->choice.tree = DUMP_TREE_ALWAYS;
	/* A script gets the form that it asks for, whatever the process is. */
	else if (d->no_children || (d->as_json && !d->choice.match))
		d->choice.tree = DUMP_TREE_NEVER;
	return OPTIONS_GO_ON;
}

static int parse(int argc, char **argv, struct dumping *d, struct so_error *err)
{
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &d->choice.pid, "the process to look at" },
		{ OPTION_TEXT, 0, "match", "PATTERN", &d->choice.match,
		  "instead: all whose command line matches this\nextended regular expression, somewhere" },
		{ OPTION_ON, 0, "children", NULL, &d->children, "with all processes below it" },
		{ OPTION_ON, 0, "no-children", NULL, &d->no_children, "without; as is so unless it is a launcher" },
		{ OPTION_ON, 0, "no-merge", NULL, &d->no_merge, "each thread by itself, process after process" },
		{ OPTION_ON, 'g', "gil", NULL, &d->part.gil, "only threads that hold Python's GIL" },
		SELECTION_PYTHON_ONLY(d->part),
		{ OPTION_OFF, 0, "no-kernel", NULL, &d->part.kernel, "leave kernel frames out" },
		{ OPTION_ON, 'j', "json", NULL, &d->as_json,
		  "write JSON: an array of threads; with --children or\n--match an array of processes" },
		{ OPTION_NOTHING, 'n', "native", NULL, NULL, "as always; for habits from py-spy" },
		{ OPTION_NOTHING, 0, "nonblocking", NULL, NULL, "as always; for habits from py-spy" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "dump -p PID|--match PATTERN [OPTION]...",
		.about = "Shows every thread of a process: what it does and its stack, innermost frame first,\n"
			 "Python, native and kernel frames in one. The process is not stopped: a thread\n"
			 "that runs all the time shows the stack it had most often in a tenth of a second.\n"
			 "Threads with equal stacks are shown as one, those of several processes too.",
		.entries = entries,
		.find_process = named_process__find,
		.end = "A launcher is shown with all processes below it, but for --json: a shell, make, sudo,\n"
		       "timeout, xargs, mpirun, mpiexec, srun, torchrun, accelerate, deepspeed and their like,\n"
		       "and Python that runs one of these or a module of torch.distributed.",
	};
	int ret = options__parse(&table, argc, argv, err);

	return ret == OPTIONS_GO_ON ? check_options(d, err) : ret;
}

static int dump(const struct globals *globals, struct dumping *d, struct so_error *err)
{
	int ret = output__open("-", &d->output, err);

	ret = ret ?: fetch(globals, d, err);
	ret = ret ?: print(d, err);
	if (!ret)
		say_notes(d);
	return ret;
}

int cmd_dump(const struct globals *globals, int argc, char **argv)
{
	_cleanup_(dumping) struct dumping d = { .part = { .kernel = true } };
	struct so_error err = { .text = "" };
	int ret = parse(argc, argv, &d, &err);

	if (ret)
		return running__parsed(ret, &err);
	interrupt__install();
	ret = dump(globals, &d, &err);
	return running__end(ret, &err);
}
