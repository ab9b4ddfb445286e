/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The daemon's words on standard error, one line each: "stakeoutd: WORDS". Where that is systemd's journal: "<3>WORDS"
 * for an error and "<6>WORDS" otherwise, which sets the line's level there. Thread-safe.
 */
#ifndef STAKEOUT_LOG_H
#define STAKEOUT_LOG_H

#include <stdbool.h>

/* A private daemon is silent but for errors: its client speaks to the user. Call before threads start. */
void log__set_quiet(bool quiet);
__attribute__((format(printf, 1, 2))) void log__info(const char *fmt, ...);
__attribute__((format(printf, 1, 2))) void log__error(const char *fmt, ...);

#endif
