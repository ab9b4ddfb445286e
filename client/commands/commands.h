/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The subcommands, one file each (cmd_NAME.c). argv[0] is the command's name; each returns an exit_status. */
#ifndef STAKEOUT_CLIENT_COMMANDS_H
#define STAKEOUT_CLIENT_COMMANDS_H

/* What was given before the subcommand. */
struct globals {
	const char *socket; /* NULL: the default places */
};

int cmd_record(const struct globals *globals, int argc, char **argv);
int cmd_cuda(const struct globals *globals, int argc, char **argv);
int cmd_dump(const struct globals *globals, int argc, char **argv);
int cmd_attach(const struct globals *globals, int argc, char **argv);
int cmd_detach(const struct globals *globals, int argc, char **argv);
int cmd_list(const struct globals *globals, int argc, char **argv);
int cmd_status(const struct globals *globals, int argc, char **argv);
int cmd_check(const struct globals *globals, int argc, char **argv);
int cmd_folded(const struct globals *globals, int argc, char **argv);
int cmd_profile(const struct globals *globals, int argc, char **argv);
int cmd_summary(const struct globals *globals, int argc, char **argv);
int cmd_baseline(const struct globals *globals, int argc, char **argv);
int cmd_diff(const struct globals *globals, int argc, char **argv);
int cmd_memory(const struct globals *globals, int argc, char **argv);
int cmd_tasks(const struct globals *globals, int argc, char **argv);
int cmd_steps(const struct globals *globals, int argc, char **argv);
int cmd_top(const struct globals *globals, int argc, char **argv);
int cmd_incidents(const struct globals *globals, int argc, char **argv);
int cmd_save(const struct globals *globals, int argc, char **argv);
int cmd_history(const struct globals *globals, int argc, char **argv);
int cmd_open(const struct globals *globals, int argc, char **argv);
int cmd_render(const struct globals *globals, int argc, char **argv);

#endif
