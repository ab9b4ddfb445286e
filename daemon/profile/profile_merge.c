// SPDX-License-Identifier: GPL-2.0-or-later
/* Interns a message's strings, mappings, functions, locations: arrays of the merger's numbers translate its samples. */
#include "daemon/profile/profile_merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/profile/message_memory.h"
#include "daemon/profile/pprof_tables.h"
#include "stakeout/array.h"
#include "stakeout/profile.pb-c.h"

#define COMMENT_PREFIX "stakeout."

/* Values of a sample: samples, CPU time and, of some messages, wall time. */
#define CPU_VALUE  1
#define WALL_VALUE 2

typedef Stakeout__Pprof__Profile Message;

/* The message's numbers, from 0, to the merger's. */
struct translation {
	uint32_t *to;
	size_t n, capacity;
};

struct profile_merge {
	struct pprof_tables tables;
	struct translation strings, mappings, functions, locations;
	struct message_memory *memory; /* of the decoded message */
	unsigned char *scratch;        /* for the key that is looked up */
	size_t scratch_capacity;
	bool without_wall;       /* the message at hand has no wall time, others have */
	int64_t without_wall_ns; /* duration of all such */
	bool times_set;
	int64_t set_time_ns, set_duration_ns;
};

struct profile_merge *profile_merge__new(void)
{
	_cleanup_(profile_merge) struct profile_merge *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->memory = message_memory__new();
	return m->memory ? TAKE_PTR(m) : NULL;
}

void profile_merge__free(struct profile_merge *m)
{
	if (!m)
		return;
	pprof_tables__clear(&m->tables);
	free(m->strings.to);
	free(m->mappings.to);
	free(m->functions.to);
	free(m->locations.to);
	message_memory__free(m->memory);
	free(m->scratch);
	free(m);
}

static int translation__begin(struct translation *t, size_t n)
{
	int ret = ARRAY_RESERVE(t->to, t->capacity, n);

	t->n = n;
	return ret;
}

/* Of a reference that must lead somewhere. */
static int translate(const struct translation *t, uint64_t number, uint32_t *out)
{
	if (number >= t->n)
		return -EINVAL;
	*out = t->to[number];
	return 0;
}

/* Ids run from 1 to the number of elements, in their order, as profile_builder and this module write them. */
static int check_id(uint64_t id, size_t number)
{
	return id == number + 1 ? 0 : -EINVAL;
}

static int take_strings(struct profile_merge *m, const Message *message)
{
	int ret;

	if (!message->n_string_table || message->string_table[0][0])
		return -EINVAL;
	ret = translation__begin(&m->strings, message->n_string_table);
	for (size_t i = 0; ret >= 0 && i < message->n_string_table; i++) {
		const char *text = message->string_table[i];

		ret = intern__add(&m->tables.strings, text, strlen(text) + 1, &m->strings.to[i]);
	}
	return ret < 0 ? ret : 0;
}

static int string_of(const struct profile_merge *m, int64_t number, uint32_t *out)
{
	return translate(&m->strings, (uint64_t)number, out);
}

static int take_mapping(struct profile_merge *m, const Stakeout__Pprof__Mapping *mapping, uint32_t *number)
{
	struct pprof_mapping key = { mapping->memory_start, mapping->memory_limit, mapping->file_offset, 0, 0 };
	struct pprof_mapping_flags *flags;
	int ret;

	if (string_of(m, mapping->filename, &key.filename) || string_of(m, mapping->build_id, &key.build_id))
		return -EINVAL;
	ret = pprof_tables__mapping(&m->tables, &key, number);
	if (ret < 0)
		return ret;
	flags = &m->tables.flags[*number];
	flags->functions |= mapping->has_functions;
	flags->filenames |= mapping->has_filenames;
	flags->line_numbers |= mapping->has_line_numbers;
	flags->inline_frames |= mapping->has_inline_frames;
	return 0;
}

static int take_function(struct profile_merge *m, const Stakeout__Pprof__Function *function, uint32_t *number)
{
	struct pprof_function key = { .start_line = function->start_line };

	if (string_of(m, function->name, &key.name) || string_of(m, function->system_name, &key.system_name) ||
	    string_of(m, function->filename, &key.filename))
		return -EINVAL;
	return intern__add(&m->tables.functions, &key, sizeof(key), number);
}

