/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/profile/profile_builder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/profile/pprof_tables.h"
#include "stakeout/array.h"
#include "stakeout/utf8.h"

#define PROCESS_LABELS 5
#define LABELS_MAX     (10 + PROCESS_LABELS) /* pid, tid, comm, thread, gil, state, api, device, time_ns, age_ns */

/* Of one process: strings. */
struct process_key {
	uint32_t keys[PROCESS_LABELS], values[PROCESS_LABELS]; /* value 0: no such label */
};

struct profile_builder {
	struct pprof_tables tables;
	bool counts; /* the values are samples and CPU time; otherwise the caller's */
	struct intern processes;
	char *scratch; /* for the string that is looked up */
	size_t scratch_capacity;
	struct {
		uint32_t pid, tid, comm, gil, state, api, device, thread, time, age;
	} words; /* strings that every profile has; from "api" on only if a sample has such a label */
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
	int ret = ARRAY_RESERVE(b->scratch, b->scratch_capacity, length + 1);

	if (ret < 0)
		return ret;
	valid = b->scratch;
	if (length)
		memcpy(valid, text, length);
	valid[length] = '\0';
	while (i < length) {
		step = utf8__sequence(valid + i, length - i);
		if (!step)
			valid[i] = '?';
		i += step ? step : 1;
	}
	ret = intern__add(&b->tables.strings, valid, length + 1, number);
	return ret < 0 ? ret : 0;
}

static int intern_words(struct profile_builder *b)
{
	uint32_t empty;

	/* The first string must be "". */
	if (string_number(b, "", &empty) || string_number(b, "pid", &b->words.pid) ||
	    string_number(b, "tid", &b->words.tid) || string_number(b, "comm", &b->words.comm) ||
	    string_number(b, "gil", &b->words.gil) || string_number(b, "state", &b->words.state))
		return -ENOMEM;
	return 0;
}

struct profile_builder *profile_builder__new_values(uint64_t time_ns, uint64_t duration_ns,
						    const struct profile_value_type *types, size_t n, size_t by_default)
{
	_cleanup_(profile_builder) struct profile_builder *b = NULL;

	if (!n || n > PROFILE_MAX_VALUES || by_default >= n)
		return NULL;
	b = calloc(1, sizeof(*b));
	if (!b || intern_words(b))
		return NULL;
	b->tables.time_ns = clamp_int64(time_ns);
	b->tables.duration_ns = clamp_int64(duration_ns);
	b->tables.n_types = n;
	for (size_t i = 0; i < n; i++)
		if (string_number(b, types[i].type, &b->tables.types[i].type) ||
		    string_number(b, types[i].unit, &b->tables.types[i].unit))
			return NULL;
	b->tables.default_type = b->tables.types[by_default].type;
	return TAKE_PTR(b);
}

struct profile_builder *profile_builder__new(uint64_t time_ns, uint64_t duration_ns, uint64_t period_ns)
{
	static const struct profile_value_type types[] = { { "samples", "count" }, { "cpu", "nanoseconds" } };
	struct profile_builder *b = profile_builder__new_values(time_ns, duration_ns, types, 2, 1);

	if (!b)
		return NULL;
	b->counts = true;
	b->tables.period_type = b->tables.types[1];
	b->tables.period = clamp_int64(period_ns);
	return b;
}

struct profile_builder *profile_builder__new_wall(uint64_t time_ns, uint64_t duration_ns, uint64_t period_ns)
{
	static const struct profile_value_type types[] = { { "samples", "count" },
							   { "cpu", "nanoseconds" },
							   { "wall", "nanoseconds" } };
	struct profile_builder *b = profile_builder__new_values(time_ns, duration_ns, types, 3, 2);

	if (!b)
		return NULL;
	b->tables.period_type = b->tables.types[1];
	b->tables.period = clamp_int64(period_ns);
	return b;
}

void profile_builder__free(struct profile_builder *b)
{
	if (!b)
		return;
	pprof_tables__clear(&b->tables);
	intern__clear(&b->processes);
	free(b->scratch);
	free(b);
}

uint64_t profile_builder__mapping(struct profile_builder *b, const struct profile_mapping *mapping)
{
	struct pprof_mapping key = { mapping->start, mapping->limit, mapping->offset, 0, 0 };
	uint32_t number;

	if (string_number(b, mapping->filename, &key.filename) || string_number(b, mapping->build_id, &key.build_id) ||
	    pprof_tables__mapping(&b->tables, &key, &number) < 0)
		return 0;
	return number + 1ull;
}

