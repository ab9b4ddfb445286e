/* SPDX-License-Identifier: GPL-2.0-or-later */
/* sd_notify(3)'s protocol: a datagram of "NAME=VALUE" lines to the socket $NOTIFY_SOCKET, or nothing without that. */
#ifndef STAKEOUT_SD_NOTIFY_H
#define STAKEOUT_SD_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

/* 1: sent; 0: nobody asked; -EINVAL: $NOTIFY_SOCKET is no address that is known here; others from sending. */
int sd_notify__send(const char *state);

/* What $WATCHDOG_USEC asks of this process (sd_watchdog_enabled(3)), in microseconds; 0: no pings. */
uint64_t sd_notify__watchdog_us(void);

struct sd_watchdog;

/*
 * A thread that sends WATCHDOG=1 twice in `interval_us`, each time after `alive` has returned true. While `alive` does
 * not return, or returns false, none is sent. interval_us 0: no thread, *out is an object that does nothing.
 */
int sd_watchdog__start(uint64_t interval_us, bool (*alive)(void *context), void *context, struct sd_watchdog **out,
		       struct so_error *err);
/* Waits for an `alive` that runs. */
void sd_watchdog__free(struct sd_watchdog *watchdog);
CLEANUP_DEFINE(struct sd_watchdog *, sd_watchdog, sd_watchdog__free)

#endif