/* 0 stays 0: none. */
static int id_of(const struct translation *t, uint64_t id, uint32_t *out)
{
	int ret;

	if (!id) {
		*out = 0;
		return 0;
	}
	ret = translate(t, id - 1, out);
	*out += ret ? 0 : 1;
	return ret;
}

static int take_location(struct profile_merge *m, const Stakeout__Pprof__Location *location, uint32_t *number)
{
	size_t bytes = sizeof(struct pprof_location) + location->n_line * sizeof(struct pprof_line);
	struct pprof_location *key;
	int ret = ARRAY_RESERVE(m->scratch, m->scratch_capacity, bytes);

	if (ret < 0)
		return ret;
	key = (struct pprof_location *)m->scratch;
	*key = (struct pprof_location){ .address = location->address, .is_folded = location->is_folded };
	ret = id_of(&m->mappings, location->mapping_id, &key->mapping_id);
	for (size_t i = 0; !ret && i < location->n_line; i++) {
		const Stakeout__Pprof__Line *line = location->line[i];
		uint32_t function;

		ret = id_of(&m->functions, line->function_id, &function);
		if (!ret)
			key->lines[i] = (struct pprof_line){ function, line->line, line->column };
	}
	return ret ?: intern__add(&m->tables.locations, key, bytes, number);
}

/* Mappings, functions and locations: each refers only to what came before. */
static int take_frames(struct profile_merge *m, const Message *message)
{
	int ret = translation__begin(&m->mappings, message->n_mapping);

	for (size_t i = 0; ret >= 0 && i < message->n_mapping; i++)
		ret = check_id(message->mapping[i]->id, i) ?: take_mapping(m, message->mapping[i], &m->mappings.to[i]);
	ret = ret < 0 ? ret : translation__begin(&m->functions, message->n_function);
	for (size_t i = 0; ret >= 0 && i < message->n_function; i++)
		ret = check_id(message->function[i]->id, i)
			      ?: take_function(m, message->function[i], &m->functions.to[i]);
	ret = ret < 0 ? ret : translation__begin(&m->locations, message->n_location);
	for (size_t i = 0; ret >= 0 && i < message->n_location; i++)
		ret = check_id(message->location[i]->id, i)
			      ?: take_location(m, message->location[i], &m->locations.to[i]);
	return ret < 0 ? ret : 0;
}

static int value_type_of(const struct profile_merge *m, const Stakeout__Pprof__ValueType *type,
			 struct pprof_value_type *out)
{
	struct pprof_value_type found = { 0, 0 }; /* the string "" */

	if (type && (string_of(m, type->type, &found.type) || string_of(m, type->unit, &found.unit)))
		return -EINVAL;
	*out = found;
	return 0;
}

static bool same_type(const struct pprof_value_type *a, const struct pprof_value_type *b)
{
	return a->type == b->type && a->unit == b->unit;
}

/* Wall time comes third (profile_builder__new_wall()). */
static bool is_wall(const struct profile_merge *m, const struct pprof_value_type *type)
{
	return !strcmp(intern__key(&m->tables.strings, type->type), "wall");
}

/* Samples and CPU time of before, now that wall time is known as well: a thread that ran had no other. */
static int begin_wall(struct profile_merge *m, const Message *message)
{
	struct pprof_value_type type;
	int ret = 0;

	for (size_t i = 0; !ret && i < WALL_VALUE; i++) {
		ret = value_type_of(m, message->sample_type[i], &type);
		ret = ret ?: same_type(&type, &m->tables.types[i]) ? 0 : -EINVAL;
	}
	ret = ret ?: value_type_of(m, message->sample_type[WALL_VALUE], &type);
	if (ret || !is_wall(m, &type))
		return -EINVAL;
	return pprof_tables__add_type(&m->tables, &type, CPU_VALUE)
		       ?: string_of(m, message->default_sample_type, &m->tables.default_type);
}

