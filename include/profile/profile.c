/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads a pprof message, anybody's: every number is checked, sums for overflow; memory comes from bounded arenas. */
#include "profile/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/arena.h"
#include "profile/gunzip.h"
#include "profile/id_index.h"
#include "stakeout/profile.pb-c.h"

#define MEMORY_MAX      ((size_t)4 << 30)
#define MEMORY_PER_BYTE 64
#define MEMORY_MIN      ((size_t)16 << 20)
#define COMMENT_PREFIX  "stakeout."

typedef Stakeout__Pprof__Profile Message;

enum label_role {
	LABEL_OTHER,
	LABEL_PID,
	LABEL_TID,
	LABEL_COMM,
	LABEL_THREAD,
	LABEL_GIL,
	LABEL_STATE,
	LABEL_TIME,
	LABEL_AGE,
	LABEL_RANK,
	LABEL_LOCAL_RANK,
	LABEL_CONTAINER
};

/* Names under which tools give the process, the thread and its name. Without "comm" a thread's name is that. */
static const struct {
	const char *key;
	enum label_role role;
} label_names[] = {
	{ "pid", LABEL_PID },
	{ "process_id", LABEL_PID },
	{ "process id", LABEL_PID },
	{ "tid", LABEL_TID },
	{ "thread_id", LABEL_TID },
	{ "thread id", LABEL_TID },
	{ "comm", LABEL_COMM },
	{ "thread", LABEL_THREAD },
	{ "thread_name", LABEL_THREAD },
	{ "thread name", LABEL_THREAD },
	{ "gil", LABEL_GIL },
	{ "state", LABEL_STATE },
	{ "time_ns", LABEL_TIME },
	{ "age_ns", LABEL_AGE },
	{ "rank", LABEL_RANK },
	{ "local_rank", LABEL_LOCAL_RANK },
	{ "container", LABEL_CONTAINER },
};

/* How the values of a sample become a count and nanoseconds. */
struct value_plan {
	size_t count_index;
	int64_t count_unit_ns; /* not 0: the value is a time, which the period divides into a count */
	size_t time_index;     /* SIZE_MAX: none */
	int64_t time_unit_ns;
	size_t cpu_index; /* the same of CPU time */
	int64_t cpu_unit_ns;
	int64_t period_ns; /* 0: unknown */
};

struct reader {
	const Message *message;
	struct arena *arena; /* of the result */
	struct profile *profile;
	struct so_error *err;
	const char **strings;
	unsigned char *label_roles; /* enum label_role by string */
	struct id_index *mappings, *functions, *locations;
	uint32_t *first_line; /* by number of the location; one more than there are locations */
	const char *wanted;   /* type of the value to read; NULL: samples and CPU time */
	struct value_plan plan;
	int64_t total_count, total_ns, total_cpu_ns;
};

static int no_memory(const struct reader *r)
{
	if (arena__error(r->arena) == -EFBIG)
		return so_err(r->err, -EFBIG, "the profile needs more memory than its size can justify");
	return so_err(r->err, -ENOMEM, "not enough memory to read the profile");
}

static int damaged(const struct reader *r, const char *what, size_t number)
{
	return so_err(r->err, -EINVAL, "the profile is damaged: %s %zu refers to something that is not in it", what,
		      number);
}

/* NULL when there is no such string. */
static const char *string_at(const struct reader *r, int64_t index)
{
	return index >= 0 && (uint64_t)index < r->message->n_string_table ? r->strings[index] : NULL;
}

static int read_strings(struct reader *r)
{
	const Message *m = r->message;

	if (!m->n_string_table || m->string_table[0][0])
		return so_err(r->err, -EINVAL, "not a profile: its table of strings does not begin with an empty one");
	r->strings = arena__array(r->arena, m->n_string_table, sizeof(*r->strings));
	r->label_roles = arena__alloc(r->arena, m->n_string_table);
	if (!r->strings || !r->label_roles)
		return no_memory(r);
	for (size_t i = 0; i < m->n_string_table; i++) {
		size_t length = strlen(m->string_table[i]);
		char *copy = arena__alloc(r->arena, length + 1);

		if (!copy)
			return no_memory(r);
		r->strings[i] = memcpy(copy, m->string_table[i], length + 1);
		r->label_roles[i] = LABEL_OTHER;
		for (size_t j = 0; j < sizeof(label_names) / sizeof(label_names[0]); j++)
			if (!strcmp(copy, label_names[j].key))
				r->label_roles[i] = label_names[j].role;
	}
	return 0;
}

