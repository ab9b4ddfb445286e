/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A line on the terminal while an answer of the daemon is waited for, with the seconds that it takes. */
#ifndef STAKEOUT_CLIENT_WAITING_NOTE_H
#define STAKEOUT_CLIENT_WAITING_NOTE_H

#include "stakeout/cleanup.h"

struct waiting_note;

/* Shows it at once. NULL: standard error is no terminal, or there is no memory; nothing is shown. Copied. */
__attribute__((format(printf, 1, 2))) struct waiting_note *waiting_note__begin(const char *fmt, ...);
/* Takes it off the terminal. */
void waiting_note__end(struct waiting_note *note);
CLEANUP_DEFINE(struct waiting_note *, waiting_note, waiting_note__end)

#endif
