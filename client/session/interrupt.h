/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ctrl-C, and SIGTERM and SIGHUP like it: the first one asks the command to finish with what it has, the second
 * one ends the process at once. Even then no unfinished file is left behind.
 */
#ifndef STAKEOUT_CLIENT_INTERRUPT_H
#define STAKEOUT_CLIENT_INTERRUPT_H

#include <stdbool.h>

void interrupt__install(void);
bool interrupt__pending(void);
/* Sleeps, less when a signal comes. */
void interrupt__sleep_ms(unsigned ms);

/* Files that a second Ctrl-C removes. The path is not copied; forget it before freeing it. */
void interrupt__remove_on_abort(const char *path);
void interrupt__forget(const char *path);

#endif