/* Nanoseconds in a unit of time, 0 if it is none. */
static int64_t unit_ns(const char *unit)
{
	static const struct {
		const char *name;
		int64_t ns;
	} units[] = {
		{ "nanoseconds", 1 },        { "ns", 1 },       { "microseconds", 1000 },  { "us", 1000 },
		{ "milliseconds", 1000000 }, { "ms", 1000000 }, { "seconds", 1000000000 }, { "s", 1000000000 },
	};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(unit, units[i].name))
			return units[i].ns;
	return 0;
}

static void read_times(struct reader *r)
{
	const Message *m = r->message;
	const char *unit = m->period_type ? string_at(r, m->period_type->unit) : NULL;
	int64_t ns = unit ? unit_ns(unit) : 0;

	r->profile->time_ns = m->time_nanos > 0 ? m->time_nanos : 0;
	r->profile->duration_ns = m->duration_nanos > 0 ? m->duration_nanos : 0;
	if (m->period <= 0 || !ns || __builtin_mul_overflow(m->period, ns, &r->plan.period_ns))
		r->plan.period_ns = 0;
	r->profile->period_ns = r->plan.period_ns;
}

/* The one value that was asked for. */
static int read_wanted_type(struct reader *r)
{
	const Message *m = r->message;
	size_t found = 0;

	r->plan.time_index = SIZE_MAX;
	for (size_t i = 0; i < m->n_sample_type; i++) {
		const char *type = string_at(r, m->sample_type[i]->type);

		if (!type || !string_at(r, m->sample_type[i]->unit))
			return damaged(r, "sample type", i + 1);
		if (strcmp(type, r->wanted))
			continue;
		r->plan.count_index = i;
		found++;
	}
	return found == 1 ? 0
			  : so_err(r->err, -ENODATA, "the profile has %s '%s' among its values",
				   found ? "more than one" : "no", r->wanted);
}

/* Wall time, as stakeout has it: the third value, behind samples and CPU time. */
static bool read_wall_type(struct reader *r)
{
	const Message *m = r->message;
	const char *type, *unit;

	if (m->n_sample_type != 3)
		return false;
	type = string_at(r, m->sample_type[2]->type);
	unit = string_at(r, m->sample_type[2]->unit);
	if (!type || !unit || strcmp(type, "wall") || strcmp(unit, "nanoseconds"))
		return false;
	r->profile->wall = true;
	r->plan.count_index = r->plan.time_index = 2;
	r->plan.time_unit_ns = 1;
	return true;
}

/* Looks a second, by which waiting threads were seen. */
static void read_observation(struct profile *p)
{
	const char *text = p->wall ? profile__comment(p, "wall_hz") : NULL;
	double hz = text ? strtod(text, NULL) : 0;

	if (p->wall && hz >= 1 && hz <= 1e6)
		p->observation = 1e9 / PROFILE_WALL_UNIT_NS / hz;
}

/*
 * Which values to use. Counts: samples/count, or else any "samples"; else the CPU time or else the first value, divided
 * by the period if it is a time and the period is known. Time: cpu in any unit of time, or none.
 */
static int read_sample_types(struct reader *r)
{
	const Message *m = r->message;
	struct value_plan *plan = &r->plan;
	size_t exact = SIZE_MAX, samples = SIZE_MAX;

	if (!m->n_sample_type)
		return so_err(r->err, -EINVAL, "not a profile: it does not say what its values are");
	r->profile->observation = 1;
	plan->cpu_index = SIZE_MAX;
	if (r->wanted)
		return read_wanted_type(r);
	plan->time_index = SIZE_MAX;
	for (size_t i = m->n_sample_type; i-- > 0;) {
		const char *type = string_at(r, m->sample_type[i]->type);
		const char *unit = string_at(r, m->sample_type[i]->unit);

		if (!type || !unit)
			return damaged(r, "sample type", i + 1);
		if (!strcmp(type, "samples") && !strcmp(unit, "count"))
			exact = i;
		if (!strcmp(type, "samples") && !unit_ns(unit))
			samples = i;
		if (!strcmp(type, "cpu") && unit_ns(unit)) {
			plan->time_index = plan->cpu_index = i;
			plan->time_unit_ns = plan->cpu_unit_ns = unit_ns(unit);
		}
	}
	if (read_wall_type(r))
		return 0;
	if (exact != SIZE_MAX || samples != SIZE_MAX) {
		plan->count_index = exact != SIZE_MAX ? exact : samples;
		return 0;
	}
	plan->count_index = plan->time_index != SIZE_MAX ? plan->time_index : 0;
	if (plan->period_ns)
		plan->count_unit_ns = unit_ns(string_at(r, m->sample_type[plan->count_index]->unit));
	return 0;
}

