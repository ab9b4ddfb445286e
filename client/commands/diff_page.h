/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A comparison of files as a flame graph coloured by change. */
#ifndef STAKEOUT_CLIENT_DIFF_PAGE_H
#define STAKEOUT_CLIENT_DIFF_PAGE_H

#include "client/commands/diff_sides.h"
#include "client/diff/compare.h"

/* base, now: the files that were compared. path: where to write. Errors in words. */
int diff_page__write(const struct diff_files *base, const struct diff_files *now,
		     const struct diff_selection *selection, const struct comparison *comparison, const char *path,
		     struct so_error *err);

#endif