static int take_types(struct profile_merge *m, const Message *message)
{
	struct pprof_tables *t = &m->tables;
	bool first = !t->n_types;
	struct pprof_value_type type;

	if (!message->n_sample_type || message->n_sample_type > PPROF_MAX_TYPES)
		return -EINVAL;
	if (t->n_types == WALL_VALUE && message->n_sample_type == WALL_VALUE + 1 && begin_wall(m, message))
		return -EINVAL;
	m->without_wall = t->n_types == WALL_VALUE + 1 && message->n_sample_type == WALL_VALUE &&
			  is_wall(m, &t->types[WALL_VALUE]);
	if (!first && !m->without_wall && message->n_sample_type != t->n_types)
		return -EINVAL;
	for (size_t i = 0; i < message->n_sample_type; i++) {
		if (value_type_of(m, message->sample_type[i], &type) || (!first && !same_type(&type, &t->types[i])))
			return -EINVAL;
		t->types[i] = type;
	}
	if (value_type_of(m, message->period_type, &type) || (!first && !same_type(&type, &t->period_type)))
		return -EINVAL;
	t->period_type = type;
	if (!first)
		return 0;
	t->n_types = message->n_sample_type;
	return string_of(m, message->default_sample_type, &t->default_type) ?:
	       string_of(m, message->drop_frames, &t->drop_frames) ?:
	       string_of(m, message->keep_frames, &t->keep_frames);
}

static int compare_labels(const struct pprof_label *a, const struct pprof_label *b)
{
	return memcmp(a, b, sizeof(*a));
}

/* Sorted, so that their order in the message makes no difference. */
static int take_labels(const struct profile_merge *m, const Stakeout__Pprof__Sample *sample, struct pprof_label *labels)
{
	for (size_t i = 0; i < sample->n_label; i++) {
		const Stakeout__Pprof__Label *from = sample->label[i];
		struct pprof_label label = { .num = from->num };
		size_t at = i;

		if (string_of(m, from->key, &label.key) || string_of(m, from->str, &label.str) ||
		    string_of(m, from->num_unit, &label.num_unit))
			return -EINVAL;
		for (; at > 0 && compare_labels(&labels[at - 1], &label) > 0; at--)
			labels[at] = labels[at - 1];
		labels[at] = label;
	}
	return 0;
}

static int take_sample(struct profile_merge *m, const Stakeout__Pprof__Sample *sample)
{
	struct pprof_label labels[PPROF_MAX_LABELS];
	struct pprof_tables *t = &m->tables;
	uint32_t *stack;
	int64_t *values;
	int ret;

	if (sample->n_value != t->n_types - m->without_wall || sample->n_label > PPROF_MAX_LABELS ||
	    sample->n_location_id > UINT32_MAX || take_labels(m, sample, labels))
		return -EINVAL;
	stack = pprof_tables__stack(t, sample->n_location_id);
	if (!stack)
		return -ENOMEM;
	for (size_t i = 0; i < sample->n_location_id; i++) {
		uint64_t id = sample->location_id[i];

		if (id - 1 >= m->locations.n)
			return -EINVAL;
		stack[i] = m->locations.to[id - 1] + 1;
	}
	ret = pprof_tables__sample(t, sample->n_location_id, labels, sample->n_label, &values);
	if (ret < 0)
		return ret;
	for (size_t i = 0; i < t->n_types; i++) {
		int64_t more = sample->value[i < sample->n_value ? i : CPU_VALUE];

		if (more < 0)
			return -EINVAL;
		if (__builtin_add_overflow(values[i], more, &values[i]))
			return -EOVERFLOW;
	}
	return 0;
}

/* "stakeout.KEY=N" that is a sum: the length up to and with the '=', and N. */
static bool is_sum(const char *text, size_t *length, int64_t *value)
{
	static const char *const properties[] = { COMMENT_PREFIX "pid=", COMMENT_PREFIX "sample_hz=",
						  COMMENT_PREFIX "wall_hz=" };
	const char *equals = strchr(text, '=');
	char *end;

	if (!equals || strncmp(text, COMMENT_PREFIX, strlen(COMMENT_PREFIX)) || equals[1] < '0' || equals[1] > '9')
		return false;
	for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++)
		if (!strncmp(text, properties[i], strlen(properties[i])))
			return false;
	errno = 0;
	*value = strtoll(equals + 1, &end, 10);
	*length = (size_t)(equals + 1 - text);
	return !*end && !errno;
}

static int add_comment(struct pprof_tables *t, const struct pprof_comment *comment)
{
	for (size_t i = 0; i < t->n_comments; i++) {
		if (t->comments[i].text != comment->text || t->comments[i].is_sum != comment->is_sum)
			continue;
		return __builtin_add_overflow(t->comments[i].sum, comment->sum, &t->comments[i].sum) ? -EOVERFLOW : 0;
	}
	/* Each is compared with all: so many are no profile of stakeout's. */
	return t->n_comments >= 1000 ? -EFBIG : pprof_tables__comment(t, comment);
}