static bool is_kernel_file(const char *filename)
{
	return !strncmp(filename, "[kernel", 7) || !strncmp(filename, "[guest.kernel", 13) ||
	       !strncmp(filename, "[vmlinux", 8);
}

static bool is_python_file(const char *filename)
{
	size_t length = strlen(filename);

	return length > 3 && !strcmp(filename + length - 3, ".py");
}

/* A Python frame that the daemon could not read. */
static bool is_python_failure(const char *function)
{
	size_t length = strlen(function);

	return !strncmp(function, "[python:", 8) && function[length - 1] == ']';
}

static bool is_python(const Stakeout__Pprof__Location *location, const Stakeout__Pprof__Function *function,
		      const struct profile_line *line)
{
	if (line->kernel || !*line->function)
		return false;
	if (is_python_file(line->filename))
		return true;
	if (location->mapping_id)
		return false;
	if (!*line->filename)
		return is_python_failure(line->function);
	/* A script's that a just-in-time compiler has named lies at an address. */
	return !location->address && (line->line > 0 || function->start_line > 0);
}

static int index_ids(struct reader *r)
{
	const Message *m = r->message;
	const struct {
		const char *what;
		size_t n, offset;
		void *const *messages;
		struct id_index **index;
	} tables[] = {
		{ "mapping", m->n_mapping, offsetof(Stakeout__Pprof__Mapping, id), (void *const *)m->mapping,
		  &r->mappings },
		{ "function", m->n_function, offsetof(Stakeout__Pprof__Function, id), (void *const *)m->function,
		  &r->functions },
		{ "location", m->n_location, offsetof(Stakeout__Pprof__Location, id), (void *const *)m->location,
		  &r->locations },
	};

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		int e = id_index__new(r->arena, tables[i].messages, tables[i].n, tables[i].offset, tables[i].index);

		if (e == -EINVAL)
			return so_err(r->err, e, "the profile is damaged: two %ss have one number, or one has none",
				      tables[i].what);
		if (e)
			return no_memory(r);
	}
	return 0;
}

/* Fills what a line inherits from its location. */
static int read_location(const struct reader *r, size_t number, struct profile_line *out)
{
	const Stakeout__Pprof__Location *location = r->message->location[number];
	size_t mapping;

	*out = (struct profile_line){ .function = "", .filename = "", .mapping = "", .address = location->address };
	if (!location->mapping_id)
		return 0;
	mapping = id_index__find(r->mappings, location->mapping_id);
	if (mapping == ID_INDEX_NONE)
		return damaged(r, "location", number + 1);
	out->mapping = string_at(r, r->message->mapping[mapping]->filename);
	if (!out->mapping)
		return damaged(r, "mapping", mapping + 1);
	out->kernel = is_kernel_file(out->mapping);
	return 0;
}

static int read_line(const struct reader *r, size_t number, const Stakeout__Pprof__Line *line, struct profile_line *out)
{
	const Stakeout__Pprof__Function *function;
	size_t i;

	out->line = line->line > 0 ? line->line : 0;
	if (!line->function_id)
		return 0;
	i = id_index__find(r->functions, line->function_id);
	if (i == ID_INDEX_NONE)
		return damaged(r, "location", number + 1);
	function = r->message->function[i];
	out->function = string_at(r, function->name);
	out->filename = string_at(r, function->filename);
	if (!out->function || !out->filename || !string_at(r, function->system_name))
		return damaged(r, "function", i + 1);
	if (!*out->function)
		out->function = string_at(r, function->system_name);
	out->python = is_python(r->message->location[number], function, out);
	return 0;
}

