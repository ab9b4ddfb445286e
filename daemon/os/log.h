/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One line on standard error: "stakeoutd: WORDS"; in systemd's journal "<3>WORDS" (error), "<6>WORDS". Thread-safe. */
#ifndef STAKEOUT_LOG_H
#define STAKEOUT_LOG_H

#include <stdbool.h>

/* A private daemon is silent but for errors: its client speaks to the user. Call before threads start. */
void log__set_quiet(bool quiet);
__attribute__((format(printf, 1, 2))) void log__info(const char *fmt, ...);
__attribute__((format(printf, 1, 2))) void log__error(const char *fmt, ...);

#endif
