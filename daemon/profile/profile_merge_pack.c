// SPDX-License-Identifier: GPL-2.0-or-later
/* Lays protobuf-c's structures over the merger's tables, and packs them. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/profile/profile_merge.h"
#include "daemon/profile/profile_merge_tables.h"

/* protobuf-c wants arrays of pointers to structures. The structures lie in few blocks. */
struct layout {
	Stakeout__Pprof__Profile profile;
	Stakeout__Pprof__ValueType types[MERGE_MAX_TYPES + 1];
	Stakeout__Pprof__ValueType *type_pointers[MERGE_MAX_TYPES];
	void *blocks[24];
	size_t n_blocks;
};

static void layout__clear(struct layout *layout)
{
	while (layout->n_blocks)
		free(layout->blocks[--layout->n_blocks]);
}

/* Never NULL for want of elements. */
static void *layout__array(struct layout *layout, size_t n, size_t size)
{
	void *block;

	if (layout->n_blocks == sizeof(layout->blocks) / sizeof(layout->blocks[0]))
		return NULL;
	block = calloc(n ? n : 1, size);
	if (block)
		layout->blocks[layout->n_blocks++] = block;
	return block;
}

/* Sums are strings that the table does not have yet: "stakeout.KEY=" and the number. */
static int lay_out_strings(struct layout *layout, const struct merge_tables *t)
{
	Stakeout__Pprof__Profile *p = &layout->profile;
	size_t n = t->strings.n_keys;
	char **table = layout__array(layout, n + t->n_comments, sizeof(*table));
	size_t bytes = 0;
	char *text;

	p->comment = layout__array(layout, t->n_comments, sizeof(*p->comment));
	for (size_t i = 0; i < t->n_comments; i++)
		bytes += intern__length(&t->strings, t->comments[i].text) + 20; /* digits of 2^63 and a sign */
	text = layout__array(layout, bytes, 1);
	if (!table || !p->comment || !text)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		table[i] = (char *)intern__key(&t->strings, i);
	for (size_t i = 0; i < t->n_comments; i++) {
		const struct merge_comment *comment = &t->comments[i];

		p->comment[i] = comment->is_sum ? (int64_t)n : comment->text;
		if (!comment->is_sum)
			continue;
		table[n++] = text;
		text += sprintf(text, "%s%" PRId64, (const char *)intern__key(&t->strings, comment->text),
				comment->sum) +
			1;
	}
	p->n_comment = t->n_comments;
	p->n_string_table = n;
	p->string_table = table;
	return 0;
}

static int lay_out_mappings(struct layout *layout, const struct merge_tables *t)
{
	Stakeout__Pprof__Profile *p = &layout->profile;
	Stakeout__Pprof__Mapping *mappings;

	p->n_mapping = t->mappings.n_keys;
	p->mapping = layout__array(layout, p->n_mapping, sizeof(*p->mapping));
	mappings = layout__array(layout, p->n_mapping, sizeof(*mappings));
	if (!p->mapping || !mappings)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_mapping; i++) {
		const struct merge_mapping *key = intern__key(&t->mappings, i);

		stakeout__pprof__mapping__init(&mappings[i]);
		mappings[i].id = i + 1;
		mappings[i].memory_start = key->start;
		mappings[i].memory_limit = key->limit;
		mappings[i].file_offset = key->offset;
		mappings[i].filename = key->filename;
		mappings[i].build_id = key->build_id;
		mappings[i].has_functions = t->flags[i].functions;
		mappings[i].has_filenames = t->flags[i].filenames;
		mappings[i].has_line_numbers = t->flags[i].line_numbers;
		mappings[i].has_inline_frames = t->flags[i].inline_frames;
		p->mapping[i] = &mappings[i];
	}
	return 0;
}

static int lay_out_functions(struct layout *layout, const struct merge_tables *t)
{
	Stakeout__Pprof__Profile *p = &layout->profile;
	Stakeout__Pprof__Function *functions;

	p->n_function = t->functions.n_keys;
	p->function = layout__array(layout, p->n_function, sizeof(*p->function));
	functions = layout__array(layout, p->n_function, sizeof(*functions));
	if (!p->function || !functions)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_function; i++) {
		const struct merge_function *key = intern__key(&t->functions, i);

		stakeout__pprof__function__init(&functions[i]);
		functions[i].id = i + 1;
		functions[i].name = key->name;
		functions[i].system_name = key->system_name;
		functions[i].filename = key->filename;
		functions[i].start_line = key->start_line;
		p->function[i] = &functions[i];
	}
	return 0;
}

static size_t lines_of(const struct merge_tables *t, size_t location)
{
	return (intern__length(&t->locations, location) - sizeof(struct merge_location)) /
	       sizeof(struct merge_line);
}

