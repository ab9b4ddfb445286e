// SPDX-License-Identifier: GPL-2.0-or-later
/* stakeout: finds the subcommand and runs it. */
#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/commands/commands.h"
#include "client/session/message.h"
#include "stakeout/build_id.h"
#include "stakeout/nearest.h"

static const struct command {
	const char *name;
	int (*run)(const struct globals *globals, int argc, char **argv);
	const char *summary;
} commands[] = {
	{ "record", cmd_record, "sample a process for some seconds and write its profile" },
	{ "dump", cmd_dump, "every thread's stack, now" },
	{ "cuda", cmd_cuda, "CUDA calls: times, waits by source line, what to do about them" },
	{ "attach", cmd_attach, "let the running daemon watch a process" },
	{ "detach", cmd_detach, "end that" },
	{ "list", cmd_list, "what the running daemon watches" },
	{ "folded", cmd_folded, "a watched process's profile so far, as folded stacks" },
	{ "profile", cmd_profile, "the same, as pprof" },
	{ "summary", cmd_summary, "where its time goes: categories, phases, functions, lines" },
	{ "steps", cmd_steps, "how long its steps take, and what the slow ones did" },
	{ "memory", cmd_memory, "whether its memory grows, and which lines keep it" },
	{ "tasks", cmd_tasks, "the tasks of its asyncio event loops, and what they wait for" },
	{ "diff", cmd_diff, "two profiles compared: faster, slower, or no difference found" },
	{ "baseline", cmd_baseline, "keep what recordings had in a small file, and compare later ones with it" },
	{ "top", cmd_top, "what processes do now, live in the terminal" },
	{ "incidents", cmd_incidents, "slow steps and the like that the daemon kept, to be written to a file" },
	{ "save", cmd_save, "keep the latest seconds of a watched process, as an incident" },
	{ "history", cmd_history, "whose past the daemon has; see --since of summary and folded" },
	{ "open", cmd_open, "the live page in a browser: processes, time by category, flame graphs" },
	{ "render", cmd_render, "turn a profile's file into folded stacks, a flame graph or a summary" },
	{ "status", cmd_status, "the running daemon's state" },
	{ "check", cmd_check, "what this machine offers and what it lacks" },
};

static void print_help(void)
{
	puts("Usage: stakeout [--socket PATH] COMMAND [OPTION]...\n"
	     "Says where a running process spends its time, without touching it.\n\n"
	     "Commands (each has its own --help):");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		printf("  %-10s %s\n", commands[i].name, commands[i].summary);
	puts("\nOptions before the command:\n"
	     "  --socket PATH   the daemon's socket ($STAKEOUT_SOCKET, /run/stakeout/stakeoutd.sock,\n"
	     "                  $XDG_RUNTIME_DIR/stakeout/stakeoutd.sock); without a daemon,\n"
	     "                  record, summary, steps, memory, tasks, top, dump and cuda\n"
	     "                  start one of their own\n"
	     "  --version       print the version and the build-id\n"
	     "  -h, --help      print this help\n\n"
	     "A first profile:  sudo stakeout record PID\n\n"
	     "Exit status: 0 done, 1 failed, 2 wrong usage, 3 a --fail-on is hit.");
}

static void print_version(void)
{
	char build_id[BUILD_ID_TEXT];

	build_id__self(build_id);
	printf("stakeout %s (build-id %s)\n", STAKEOUT_VERSION, build_id);
}

static int usage(const char *fmt, const char *word)
{
	char text[256];

	snprintf(text, sizeof(text), fmt, word);
	message__error("%s (see stakeout --help)", text);
	return STATUS_USAGE;
}

/* The options before the command; *at becomes the index of the command. Returns -1 to go on. */
static int take_globals(int argc, char **argv, struct globals *globals, int *at)
{
	int i;

	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			print_help();
			return STATUS_DONE;
		}
		if (!strcmp(argv[i], "--version")) {
			print_version();
			return STATUS_DONE;
		}
		if (!strncmp(argv[i], "--socket=", 9)) {
			globals->socket = argv[i] + 9;
		} else if (!strcmp(argv[i], "--socket")) {
			globals->socket = ++i < argc ? argv[i] : "";
		} else {
			return usage("unknown option '%s'", argv[i]);
		}
		if (!globals->socket[0])
			return usage("%s needs a path", "--socket");
	}
	*at = i;
	return -1;
}

static int unknown_command(const char *word)
{
	size_t distance = NEAREST_FAR;
	const char *nearest = NULL;

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (nearest__is_nearer(word, commands[i].name, &distance))
			nearest = commands[i].name;
	if (!nearest)
		return usage("unknown command '%s'", word);
	message__error("unknown command '%s'; did you mean '%s'? (see stakeout --help)", word, nearest);
	return STATUS_USAGE;
}

/* "help", "help COMMAND", "version": the options of the same name. Returns -1 to go on with the words of argv. */
static int take_words(int argc, char **argv, int at)
{
	static char help[] = "--help";

	if (!strcmp(argv[at], "version")) {
		print_version();
		return STATUS_DONE;
	}
	if (strcmp(argv[at], "help") != 0)
		return -1;
	if (at + 1 == argc) {
		print_help();
		return STATUS_DONE;
	}
	argv[at] = argv[at + 1];
	argv[at + 1] = help;
	return -1;
}

int main(int argc, char **argv)
{
	struct globals globals = { .socket = getenv("STAKEOUT_SOCKET") };
	int at = 0, status;

	signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of the write */
	status = take_globals(argc, argv, &globals, &at);
	if (status >= 0)
		return status;
	if (at == argc)
		return usage("%s", "which command?");
	if (globals.socket && !globals.socket[0])
		globals.socket = NULL;
	status = take_words(argc, argv, at);
	if (status >= 0)
		return status;
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[at], commands[i].name))
			continue;
		curl_global_init(CURL_GLOBAL_NOTHING);
		status = commands[i].run(&globals, argc - at, argv + at);
		curl_global_cleanup();
		/* Help and tables go through stdio: a full disk is found here. A reader that left needs no words. */
		if ((status == STATUS_DONE || status == STATUS_FAIL_RULE) && fflush(stdout)) {
			message__error("cannot write to standard output");
			return STATUS_FAILED;
		}
		return status;
	}
	return unknown_command(argv[at]);
}
