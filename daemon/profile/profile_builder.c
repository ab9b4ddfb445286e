/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How one profile is put together: everything is interned as it comes (an id is a number in a table, plus one),
 * and the message's structures are laid over the tables when it is packed.
 */
#include "daemon/profile/profile_builder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "stakeout/array.h"
#include "stakeout/intern.h"
#include "stakeout/profile.pb-c.h"
#include "stakeout/utf8.h"

/* Keys of the tables. They are compared as bytes, so none has padding. Strings are numbers in b->strings. */
struct mapping_key {
	uint64_t start, limit, offset;
	uint32_t filename, build_id;
};

struct function_key {
	uint32_t name, system_name, filename, unused;
	int64_t start_line;
};

struct location_line {
	uint64_t function_id;
	int64_t line;
};

struct location_key {
	uint64_t mapping_id, address;
	uint64_t n_lines;             /* 0: without a name */
	struct location_line lines[]; /* innermost first */
};

#define PROCESS_LABELS 5

/* Of one process: strings. */
struct process_key {
	uint32_t keys[PROCESS_LABELS], values[PROCESS_LABELS]; /* value 0: no such label */
};

struct sample_key {
	int32_t pid, tid;
	uint32_t comm, gil, state, api;
	uint32_t process; /* number in b->processes, plus one; 0: none */
	uint32_t n_locations;
	uint32_t locations[]; /* ids, leaf first */
};

struct profile_builder {
	int64_t time_ns, duration_ns, period_ns;
	struct intern strings, mappings, functions, locations, samples, processes;
	int64_t *values; /* by number of the sample: its count, or n_types values */
	size_t values_capacity;
	struct {
		uint32_t type, unit;
	} types[PROFILE_MAX_VALUES]; /* strings */
	size_t n_types;              /* 0: samples and CPU time, of which the count alone is kept */
	size_t by_default;           /* type */
	uint32_t *comments;          /* strings */
	size_t n_comments, comments_capacity;
	unsigned char *scratch; /* for the key that is looked up */
	size_t scratch_capacity;
	struct {
		uint32_t samples, count, cpu, nanoseconds, pid, tid, comm, gil, state, api;
	} words; /* strings that every profile has; "api" only if a sample has such a label */
};

