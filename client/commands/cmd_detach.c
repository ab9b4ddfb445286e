// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout detach: the daemon forgets a target and its data, or a rule and the targets that it attached. */
#include <stdio.h>

#include "client/commands/commands.h"
#include "client/session/message.h"
#include "client/session/named_process.h"
#include "client/session/rules.h"
#include "client/commands/running.h"
#include "client/session/target.h"

static int detach(struct api_client *api, void *context, struct so_error *err)
{
	struct target target;
	int ret = target__find(api, *(pid_t *)context, &target, err);

	ret = ret ?: target__detach(api, target.id, err);
	if (!ret)
		printf("no longer watching %d (%s): %llu samples in %.1f s\n", target.pid, target.comm,
		       (unsigned long long)target.samples, target.elapsed_s);
	return ret;
}

static int remove_rule(struct api_client *api, void *context, struct so_error *err)
{
	uint64_t detached = 0;
	struct rule rule;
	int ret = rules__find(api, context, &rule, err);

	ret = ret ?: rules__remove(api, rule.id, &detached, err);
	if (!ret)
		printf("rule %u is gone: %s; no longer watching %llu process%s of it%s\n", rule.id, rule.match,
		       (unsigned long long)detached, detached == 1 ? "" : "es",
		       rule.configured ? "; it comes back with the daemon's next start" : "");
	return ret;
}

int cmd_detach(const struct globals *globals, int argc, char **argv)
{
	const char *match = NULL;
	pid_t pid = 0;
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &pid, "the process that is watched" },
		{ OPTION_TEXT, 0, "match", "RULE", &match, "the rule, by its text or its number in 'stakeout list'" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "detach -p PID | detach --match RULE",
		.about = "Ends the running daemon's watch over a process, and drops what was sampled; or a "
			 "rule,\n"
			 "with the watch over all that it attached.",
		.entries = entries,
		.find_process = named_process__find,
	};
	int status = running__parse(&table, argc, argv);

	if (status < 0 && !pid == !match) {
		message__error("which process? Give its ID with -p PID, or a rule with --match%s",
			       pid ? ", not both" : "");
		return STATUS_USAGE;
	}
	if (status < 0 && match)
		return running__do(globals, remove_rule, (void *)match);
	return status >= 0 ? status : running__do(globals, detach, &pid);
}