static int take_comment(struct profile_merge *m, const Message *message, int64_t string)
{
	struct pprof_comment comment = { .is_sum = false };
	_cleanup_free_ char *key = NULL;
	size_t length;
	int ret = string_of(m, string, &comment.text);

	if (ret < 0)
		return ret;
	comment.is_sum = is_sum(message->string_table[string], &length, &comment.sum);
	if (comment.is_sum) {
		key = strndup(message->string_table[string], length);
		ret = key ? intern__add(&m->tables.strings, key, length + 1, &comment.text) : -ENOMEM;
	} else {
		comment.sum = 0;
	}
	return ret < 0 ? ret : add_comment(&m->tables, &comment);
}

static void take_times(struct pprof_tables *t, const Message *message, bool first)
{
	int64_t duration_ns = message->duration_nanos > 0 ? message->duration_nanos : 0;

	if (first || (message->time_nanos && message->time_nanos < t->time_ns))
		t->time_ns = message->time_nanos;
	if (__builtin_add_overflow(t->duration_ns, duration_ns, &t->duration_ns))
		t->duration_ns = INT64_MAX;
	if (message->period > t->period)
		t->period = message->period;
}

static int take_message(struct profile_merge *m, const Message *message)
{
	bool first = !m->tables.n_types;
	int ret = take_strings(m, message);

	ret = ret ?: take_types(m, message);
	ret = ret ?: take_frames(m, message);
	for (size_t i = 0; !ret && i < message->n_sample; i++)
		ret = take_sample(m, message->sample[i]);
	for (size_t i = 0; !ret && i < message->n_comment; i++)
		ret = take_comment(m, message, message->comment[i]);
	if (!ret)
		take_times(&m->tables, message, first);
	if (!ret && message->n_sample_type == WALL_VALUE && message->duration_nanos > 0 &&
	    __builtin_add_overflow(m->without_wall_ns, message->duration_nanos, &m->without_wall_ns))
		m->without_wall_ns = INT64_MAX;
	return ret;
}

static int explain(int r, struct so_error *err)
{
	switch (r) {
	case 0:
		return 0;
	case -EINVAL:
		return so_err(err, r, "a stored profile is damaged, or of another kind than the others");
	case -EFBIG:
		return so_err(err, r, "the profiles have too many different stacks to be added up");
	case -EOVERFLOW:
		return so_err(err, r, "the profiles' sums pass 2^63");
	default:
		return so_err(err, r, "not enough memory to add up profiles");
	}
}

int profile_merge__add(struct profile_merge *m, const uint8_t *bytes, size_t length, struct so_error *err)
{
	Message *message;
	int ret;

	if (length > PROFILE_MERGE_MAX_MESSAGE_BYTES)
		return explain(-EFBIG, err);
	message_memory__begin(m->memory, length);
	message = stakeout__pprof__profile__unpack(message_memory__allocator(m->memory), length, bytes);
	if (message)
		ret = take_message(m, message);
	else
		ret = message_memory__error(m->memory) ?: -EINVAL;
	if (!ret && pprof_tables__bytes(&m->tables) > PROFILE_MERGE_MAX_BYTES)
		ret = -EFBIG;
	return explain(ret, err);
}

void profile_merge__set_times(struct profile_merge *m, int64_t time_ns, int64_t duration_ns)
{
	m->times_set = true;
	m->set_time_ns = time_ns;
	m->set_duration_ns = duration_ns;
}

/* Once: the merger may go on being used. */
static int say_without_wall(struct profile_merge *m)
{
	static const char key[] = COMMENT_PREFIX "wall.without_ns=";
	struct pprof_comment comment = { .is_sum = true, .sum = m->without_wall_ns };
	int ret = intern__add(&m->tables.strings, key, sizeof(key), &comment.text);

	m->without_wall_ns = 0;
	return ret < 0 ? ret : add_comment(&m->tables, &comment);
}

int profile_merge__finish(struct profile_merge *m, bool gzip, uint8_t **out, size_t *length)
{
	int ret;

	if (!m->tables.n_types)
		return -ENODATA;
	if (m->times_set) {
		m->tables.time_ns = m->set_time_ns;
		m->tables.duration_ns = m->set_duration_ns;
	}
	if (m->tables.n_types == WALL_VALUE + 1 && m->without_wall_ns) {
		ret = say_without_wall(m);
		if (ret)
			return ret;
	}
	return pprof_tables__pack(&m->tables, gzip, PROFILE_MERGE_MAX_MESSAGE_BYTES, out, length);
}
