// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/profile/profile_export.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/profile/probe_time.h"
#include "daemon/symbols/demangle.h"
#include "daemon/symbols/perf_map.h"
#include "daemon/symbols/v8_name.h"
#include "daemon/profile/python_calls.h"
#include "profile/profile.h"

#define MAX_NAME 4096

/* How long an export that others wait for waits for source lines. */
#define LINES_HASTY_NS 500000000ull

/* The symbols of one process's just-in-time compiler; NULL map: it has none. */
struct jit {
	pid_t tgid;
	struct perf_map *map;
};

struct profile_export {
	const struct profile_source *source;
	struct profile_builder *builder;
	uint64_t kernel_mapping;
	struct kallsyms *kernel_symbols;                   /* a reference */
	uint64_t *file_mappings;                           /* by file number; 0: not made yet */
	struct u64_table kernel_locations, user_locations; /* frame -> location */
	uint64_t truncations[SO_TRUNC_COUNT];
	struct u64_table probe_parts; /* enum probe_part of kernel addresses */
	struct probe_evidence probes;
	uint64_t own_probes; /* location; 0: not made yet */
	uint32_t *processes; /* by number of the set of labels: its number in the builder; 0: not made yet */
	struct jit *jits;
	size_t n_jits;
	struct source_frames lines; /* of the address at hand */
	uint64_t lines_left_ns;     /* how long is waited for more of them */
	uint64_t without_lines;     /* addresses whose source lines there was no time for */
	uint64_t locations[SO_MAX_FRAMES + 2 + SO_MAX_PYTHON_FRAMES];
	struct python_calls calls; /* of the stack at hand */
	struct merged_frame merged[SO_MAX_USER_FRAMES + SO_MAX_PYTHON_FRAMES + 2];
};

static const char *const truncation_words[] = {
#define X(name, word, why) [SO_TRUNC_##name] = word,
	SO_TRUNCATIONS(X)
#undef X
};

static const char *const python_cut_names[] = {
#define X(name, word, why) [SO_PYTHON_STATE_##name] = "[python:" word "]",
	SO_PYTHON_STATES(X)
#undef X
};

/* The file that a thread waits for stands first, as if it were what the thread calls. */
static uint64_t waited_location(struct profile_export *x, uint32_t number)
{
	const char *path = x->source->waited ? file_names__get(x->source->waited, number) : NULL;
	char name[MAX_NAME];
	struct profile_frame frame = { .name = name };

	snprintf(name, sizeof(name), "[file %s]", path ?: "?");
	return profile_builder__location(x->builder, &frame);
}

/* The address to look a kernel frame up by: a return address may be the next function's first. */
static uint64_t kernel_key(const struct stack *stack, unsigned i)
{
	const uint64_t *frame = &stack->frames[stack->record.n_user + i];

	return *frame - !(i == 0 || FILE_FRAME_IS(frame[-1]));
}

static const char *kernel_name(struct profile_export *x, uint64_t key)
{
	return x->source->kernel ? kernel_symbols__lookup(x->source->kernel, &x->kernel_symbols, key,
							  x->source->since_ns, clock__now_ns())
				 : NULL;
}

static unsigned probe_parts(struct profile_export *x, const struct stack *stack)
{
	unsigned parts = 0;

	for (unsigned i = 0; i < stack->record.n_kernel; i++) {
		uint64_t key = kernel_key(stack, i);
		uint32_t part;

		if (!u64_table__get(&x->probe_parts, key, &part)) {
			part = FILE_FRAME_IS(key) ? PROBE_NONE : probe_part_of(kernel_name(x, key));
			u64_table__set(&x->probe_parts, key, part);
		}
		parts |= part;
	}
	return parts;
}

static bool is_own_probe(struct profile_export *x, const struct stack *stack)
{
	return probe_evidence__is_own(&x->probes, stack, probe_parts(x, stack));
}

static uint64_t own_probes_location(struct profile_export *x)
{
	struct profile_frame frame = { .name = PROFILE_OWN_PROBES };

	if (!x->own_probes)
		x->own_probes = profile_builder__location(x->builder, &frame);
	return x->own_probes;
}