/* A location without lines is one frame without a name. */
static size_t frames_of(const Stakeout__Pprof__Location *location)
{
	return location->n_line ? location->n_line : 1;
}

static int read_locations(struct reader *r)
{
	const Message *m = r->message;
	struct profile *p = r->profile;
	size_t total = 0;

	for (size_t i = 0; i < m->n_location; i++)
		total += frames_of(m->location[i]);
	if (total >= UINT32_MAX)
		return so_err(r->err, -EFBIG, "the profile has more than 4 billion frames");
	p->lines = arena__array(r->arena, total, sizeof(*p->lines));
	r->first_line = arena__array(r->arena, m->n_location + 1, sizeof(*r->first_line));
	if (!p->lines || !r->first_line)
		return no_memory(r);
	for (size_t i = 0; i < m->n_location; i++) {
		struct profile_line inherited;
		int e = read_location(r, i, &inherited);

		r->first_line[i] = (uint32_t)p->n_lines;
		for (size_t j = 0; !e && j < frames_of(m->location[i]); j++) {
			p->lines[p->n_lines] = inherited;
			if (m->location[i]->n_line)
				e = read_line(r, i, m->location[i]->line[j], &p->lines[p->n_lines]);
			p->n_lines++;
		}
		if (e)
			return e;
	}
	r->first_line[m->n_location] = (uint32_t)p->n_lines;
	return 0;
}

static int read_stack(struct reader *r, size_t number, struct profile_sample *out)
{
	const Stakeout__Pprof__Sample *sample = r->message->sample[number];
	uint32_t *lines;
	size_t n = 0;

	for (size_t i = 0; i < sample->n_location_id; i++) {
		size_t location = id_index__find(r->locations, sample->location_id[i]);

		if (location == ID_INDEX_NONE)
			return damaged(r, "sample", number + 1);
		n += r->first_line[location + 1] - r->first_line[location];
	}
	lines = arena__array(r->arena, n, sizeof(*lines));
	if (!lines)
		return no_memory(r);
	out->lines = lines;
	out->n_lines = n;
	for (size_t i = 0; i < sample->n_location_id; i++) {
		size_t location = id_index__find(r->locations, sample->location_id[i]);

		for (uint32_t line = r->first_line[location]; line < r->first_line[location + 1]; line++)
			*lines++ = line;
	}
	return 0;
}

/* A number that some tools write as a string. 0 when it is none. */
static int64_t label_number(int64_t num, const char *str)
{
	char *end;
	long long value;

	if (!*str)
		return num > 0 ? num : 0;
	errno = 0;
	value = strtoll(str, &end, 10);
	return !errno && !*end && value > 0 ? value : 0;
}

static enum profile_gil gil_state(const char *word)
{
	if (!strcmp(word, "held"))
		return PROFILE_GIL_HELD;
	if (!strcmp(word, "disabled"))
		return PROFILE_GIL_DISABLED;
	return strcmp(word, "released") ? PROFILE_GIL_NONE : PROFILE_GIL_RELEASED;
}

static int read_labels(const struct reader *r, size_t number, struct profile_sample *out)
{
	const Stakeout__Pprof__Sample *sample = r->message->sample[number];

	out->comm = "";
	out->thread = "";
	out->state = "";
	out->rank = "";
	out->local_rank = "";
	out->container = "";
	for (size_t i = 0; i < sample->n_label; i++) {
		const Stakeout__Pprof__Label *label = sample->label[i];
		const char *str = string_at(r, label->str);

		if (!string_at(r, label->key) || !str || !string_at(r, label->num_unit))
			return damaged(r, "sample", number + 1);
		switch ((enum label_role)r->label_roles[label->key]) {
		case LABEL_PID:
			out->pid = label_number(label->num, str);
			break;
		case LABEL_TID:
			out->tid = label_number(label->num, str);
			break;
		case LABEL_COMM:
			out->comm = str;
			break;
		case LABEL_THREAD:
			out->thread = str;
			break;
		case LABEL_GIL:
			out->gil = gil_state(str);
			break;
		case LABEL_STATE:
			out->state = str;
			break;
		case LABEL_TIME:
			out->time_ns = label->num > 0 ? label->num : 0;
			break;
		case LABEL_AGE:
			out->age_ns = label->num > 0 ? label->num : 0;
			break;
		case LABEL_RANK:
			out->rank = str;
			break;
		case LABEL_LOCAL_RANK:
			out->local_rank = str;
			break;
		case LABEL_CONTAINER:
			out->container = str;
			break;
		case LABEL_OTHER:
			break;
		}
	}
	if (!*out->comm) {
		out->comm = out->thread;
		out->thread = "";
	}
	return 0;
}

