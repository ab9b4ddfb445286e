/* SPDX-License-Identifier: GPL-2.0-or-later */
/* flamegraph.html, which is built in: what stands before the profile in it, and what behind. */
#ifndef STAKEOUT_CLIENT_HTML_PAGE_H
#define STAKEOUT_CLIENT_HTML_PAGE_H

#include <stddef.h>

struct html_page {
	const char *before, *after;
	size_t before_length, after_length;
};

struct html_page html_page__get(void);

#endif