void profile_export__look_for_probes(struct profile_export *x)
{
	const struct accumulator *acc = x->source->acc;

	for (size_t i = 0; x->source->kernel && i < acc->n_stacks; i++)
		probe_evidence__add(&x->probes, acc->stacks[i], probe_parts(x, acc->stacks[i]));
}

/*
 * By name alone: users whom /proc/kallsyms tells no address read profiles. Addresses help to attack the kernel.
 */
static uint64_t kernel_location(struct profile_export *x, const struct stack *stack, unsigned i)
{
	struct profile_frame frame = { .mapping_id = x->kernel_mapping };
	uint64_t key = kernel_key(stack, i), address = stack->frames[stack->record.n_user + i];
	uint64_t id;
	uint32_t at;

	if (FILE_FRAME_IS(address))
		return waited_location(x, FILE_FRAME_OF(address));
	if (u64_table__get(&x->kernel_locations, key, &at))
		return at;
	frame.name = kernel_name(x, key);
	id = profile_builder__location(x->builder, &frame);
	u64_table__set(&x->kernel_locations, key, id);
	return id;
}

static const struct perf_map *jit_map(struct profile_export *x, pid_t tgid)
{
	struct jit *more;

	for (size_t i = 0; i < x->n_jits; i++) {
		if (x->jits[i].tgid == tgid)
			return x->jits[i].map;
	}
	more = reallocarray(x->jits, x->n_jits + 1, sizeof(*more));
	if (!more)
		return NULL;
	x->jits = more;
	more[x->n_jits] = (struct jit){ .tgid = tgid };
	if (perf_map__read(tgid, &more[x->n_jits].map, NULL) && x->source->own_namespaces)
		perf_map__read_ended(tgid, x->source->uid, &more[x->n_jits].map, NULL);
	return more[x->n_jits++].map;
}

/* The names that the address may have had when the stack was sampled. */
static void jit_names_of(struct profile_export *x, const struct so_stack_record *r, uint64_t address,
			 struct perf_map_names *out)
{
	const struct perf_map *map = jit_map(x, (pid_t)r->tgid);
	uint64_t from, to;

	*out = (struct perf_map_names){ 0 };
	if (!map)
		return;
	if (jit_names__file_then(x->source->jits, (pid_t)r->tgid, r->names, &from, &to)) {
		perf_map__names_between(map, address, from, to, out);
		return;
	}
	out->list[0] = perf_map__lookup(map, address);
	out->n = out->list[0] != NULL;
}

/* "first or second [reused address]" */
static uint64_t reused_location(struct profile_export *x, struct profile_frame *frame,
				const struct perf_map_names *names)
{
	char all[MAX_NAME];
	size_t length = 0;

	for (unsigned i = 0; i < names->n && length < sizeof(all); i++) {
		_cleanup_free_ char *readable = demangle(names->list[i]);
		struct v8_name script;
		const char *name = readable ?: names->list[i];

		if (readable && v8_name__split(readable, &script))
			name = script.function;
		length += (size_t)snprintf(all + length, sizeof(all) - length, "%s%s", i ? " or " : "", name);
	}
	if (length < sizeof(all))
		snprintf(all + length, sizeof(all) - length, "%s [reused address]", names->more ? " or others" : "");
	frame->name = all;
	frame->system_name = ""; /* pprof would take one that is the same for a mangled one */
	return profile_builder__location(x->builder, frame);
}

/* mapped: the address lies in executable memory that belongs to no file, as just-in-time compilers make it. */
static uint64_t fileless_location(struct profile_export *x, const struct so_stack_record *r, uint64_t address,
				  bool mapped)
{
	_cleanup_free_ char *readable = NULL;
	struct profile_frame frame = { .address = address, .name = mapped ? "[jit]" : NULL };
	struct perf_map_names names;
	struct v8_name script;

	jit_names_of(x, r, address, &names);
	if (names.n > 1)
		return reused_location(x, &frame, &names);
	if (names.n) {
		readable = demangle(names.list[0]);
		frame.name = readable;
		frame.system_name = names.list[0];
	}
	if (readable && v8_name__split(readable, &script)) {
		frame.name = script.function;
		frame.filename = script.file;
		frame.line = frame.start_line = script.line;
	}
	return profile_builder__location(x->builder, &frame);
}

