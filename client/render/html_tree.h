/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A profile's stacks as one tree for a flame graph: each distinct frame, node and thread is there once, and a cell says
 * what one thread counted at one node. A cut keeps the largest nodes; what hangs below becomes
 * one merged child of the node that it hangs on: totals hold.
 */
#ifndef STAKEOUT_CLIENT_HTML_TREE_H
#define STAKEOUT_CLIENT_HTML_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/render/frame_text.h"
#include "client/render/render.h"
#include "profile/profile.h"
#include "stakeout/cleanup.h"
#include "stakeout/intern.h"

/* As flamegraph.html numbers them. */
enum html_kind {
	HTML_PYTHON,
	HTML_NATIVE,
	HTML_KERNEL,
	HTML_CUDA,
};

#define HTML_NAME_BYTES 400  /* a longer name is cut, and ends in "…" */
#define HTML_THREADS    1000 /* pairs of thread and state; those beyond are one thread */

/* Keys of interns: no padding. */
struct html_frame {
	int64_t line;                /* 0: not known */
	uint32_t name, file, module; /* numbers of texts */
	uint32_t kind;               /* enum html_kind */
};

struct html_node {
	uint32_t parent, frame; /* of the first node, the root, both UINT32_MAX */
};

struct html_thread {
	int64_t pid, tid;     /* 0: not known */
	uint32_t comm, state; /* numbers of texts */
	uint32_t name;        /* what its program calls it; 0: not known */
	uint32_t unused;
};

struct html_cell {
	uint32_t node, thread;
};

/* All zero is an empty one. */
struct html_tree {
	struct intern texts; /* valid UTF-8 without control characters; the first is "" */
	struct intern frames, nodes, threads, cells;
	int64_t *values; /* by cell */
	size_t values_capacity;
	int64_t *totals;       /* by node: its own and what hangs below */
	uint32_t *by_size;     /* nodes, largest first; a parent before its children */
	uint32_t *line_frames; /* by line of the profile */
	struct text text;
};

/* -ENOMEM; the tree is to be cleared then as well. */
int html_tree__build(const struct profile *profile, const struct render_options *options, struct html_tree *out);
void html_tree__clear(struct html_tree *tree);
CLEANUP_DEFINE(struct html_tree *, html_tree, html_tree__clear)

/* The number of a foreign text, cleaned and cut. -ENOMEM */
int html_tree__text(struct html_tree *tree, const char *words, uint32_t *number);

static inline const struct html_node *html_tree__node(const struct html_tree *tree, size_t number)
{
	return intern__key(&tree->nodes, number);
}

static inline const struct html_frame *html_tree__frame(const struct html_tree *tree, size_t number)
{
	return intern__key(&tree->frames, number);
}

/* One node of what is left, in preorder. */
struct html_place {
	uint32_t depth;  /* root: 0 */
	uint32_t frame;  /* of a merged one and of the root: UINT32_MAX */
	uint32_t merged; /* how many nodes it is made of; 0: it is one itself */
	bool python;     /* merged: one of them is a Python frame */
};

struct html_value {
	uint32_t place, thread;
	int64_t value;
};

struct html_cut {
	struct html_place *places;
	size_t n_places;
	struct html_value *values; /* by place and thread, each pair once */
	size_t n_values;
	uint64_t merged; /* nodes */
	int64_t merged_value;
};

/* The `keep` largest nodes (1 or more). -ENOMEM */
int html_tree__cut(const struct html_tree *tree, size_t keep, struct html_cut *out);
void html_cut__clear(struct html_cut *cut);
CLEANUP_DEFINE(struct html_cut *, html_cut, html_cut__clear)

#endif
