/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files of settings: one "option = value" a line, blanks around both do not count, a line that begins with '#' is a
 * comment. There are no sections, quotes, escapes or continued lines.
 */
#ifndef STAKEOUT_CONFIG_FILE_H
#define STAKEOUT_CONFIG_FILE_H

#include <stddef.h>

#include "stakeout/error.h"

#define CONFIG_FILE_MAX_BYTES 65536

/* One setting; both strings lie in the text. 0, or -errno and why in *err: the parser puts "FILE:LINE: " before it. */
typedef int config_file_take_fn(void *context, const char *name, const char *value, struct so_error *err);

/*
 * *out: malloc'ed, NUL-terminated, the caller frees it. -ENOENT: no such file; -EINVAL: no regular file; -EFBIG: above
 * CONFIG_FILE_MAX_BYTES; others from reading.
 */
int config_file__read(const char *path, char **out, size_t *n, struct so_error *err);

/*
 * Cuts text[0 … n], where text[n] is NUL, into strings and hands on each setting in order; the first error ends it.
 * -EINVAL: a line that is no setting, a NUL byte; else what `take` returns. `path` is for messages only.
 */
int config_file__parse(char *text, size_t n, const char *path, config_file_take_fn *take, void *context,
		       struct so_error *err);

#endif