static int64_t clamp_int64(uint64_t value)
{
	return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

/* Number of a string, NULL being "". Bytes that are not UTF-8 become '?'. */
static int string_number(struct profile_builder *b, const char *text, uint32_t *number)
{
	size_t length = text ? strlen(text) : 0, i = 0, step;
	char *valid;
	int r;

	r = ARRAY_RESERVE(b->scratch, b->scratch_capacity, length + 1);
	if (r < 0)
		return r;
	valid = (char *)b->scratch;
	if (length)
		memcpy(valid, text, length);
	valid[length] = '\0';
	while (i < length) {
		step = utf8__sequence(valid + i, length - i);
		if (!step)
			valid[i] = '?';
		i += step ? step : 1;
	}
	r = intern__add(&b->strings, valid, length + 1, number);
	return r < 0 ? r : 0;
}

static int intern_words(struct profile_builder *b)
{
	uint32_t empty;

	/* The first string must be "". */
	if (string_number(b, "", &empty) || string_number(b, "samples", &b->words.samples) ||
	    string_number(b, "count", &b->words.count) || string_number(b, "cpu", &b->words.cpu) ||
	    string_number(b, "nanoseconds", &b->words.nanoseconds) || string_number(b, "pid", &b->words.pid) ||
	    string_number(b, "tid", &b->words.tid) || string_number(b, "comm", &b->words.comm) ||
	    string_number(b, "gil", &b->words.gil) || string_number(b, "state", &b->words.state))
		return -ENOMEM;
	return 0;
}

struct profile_builder *profile_builder__new(uint64_t time_ns, uint64_t duration_ns, uint64_t period_ns)
{
	_cleanup_(profile_builder) struct profile_builder *b = calloc(1, sizeof(*b));

	if (!b || intern_words(b))
		return NULL;
	b->time_ns = clamp_int64(time_ns);
	b->duration_ns = clamp_int64(duration_ns);
	b->period_ns = clamp_int64(period_ns);
	return TAKE_PTR(b);
}

struct profile_builder *profile_builder__new_values(uint64_t time_ns, uint64_t duration_ns,
						    const struct profile_value_type *types, size_t n,
						    size_t by_default)
{
	_cleanup_(profile_builder) struct profile_builder *b = NULL;

	if (!n || n > PROFILE_MAX_VALUES || by_default >= n)
		return NULL;
	b = profile_builder__new(time_ns, duration_ns, 0);
	for (size_t i = 0; b && i < n; i++) {
		if (string_number(b, types[i].type, &b->types[i].type) ||
		    string_number(b, types[i].unit, &b->types[i].unit))
			return NULL;
		b->n_types = i + 1;
	}
	if (b)
		b->by_default = by_default;
	return TAKE_PTR(b);
}

void profile_builder__free(struct profile_builder *b)
{
	if (!b)
		return;
	intern__clear(&b->strings);
	intern__clear(&b->mappings);
	intern__clear(&b->functions);
	intern__clear(&b->locations);
	intern__clear(&b->samples);
	intern__clear(&b->processes);
	free(b->values);
	free(b->comments);
	free(b->scratch);
	free(b);
}

uint64_t profile_builder__mapping(struct profile_builder *b, const struct profile_mapping *mapping)
{
	struct mapping_key key = { mapping->start, mapping->limit, mapping->offset, 0, 0 };
	uint32_t number;

	if (string_number(b, mapping->filename, &key.filename) ||
	    string_number(b, mapping->build_id, &key.build_id) ||
	    intern__add(&b->mappings, &key, sizeof(key), &number) < 0)
		return 0;
	return number + 1ull;
}

static int function_id(struct profile_builder *b, const struct profile_frame *frame, uint64_t *id)
{
	struct function_key key = { .start_line = frame->start_line };
	uint32_t number;
	int r;

	if (string_number(b, frame->name, &key.name) ||
	    string_number(b, frame->system_name ? frame->system_name : frame->name, &key.system_name) ||
	    string_number(b, frame->filename, &key.filename))
		return -ENOMEM;
	r = intern__add(&b->functions, &key, sizeof(key), &number);
	if (r < 0)
		return r;
	*id = number + 1ull;
	return 0;
}

uint64_t profile_builder__location_of(struct profile_builder *b, const struct profile_frame *frames, size_t n)
{
	uint64_t words[(sizeof(struct location_key) + PROFILE_MAX_INLINED * sizeof(struct location_line)) / 8];
	struct location_key *key = (struct location_key *)words;
	uint32_t number;
	size_t bytes;

	if (!n || n > PROFILE_MAX_INLINED || frames->mapping_id > b->mappings.n_keys)
		return 0;
	*key = (struct location_key){ frames->mapping_id, frames->address, 0 };
	for (size_t i = 0; i < n; i++) {
		struct location_line *line = &key->lines[key->n_lines];

		if (!frames[i].name || !*frames[i].name)
			continue;
		if (function_id(b, &frames[i], &line->function_id))
			return 0;
		line->line = frames[i].line;
		key->n_lines++;
	}
	bytes = sizeof(*key) + key->n_lines * sizeof(key->lines[0]);
	return intern__add(&b->locations, key, bytes, &number) < 0 ? 0 : number + 1ull;
}

uint64_t profile_builder__location(struct profile_builder *b, const struct profile_frame *frame)
{
	return profile_builder__location_of(b, frame, 1);
}

static const void *key_at(const struct intern *table, size_t number)
{
	return table->bytes + table->keys[number].offset;
}

static const char *string_at(const struct profile_builder *b, uint32_t number)
{
	return key_at(&b->strings, number);
}

static const struct location_key *location_at(const struct profile_builder *b, uint64_t location)
{
	return key_at(&b->locations, location - 1);
}

size_t profile_builder__frames(const struct profile_builder *b, uint64_t location)
{
	size_t n = location_at(b, location)->n_lines;

	return n ? n : 1;
}

void profile_builder__describe(const struct profile_builder *b, uint64_t location, size_t frame,
			       struct profile_frame *out, const char **mapping)
{
	const struct location_key *l = location_at(b, location);

	*out = (struct profile_frame){ .mapping_id = l->mapping_id,
				       .address = l->address,
				       .name = "",
				       .system_name = "",
				       .filename = "" };
	*mapping = "";
	if (l->mapping_id)
		*mapping = string_at(
			b, ((const struct mapping_key *)key_at(&b->mappings, l->mapping_id - 1))->filename);
	if (frame < l->n_lines) {
		const struct location_line *line = &l->lines[frame];
		const struct function_key *f = key_at(&b->functions, line->function_id - 1);

		out->name = string_at(b, f->name);
		out->system_name = string_at(b, f->system_name);
		out->filename = string_at(b, f->filename);
		out->start_line = f->start_line;
		out->line = line->line;
	}
}

uint32_t profile_builder__process(struct profile_builder *b, const struct process_labels *labels)
{
	const char *const all[PROCESS_LABELS][2] = {
		{ "rank", labels->rank },
		{ "local_rank", labels->local_rank },
		{ "world_size", labels->world_size },
		{ "container", labels->container },
		{ "pod", labels->pod },
	};
	struct process_key key = { { 0 }, { 0 } };
	uint32_t number;

	for (size_t i = 0; i < PROCESS_LABELS; i++) {
		if (all[i][1][0] &&
		    (string_number(b, all[i][0], &key.keys[i]) || string_number(b, all[i][1], &key.values[i])))
			return 0;
	}
	return intern__add(&b->processes, &key, sizeof(key), &number) < 0 ? 0 : number + 1;
}

static int sample_number(struct profile_builder *b, const uint64_t *locations, size_t n,
			 const struct sample_key *labels, uint32_t *number)
{
	struct sample_key *key;
	size_t bytes;

	if (n > UINT32_MAX || labels->process > b->processes.n_keys)
		return -EINVAL;
	bytes = sizeof(*key) + n * sizeof(key->locations[0]);
	if (ARRAY_RESERVE(b->scratch, b->scratch_capacity, bytes))
		return -ENOMEM;
	key = (struct sample_key *)b->scratch;
	*key = *labels;
	key->n_locations = (uint32_t)n;
	for (size_t i = 0; i < n; i++) {
		if (!locations[i] || locations[i] > b->locations.n_keys)
			return -EINVAL;
		key->locations[i] = (uint32_t)locations[i];
	}
	return intern__add(&b->samples, key, bytes, number);
}

/* Values that are kept of a sample. */
static size_t kept_values(const struct profile_builder *b)
{
	return b->n_types ? b->n_types : 1;
}

/* The sample's values, zero if it is a new one. */
static int find_sample(struct profile_builder *b, const uint64_t *locations, size_t n,
		       const struct profile_labels *labels, int64_t **values)
{
	struct sample_key key = { .pid = labels->pid, .tid = labels->tid, .process = labels->process };
	size_t kept = kept_values(b);
	uint32_t number;
	int r;

	/* Room for the values comes first: a sample that is in the table must have them. */
	r = ARRAY_RESERVE(b->values, b->values_capacity, (b->samples.n_keys + 1) * kept);
	if (r < 0)
		return r;
	r = string_number(b, labels->comm, &key.comm);
	r = r ?: string_number(b, labels->gil ?: "", &key.gil);
	r = r ?: string_number(b, labels->state ?: "", &key.state);
	r = r ?: string_number(b, labels->api ?: "", &key.api);
	if (key.api)
		r = r ?: string_number(b, "api", &b->words.api);
	if (r < 0)
		return r;
	r = sample_number(b, locations, n, &key, &number);
	if (r < 0)
		return r;
	*values = b->values + number * kept;
	if (r > 0)
		memset(*values, 0, kept * sizeof(**values));
	return 0;
}

int profile_builder__sample_labelled(struct profile_builder *b, const uint64_t *locations, size_t n,
				     uint64_t count, const struct profile_labels *labels)
{
	int64_t sum, ns, *value;
	int r;

	if (b->n_types)
		return -EINVAL;
	if (!count)
		return 0;
	r = find_sample(b, locations, n, labels, &value);
	if (r < 0)
		return r;
	/* Both values of the sample have to fit: the count, and the count times the period. */
	if (__builtin_add_overflow(*value, count, &sum) || __builtin_mul_overflow(sum, b->period_ns, &ns))
		return -EOVERFLOW;
	*value = sum;
	return 0;
}

int profile_builder__sample_values(struct profile_builder *b, const uint64_t *locations, size_t n,
				   const uint64_t *values, const struct profile_labels *labels)
{
	int64_t sums[PROFILE_MAX_VALUES], *kept;
	uint64_t any = 0;
	int r;

	if (!b->n_types)
		return -EINVAL;
	for (size_t i = 0; i < b->n_types; i++)
		any |= values[i];
	if (!any)
		return 0;
	r = find_sample(b, locations, n, labels, &kept);
	if (r < 0)
		return r;
	for (size_t i = 0; i < b->n_types; i++) {
		if (__builtin_add_overflow(kept[i], values[i], &sums[i]))
			return -EOVERFLOW;
	}
	memcpy(kept, sums, b->n_types * sizeof(*kept));
	return 0;
}

int profile_builder__comment(struct profile_builder *b, const char *key, const char *value)
{
	static const char form[] = "stakeout.%s=%s";
	size_t size = sizeof(form) + strlen(key) + strlen(value);
	_cleanup_free_ char *text = malloc(size);
	uint32_t number;

	if (!text || ARRAY_RESERVE(b->comments, b->comments_capacity, b->n_comments + 1))
		return -ENOMEM;
	snprintf(text, size, form, key, value);
	if (string_number(b, text, &number))
		return -ENOMEM;
	b->comments[b->n_comments++] = number;
	return 0;
}

/* The message as protobuf-c wants it: arrays of pointers to structures. The structures lie in few blocks. */
struct layout {
	Stakeout__Pprof__Profile profile;
	Stakeout__Pprof__ValueType types[PROFILE_MAX_VALUES];
	Stakeout__Pprof__ValueType *type_pointers[PROFILE_MAX_VALUES];
	void *blocks[20];
	size_t n_blocks;
};

static void layout__clear(struct layout *layout)
{
	while (layout->n_blocks)
		free(layout->blocks[--layout->n_blocks]);
}
CLEANUP_DEFINE(struct layout *, layout, layout__clear)

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

static int lay_out_strings(struct layout *layout, const struct profile_builder *b)
{
	Stakeout__Pprof__Profile *p = &layout->profile;

	p->n_string_table = b->strings.n_keys;
	p->string_table = layout__array(layout, p->n_string_table, sizeof(*p->string_table));
	p->n_comment = b->n_comments;
	p->comment = layout__array(layout, p->n_comment, sizeof(*p->comment));
	if (!p->string_table || !p->comment)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_string_table; i++)
		p->string_table[i] = (char *)intern__key(&b->strings, i);
	for (size_t i = 0; i < p->n_comment; i++)
		p->comment[i] = b->comments[i];
	return 0;
}

