/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The terminal while `stakeout top` has it: another screen, keys one by one. It is given back however that ends. */
#ifndef STAKEOUT_CLIENT_TOP_TERMINAL_H
#define STAKEOUT_CLIENT_TOP_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "stakeout/error.h"

/* false: standard input or output is none, in words. */
bool top_terminal__is_there(struct so_error *err);
/* The second signal that ends the program gives it back, too (interrupt.h). -errno, in words. */
int top_terminal__open(struct so_error *err);
/* Nothing where it was not opened. */
void top_terminal__close(void);

/* In columns and rows; 80 and 24 where it does not say. */
void top_terminal__size(unsigned *width, unsigned *height);
/*
 * What keys sent, waiting for it up to so many milliseconds, less when its size changes or a signal comes. Returns
 * bytes, 0 for none; -errno: -EIO where it is gone.
 */
ssize_t top_terminal__read(char *bytes, size_t size, unsigned wait_ms);
/* A whole screen. -errno. */
int top_terminal__write(const char *bytes, size_t n);

#endif