static uint64_t file_mapping(struct profile_export *x, uint32_t number, const struct file_entry *file)
{
	struct profile_mapping mapping = { .filename = file->path, .build_id = file->elf.build_id };

	if (!x->file_mappings[number])
		x->file_mappings[number] = profile_builder__mapping(x->builder, &mapping);
	return x->file_mappings[number];
}

/* The function is named by its symbol, as without source lines; only without a symbol by what its source calls it. */
static uint64_t sourced_location(struct profile_export *x, const struct profile_frame *symbol,
				 const struct source_frames *source)
{
	_Static_assert(SOURCE_MAX_FRAMES <= PROFILE_MAX_INLINED, "a location has room for all of them");
	struct profile_frame frames[SOURCE_MAX_FRAMES];
	char *readable[SOURCE_MAX_FRAMES] = { NULL };
	uint64_t id;

	for (size_t i = 0; i < source->n; i++) {
		const struct source_frame *from = &source->list[i];

		frames[i] = *symbol;
		frames[i].filename = from->file;
		frames[i].line = from->line;
		if (i + 1 == source->n && symbol->name)
			continue;
		readable[i] = demangle(from->function);
		frames[i].name = readable[i];
		frames[i].system_name = from->function;
	}
	id = profile_builder__location_of(x->builder, frames, source->n);
	for (size_t i = 0; i < source->n; i++)
		free(readable[i]);
	return id;
}

/* Into x->lines. What is known takes no time; all else is waited for, as long as is left of the export's patience. */
static void find_lines(struct profile_export *x, uint32_t number, uint64_t address)
{
	uint64_t began_ns = clock__now_ns(), took_ns;

	if (file_registry__source_lines(x->source->files, number, address, began_ns + x->lines_left_ns, &x->lines))
		x->without_lines++;
	took_ns = clock__now_ns() - began_ns;
	x->lines_left_ns -= took_ns < x->lines_left_ns ? took_ns : x->lines_left_ns;
}

static uint64_t file_location(struct profile_export *x, uint64_t address_frame)
{
	uint32_t number = SO_FRAME_FILE(address_frame), at;
	const struct file_entry *file = file_registry__get(x->source->files, number);
	struct profile_frame frame = { .address = SO_FRAME_ADDR(address_frame) };
	_cleanup_free_ char *readable = NULL;
	char raw[MAX_NAME];
	uint64_t start, id;

	if (u64_table__get(&x->user_locations, address_frame, &at))
		return at;
	if (file)
		frame.mapping_id = file_mapping(x, number, file);
	if (!file_registry__symbol(x->source->files, number, frame.address, raw, sizeof(raw), &start)) {
		readable = demangle(raw);
		frame.name = readable;
		frame.system_name = raw;
	}
	/* What the kernel calls in brackets already is shown so by all tools if it is a function's name. */
	if (!frame.name && file && file->path && file->path[0] == '[')
		frame.name = frame.system_name = file->path;
	find_lines(x, number, frame.address);
	if (!frame.name && !x->lines.n &&
	    !file_registry__unnamed(x->source->files, number, frame.address, raw, sizeof(raw)))
		frame.name = frame.system_name = raw;
	id = x->lines.n ? sourced_location(x, &frame, &x->lines) : profile_builder__location(x->builder, &frame);
	u64_table__set(&x->user_locations, address_frame, id);
	return id;
}

static uint64_t truncation_location(struct profile_export *x, unsigned cause)
{
	char name[64];
	struct profile_frame frame = { .name = name };

	if (cause >= SO_TRUNC_COUNT)
		cause = SO_TRUNC_TABLE_LOOKUP;
	if (!x->truncations[cause]) {
		snprintf(name, sizeof(name), "[truncated:%s]", truncation_words[cause]);
		x->truncations[cause] = profile_builder__location(x->builder, &frame);
	}
	return x->truncations[cause];
}

static uint64_t user_location(struct profile_export *x, const struct stack *stack, unsigned i)
{
	const struct so_stack_record *r = &stack->record;
	uint64_t frame = stack->frames[i];
	/* Only the frame at which a stack was cut for want of a mapping has none. */
	bool mapped = i + 1 < r->n_user || (r->cause != SO_TRUNC_NO_MAPPING && r->cause != SO_TRUNC_MAPS_PENDING);

	return SO_FRAME_FILE(frame) ? file_location(x, frame) : fileless_location(x, r, SO_FRAME_ADDR(frame), mapped);
}

