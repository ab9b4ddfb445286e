/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A command that is started to be recorded: it waits until it is watched, and then executes its program. */
#ifndef STAKEOUT_CLIENT_CHILD_COMMAND_H
#define STAKEOUT_CLIENT_CHILD_COMMAND_H

#include <stdbool.h>
#include <sys/types.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

struct child_command;

/* argv: NULL-terminated, its first word found by PATH. Standard input, output and error are the caller's. */
int child_command__start(char *const *argv, struct child_command **out, struct so_error *err);
pid_t child_command__pid(const struct child_command *command);
/* Lets it go. -ENOENT and the like, in words: there is no such program. */
int child_command__go(struct child_command *command, struct so_error *err);
/* Waits until it has ended. Its exit status, or 128 + the signal that ended it, as shells say it. */
int child_command__wait(struct child_command *command);
/* One that was not let go, or not waited for, is ended. */
void child_command__free(struct child_command *command);
CLEANUP_DEFINE(struct child_command *, child_command, child_command__free)

#endif