static int lay_out_locations(struct layout *layout, const struct merge_tables *t)
{
	Stakeout__Pprof__Profile *p = &layout->profile;
	Stakeout__Pprof__Line *lines, **line_pointers;
	Stakeout__Pprof__Location *locations;
	size_t n_lines = 0;

	p->n_location = t->locations.n_keys;
	for (size_t i = 0; i < p->n_location; i++)
		n_lines += lines_of(t, i);
	p->location = layout__array(layout, p->n_location, sizeof(*p->location));
	locations = layout__array(layout, p->n_location, sizeof(*locations));
	lines = layout__array(layout, n_lines, sizeof(*lines));
	line_pointers = layout__array(layout, n_lines, sizeof(*line_pointers));
	if (!p->location || !locations || !lines || !line_pointers)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_location; i++) {
		const struct merge_location *key = intern__key(&t->locations, i);

		stakeout__pprof__location__init(&locations[i]);
		locations[i].id = i + 1;
		locations[i].mapping_id = key->mapping_id;
		locations[i].address = key->address;
		locations[i].is_folded = key->is_folded;
		locations[i].n_line = lines_of(t, i);
		locations[i].line = line_pointers;
		for (size_t j = 0; j < locations[i].n_line; j++, lines++) {
			stakeout__pprof__line__init(lines);
			lines->function_id = key->lines[j].function_id;
			lines->line = key->lines[j].line;
			lines->column = key->lines[j].column;
			*line_pointers++ = lines;
		}
		p->location[i] = &locations[i];
	}
	return 0;
}

/* Where the pieces of the next sample go. */
struct sample_room {
	Stakeout__Pprof__Sample *sample;
	Stakeout__Pprof__Label *label, **label_pointer;
	uint64_t *id;
};

static void lay_out_sample(const struct merge_tables *t, size_t number, struct sample_room *room)
{
	const struct merge_sample *key = intern__key(&t->samples, number);
	const uint32_t *ids = merge_sample__locations(key);
	Stakeout__Pprof__Sample *sample = room->sample++;

	stakeout__pprof__sample__init(sample);
	sample->n_value = t->n_types;
	sample->value = &t->values[number * t->n_types];
	sample->n_label = key->n_labels;
	sample->label = room->label_pointer;
	for (size_t i = 0; i < key->n_labels; i++) {
		Stakeout__Pprof__Label *label = room->label++;

		stakeout__pprof__label__init(label);
		label->key = key->labels[i].key;
		label->str = key->labels[i].str;
		label->num = key->labels[i].num;
		label->num_unit = key->labels[i].num_unit;
		*room->label_pointer++ = label;
	}
	sample->n_location_id = key->n_locations;
	sample->location_id = room->id;
	for (size_t i = 0; i < key->n_locations; i++)
		*room->id++ = ids[i];
}

static int lay_out_samples(struct layout *layout, const struct merge_tables *t)
{
	Stakeout__Pprof__Profile *p = &layout->profile;
	size_t n = t->samples.n_keys, n_labels = 0, n_ids = 0;
	struct sample_room room;

	for (size_t i = 0; i < n; i++) {
		const struct merge_sample *key = intern__key(&t->samples, i);

		n_labels += key->n_labels;
		n_ids += key->n_locations;
	}
	p->n_sample = n;
	p->sample = layout__array(layout, n, sizeof(*p->sample));
	room.sample = layout__array(layout, n, sizeof(*room.sample));
	room.label = layout__array(layout, n_labels, sizeof(*room.label));
	room.label_pointer = layout__array(layout, n_labels, sizeof(*room.label_pointer));
	room.id = layout__array(layout, n_ids, sizeof(*room.id));
	if (!p->sample || !room.sample || !room.label || !room.label_pointer || !room.id)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		p->sample[i] = room.sample;
		lay_out_sample(t, i, &room);
	}
	return 0;
}

static void lay_out_header(struct layout *layout, const struct merge_tables *t)
{
	Stakeout__Pprof__Profile *p = &layout->profile;

	stakeout__pprof__profile__init(p);
	for (size_t i = 0; i <= t->n_types; i++) {
		const struct merge_value_type *type = i < t->n_types ? &t->types[i] : &t->period_type;

		stakeout__pprof__value_type__init(&layout->types[i]);
		layout->types[i].type = type->type;
		layout->types[i].unit = type->unit;
		if (i < t->n_types)
			layout->type_pointers[i] = &layout->types[i];
	}
	p->n_sample_type = t->n_types;
	p->sample_type = layout->type_pointers;
	if (t->period_type.type || t->period_type.unit)
		p->period_type = &layout->types[t->n_types];
	p->period = t->period;
	p->default_sample_type = t->default_type;
	p->drop_frames = t->drop_frames;
	p->keep_frames = t->keep_frames;
	p->time_nanos = t->time_ns;
	p->duration_nanos = t->duration_ns;
}

int merge_tables__pack(const struct merge_tables *t, uint8_t **out, size_t *length)
{
	__attribute__((cleanup(layout__clear))) struct layout layout = { .n_blocks = 0 };
	uint8_t *bytes;
	size_t size;
	int r;

	lay_out_header(&layout, t);
	r = lay_out_strings(&layout, t);
	r = r ?: lay_out_mappings(&layout, t);
	r = r ?: lay_out_functions(&layout, t);
	r = r ?: lay_out_locations(&layout, t);
	r = r ?: lay_out_samples(&layout, t);
	if (r < 0)
		return r;
	size = stakeout__pprof__profile__get_packed_size(&layout.profile);
	if (size > PROFILE_MERGE_MAX_MESSAGE_BYTES)
		return -EFBIG;
	bytes = malloc(size ? size : 1);
	if (!bytes)
		return -ENOMEM;
	*length = stakeout__pprof__profile__pack(&layout.profile, bytes);
	*out = bytes;
	return 0;
}
