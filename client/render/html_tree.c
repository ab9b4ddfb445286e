// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/render/html_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/selection.h"
#include "profile/wall_states.h"
#include "stakeout/array.h"
#include "stakeout/short_path.h"

#define NONE     UINT32_MAX
#define ELLIPSIS "\xe2\x80\xa6"

void html_tree__clear(struct html_tree *tree)
{
	intern__clear(&tree->texts);
	intern__clear(&tree->frames);
	intern__clear(&tree->nodes);
	intern__clear(&tree->threads);
	intern__clear(&tree->cells);
	free(tree->values);
	free(tree->totals);
	free(tree->by_size);
	free(tree->line_frames);
	text__clear(&tree->text);
	memset(tree, 0, sizeof(*tree));
}

/* What intern__add() returns, without "it was new". */
static int add_key(struct intern *table, const void *key, size_t length, uint32_t *number)
{
	int ret = intern__add(table, key, length, number);

	return ret < 0 ? ret : 0;
}

static int add_text(struct html_tree *tree, uint32_t *number)
{
	char cut[HTML_NAME_BYTES + sizeof(ELLIPSIS)];
	size_t n = HTML_NAME_BYTES;

	if (tree->text.length <= HTML_NAME_BYTES)
		return add_key(&tree->texts, tree->text.length ? tree->text.bytes : "", tree->text.length, number);
	while ((tree->text.bytes[n] & 0xc0) == 0x80)
		n--;
	memcpy(cut, tree->text.bytes, n);
	memcpy(cut + n, ELLIPSIS, sizeof(ELLIPSIS));
	return add_key(&tree->texts, cut, n + sizeof(ELLIPSIS) - 1, number);
}

int html_tree__text(struct html_tree *tree, const char *words, uint32_t *number)
{
	int ret;

	tree->text.length = 0;
	ret = frame_text__words(words, &tree->text);
	return ret ?: add_text(tree, number);
}

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

/* CUDA's libraries, and functions of its two APIs wherever they are linked. */
static bool is_cuda(const struct profile_line *line)
{
	static const char *const libraries[] = { "libcuda",   "libcublas",   "libcudnn",  "libcufft",
						 "libcurand", "libcusolver", "libcupti",  "libcusparse",
						 "libnccl",   "libnvrtc",    "libnvidia", "libnvjitlink" };
	const char *name = short_path(line->mapping);

	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		if (!strncasecmp(name, libraries[i], strlen(libraries[i])))
			return true;
	return (!strncmp(line->function, "cuda", 4) && is_upper(line->function[4])) ||
	       (!strncmp(line->function, "cu", 2) && is_upper(line->function[2]));
}

static enum html_kind kind_of(const struct profile_line *line)
{
	if (line->kernel)
		return HTML_KERNEL;
	if (line->python)
		return HTML_PYTHON;
	return is_cuda(line) ? HTML_CUDA : HTML_NATIVE;
}

/* The function; of code without a symbol what a folded line has. */
static int frame_name(struct html_tree *tree, const struct profile_line *line, uint32_t *number)
{
	int ret;

	tree->text.length = 0;
	ret = frame_text__words(line->function, &tree->text);
	if (!ret && !tree->text.length)
		ret = frame_text__folded(line, true, &tree->text);
	return ret ?: add_text(tree, number);
}

static int add_frame(struct html_tree *tree, const struct profile_line *line, bool functions, uint32_t *number)
{
	struct html_frame frame = { .kind = kind_of(line) };
	int ret = frame_name(tree, line, &frame.name);

	ret = ret ?: html_tree__text(tree, line->filename, &frame.file);
	/* What lies in no file of its own says so by its kind. */
	ret = ret ?: html_tree__text(tree, line->kernel || *line->mapping == '[' ? "" : line->mapping, &frame.module);
	if (*line->filename && !(functions && line->python))
		frame.line = line->line;
	return ret ?: add_key(&tree->frames, &frame, sizeof(frame), number);
}

static int frame_of(struct html_tree *tree, const struct profile *profile, uint32_t line, bool functions,
		    uint32_t *number)
{
	int ret = 0;

	if (tree->line_frames[line] == NONE)
		ret = add_frame(tree, &profile->lines[line], functions, &tree->line_frames[line]);
	*number = tree->line_frames[line];
	return ret;
}

static int add_node(struct html_tree *tree, uint32_t frame, uint32_t *at)
{
	const struct html_node node = { *at, frame };

	return add_key(&tree->nodes, &node, sizeof(node), at);
}

