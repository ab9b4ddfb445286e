/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One error, in words for the person who must act on it. Functions return 0 or -errno; those that take a
 * `struct so_error *` also say why, once, where the words are known: `return so_err(err, -ESRCH, "…")`.
 */
#ifndef STAKEOUT_ERROR_H
#define STAKEOUT_ERROR_H

#include <stdarg.h>
#include <stdio.h>

struct so_error {
	char text[512]; /* one line without a trailing newline; what happened and what to do */
};

/* Writes the message (err may be NULL) and returns `code` (a negative errno) unchanged. */
__attribute__((format(printf, 3, 4))) static inline int so_err(struct so_error *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (err) {
		va_start(ap, fmt);
		vsnprintf(err->text, sizeof(err->text), fmt, ap);
		va_end(ap);
	}
	return code;
}

#endif