static int lay_out_mappings(struct layout *layout, const struct profile_builder *b)
{
	Stakeout__Pprof__Profile *p = &layout->profile;
	Stakeout__Pprof__Mapping *mappings;

	p->n_mapping = b->mappings.n_keys;
	p->mapping = layout__array(layout, p->n_mapping, sizeof(*p->mapping));
	mappings = layout__array(layout, p->n_mapping, sizeof(*mappings));
	if (!p->mapping || !mappings)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_mapping; i++) {
		const struct mapping_key *key = intern__key(&b->mappings, i);

		stakeout__pprof__mapping__init(&mappings[i]);
		mappings[i].id = i + 1;
		mappings[i].memory_start = key->start;
		mappings[i].memory_limit = key->limit;
		mappings[i].file_offset = key->offset;
		mappings[i].filename = key->filename;
		mappings[i].build_id = key->build_id;
		p->mapping[i] = &mappings[i];
	}
	return 0;
}

static int lay_out_functions(struct layout *layout, const struct profile_builder *b)
{
	Stakeout__Pprof__Profile *p = &layout->profile;
	Stakeout__Pprof__Function *functions;

	p->n_function = b->functions.n_keys;
	p->function = layout__array(layout, p->n_function, sizeof(*p->function));
	functions = layout__array(layout, p->n_function, sizeof(*functions));
	if (!p->function || !functions)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_function; i++) {
		const struct function_key *key = intern__key(&b->functions, i);

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

/*
 * A mapping's has_… flags tell pprof that it need not look for names itself. They are set where at least one frame
 * has them; where none has, pprof may try with the binary at hand.
 */
static void flag_mapping(struct layout *layout, const struct profile_builder *b, const struct location_key *key)
{
	Stakeout__Pprof__Mapping *mapping;

	if (!key->mapping_id || !key->n_lines)
		return;
	mapping = layout->profile.mapping[key->mapping_id - 1];
	mapping->has_functions = true;
	mapping->has_inline_frames |= key->n_lines > 1;
	for (size_t i = 0; i < key->n_lines; i++) {
		const struct function_key *function = intern__key(&b->functions, key->lines[i].function_id - 1);

		mapping->has_filenames |= function->filename != 0;
		mapping->has_line_numbers |= key->lines[i].line > 0;
	}
}

static size_t count_lines(const struct profile_builder *b)
{
	size_t n = 0;

	for (size_t i = 0; i < b->locations.n_keys; i++)
		n += ((const struct location_key *)intern__key(&b->locations, i))->n_lines;
	return n;
}

static int lay_out_locations(struct layout *layout, const struct profile_builder *b)
{
	Stakeout__Pprof__Profile *p = &layout->profile;
	size_t n_lines = count_lines(b);
	Stakeout__Pprof__Line *lines, **line_pointers;
	Stakeout__Pprof__Location *locations;

	p->n_location = b->locations.n_keys;
	p->location = layout__array(layout, p->n_location, sizeof(*p->location));
	locations = layout__array(layout, p->n_location, sizeof(*locations));
	lines = layout__array(layout, n_lines, sizeof(*lines));
	line_pointers = layout__array(layout, n_lines, sizeof(*line_pointers));
	if (!p->location || !locations || !lines || !line_pointers)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_location; i++) {
		const struct location_key *key = intern__key(&b->locations, i);

		stakeout__pprof__location__init(&locations[i]);
		locations[i].id = i + 1;
		locations[i].mapping_id = key->mapping_id;
		locations[i].address = key->address;
		locations[i].n_line = key->n_lines;
		locations[i].line = line_pointers;
		p->location[i] = &locations[i];
		for (size_t j = 0; j < key->n_lines; j++) {
			stakeout__pprof__line__init(lines);
			lines->function_id = key->lines[j].function_id;
			lines->line = key->lines[j].line;
			*line_pointers++ = lines++;
		}
		flag_mapping(layout, b, key);
	}
	return 0;
}

