/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the user of `stakeout top` wants to see: which table, in which order, what of it; and how keys change that. */
#ifndef STAKEOUT_CLIENT_TOP_VIEW_H
#define STAKEOUT_CLIENT_TOP_VIEW_H

#include <stdbool.h>
#include <stddef.h>

enum top_table {
	TOP_THREADS,
	TOP_FUNCTIONS,
	TOP_LINES,
	TOP_TABLES,
};

#define TOP_SORTS 4 /* a table's three columns of figures, and the name */
/* Orders of the threads' table, after its TOP_SORTS: by the memory of their own that processes have, and its growth. */
#define TOP_BY_MEMORY    TOP_SORTS
#define TOP_BY_GROWTH    (TOP_SORTS + 1)
#define TOP_FILTER_BYTES 128

struct top_view {
	enum top_table table;
	unsigned sort[TOP_TABLES];     /* index of the column; TOP_SORTS - 1: by name; or TOP_BY_… */
	size_t scroll[TOP_TABLES];     /* rows that are above the screen */
	char filter[TOP_FILTER_BYTES]; /* rows have this text in them, in whatever case; "": all */
	bool typing;                   /* of the filter */
	bool frozen, help;
};

/* Keys that are no character. */
enum top_key {
	TOP_KEY_NONE = 0x110000,
	TOP_KEY_UP,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_ESCAPE,
};

/*
 * The first key of what a terminal sent: a character, of UTF-8 its code point, or a top_key; *used: its bytes, at least
 * 1 of n > 0. A sequence that is not known is TOP_KEY_NONE.
 */
unsigned top_key__read(const char *bytes, size_t n, size_t *used);
/* page: rows on the screen. false: the user wants to quit. */
bool top_view__take(struct top_view *view, unsigned key, size_t page);
/* So many rows are there, of which `page` fit: what is above the screen is no more than that. */
void top_view__clamp(struct top_view *view, size_t rows, size_t page);
/* Whether the filter lets the text through. */
bool top_view__shows(const struct top_view *view, const char *text, size_t length);

#endif