/* Outermost first, into *at. */
static int add_stack(struct html_tree *tree, const struct profile *profile, const struct profile_sample *sample,
		     const struct render_options *options, uint32_t *at)
{
	static const struct profile_line native = { .function = PROFILE_NATIVE, .filename = "", .mapping = "" };
	uint32_t frame;
	int ret = 0;

	*at = 0;
	for (size_t i = sample->n_lines; !ret && i-- > 0;) {
		if (options->python_only && !profile->lines[sample->lines[i]].python)
			continue;
		ret = frame_of(tree, profile, sample->lines[i], options->functions, &frame);
		ret = ret ?: add_node(tree, frame, at);
	}
	if (ret || *at || !options->python_only)
		return ret;
	ret = add_frame(tree, &native, false, &frame);
	return ret ?: add_node(tree, frame, at);
}

static int thread_of(struct html_tree *tree, const struct profile_sample *sample, uint32_t *number)
{
	struct html_thread thread = { .pid = sample->pid, .tid = sample->tid };
	const char *state = sample->state ?: "";
	int ret = html_tree__text(tree, *sample->comm ? sample->comm : "[unknown]", &thread.comm);

	ret = ret ?: html_tree__text(tree, state, &thread.state);
	ret = ret ?: html_tree__text(tree, sample->thread ?: "", &thread.name);
	if (ret || tree->threads.n_keys < HTML_THREADS || intern__find(&tree->threads, &thread, sizeof(thread), number))
		return ret ?: add_key(&tree->threads, &thread, sizeof(thread), number);
	thread.pid = thread.tid = 0;
	thread.name = 0;
	ret = html_tree__text(tree, "(further threads)", &thread.comm);
	ret = ret ?: html_tree__text(tree, *state ? wall_states[wall_state__index(state)] : "", &thread.state);
	return ret ?: add_key(&tree->threads, &thread, sizeof(thread), number);
}

static int add_sample(struct html_tree *tree, const struct profile *profile, const struct profile_sample *sample,
		      const struct render_options *options)
{
	struct html_cell cell;
	uint32_t number;
	int ret;

	if (!selection__takes(options, sample))
		return 0;
	if (ARRAY_RESERVE(tree->values, tree->values_capacity, tree->cells.n_keys + 1))
		return -ENOMEM;
	ret = add_stack(tree, profile, sample, options, &cell.node);
	ret = ret ?: thread_of(tree, sample, &cell.thread);
	if (ret)
		return ret;
	ret = intern__add(&tree->cells, &cell, sizeof(cell), &number);
	if (ret < 0)
		return ret;
	/* The sum fits: the profile's reader has checked the total. */
	tree->values[number] = (ret ? 0 : tree->values[number]) + sample->count;
	return 0;
}

static int by_total(const void *a, const void *b, void *tree)
{
	const int64_t *totals = ((const struct html_tree *)tree)->totals;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return totals[x] != totals[y] ? (totals[x] < totals[y] ? 1 : -1) : (x > y) - (x < y);
}

static int add_totals(struct html_tree *tree)
{
	size_t n = tree->nodes.n_keys;

	tree->totals = calloc(n, sizeof(*tree->totals));
	tree->by_size = calloc(n, sizeof(*tree->by_size));
	if (!tree->totals || !tree->by_size)
		return -ENOMEM;
	for (size_t i = 0; i < tree->cells.n_keys; i++) {
		const struct html_cell *cell = intern__key(&tree->cells, i);

		tree->totals[cell->node] += tree->values[i];
	}
	/* A parent was added before its children. */
	for (size_t i = n; --i > 0;)
		tree->totals[html_tree__node(tree, i)->parent] += tree->totals[i];
	for (size_t i = 0; i < n; i++)
		tree->by_size[i] = (uint32_t)i;
	qsort_r(tree->by_size, n, sizeof(*tree->by_size), by_total, tree);
	return 0;
}

int html_tree__build(const struct profile *profile, const struct render_options *options, struct html_tree *out)
{
	uint32_t empty, root = NONE;
	int ret = html_tree__text(out, "", &empty);

	ret = ret ?: add_node(out, NONE, &root);
	out->line_frames = malloc((profile->n_lines + 1) * sizeof(*out->line_frames));
	if (ret || !out->line_frames)
		return -ENOMEM;
	for (size_t i = 0; i < profile->n_lines; i++)
		out->line_frames[i] = NONE;
	for (size_t i = 0; !ret && i < profile->n_samples; i++)
		ret = add_sample(out, profile, &profile->samples[i], options);
	return ret ?: add_totals(out);
}

/* What a cut is made with, by number of the node. */
struct cutter {
	const struct html_tree *tree;
	uint32_t *owner;                      /* itself if it is kept, else the innermost of those around it that are */
	uint32_t *first_child, *next_sibling; /* kept ones */
	uint32_t *place, *merged_place;
	uint32_t *merged; /* how many are merged into its merged child */
	bool *python;     /* one of these is a Python frame */
};

