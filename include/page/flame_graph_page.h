/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * flamegraph.html, which is built in: the client writes a profile into it, and so does the daemon's live page in the
 * browser.
 */
#ifndef STAKEOUT_PAGE_FLAME_GRAPH_PAGE_H
#define STAKEOUT_PAGE_FLAME_GRAPH_PAGE_H

#include <stddef.h>

/* What stands before the profile in it, and what behind. */
struct flame_graph_page {
	const char *before, *after;
	size_t before_length, after_length;
};

struct flame_graph_page flame_graph_page__get(void);
/* All of it, with the mark in the profile's place; ends with a NUL. */
const char *flame_graph_page__text(void);

#endif