#define LABELS_MAX 6 /* pid, tid, comm, gil, state, api */

/* Writes the labels of a sample to labels[], which must have room for LABELS_MAX. Returns how many there are. */
static size_t lay_out_labels(const struct profile_builder *b, const struct sample_key *key,
			     Stakeout__Pprof__Label *labels)
{
	const struct {
		uint32_t key;
		int64_t str, num;
	} all[LABELS_MAX] = {
		{ b->words.pid, 0, key->pid },     { b->words.tid, 0, key->tid },
		{ b->words.comm, key->comm, 0 },   { b->words.gil, key->gil, 0 },
		{ b->words.state, key->state, 0 }, { b->words.api, key->api, 0 },
	};
	size_t n = 0;

	/* A label that is 0 and "" reads like one that is not there: leave it out. */
	for (size_t i = 0; i < LABELS_MAX; i++) {
		if (!all[i].str && !all[i].num)
			continue;
		stakeout__pprof__label__init(&labels[n]);
		labels[n].key = all[i].key;
		labels[n].str = all[i].str;
		labels[n++].num = all[i].num;
	}
	return n;
}

/* The labels of all processes: PROCESS_LABELS places each, which their samples share. */
static Stakeout__Pprof__Label *lay_out_processes(struct layout *layout, const struct profile_builder *b)
{
	Stakeout__Pprof__Label *labels =
		layout__array(layout, b->processes.n_keys, PROCESS_LABELS * sizeof(*labels));

	for (size_t i = 0; labels && i < b->processes.n_keys; i++) {
		const struct process_key *key = intern__key(&b->processes, i);

		for (size_t j = 0; j < PROCESS_LABELS; j++) {
			Stakeout__Pprof__Label *label = &labels[i * PROCESS_LABELS + j];

			stakeout__pprof__label__init(label);
			label->key = key->keys[j];
			label->str = key->values[j];
		}
	}
	return labels;
}