static int function_id(struct profile_builder *b, const struct profile_frame *frame, uint64_t *id)
{
	struct pprof_function key = { .start_line = frame->start_line };
	uint32_t number;
	int ret;

	if (string_number(b, frame->name, &key.name) ||
	    string_number(b, frame->system_name ? frame->system_name : frame->name, &key.system_name) ||
	    string_number(b, frame->filename, &key.filename))
		return -ENOMEM;
	ret = intern__add(&b->tables.functions, &key, sizeof(key), &number);
	if (ret < 0)
		return ret;
	*id = number + 1ull;
	return 0;
}

/* The flags of a mapping are set where at least one frame has what they say. */
static void flag_mapping(struct profile_builder *b, const struct pprof_location *key, size_t n_lines)
{
	struct pprof_mapping_flags *flags;

	if (!key->mapping_id || !n_lines)
		return;
	flags = &b->tables.flags[key->mapping_id - 1];
	flags->functions = true;
	flags->inline_frames |= n_lines > 1;
	for (size_t i = 0; i < n_lines; i++) {
		const struct pprof_function *f = intern__key(&b->tables.functions, key->lines[i].function_id - 1);

		flags->filenames |= f->filename != 0;
		flags->line_numbers |= key->lines[i].line > 0;
	}
}

uint64_t profile_builder__location_of(struct profile_builder *b, const struct profile_frame *frames, size_t n)
{
	uint64_t words[(sizeof(struct pprof_location) + PROFILE_MAX_INLINED * sizeof(struct pprof_line)) / 8];
	struct pprof_location *key = (struct pprof_location *)words;
	size_t n_lines = 0;
	uint32_t number;

	if (!n || n > PROFILE_MAX_INLINED || frames->mapping_id > b->tables.mappings.n_keys)
		return 0;
	*key = (struct pprof_location){ .address = frames->address, .mapping_id = (uint32_t)frames->mapping_id };
	for (size_t i = 0; i < n; i++) {
		struct pprof_line *line = &key->lines[n_lines];

		if (!frames[i].name || !*frames[i].name)
			continue;
		if (function_id(b, &frames[i], &line->function_id))
			return 0;
		line->line = frames[i].line;
		line->column = 0;
		n_lines++;
	}
	if (intern__add(&b->tables.locations, key, sizeof(*key) + n_lines * sizeof(key->lines[0]), &number) < 0)
		return 0;
	flag_mapping(b, key, n_lines);
	return number + 1ull;
}

uint64_t profile_builder__location(struct profile_builder *b, const struct profile_frame *frame)
{
	return profile_builder__location_of(b, frame, 1);
}

static const char *string_at(const struct profile_builder *b, uint32_t number)
{
	return intern__key(&b->tables.strings, number);
}

size_t profile_builder__frames(const struct profile_builder *b, uint64_t location)
{
	size_t n = pprof_tables__lines(&b->tables, location - 1);

	return n ? n : 1;
}

void profile_builder__describe(const struct profile_builder *b, uint64_t location, size_t frame,
			       struct profile_frame *out, const char **mapping)
{
	const struct pprof_location *l = intern__key(&b->tables.locations, location - 1);