static uint64_t python_location(struct profile_export *x, const struct python_frame *frame)
{
	/* A name equal to the system's would be taken for a mangled one: pprof makes "<unknown>" of "<lambda>". */
	struct profile_frame f = { .line = frame->line, .system_name = "" };

	if (!frame->function)
		return 0;
	f.name = frame->function->name;
	f.filename = frame->function->filename;
	f.start_line = frame->function->first_line;
	return profile_builder__location(x->builder, &f);
}

static uint64_t python_cut_location(struct profile_export *x, unsigned state)
{
	struct profile_frame frame = { .name = state < SO_PYTHON_STATE_COUNT ? python_cut_names[state] : NULL };

	return profile_builder__location(x->builder, &frame);
}

/* What 3.13 puts below a constructor run in place, to check what it returns; the interpreter itself hides it. */
static bool is_hidden(const struct python_frame *frame)
{
	return frame->function && !strcmp(frame->function->name, "__init__") &&
	       !strcmp(frame->function->filename, "__init__");
}

/* The user frames with the Python frames among them. */
static size_t merged_locations(struct profile_export *x, struct stack *stack, size_t n)
{
	const struct so_stack_record *r = &stack->record;
	const struct python_frame *python = stack__python(stack);
	struct merge_input *in = &x->calls.in;
	size_t n_merged, n_python;

	python_calls__describe(x->source->files, stack, &x->calls);
	n_python = in->n_python;
	/* Where the Python frames end too early, a frame of its own says why. */
	in->n_python += in->python_cut;
	n_merged = python_merge(in, x->merged);
	for (size_t i = 0; i < n_merged; i++) {
		const struct merged_frame *m = &x->merged[i];

		if (m->kind == MERGED_NATIVE)
			x->locations[n++] = user_location(x, stack, m->index);
		else if (m->kind == MERGED_CUT)
			x->locations[n++] = truncation_location(x, r->cause);
		else if (m->index < n_python && is_hidden(&python[m->index]))
			continue;
		else if (m->index < n_python)
			x->locations[n++] = python_location(x, &python[m->index]);
		else
			x->locations[n++] = python_cut_location(x, r->python);
	}
	return n;
}

/* Fills x->locations, leaf first; returns how many. */
static size_t stack_locations(struct profile_export *x, struct stack *stack)
{
	const struct so_stack_record *r = &stack->record;
	size_t n = 0;

	for (unsigned i = 0; i < r->n_kernel; i++)
		x->locations[n++] = kernel_location(x, stack, i);
	if (is_own_probe(x, stack)) {
		x->locations[n++] = own_probes_location(x);
		return n;
	}
	if (r->python != SO_PYTHON_STATE_NONE)
		return merged_locations(x, stack, n);
	for (unsigned i = 0; i < r->n_user; i++)
		x->locations[n++] = user_location(x, stack, i);
	if (r->cause != SO_TRUNC_NONE)
		x->locations[n++] = truncation_location(x, r->cause);
	return n;
}

const char *profile_export__gil(const struct stack *stack)
{
	const struct so_stack_record *r = &stack->record;

	if (r->python == SO_PYTHON_STATE_NONE || r->python == SO_PYTHON_STATE_NO_THREAD)
		return NULL;
	if (r->flags & SO_STACK_NO_GIL)
		return "disabled";
	return r->flags & SO_STACK_GIL ? "held" : "released";
}

int profile_export__locations(struct profile_export *x, struct stack *stack, const uint64_t **locations, size_t *n)
{
	size_t found = stack_locations(x, stack);

	for (size_t i = 0; i < found; i++) {
		if (!x->locations[i])
			return -ENOMEM;
	}
	*locations = x->locations;
	*n = found;
	return 0;
}

size_t profile_export__drop_kernel(struct profile_export *x, const struct stack *stack, size_t n)
{
	const struct so_stack_record *r = &stack->record;
	size_t first = r->n_kernel && FILE_FRAME_IS(stack->frames[r->n_user]) ? 1 : 0, kernel = r->n_kernel;

	memmove(&x->locations[first], &x->locations[kernel], (n - kernel) * sizeof(x->locations[0]));
	return n - kernel + first;
}