/* Appends to the n labels of a sample those of its process; returns how many there are. */
static size_t append_process(const struct sample_key *key, Stakeout__Pprof__Label *processes,
			     Stakeout__Pprof__Label **labels, size_t n)
{
	for (size_t i = 0; key->process && i < PROCESS_LABELS; i++) {
		Stakeout__Pprof__Label *label = &processes[(key->process - 1) * PROCESS_LABELS + i];

		if (label->str)
			labels[n++] = label;
	}
	return n;
}

/* Writes the values of a sample; returns how many. */
static size_t lay_out_values(const struct profile_builder *b, size_t sample, int64_t *values)
{
	if (b->n_types) {
		memcpy(values, b->values + sample * b->n_types, b->n_types * sizeof(*values));
		return b->n_types;
	}
	values[0] = b->values[sample];
	values[1] = b->values[sample] * b->period_ns; /* fits: profile_builder__sample_labelled() */
	return 2;
}

static int lay_out_samples(struct layout *layout, const struct profile_builder *b)
{
	Stakeout__Pprof__Profile *p = &layout->profile;
	size_t n_values = b->n_types ? b->n_types : 2;
	size_t n = b->samples.n_keys, n_ids = b->samples.bytes_used / sizeof(uint32_t);
	Stakeout__Pprof__Sample *samples = layout__array(layout, n, sizeof(*samples));
	Stakeout__Pprof__Label *labels = layout__array(layout, n, LABELS_MAX * sizeof(*labels));
	Stakeout__Pprof__Label *processes = lay_out_processes(layout, b);
	size_t n_places = LABELS_MAX + (b->processes.n_keys ? PROCESS_LABELS : 0);
	Stakeout__Pprof__Label **label_pointers = layout__array(layout, n, n_places * sizeof(*label_pointers));
	int64_t *values = layout__array(layout, n, n_values * sizeof(*values));
	uint64_t *ids =
		layout__array(layout, n_ids, sizeof(*ids)); /* n_ids: a bound, the keys hold more than ids */

	p->n_sample = n;
	p->sample = layout__array(layout, n, sizeof(*p->sample));
	if (!samples || !labels || !processes || !label_pointers || !values || !ids || !p->sample)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct sample_key *key = intern__key(&b->samples, i);

		stakeout__pprof__sample__init(&samples[i]);
		samples[i].n_location_id = key->n_locations;
		samples[i].location_id = ids;
		for (size_t j = 0; j < key->n_locations; j++)
			*ids++ = key->locations[j];
		samples[i].value = &values[n_values * i];
		samples[i].n_value = lay_out_values(b, i, samples[i].value);
		samples[i].n_label = lay_out_labels(b, key, &labels[i * LABELS_MAX]);
		samples[i].label = &label_pointers[i * n_places];
		for (size_t j = 0; j < samples[i].n_label; j++)
			samples[i].label[j] = &labels[i * LABELS_MAX + j];
		samples[i].n_label = append_process(key, processes, samples[i].label, samples[i].n_label);
		p->sample[i] = &samples[i];
	}
	return 0;
}

