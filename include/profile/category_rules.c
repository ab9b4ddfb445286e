// SPDX-License-Identifier: GPL-2.0-or-later
#include "profile/category_rules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/frame_pattern.h"
#include "stakeout/array.h"
#include "stakeout/utf8.h"

enum key {
	KEY_FRAME,
	KEY_FILE,
	KEY_LIBRARY,
	KEY_KERNEL,
	KEY_LEAF_FRAME,
	KEY_LEAF_LIBRARY,
	KEYS,
};

static const char *const key_names[KEYS] = {
	[KEY_FRAME] = "frame",           [KEY_FILE] = "file",
	[KEY_LIBRARY] = "library",       [KEY_KERNEL] = "kernel",
	[KEY_LEAF_FRAME] = "leaf-frame", [KEY_LEAF_LIBRARY] = "leaf-library",
};

static const char *const kind_names[] = {
	[CATEGORY_ACTIVITY] = "activity",
	[CATEGORY_MECHANISM] = "mechanism",
};

enum gil_condition {
	GIL_ANY,
	GIL_HELD,
	GIL_RELEASED, /* or not known; not: there is none */
};

struct category {
	char name[CATEGORY_MAX_NAME_BYTES + 1];
	enum category_kind kind;
	enum gil_condition gil;
	unsigned line;     /* of its section in the user's file; 0: there is none */
	size_t n_patterns; /* in the file that is being read */
	bool leaf_keys;    /* has such patterns in it */
	bool shipped, replaced;
};

struct pattern {
	size_t category;
	enum key key;
	bool shipped;
	char *text;
};

/* Neighbouring patterns of a category and key, as one expression: its place is their rank. */
struct group {
	size_t category;
	enum key key;
	struct regexp *expression;
};

struct category_rules {
	struct category *categories;
	size_t n_categories, categories_capacity;
	struct pattern *patterns;
	size_t n_patterns, patterns_capacity;
	struct group *groups;
	size_t n_groups, groups_capacity;
};

static const char *const leftover_names[] = {
#define X(id, name) name,
	CATEGORY_LEFTOVER_LIST(X)
#undef X
};

void category_rules__free(struct category_rules *rules)
{
	if (!rules)
		return;
	for (size_t i = 0; i < rules->n_patterns; i++)
		free(rules->patterns[i].text);
	for (size_t i = 0; i < rules->n_groups; i++)
		regexp__free(rules->groups[i].expression);
	free(rules->categories);
	free(rules->patterns);
	free(rules->groups);
	free(rules);
}

/* A file that is being read. */
struct reader {
	struct category_rules *rules;
	const char *name;
	unsigned line;
	bool shipped;
	size_t category; /* SIZE_MAX: before the first section */
	struct so_error *err;
};

#define WRONG(reader, at, fmt, ...) so_err((reader)->err, -EINVAL, "%s:%u: " fmt, (reader)->name, (at), ##__VA_ARGS__)

static struct category *current(const struct reader *reader)
{
	return &reader->rules->categories[reader->category];
}

/* A section is over: is it as it should be? */
static int end_section(struct reader *reader)
{
	const struct category *category;

	if (reader->category == SIZE_MAX)
		return 0;
	category = current(reader);
	if (!category->n_patterns && !category->replaced)
		return WRONG(reader, category->line, "category '%s' has no pattern", category->name);
	if (category->gil != GIL_ANY && category->kind == CATEGORY_ACTIVITY)
		return WRONG(reader, category->line, "category '%s': gil is for mechanisms", category->name);
	if (category->leaf_keys && category->kind == CATEGORY_ACTIVITY)
		return WRONG(reader, category->line, "category '%s': leaf-frame and leaf-library are for mechanisms",
			     category->name);
	return 0;
}

static int check_name(struct reader *reader, const char *name)
{
	size_t length = strlen(name);

	if (!length || length > CATEGORY_MAX_NAME_BYTES)
		return WRONG(reader, reader->line, "a category's name has 1 to %d bytes", CATEGORY_MAX_NAME_BYTES);
	for (size_t i = 0, n; i < length; i += n) {
		n = utf8__sequence(name + i, length - i);
		/* C1 controls are 0xc2 0x80 … 0xc2 0x9f. */
		if (!n || (unsigned char)name[i] < 0x20 || name[i] == 0x7f || strchr("[];", name[i]) ||
		    (n == 2 && (unsigned char)name[i] == 0xc2 && (unsigned char)name[i + 1] < 0xa0))
			return WRONG(reader, reader->line,
				     "a category's name is UTF-8 without control characters, brackets and ';'");
	}
	for (size_t i = 0; i < CATEGORY_LEFTOVERS; i++)
		if (!strcmp(name, leftover_names[i]))
			return WRONG(reader, reader->line, "'%s' is what no rule matches", name);
	return 0;
}