	*out = (struct profile_frame){
		.mapping_id = l->mapping_id, .address = l->address, .name = "", .system_name = "", .filename = ""
	};
	*mapping = "";
	if (l->mapping_id) {
		const struct pprof_mapping *m = intern__key(&b->tables.mappings, l->mapping_id - 1);

		*mapping = string_at(b, m->filename);
	}
	if (frame < pprof_tables__lines(&b->tables, location - 1)) {
		const struct pprof_line *line = &l->lines[frame];
		const struct pprof_function *f = intern__key(&b->tables.functions, line->function_id - 1);

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

/* Appends a label. One that is 0 and "" reads like one that is not there: it is left out. */
static void add_label(struct pprof_label *labels, size_t *n, uint32_t key, uint32_t str, int64_t num)
{
	if (str || num)
		labels[(*n)++] = (struct pprof_label){ .key = key, .str = str, .num = num };
}

static int take_labels(struct profile_builder *b, const struct profile_labels *from, struct pprof_label *labels,
		       size_t *n)
{
	uint32_t comm, gil, state, api, device, thread;

	if (from->process > b->processes.n_keys)
		return -EINVAL;
	if (string_number(b, from->comm, &comm) || string_number(b, from->gil, &gil) ||
	    string_number(b, from->state, &state) || string_number(b, from->api, &api) ||
	    string_number(b, from->device, &device) || string_number(b, from->thread, &thread) ||
	    (device && string_number(b, "device", &b->words.device)) ||
	    (api && string_number(b, "api", &b->words.api)) ||
	    (thread && string_number(b, "thread", &b->words.thread)) ||
	    (from->time_ns && string_number(b, "time_ns", &b->words.time)) ||
	    (from->age_ns && string_number(b, "age_ns", &b->words.age)))
		return -ENOMEM;
	*n = 0;
	add_label(labels, n, b->words.pid, 0, from->pid);
	add_label(labels, n, b->words.tid, 0, from->tid);
	add_label(labels, n, b->words.comm, comm, 0);
	add_label(labels, n, b->words.thread, thread, 0);
	add_label(labels, n, b->words.gil, gil, 0);
	add_label(labels, n, b->words.state, state, 0);
	add_label(labels, n, b->words.api, api, 0);
	add_label(labels, n, b->words.device, device, 0);
	if (from->time_ns)
		add_label(labels, n, b->words.time, 0, from->time_ns);
	if (from->age_ns)
		add_label(labels, n, b->words.age, 0, from->age_ns);
	if (from->process) {
		const struct process_key *key = intern__key(&b->processes, from->process - 1);

		for (size_t i = 0; i < PROCESS_LABELS; i++)
			add_label(labels, n, key->keys[i], key->values[i], 0);
	}
	return 0;
}

/* All values are added, or none. */
static int add_sample(struct profile_builder *b, const uint64_t *locations, size_t n, const uint64_t *values,
		      const struct profile_labels *from)
{
	struct pprof_label labels[LABELS_MAX];
	int64_t sums[PROFILE_MAX_VALUES], *kept;
	uint32_t *stack;
	size_t n_labels;
	int ret = take_labels(b, from, labels, &n_labels);

	if (ret)
		return ret;
	stack = n > UINT32_MAX ? NULL : pprof_tables__stack(&b->tables, n);
	if (!stack)
		return n > UINT32_MAX ? -EINVAL : -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (!locations[i] || locations[i] > b->tables.locations.n_keys)
			return -EINVAL;
		stack[i] = (uint32_t)locations[i];
	}
	ret = pprof_tables__sample(&b->tables, n, labels, n_labels, &kept);
	if (ret)
		return ret;
	for (size_t i = 0; i < b->tables.n_types; i++)
		if (__builtin_add_overflow(kept[i], values[i], &sums[i]))
			return -EOVERFLOW;
	memcpy(kept, sums, b->tables.n_types * sizeof(*kept));
	return 0;
}

int profile_builder__sample_labelled(struct profile_builder *b, const uint64_t *locations, size_t n, uint64_t count,
				     const struct profile_labels *labels)
{
	uint64_t values[] = { count, 0 };

	if (!b->counts)
		return -EINVAL;
	if (__builtin_mul_overflow(count, (uint64_t)b->tables.period, &values[1]))
		return -EOVERFLOW;
	return count ? add_sample(b, locations, n, values, labels) : 0;
}

int profile_builder__sample_values(struct profile_builder *b, const uint64_t *locations, size_t n,
				   const uint64_t *values, const struct profile_labels *labels)
{
	uint64_t any = 0;

	if (b->counts)
		return -EINVAL;
	for (size_t i = 0; i < b->tables.n_types; i++)
		any |= values[i];
	return any ? add_sample(b, locations, n, values, labels) : 0;
}

int profile_builder__comment(struct profile_builder *b, const char *key, const char *value)
{
	static const char form[] = "stakeout.%s=%s";
	size_t size = sizeof(form) + strlen(key) + strlen(value);
	_cleanup_free_ char *text = malloc(size);
	struct pprof_comment comment = { .is_sum = false };

	if (!text)
		return -ENOMEM;
	snprintf(text, size, form, key, value);
	return string_number(b, text, &comment.text) ? -ENOMEM : pprof_tables__comment(&b->tables, &comment);
}

int profile_builder__number(struct profile_builder *b, const char *key, const char *word, uint64_t value)
{
	char name[64], text[32];

	snprintf(name, sizeof(name), word ? "%s.%s" : "%s", key, word);
	snprintf(text, sizeof(text), "%" PRIu64, value);
	return profile_builder__comment(b, name, text);
}

int profile_builder__finish(struct profile_builder *b, uint8_t **out, size_t *length)
{
	return pprof_tables__pack(&b->tables, true, SIZE_MAX, out, length);
}