int64_t profile_export__time(const struct profile_source *source, const struct counter *c)
{
	if (!source->timed || !c->when_ns)
		return 0;
	return c->when_ns > source->since_ns ? (int64_t)(c->when_ns - source->since_ns) : 1;
}

uint32_t profile_export__process(struct profile_export *x, pid_t pid)
{
	uint32_t set = process_label_table__find(x->source->labels, pid);

	if (set == PROCESS_LABELS_NONE)
		return 0;
	if (!x->processes[set])
		x->processes[set] = profile_builder__process(x->builder, &x->source->labels->sets[set]);
	return x->processes[set];
}

int profile_export__stack(struct profile_export *x, struct stack *stack, uint64_t count, struct profile_labels *labels)
{
	const uint64_t *locations;
	size_t n;
	int ret = profile_export__locations(x, stack, &locations, &n);

	if (ret)
		return ret;
	labels->gil = profile_export__gil(stack);
	labels->process = profile_export__process(x, labels->pid);
	return profile_builder__sample_labelled(x->builder, locations, n, count, labels);
}

struct profile_export *profile_export__new(const struct profile_source *source, struct profile_builder *builder)
{
	struct profile_mapping kernel = { .filename = "[kernel.kallsyms]", .build_id = "" };
	struct profile_export *x = calloc(1, sizeof(*x));
	const struct file_entry *file;

	if (!x)
		return NULL;
	x->source = source;
	x->builder = builder;
	x->lines_left_ns = source->hasty ? LINES_HASTY_NS : file_registry__lines_patience_ns(source->files);
	x->file_mappings = calloc(SO_MAX_FILES + 1, sizeof(*x->file_mappings));
	x->processes = calloc(source->labels ? source->labels->n_sets + 1 : 1, sizeof(*x->processes));
	if (!x->file_mappings || !x->processes) {
		profile_export__free(x);
		return NULL;
	}
	if (source->kernel)
		x->kernel_symbols = kernel_symbols__get(source->kernel, clock__now_ns());
	file = source->main_file ? file_registry__get(source->files, source->main_file) : NULL;
	if (file)
		file_mapping(x, source->main_file, file);
	x->kernel_mapping = profile_builder__mapping(builder, &kernel);
	return x;
}

uint64_t profile_export__lines_missing(const struct profile_export *x)
{
	return x->without_lines;
}

int profile_export__comment(const struct profile_export *x)
{
	char number[24];

	snprintf(number, sizeof(number), "%" PRIu64, x->without_lines);
	return x->without_lines ? profile_builder__comment(x->builder, "lines-missing", number) : 0;
}

void profile_export__free(struct profile_export *x)
{
	if (!x)
		return;
	for (size_t i = 0; i < x->n_jits; i++)
		perf_map__free(x->jits[i].map);
	u64_table__release(&x->kernel_locations);
	u64_table__release(&x->probe_parts);
	probe_evidence__release(&x->probes);
	u64_table__release(&x->user_locations);
	kallsyms__unref(x->kernel_symbols);
	free(x->jits);
	free(x->processes);
	free(x->file_mappings);
	free(x);
}

int profile_export__samples(const struct profile_source *source, struct profile_builder *builder)
{
	struct profile_export *x = profile_export__new(source, builder);
	int ret = x ? 0 : -ENOMEM;
	uint32_t unused;

	if (x)
		profile_export__look_for_probes(x);
	for (size_t i = 0; !ret && i < source->acc->n_counters; i++) {
		const struct counter *c = &source->acc->counters[i];
		char comm[sizeof(c->comm) + 1];
		struct profile_labels labels = { .pid = c->tgid, .tid = c->tid, .comm = comm };

		if (c->kind != SAMPLE_CPU)
			continue;
		if (source->hidden && u64_table__get(source->hidden, c->tgid, &unused))
			continue;
		snprintf(comm, sizeof(comm), "%.16s", c->comm);
		labels.thread = thread_names__get(source->thread_names, (pid_t)c->tgid, c->tid);
		labels.time_ns = profile_export__time(source, c);
		ret = profile_export__stack(x, source->acc->stacks[c->stack], c->count, &labels);
	}
	ret = ret ?: profile_export__comment(x);
	profile_export__free(x);
	return ret;
}