/* Whole periods in a time, to the nearest. */
static int64_t periods(int64_t ns, int64_t period_ns)
{
	return ns / period_ns + (ns % period_ns >= period_ns - period_ns / 2);
}

static int read_values(struct reader *r, size_t number, struct profile_sample *out)
{
	const Stakeout__Pprof__Sample *sample = r->message->sample[number];
	const struct value_plan *plan = &r->plan;

	if (sample->n_value != r->message->n_sample_type)
		return so_err(r->err, -EINVAL, "the profile is damaged: sample %zu has %zu values, not %zu", number + 1,
			      sample->n_value, r->message->n_sample_type);
	out->count = sample->value[plan->count_index];
	if (plan->time_index != SIZE_MAX)
		out->value_ns = sample->value[plan->time_index];
	if (plan->cpu_index != SIZE_MAX)
		out->cpu_ns = sample->value[plan->cpu_index];
	if (out->count < 0 || out->value_ns < 0 || out->cpu_ns < 0)
		return so_err(r->err, -EINVAL, "sample %zu has a negative value: this is a difference of two profiles",
			      number + 1);
	if (__builtin_mul_overflow(out->value_ns, plan->time_unit_ns, &out->value_ns) ||
	    __builtin_mul_overflow(out->cpu_ns, plan->cpu_unit_ns, &out->cpu_ns) ||
	    (plan->count_unit_ns && __builtin_mul_overflow(out->count, plan->count_unit_ns, &out->count)))
		return so_err(r->err, -EINVAL, "the profile is damaged: the time of sample %zu is too large",
			      number + 1);
	if (plan->count_unit_ns)
		out->count = periods(out->count, plan->period_ns);
	if (r->profile->wall)
		out->count = periods(out->count, PROFILE_WALL_UNIT_NS);
	/* So that nobody who adds them up needs to check. */
	if (__builtin_add_overflow(r->total_count, out->count, &r->total_count) ||
	    __builtin_add_overflow(r->total_ns, out->value_ns, &r->total_ns) ||
	    __builtin_add_overflow(r->total_cpu_ns, out->cpu_ns, &r->total_cpu_ns))
		return so_err(r->err, -EINVAL, "the profile is damaged: its values add up to more than 2^63");
	return 0;
}

static int read_samples(struct reader *r)
{
	struct profile *p = r->profile;
	int e = 0;

	p->samples = arena__array(r->arena, r->message->n_sample, sizeof(*p->samples));
	if (!p->samples)
		return no_memory(r);
	for (; !e && p->n_samples < r->message->n_sample; p->n_samples++) {
		struct profile_sample *sample = &p->samples[p->n_samples];

		memset(sample, 0, sizeof(*sample));
		e = read_stack(r, p->n_samples, sample);
		if (!e)
			e = read_labels(r, p->n_samples, sample);
		if (!e)
			e = read_values(r, p->n_samples, sample);
	}
	return e;
}

static int read_comments(struct reader *r)
{
	struct profile *p = r->profile;

	p->comments = arena__array(r->arena, r->message->n_comment, sizeof(*p->comments));
	if (!p->comments)
		return no_memory(r);
	for (; p->n_comments < r->message->n_comment; p->n_comments++) {
		p->comments[p->n_comments] = string_at(r, r->message->comment[p->n_comments]);
		if (!p->comments[p->n_comments])
			return damaged(r, "comment", p->n_comments + 1);
	}
	return 0;
}