static int add_category(struct reader *reader, const char *name)
{
	struct category_rules *rules = reader->rules;
	struct category *category;

	if (rules->n_categories == CATEGORY_MAX_CATEGORIES)
		return WRONG(reader, reader->line, "more than %d categories", CATEGORY_MAX_CATEGORIES);
	if (ARRAY_RESERVE(rules->categories, rules->categories_capacity, rules->n_categories + 1))
		return so_err(reader->err, -ENOMEM, "out of memory");
	reader->category = rules->n_categories++;
	category = current(reader);
	*category = (struct category){ .line = reader->line, .shipped = reader->shipped };
	strcpy(category->name, name);
	return 0;
}

static int begin_section(struct reader *reader, char *line)
{
	size_t length = strlen(line);
	int ret = end_section(reader);

	if (ret < 0)
		return ret;
	if (line[length - 1] != ']')
		return WRONG(reader, reader->line, "'[' without ']' at the end of the line");
	line[length - 1] = '\0';
	ret = check_name(reader, line + 1);
	if (ret < 0)
		return ret;
	for (size_t i = 0; i < reader->rules->n_categories; i++) {
		struct category *category = &reader->rules->categories[i];

		if (strcmp(category->name, line + 1))
			continue;
		if (category->shipped == reader->shipped || category->line)
			return WRONG(reader, reader->line, "category '%s' begins in line %u already", line + 1,
				     category->line);
		reader->category = i;
		category->line = reader->line;
		category->n_patterns = 0;
		return 0;
	}
	return add_category(reader, line + 1);
}

static int set_kind(struct reader *reader, const char *value)
{
	struct category *category = current(reader);
	enum category_kind kind;

	for (kind = CATEGORY_ACTIVITY; strcmp(value, kind_names[kind]); kind++)
		if (kind == CATEGORY_MECHANISM)
			return WRONG(reader, reader->line, "kind is activity or mechanism, not '%s'", value);
	if (category->shipped && !reader->shipped && !category->replaced && kind != category->kind)
		return WRONG(reader, reader->line,
			     "'%s' is of kind %s in the shipped rules; to change it, write 'replace = yes' first",
			     category->name, kind_names[category->kind]);
	category->kind = kind;
	return 0;
}

static int set_gil(struct reader *reader, const char *value)
{
	struct category *category = current(reader);
	enum gil_condition gil;

	if (!strcmp(value, "held"))
		gil = GIL_HELD;
	else if (!strcmp(value, "released"))
		gil = GIL_RELEASED;
	else
		return WRONG(reader, reader->line, "gil is held or released, not '%s'", value);
	if (category->shipped && !reader->shipped && !category->replaced && gil != category->gil)
		return WRONG(reader, reader->line, "to change the shipped category '%s', write 'replace = yes' first",
			     category->name);
	category->gil = gil;
	return 0;
}

static int set_replace(struct reader *reader, const char *value)
{
	struct category *category = current(reader);

	if (strcmp(value, "yes"))
		return WRONG(reader, reader->line, "replace takes 'yes' alone, not '%s'", value);
	if (!category->shipped || reader->shipped)
		return WRONG(reader, reader->line, "there is no shipped category '%s' to replace", category->name);
	category->replaced = true;
	category->gil = GIL_ANY;
	category->leaf_keys = false;
	return 0;
}

static int add_pattern(struct reader *reader, enum key key, const char *value)
{
	struct category_rules *rules = reader->rules;
	struct so_error why = { "" };
	struct pattern pattern = { reader->category, key, reader->shipped, NULL };
	_cleanup_(regexp) struct regexp *alone = NULL;
	int ret;

	if (rules->n_patterns == CATEGORY_MAX_PATTERNS)
		return WRONG(reader, reader->line, "more than %d patterns", CATEGORY_MAX_PATTERNS);
	ret = regexp__compile(value, &alone, &why);
	if (ret < 0)
		return so_err(reader->err, ret, "%s:%u: %s", reader->name, reader->line, why.text);
	pattern.text = strdup(value);
	if (!pattern.text || ARRAY_RESERVE(rules->patterns, rules->patterns_capacity, rules->n_patterns + 1)) {
		free(pattern.text);
		return so_err(reader->err, -ENOMEM, "out of memory");
	}
	rules->patterns[rules->n_patterns++] = pattern;
	current(reader)->n_patterns++;
	current(reader)->leaf_keys |= key == KEY_LEAF_FRAME || key == KEY_LEAF_LIBRARY;
	return 0;
}

