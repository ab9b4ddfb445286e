/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Ctrl-C, SIGTERM, SIGHUP: the first asks the command to finish, the second ends it, with no unfinished file left. */
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
/* What the second one calls as well, from the handler: signal-safety(7). NULL: nothing. */
void interrupt__call_on_abort(void (*function)(void));

#endif
