/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The input's first line is a rule, what follows a command line, a control group and a line of /proc/PID/stat. Whatever
 * they are: a rule is refused in one line of words or matches within bounds, and no rule of a user takes another's
 * process.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/rules/match_proc.h"
#include "daemon/rules/match_rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_rule(const char *text, uid_t owner, const struct match_process *process)
{
	struct match_rule *rule = NULL;
	struct so_error err = { .text = "" };

	if (match_rule__parse(text, owner, &rule, &err)) {
		if (rule || !err.text[0] || strchr(err.text, '\n'))
			__builtin_trap();
		return;
	}
	if (strlen(match_rule__text(rule)) > MATCH_RULE_MAX_BYTES || match_rule__owner(rule) != owner)
		__builtin_trap();
	if (match_rule__matches(rule, process) && owner && owner != process->uid)
		__builtin_trap();
	/* Compiled anew or not, it says the same. */
	if (match_rule__matches(rule, process) != match_rule__matches(rule, process))
		__builtin_trap();
	match_rule__free(rule);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct match_process process = { .uid = 7 };
	char *text = malloc(size + 1), *arguments, *cgroups, *stat, *rest;
	struct match_entry entry;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	rest = memchr(text, '\n', size);
	if (!rest)
		rest = text + size;
	else
		*rest++ = '\0';
	size -= (size_t)(rest - text);
	arguments = malloc(size + 1);
	cgroups = strdup(rest);
	stat = strdup(rest);
	if (arguments && cgroups && stat) {
		memcpy(arguments, rest, size + 1);
		match_proc__join_arguments(arguments, size);
		if (strlen(arguments) > size)
			__builtin_trap();
		match_proc__cut_cgroups(cgroups);
		if (strlen(cgroups) > strlen(rest))
			__builtin_trap();
		if (match_proc__parse_stat(stat, &entry) &&
		    memchr(entry.comm, '\0', sizeof(entry.comm)) == NULL)
			__builtin_trap();
		arguments[size < MATCH_COMMAND_MAX_BYTES ? size : MATCH_COMMAND_MAX_BYTES] = '\0';
		process.command = arguments;
		process.cgroups = cgroups;
		check_rule(text, 0, &process);
		check_rule(text, 8, &process);
	}
	free(arguments);
	free(cgroups);
	free(stat);
	free(text);
	return 0;
}