static int take_setting(struct reader *reader, const char *key, const char *value)
{
	if (reader->category == SIZE_MAX)
		return WRONG(reader, reader->line, "'%s' before the first [category]", key);
	if (!strcmp(key, "kind"))
		return set_kind(reader, value);
	if (!strcmp(key, "gil"))
		return set_gil(reader, value);
	if (!strcmp(key, "replace"))
		return set_replace(reader, value);
	for (enum key i = 0; i < KEYS; i++)
		if (!strcmp(key, key_names[i]))
			return add_pattern(reader, i, value);
	return WRONG(reader, reader->line,
		     "unknown word '%.40s': kind, frame, file, library, kernel, leaf-frame, leaf-library, gil "
		     "or replace",
		     key);
}

/* Without blanks at its ends, in place. */
static char *trim(char *s)
{
	static const char blanks[] = " \t\r";
	size_t length;

	s += strspn(s, blanks);
	length = strlen(s);
	while (length && strchr(blanks, s[length - 1]))
		length--;
	s[length] = '\0';
	return s;
}

static int take_line(struct reader *reader, char *line)
{
	char *equals;

	line = trim(line);
	if (!*line || *line == '#')
		return 0;
	if (*line == '[')
		return begin_section(reader, line);
	equals = strchr(line, '=');
	if (!equals)
		return WRONG(reader, reader->line, "neither [category], 'word = value' nor # comment");
	*equals = '\0';
	return take_setting(reader, trim(line), trim(equals + 1));
}

/* text: terminated, without other zero bytes; it is written to. */
static int read_text(struct category_rules *rules, char *text, const char *name, bool shipped, struct so_error *err)
{
	struct reader reader = { .rules = rules, .name = name, .shipped = shipped, .category = SIZE_MAX, .err = err };
	char *next = text;
	int ret = 0;

	while (!ret && (text = strsep(&next, "\n"))) {
		reader.line++;
		ret = take_line(&reader, text);
	}
	return ret ? ret : end_section(&reader);
}

#define GROUP_PATTERNS 32 /* in one expression at most */

/* The patterns [from, to) as one expression. */
static int add_group(struct category_rules *rules, size_t from, size_t to)
{
	struct group group = { rules->patterns[from].category, rules->patterns[from].key, NULL };
	const char *texts[GROUP_PATTERNS];

	for (size_t i = from; i < to; i++)
		texts[i - from] = rules->patterns[i].text;
	if (ARRAY_RESERVE(rules->groups, rules->groups_capacity, rules->n_groups + 1) ||
	    regexp__compile_any(texts, to - from, &group.expression, NULL))
		return -ENOMEM;
	rules->groups[rules->n_groups++] = group;
	return 0;
}

/* The patterns of one file, in their order. */
static int add_groups(struct category_rules *rules, bool shipped)
{
	const struct pattern *patterns = rules->patterns;
	size_t from = 0, to;
	int ret = 0;

	for (; !ret && from < rules->n_patterns; from = to) {
		const struct pattern *first = &patterns[from];

		for (to = from + 1;
		     to < rules->n_patterns && to - from < GROUP_PATTERNS && patterns[to].category == first->category &&
		     patterns[to].key == first->key && patterns[to].shipped == first->shipped;
		     to++)
			;
		if (first->shipped == shipped && !(shipped && rules->categories[first->category].replaced))
			ret = add_group(rules, from, to);
	}
	return ret;
}

static int read_all(struct category_rules *rules, const char *text, size_t length, const char *name,
		    struct so_error *err)
{
	_cleanup_free_ char *shipped = strdup(category_shipped_text);
	_cleanup_free_ char *own = text ? strndup(text, length) : NULL;
	int ret;

	if (!shipped || (text && !own))
		return so_err(err, -ENOMEM, "out of memory");
	ret = read_text(rules, shipped, "shipped rules", true, err);
	for (size_t i = 0; i < rules->n_categories; i++)
		rules->categories[i].line = 0;
	if (!ret && own)
		ret = read_text(rules, own, name, false, err);
	if (ret < 0)
		return ret;
	/* A user's patterns stand before all others. */
	ret = add_groups(rules, false);
	ret = ret ?: add_groups(rules, true);
	return ret ? so_err(err, ret, "out of memory") : 0;
}

int category_rules__new(const char *text, size_t length, const char *name, struct category_rules **out,
			struct so_error *err)
{
	_cleanup_(category_rules) struct category_rules *rules = NULL;
	int ret;

