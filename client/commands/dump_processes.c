// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/commands/dump_processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/session/message.h"
#include "client/session/process_arguments.h"
#include "client/session/process_list.h"
#include "stakeout/regexp.h"
#include "stakeout/short_path.h"

#define COMMAND_BYTES 4096 /* as much of a command line is matched by the daemon's rules */

struct choosing {
	const struct dump_choice *choice;
	struct regexp *pattern; /* NULL: by PID */
	struct process_list list;
	bool *taken; /* by place in the list */
};

static void cleanup__choosing(struct choosing *c)
{
	regexp__free(c->pattern);
	process_list__release(&c->list);
	free(c->taken);
}

/* Whoever started this command has its pattern in his own command line; a job that looks at itself has not. */
static bool runs_this(const struct choosing *c, pid_t pid, const char *command)
{
	return strstr(command, program_invocation_short_name) && strstr(command, " dump ") &&
	       process_list__is_below(&c->list, getpid(), pid);
}

/* Of a daemon the rules, of a client its options name the job. */
static bool is_stakeout(const char *arguments)
{
	const char *name = short_path(arguments);

	return !strcmp(name, "stakeout") || !strcmp(name, "stakeoutd");
}

static bool matches(const struct choosing *c, const struct process_entry *entry)
{
	char command[COMMAND_BYTES];
	ssize_t n = process_arguments__read(entry->pid, command, sizeof(command));

	if (n == -EBUSY)
		message__note(
			"process %d (%s) is left out: its command line cannot be read, as in uninterruptible sleep "
			"(D in ps)",
			entry->pid, entry->comm);
	if (n <= 0 || is_stakeout(command))
		return false;
	process_arguments__join(command, (size_t)n, sizeof(command));
	return regexp__matches(c->pattern, command, strlen(command)) && !runs_this(c, entry->pid, command);
}

static bool is_named(const struct choosing *c, const struct process_entry *entry)
{
	return c->pattern ? matches(c, entry) : entry->pid == c->choice->pid;
}

static bool brings_its_tree(const struct choosing *c, pid_t pid)
{
	char arguments[COMMAND_BYTES];
	ssize_t n;

	if (c->choice->tree != DUMP_TREE_OF_LAUNCHERS)
		return c->choice->tree == DUMP_TREE_ALWAYS;
	n = process_arguments__read(pid, arguments, sizeof(arguments));
	return n > 0 && process_arguments__are_of_launcher(arguments, (size_t)n);
}

static void take_tree(struct choosing *c, pid_t root)
{
	for (size_t i = 0; i < c->list.n; i++) {
		if (process_list__is_below(&c->list, c->list.entries[i].pid, root))
			c->taken[i] = true;
	}
}

static void take_all(struct choosing *c)
{
	for (size_t i = 0; i < c->list.n; i++) {
		pid_t pid = c->list.entries[i].pid;

		if (!is_named(c, &c->list.entries[i]))
			continue;
		c->taken[i] = true;
		if (brings_its_tree(c, pid))
			take_tree(c, pid);
	}
	for (size_t i = 0; i < c->list.n; i++) {
		if (c->list.entries[i].pid == getpid() && c->choice->pid != getpid())
			c->taken[i] = false;
	}
}

/* The place of the nearest process above it that is taken, too. false: there is none. */
static bool find_above(const struct choosing *c, const struct process_entry *entry, size_t *out)
{
	for (size_t i = 0; i < c->list.n; i++) {
		entry = process_list__find(&c->list, entry->ppid);
		if (!entry)
			return false;
		*out = (size_t)(entry - c->list.entries);
		if (c->taken[*out])
			return true;
	}
	return false;
}

struct collecting {
	const struct choosing *c;
	size_t *above; /* by place in the list; list.n: nobody */
	struct dump_process *out;
	size_t n;
};

/* Those right below a process, each followed by those below it. */
static void collect_below(struct collecting *to, size_t above, unsigned depth)
{
	const struct process_list *list = &to->c->list;

	for (size_t i = 0; i < list->n; i++) {
		const struct process_entry *entry = &list->entries[i];
		struct dump_process *process = &to->out[to->n];

		if (!to->c->taken[i] || to->above[i] != above)
			continue;
		*process = (struct dump_process){
			.pid = entry->pid, .ppid = entry->ppid, .ended = entry->ended, .depth = depth
		};
		memcpy(process->comm, entry->comm, sizeof(process->comm));
		to->n++;
		collect_below(to, i, depth + 1);
	}
}

static int collect(const struct choosing *c, struct dump_process **out, size_t *n, struct so_error *err)
{
	_cleanup_free_ size_t *above = calloc(c->list.n + 1, sizeof(*above));
	struct collecting to = { .c = c, .above = above, .out = calloc(c->list.n + 1, sizeof(*to.out)) };

	if (!above || !to.out) {
		free(to.out);
		return so_err(err, -ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < c->list.n; i++) {
		if (!c->taken[i] || !find_above(c, &c->list.entries[i], &above[i]))
			above[i] = c->list.n;
	}
	collect_below(&to, c->list.n, 0);
	if (!to.n && c->choice->pid)
		to.out[to.n++].pid = c->choice->pid;
	*out = to.out;
	*n = to.n;
	return 0;
}

int dump_processes__choose(const struct dump_choice *choice, struct dump_process **out, size_t *n, struct so_error *err)
{
	_cleanup_(choosing) struct choosing c = { .choice = choice };
	_cleanup_free_ struct dump_process *processes = NULL;
	struct so_error why = { .text = "" };
	int ret = choice->match ? regexp__compile(choice->match, &c.pattern, &why) : 0;

	if (ret)
		return so_err(err, ret, "--match '%.100s': %.300s", choice->match, why.text);
	ret = process_list__read(&c.list, err);
	if (ret)
		return ret;
	c.taken = calloc(c.list.n + 1, sizeof(*c.taken));
	if (!c.taken)
		return so_err(err, -ENOMEM, "out of memory");
	take_all(&c);
	ret = collect(&c, &processes, n, err);
	if (!ret && !*n)
		return so_err(err, -ENOENT, "no process has a command line that matches '%.100s'", choice->match);
	if (!ret)
		*out = TAKE_PTR(processes);
	return ret;
}