static void lay_out_types(struct layout *layout, const struct profile_builder *b)
{
	Stakeout__Pprof__Profile *p = &layout->profile;

	for (size_t i = 0; i < PROFILE_MAX_VALUES; i++) {
		stakeout__pprof__value_type__init(&layout->types[i]);
		layout->types[i].type = b->types[i].type;
		layout->types[i].unit = b->types[i].unit;
		layout->type_pointers[i] = &layout->types[i];
	}
	p->sample_type = layout->type_pointers;
	p->n_sample_type = b->n_types;
	p->default_sample_type = b->types[b->by_default].type;
	if (b->n_types)
		return;
	layout->types[0].type = b->words.samples;
	layout->types[0].unit = b->words.count;
	layout->types[1].type = b->words.cpu;
	layout->types[1].unit = b->words.nanoseconds;
	p->n_sample_type = 2;
	p->period_type = &layout->types[1];
	p->period = b->period_ns;
	p->default_sample_type = b->words.cpu;
}

static int lay_out(struct layout *layout, const struct profile_builder *b)
{
	Stakeout__Pprof__Profile *p = &layout->profile;
	int r;

	stakeout__pprof__profile__init(p);
	lay_out_types(layout, b);
	p->time_nanos = b->time_ns;
	p->duration_nanos = b->duration_ns;
	r = lay_out_strings(layout, b);
	if (!r)
		r = lay_out_mappings(layout, b);
	if (!r)
		r = lay_out_functions(layout, b);
	if (!r)
		r = lay_out_locations(layout, b);
	return r ? r : lay_out_samples(layout, b);
}