	if (text && length > CATEGORY_MAX_FILE_BYTES)
		return so_err(err, -EFBIG, "%s is too large for categories: more than %u bytes", name,
			      CATEGORY_MAX_FILE_BYTES);
	if (text && memchr(text, '\0', length))
		return so_err(err, -EINVAL, "%s is no text: it has zero bytes", name);
	rules = calloc(1, sizeof(*rules));
	if (!rules)
		return so_err(err, -ENOMEM, "out of memory");
	ret = read_all(rules, text, length, name, err);
	if (!ret)
		*out = TAKE_PTR(rules);
	return ret;
}

int category_rules__load(const char *path, struct category_rules **out, struct so_error *err)
{
	_cleanup_fclose_ FILE *file = path ? fopen(path, "re") : NULL;
	_cleanup_free_ char *text = NULL;
	size_t length;

	if (!path)
		return category_rules__new(NULL, 0, NULL, out, err);
	if (!file)
		return so_err(err, -errno, "cannot read %s: %s", path, strerror(errno));
	text = malloc(CATEGORY_MAX_FILE_BYTES + 1);
	if (!text)
		return so_err(err, -ENOMEM, "out of memory");
	/* One byte more than is allowed shows that there is more. */
	length = fread(text, 1, CATEGORY_MAX_FILE_BYTES + 1, file);
	if (ferror(file))
		return so_err(err, -EIO, "cannot read %s: %s", path, strerror(errno));
	return category_rules__new(text, length, path, out, err);
}

size_t category_rules__count(const struct category_rules *rules)
{
	return rules->n_categories;
}

const char *category_rules__name(const struct category_rules *rules, size_t category)
{
	return rules->categories[category].name;
}

enum category_kind category_rules__kind(const struct category_rules *rules, size_t category)
{
	return rules->categories[category].kind;
}

bool category_rules__has_patterns(const struct category_rules *rules, size_t category)
{
	for (size_t i = 0; i < rules->n_groups; i++)
		if (rules->groups[i].category == category)
			return true;
	return false;
}

size_t category_rules__of_rank(const struct category_rules *rules, uint32_t rank)
{
	return rules->groups[rank].category;
}

static bool group__matches(const struct group *group, const struct profile_line *line)
{
	switch (group->key) {
	case KEY_FRAME:
	case KEY_LEAF_FRAME:
		return !line->kernel && frame_pattern__matches(group->expression, line);
	case KEY_KERNEL:
		return line->kernel && frame_pattern__matches_text(group->expression, line->function);
	case KEY_FILE:
		return *line->filename && frame_pattern__matches_text(group->expression, line->filename);
	case KEY_LIBRARY:
	case KEY_LEAF_LIBRARY:
		return !line->kernel && *line->mapping && frame_pattern__matches_text(group->expression, line->mapping);
	case KEYS:
		break;
	}
	return false;
}

/* Which ranks of a frame are still open, and would be this group's. */
struct places {
	uint32_t *rank[2 * CATEGORY_GIL_STATES];
	size_t n;
};

static void add_place(struct places *places, uint32_t *rank)
{
	if (*rank == CATEGORY_NO_RANK)
		places->rank[places->n++] = rank;
}

static void find_places(const struct category *category, enum key key, struct category_ranks *ranks, struct places *out)
{
	bool anywhere = key != KEY_LEAF_FRAME && key != KEY_LEAF_LIBRARY;

	out->n = 0;
	if (category->kind == CATEGORY_ACTIVITY) {
		if (anywhere)
			add_place(out, &ranks->activity);
		return;
	}
	for (int gil = 0; gil < CATEGORY_GIL_STATES; gil++) {
		if ((category->gil == GIL_HELD && gil != CATEGORY_GIL_HELD) ||
		    (category->gil == GIL_RELEASED && gil != CATEGORY_GIL_RELEASED))
			continue;
		add_place(out, &ranks->leaf[gil]);
		if (anywhere)
			add_place(out, &ranks->mechanism[gil]);
	}
}

void category_rules__match(const struct category_rules *rules, const struct profile_line *line,
			   struct category_ranks *out)
{
	struct places places;

	memset(out, 0xff, sizeof(*out)); /* CATEGORY_NO_RANK */
	for (uint32_t rank = 0; rank < rules->n_groups; rank++) {
		const struct group *group = &rules->groups[rank];

		find_places(&rules->categories[group->category], group->key, out, &places);
		if (!places.n || !group__matches(group, line))
			continue;
		for (size_t i = 0; i < places.n; i++)
			*places.rank[i] = rank;
	}
}
