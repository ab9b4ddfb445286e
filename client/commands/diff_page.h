/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A comparison of files as a flame graph coloured by change. */
#ifndef STAKEOUT_CLIENT_DIFF_PAGE_H
#define STAKEOUT_CLIENT_DIFF_PAGE_H

#include "client/commands/diff_sides.h"
#include "client/diff/compare.h"

/* The files of the comparison, read again. path: where to write. Errors in words. */
int diff_page__write(const char *const *base, size_t n_base, const char *const *now, size_t n_now,
		     const struct diff_selection *selection, const struct comparison *comparison, const char *path,
		     struct so_error *err);

#endif