static int read_message(struct reader *r)
{
	int e = read_strings(r);

	if (e)
		return e;
	read_times(r);
	e = read_sample_types(r);
	if (!e)
		e = index_ids(r);
	if (!e)
		e = read_locations(r);
	if (!e)
		e = read_samples(r);
	e = e ? e : read_comments(r);
	if (!e)
		read_observation(r->profile);
	return e;
}

static void *unpack_alloc(void *arena, size_t size)
{
	return arena__alloc(arena, size);
}

static void unpack_free(void *arena, void *p)
{
	/* With the arena. */
}

/* length: of the plain message. */
static size_t memory_limit(size_t length)
{
	size_t limit;

	if (__builtin_mul_overflow(length, MEMORY_PER_BYTE, &limit) || limit > MEMORY_MAX)
		return MEMORY_MAX;
	return limit > MEMORY_MIN ? limit : MEMORY_MIN;
}

static int unpack(const uint8_t *bytes, size_t length, struct arena *arena, Message **out, struct so_error *err)
{
	ProtobufCAllocator allocator = { unpack_alloc, unpack_free, arena };
	Message *message;

	if (!length)
		return so_err(err, -EINVAL, "not a profile: it is empty");
	message = stakeout__pprof__profile__unpack(&allocator, length, bytes);
	if (!message && arena__error(arena) == -EFBIG)
		return so_err(err, -EFBIG, "the profile needs more memory than its size can justify");
	if (!message && arena__error(arena))
		return so_err(err, -ENOMEM, "not enough memory to read the profile");
	if (!message)
		return so_err(err, -EINVAL,
			      "not a profile, or a truncated or damaged one: "
			      "it is not a pprof message");
	*out = message;
	return 0;
}

static int read_plain(const uint8_t *bytes, size_t length, const char *wanted, struct profile **out,
		      struct so_error *err)
{
	size_t limit = memory_limit(length);
	_cleanup_(arena) struct arena *scratch = arena__new(limit);
	_cleanup_(arena) struct arena *arena = arena__new(limit);
	struct reader reader = { .arena = arena, .err = err, .wanted = wanted };
	Message *message = NULL;
	int ret;

	if (!scratch || !arena)
		return so_err(err, -ENOMEM, "not enough memory to read the profile");
	ret = unpack(bytes, length, scratch, &message, err);
	if (ret < 0)
		return ret;
	reader.profile = arena__alloc(arena, sizeof(*reader.profile));
	if (!reader.profile)
		return no_memory(&reader);
	memset(reader.profile, 0, sizeof(*reader.profile));
	reader.message = message;
	ret = read_message(&reader);
	if (ret < 0)
		return ret;
	reader.profile->arena = TAKE_PTR(arena);
	*out = reader.profile;
	return 0;
}

/* type: NULL for samples and CPU time. */
static int read_any(const void *bytes, size_t length, const char *type, struct profile **out, struct so_error *err)
{
	_cleanup_free_ uint8_t *plain = NULL;
	size_t plain_length;
	int ret;

	if (length > PROFILE_MAX_BYTES)
		return so_err(err, -EFBIG, "the profile is larger than %llu MiB", PROFILE_MAX_BYTES >> 20);
	if (!gunzip__is_gzip(bytes, length))
		return read_plain(bytes, length, type, out, err);
	ret = gunzip(bytes, length, PROFILE_MAX_BYTES, &plain, &plain_length, err);
	return ret < 0 ? ret : read_plain(plain, plain_length, type, out, err);
}

int profile__read(const void *bytes, size_t length, struct profile **out, struct so_error *err)
{
	return read_any(bytes, length, NULL, out, err);
}

int profile__read_value(const void *bytes, size_t length, const char *type, struct profile **out, struct so_error *err)
{
	return read_any(bytes, length, type, out, err);
}

const char *profile__comment(const struct profile *profile, const char *key)
{
	size_t prefix = strlen(COMMENT_PREFIX), length = strlen(key);

	for (size_t i = 0; i < profile->n_comments; i++) {
		const char *text = profile->comments[i];

		if (!strncmp(text, COMMENT_PREFIX, prefix) && !strncmp(text + prefix, key, length) &&
		    text[prefix + length] == '=')
			return text + prefix + length + 1;
	}
	return NULL;
}

void profile__free(struct profile *profile)
{
	if (profile)
		arena__free(profile->arena);
}