/* Takes packed bytes from protobuf-c, a few at a time, and deflates them by the block. */
struct gzip_sink {
	ProtobufCBuffer base;
	z_stream stream;
	unsigned char block[32 << 10];
	size_t block_used;
	uint8_t *out;
	size_t out_used, out_capacity;
	int error;
};

static void sink__deflate(struct gzip_sink *sink, const uint8_t *data, size_t length, int flush)
{
	int z;

	sink->stream.next_in = (unsigned char *)data;
	sink->stream.avail_in = (uInt)length;
	do {
		if (sink->error)
			return;
		sink->error =
			ARRAY_RESERVE(sink->out, sink->out_capacity, sink->out_used + sizeof(sink->block));
		if (sink->error)
			return;
		sink->stream.next_out = sink->out + sink->out_used;
		sink->stream.avail_out = sizeof(sink->block);
		z = deflate(&sink->stream, flush);
		sink->out_used += sizeof(sink->block) - sink->stream.avail_out;
		if (z == Z_STREAM_ERROR)
			sink->error = -EIO;
	} while (!sink->stream.avail_out);
}

static void sink__append(ProtobufCBuffer *base, size_t length, const uint8_t *data)
{
	struct gzip_sink *sink = (struct gzip_sink *)base;

	while (length && !sink->error) {
		size_t room = sizeof(sink->block) - sink->block_used, n = length < room ? length : room;

		memcpy(sink->block + sink->block_used, data, n);
		sink->block_used += n;
		data += n;
		length -= n;
		if (sink->block_used == sizeof(sink->block)) {
			sink__deflate(sink, sink->block, sink->block_used, Z_NO_FLUSH);
			sink->block_used = 0;
		}
	}
}

static void sink__clear(struct gzip_sink *sink)
{
	deflateEnd(&sink->stream);
	free(sink->out);
}
CLEANUP_DEFINE(struct gzip_sink *, gzip_sink, sink__clear)

int profile_builder__finish(struct profile_builder *b, uint8_t **out, size_t *length)
{
	struct layout storage = { .n_blocks = 0 };
	_cleanup_(layout) struct layout *layout = &storage;
	_cleanup_free_ struct gzip_sink *memory = calloc(1, sizeof(*memory));
	_cleanup_(gzip_sink) struct gzip_sink *sink = NULL;
	int r;

	if (!memory)
		return -ENOMEM;
	r = lay_out(layout, b);
	if (r < 0)
		return r;
	memory->base.append = sink__append;
	/*
	 * 15 + 16: a gzip header. Its time stamp stays 0, so that equal profiles are equal files. The fastest level
	 * takes half the time of the usual one and makes a tenth more of it.
	 */
	if (deflateInit2(&memory->stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	sink = memory;
	stakeout__pprof__profile__pack_to_buffer(&layout->profile, &sink->base);
	sink__deflate(sink, sink->block, sink->block_used, Z_FINISH);
	if (sink->error)
		return sink->error;
	*out = TAKE_PTR(sink->out);
	*length = sink->out_used;
	return 0;
}
