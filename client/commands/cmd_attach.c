// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout attach: a target that the daemon keeps until it is detached, or a rule of which processes become targets. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/commands/commands.h"
#include "client/session/message.h"
#include "client/session/named_process.h"
#include "client/session/rules.h"
#include "client/commands/running.h"
#include "client/session/target.h"

#define DEFAULT_RATE_HZ 99

static int attach(struct api_client *api, void *context, struct so_error *err)
{
	struct target target;
	int ret = target__attach(api, context, &target, err);

	if (!ret)
		printf("watching %d (%s) at %u Hz, target %u\n", target.pid, target.comm, target.rate_hz, target.id);
	return ret;
}

static int add_rule(struct api_client *api, void *context, struct so_error *err)
{
	struct rule rule;
	int ret = rules__add(api, context, &rule, err);

	if (!ret)
		printf("rule %u, until the daemon ends: watching what matches %s\n", rule.id, rule.match);
	return ret;
}

static int check(const struct attach_request *request, const char *match, struct so_error *err)
{
	if (!match && !request->pid)
		return so_err(err, -EINVAL, "which process? Give its ID with -p PID, or a rule with --match");
	if (!match && request->cuda_budget_percent > 0 && !request->cuda)
		return so_err(err, -EINVAL, "--budget is for the probes of CUDA calls: it needs --cuda");
	if (!match && request->step && !request->timed)
		return so_err(err, -EINVAL, "--step needs --timeline: steps are moments");
	if (!match && request->n_counted && (!request->step || request->n_counted > TARGET_MOST_COUNTED))
		return so_err(err, -EINVAL, "--count needs --step, and at most %d functions can be counted",
			      TARGET_MOST_COUNTED);
	if (!match && request->save_on && !request->timed && strcmp(request->save_on, "oom"))
		return so_err(err, -EINVAL, "--save-on needs --timeline: what is kept are the latest seconds");
	if ((request->save_last_s > 0 || request->save_pause_s > 0) && !request->save_on)
		return so_err(err, -EINVAL, "--save-last and --save-pause need --save-on: when to save");
	if (!match)
		return 0;
	if (request->timed || request->step || request->n_counted || request->save_on)
		return so_err(err, -EINVAL, "--timeline is for one process: -p PID");
	if (request->pid)
		return so_err(err, -EINVAL, "-p or --match, not both");
	if (request->rate_hz)
		return so_err(err, -EINVAL, "the rate of a rule stands in it: --match 'cmd=PATTERN rate=%u'",
			      request->rate_hz);
	if (request->cuda || request->cuda_budget_percent > 0)
		return so_err(err, -EINVAL, "for CUDA calls, say so in the rule: --match 'cmd=PATTERN cuda'");
	if (request->wall)
		return so_err(err, -EINVAL, "for waiting threads, say so in the rule: --match 'cmd=PATTERN wall'");
	if (request->memory)
		return so_err(err, -EINVAL, "--memory is for one process: -p PID");
	if (request->gpu_memory)
		return so_err(err, -EINVAL, "--gpu-memory is for one process: -p PID");
	if (request->allocations)
		return so_err(err, -EINVAL, "--allocations is for one process: -p PID");
	if (!request->children || !request->kernel)
		return so_err(err, -EINVAL, "rules watch with children and kernel frames");
	return 0;
}

int cmd_attach(const struct globals *globals, int argc, char **argv)
{
	struct attach_request request = { .children = true, .kernel = true, .keep = true };
	struct so_error err = { .text = "" };
	const char *match = NULL;
	struct option_texts count = { .n = 0 };
	const struct option_entry entries[] = {
		{ OPTION_PID, 'p', "pid", "PID", &request.pid, "the process to watch" },
		{ OPTION_TEXT, 0, "match", "RULE", &match,
		  "each process that matches, now and later: a regular expression\n"
		  "of its command line, or terms 'cmd=PATTERN user=NAME\n"
		  "cgroup=PATTERN rate=HZ cuda wall' (see stakeoutd(8))" },
		{ OPTION_RATE, 'r', "rate", "HZ", &request.rate_hz, "samples a second of CPU time (99)" },
		{ OPTION_OFF, 0, "no-children", NULL, &request.children, "leave child processes out" },
		{ OPTION_OFF, 0, "no-kernel", NULL, &request.kernel, "leave kernel frames out" },
		{ OPTION_ON, 'w', "wall", NULL, &request.wall, "look where its threads wait as well (record --wall)" },
		{ OPTION_ON, 0, "memory", NULL, &request.memory,
		  "see how its memory grows as well, for /metrics and\n'stakeout memory'" },
		{ OPTION_ON, 0, "gpu-memory", NULL, &request.gpu_memory,
		  "see what its PyTorch has on GPUs as well, for\n'stakeout memory --gpu'" },
		{ OPTION_ON, 0, "allocations", NULL, &request.allocations,
		  "see its calls of malloc and its like as well, for\n'stakeout memory --allocations'" },
		{ OPTION_ON, 0, "timeline", NULL, &request.timed,
		  "keep when each sample was, of the latest minutes: for\n'stakeout profile --last 30'" },
		{ OPTION_TEXT, 0, "step", "FUNCTION", &request.step,
		  "with --timeline: the function that begins a step of\nthe program, as stakeout steps has it" },
		{ OPTION_TEXTS, 0, "count", "FUNCTION", &count,
		  "with --step: each call of this is counted as well; may\nbe repeated, three in all" },
		{ OPTION_TEXT, 0, "save-on", "RULES", &request.save_on,
		  "with --timeline: keep what led to it as an incident\nwhenever 'step>2x' (times the 95th "
		  "percentile; --step),\n'step>500ms', 'cpu<5%/30s' (of one CPU, for 30 s) or\n'gpu<20%' (--cuda), "
		  "'oom' (--gpu-memory); several with commas" },
		{ OPTION_DURATION, 0, "save-last", "SECONDS", &request.save_last_s, "so much of what led to it (30)" },
		{ OPTION_DURATION, 0, "save-pause", "SECONDS", &request.save_pause_s,
		  "then no further one for so long (600): 10m" },
		{ OPTION_ON, 0, "cuda", NULL, &request.cuda, "time its CUDA calls as well" },
		{ OPTION_PERCENT, 0, "budget", "PERCENT", &request.cuda_budget_percent,
		  "what the probes of --cuda may cost of the process's\ntime (1); 100: no limit" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "attach -p PID [OPTION]... | attach --match RULE",
		.about = "Lets the running daemon watch a process until 'stakeout detach' or its end, or all\n"
			 "processes that match a rule, those that begin later too, until the daemon's end.",
		.entries = entries,
		.find_process = named_process__find,
	};
	int status = running__parse(&table, argc, argv);

	if (status >= 0)
		return status;
	request.counted = count.list;
	request.n_counted = count.n;
	if (check(&request, match, &err)) {
		message__error("%s", err.text);
		return STATUS_USAGE;
	}
	if (match)
		return running__do(globals, add_rule, (void *)match);
	request.rate_hz = request.rate_hz ?: DEFAULT_RATE_HZ;
	return running__do(globals, attach, &request);
}