static void cutter__clear(struct cutter *c)
{
	free(c->owner);
	free(c->first_child);
	free(c->next_sibling);
	free(c->place);
	free(c->merged_place);
	free(c->merged);
	free(c->python);
}
CLEANUP_DEFINE(struct cutter *, cutter, cutter__clear)

static int cutter__init(struct cutter *c, size_t keep)
{
	const struct html_tree *tree = c->tree;
	uint32_t **arrays[] = { &c->owner, &c->first_child, &c->next_sibling, &c->place, &c->merged_place };
	size_t n = tree->nodes.n_keys;

	for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
		*arrays[i] = malloc(n * sizeof(uint32_t));
		if (!*arrays[i])
			return -ENOMEM;
		memset(*arrays[i], 0xff, n * sizeof(uint32_t));
	}
	c->merged = calloc(n, sizeof(*c->merged));
	c->python = calloc(n, sizeof(*c->python));
	if (!c->merged || !c->python)
		return -ENOMEM;
	for (size_t i = 0; i < keep && i < n; i++)
		c->owner[tree->by_size[i]] = tree->by_size[i];
	return 0;
}

static void find_owners(struct cutter *c)
{
	size_t n = c->tree->nodes.n_keys;

	for (size_t i = 1; i < n; i++) {
		const struct html_node *node = html_tree__node(c->tree, i);

		if (c->owner[i] != NONE)
			continue;
		c->owner[i] = c->owner[node->parent];
		c->merged[c->owner[i]]++;
		if (html_tree__frame(c->tree, node->frame)->kind == HTML_PYTHON)
			c->python[c->owner[i]] = true;
	}
	for (size_t i = n; --i > 0;) {
		uint32_t parent = html_tree__node(c->tree, i)->parent;

		if (c->owner[i] != i)
			continue;
		c->next_sibling[i] = c->first_child[parent];
		c->first_child[parent] = (uint32_t)i;
	}
}

static void place_node(struct cutter *c, uint32_t node, uint32_t depth, struct html_cut *out)
{
	c->place[node] = (uint32_t)out->n_places;
	out->places[out->n_places++] =
		(struct html_place){ .depth = depth, .frame = html_tree__node(c->tree, node)->frame };
	if (!c->merged[node])
		return;
	c->merged_place[node] = (uint32_t)out->n_places;
	out->places[out->n_places++] = (struct html_place){
		.depth = depth + 1, .frame = NONE, .merged = c->merged[node], .python = c->python[node]
	};
	out->merged += c->merged[node];
}

static void place_nodes(struct cutter *c, struct html_cut *out)
{
	uint32_t at = 0, depth = 0;

	place_node(c, at, depth, out);
	for (;;) {
		if (c->first_child[at] != NONE) {
			at = c->first_child[at];
			depth++;
		} else {
			while (at && c->next_sibling[at] == NONE) {
				at = html_tree__node(c->tree, at)->parent;
				depth--;
			}
			if (!at)
				return;
			at = c->next_sibling[at];
		}
		place_node(c, at, depth, out);
	}
}

static int by_place(const void *a, const void *b)
{
	const struct html_value *x = a, *y = b;

	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return (x->thread > y->thread) - (x->thread < y->thread);
}

static void place_values(const struct cutter *c, struct html_cut *out)
{
	const struct html_tree *tree = c->tree;
	size_t n = tree->cells.n_keys, used = 0;

	for (size_t i = 0; i < n; i++) {
		const struct html_cell *cell = intern__key(&tree->cells, i);
		uint32_t owner = c->owner[cell->node];
		bool kept = owner == cell->node;

		out->values[i] = (struct html_value){ kept ? c->place[owner] : c->merged_place[owner], cell->thread,
						      tree->values[i] };
		out->merged_value += kept ? 0 : tree->values[i];
	}
	qsort(out->values, n, sizeof(*out->values), by_place);
	for (size_t i = 0; i < n; i++) {
		if (used && !by_place(&out->values[used - 1], &out->values[i]))
			out->values[used - 1].value += out->values[i].value;
		else
			out->values[used++] = out->values[i];
	}
	out->n_values = used;
}

int html_tree__cut(const struct html_tree *tree, size_t keep, struct html_cut *out)
{
	struct cutter storage = { .tree = tree };
	_cleanup_(cutter) struct cutter *c = &storage;
	int ret = cutter__init(c, keep);

	*out = (struct html_cut){ 0 };
	/* Each node that is kept may have a merged child. */
	out->places = calloc(tree->nodes.n_keys, 2 * sizeof(*out->places));
	out->values = calloc(tree->cells.n_keys + 1, sizeof(*out->values));
	if (ret || !out->places || !out->values)
		return -ENOMEM;
	find_owners(c);
	place_nodes(c, out);
	place_values(c, out);
	return 0;
}

void html_cut__clear(struct html_cut *cut)
{
	free(cut->places);
	free(cut->values);
	memset(cut, 0, sizeof(*cut));
}
