/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "stakeout/profile.pb-c.h"

/* Every allocation of the builder goes through these: the one after `allocations_left` others fails. */
static long allocations_left = -1; /* -1: none fails */
static long blocks_alive;

static bool allocation_fails(void)
{
	return allocations_left >= 0 && allocations_left-- == 0;
}

static void *counted_calloc(size_t n, size_t size)
{
	void *p = allocation_fails() ? NULL : calloc(n, size);

	blocks_alive += p != NULL;
	return p;
}

static void *counted_realloc(void *old, size_t size)
{
	void *p = allocation_fails() ? NULL : realloc(old, size);

	blocks_alive += p && !old;
	return p;
}

static void counted_free(void *p)
{
	blocks_alive -= p != NULL;
	free(p);
}

#define malloc(size)       counted_realloc(NULL, size)
#define calloc(n, size)    counted_calloc(n, size)
#define realloc(old, size) counted_realloc(old, size)
#define free(p)            counted_free(p)
#include "daemon/profile/pprof_tables.c"
#include "daemon/profile/profile_builder.c"
#undef malloc
#undef calloc
#undef realloc
#undef free

#include "profile/profile.h"
#include "tests/unit/thread_sample.h"

#define PERIOD_NS 10101010

struct packed {
	uint8_t *bytes;
	size_t length;
};

static struct packed finish(struct profile_builder *b)
{
	struct packed packed = { NULL, 0 };

	assert_int_equal(profile_builder__finish(b, &packed.bytes, &packed.length), 0);
	assert_non_null(packed.bytes);
	return packed;
}

/* Independent of the project's reader: zlib and protobuf-c alone. */
static Stakeout__Pprof__Profile *unpack(const struct packed *packed, struct packed *plain)
{
	z_stream z = { .next_in = packed->bytes, .avail_in = (uInt)packed->length };
	Stakeout__Pprof__Profile *message;

	plain->length = 64 << 20;
	plain->bytes = malloc(plain->length);
	assert_non_null(plain->bytes);
	z.next_out = plain->bytes;
	z.avail_out = (uInt)plain->length;
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	assert_int_equal(z.avail_in, 0);
	plain->length = z.total_out;
	inflateEnd(&z);
	message = stakeout__pprof__profile__unpack(NULL, plain->length, plain->bytes);
	assert_non_null(message);
	return message;
}

static void empty_profile_is_well_formed(void **state)
{
	struct profile_builder *b = profile_builder__new(1700000000000000000, 5000000000, PERIOD_NS);
	struct packed packed, plain;
	Stakeout__Pprof__Profile *m;

	assert_non_null(b);
	packed = finish(b);
	m = unpack(&packed, &plain);
	assert_string_equal(m->string_table[0], "");
	assert_int_equal(m->n_sample_type, 2);
	assert_string_equal(m->string_table[m->sample_type[0]->type], "samples");
	assert_string_equal(m->string_table[m->sample_type[0]->unit], "count");
	assert_string_equal(m->string_table[m->sample_type[1]->type], "cpu");
	assert_string_equal(m->string_table[m->sample_type[1]->unit], "nanoseconds");
	assert_string_equal(m->string_table[m->default_sample_type], "cpu");
	assert_string_equal(m->string_table[m->period_type->type], "cpu");
	assert_string_equal(m->string_table[m->period_type->unit], "nanoseconds");
	assert_int_equal(m->period, PERIOD_NS);
	assert_int_equal(m->time_nanos, 1700000000000000000);
	assert_int_equal(m->duration_nanos, 5000000000);
	assert_int_equal(m->n_sample + m->n_mapping + m->n_location + m->n_function + m->n_comment, 0);
	stakeout__pprof__profile__free_unpacked(m, NULL);
	free(plain.bytes);
	counted_free(packed.bytes);
	profile_builder__free(b);
	profile_builder__free(NULL);
}

static void equal_things_get_equal_numbers_without_gaps(void **state)
{
	struct profile_builder *b = profile_builder__new(0, 0, 1);
	struct profile_mapping lib = { 0x1000, 0x2000, 0x40, "/lib/libm.so.6", "abcd" }, other = lib;
	struct profile_frame f = { .mapping_id = 1, .address = 0x1234, .name = "sin", .line = 3 }, g = f;

	other.offset = 0x41;
	assert_int_equal(profile_builder__mapping(b, &lib), 1);
	assert_int_equal(profile_builder__mapping(b, &other), 2);
	assert_int_equal(profile_builder__mapping(b, &lib), 1);
	assert_int_equal(profile_builder__location(b, &f), 1);
	g.line = 4;
	assert_int_equal(profile_builder__location(b, &g), 2);
	assert_int_equal(profile_builder__location(b, &f), 1);
	g = f;
	g.system_name = "sin"; /* what NULL means */
	assert_int_equal(profile_builder__location(b, &g), 1);
	g.system_name = "_Zsin";
	assert_int_equal(profile_builder__location(b, &g), 3);
	/* Without a name only mapping and address count. */
	f.name = NULL;
	g = f;
	g.name = "";
	g.line = 99;
	assert_int_equal(profile_builder__location(b, &f), 4);
	assert_int_equal(profile_builder__location(b, &g), 4);
	f.mapping_id = 3;
	assert_int_equal(profile_builder__location(b, &f), 0);
	profile_builder__free(b);
}

static void samples_of_equal_stack_and_labels_add_up(void **state)
{
	struct profile_builder *b = profile_builder__new(0, 0, 1000);
	struct profile_frame frames[2] = { { .name = "inner" }, { .name = "outer" } };
	uint64_t stack[2], bad[2] = { 1, 3 };
	struct packed packed, plain;
	Stakeout__Pprof__Profile *m;

	for (int i = 0; i < 2; i++)
		stack[i] = profile_builder__location(b, &frames[i]);
	assert_int_equal(thread_sample(b, stack, 2, 5, 10, 11, "a"), 0);
	assert_int_equal(thread_sample(b, stack, 2, 7, 10, 11, "a"), 0);
	assert_int_equal(thread_sample(b, stack, 2, 1, 10, 12, "a"), 0);
	assert_int_equal(thread_sample(b, stack, 2, 1, 10, 11, "b"), 0);
	assert_int_equal(thread_sample(b, stack, 1, 1, 10, 11, "a"), 0);
	assert_int_equal(thread_sample(b, NULL, 0, 1, 0, 0, NULL), 0);
	assert_int_equal(thread_sample(b, stack, 2, 0, 99, 99, "none"), 0);
	assert_int_equal(thread_sample(b, bad, 2, 1, 10, 11, "a"), -EINVAL);
	bad[1] = 0;
	assert_int_equal(thread_sample(b, bad, 2, 1, 10, 11, "a"), -EINVAL);
	/* What does not fit changes nothing: neither the count … */
	assert_int_equal(thread_sample(b, stack, 2, INT64_MAX, 10, 11, "a"), -EOVERFLOW);
	/* … nor its product with the period. */
	assert_int_equal(thread_sample(b, stack, 2, INT64_MAX / 500, 10, 11, "a"), -EOVERFLOW);
	packed = finish(b);
	m = unpack(&packed, &plain);
	assert_int_equal(m->n_sample, 5);
	assert_int_equal(m->sample[0]->n_location_id, 2);
	assert_int_equal(m->sample[0]->location_id[0], stack[0]);
	assert_int_equal(m->sample[0]->value[0], 12);
	assert_int_equal(m->sample[0]->value[1], 12000);
	assert_int_equal(m->sample[0]->n_label, 3);
	/* Labels of nothing are left out. */
	assert_int_equal(m->sample[4]->n_label, 0);
	assert_int_equal(m->sample[4]->n_location_id, 0);
	stakeout__pprof__profile__free_unpacked(m, NULL);
	free(plain.bytes);
	counted_free(packed.bytes);
	profile_builder__free(b);
}

static void mappings_say_what_their_frames_have(void **state)
{
	struct profile_builder *b = profile_builder__new(0, 0, 1);
	struct profile_mapping mapping = { .filename = "a" };
	struct profile_frame frame = { .mapping_id = 1, .address = 1 };
	struct packed packed, plain;
	Stakeout__Pprof__Profile *m;

	for (const char *name = "a\0b\0c\0"; *name; name += 2) {
		mapping.filename = name;
		profile_builder__mapping(b, &mapping);
	}
	profile_builder__location(b, &frame);
	frame = (struct profile_frame){ .mapping_id = 2, .name = "f" };
	profile_builder__location(b, &frame);
	frame = (struct profile_frame){ .mapping_id = 3, .name = "f", .filename = "f.c", .line = 1 };
	profile_builder__location(b, &frame);
	packed = finish(b);
	m = unpack(&packed, &plain);
	assert_int_equal(m->n_mapping, 3);
	assert_false(m->mapping[0]->has_functions);
	assert_true(m->mapping[1]->has_functions && !m->mapping[1]->has_filenames);
	assert_true(m->mapping[2]->has_functions && m->mapping[2]->has_filenames &&
		    m->mapping[2]->has_line_numbers);
	assert_int_equal(m->location[0]->n_line, 0);
	stakeout__pprof__profile__free_unpacked(m, NULL);
	free(plain.bytes);
	counted_free(packed.bytes);
	profile_builder__free(b);
}

static void inlined_functions_share_a_location(void **state)
{
	struct profile_builder *b = profile_builder__new(0, 0, 1);
	struct profile_frame frames[PROFILE_MAX_INLINED + 1] = {
		{ .mapping_id = 1, .address = 16, .name = "inner", .filename = "inner.h", .line = 3 },
		{ .name = "" },
		{ .name = "outer", .system_name = "_Z5outerv", .filename = "outer.cpp", .line = 70 },
	};
	struct profile_frame described;
	struct packed packed, plain;
	Stakeout__Pprof__Profile *m;
	const char *mapping;
	uint64_t both, outer;

	assert_int_equal(profile_builder__mapping(b, &(struct profile_mapping){ .filename = "sim" }), 1);
	both = profile_builder__location_of(b, frames, 3);
	outer = profile_builder__location_of(b, &frames[2], 1);
	assert_true(both && outer && both != outer);
	assert_int_equal(profile_builder__location_of(b, frames, 3), both);
	assert_int_equal(profile_builder__location_of(b, frames, 0), 0);
	assert_int_equal(profile_builder__location_of(b, frames, PROFILE_MAX_INLINED + 1), 0);
	assert_int_equal(profile_builder__frames(b, both), 2);
	assert_int_equal(profile_builder__frames(b, outer), 1);
	profile_builder__describe(b, both, 0, &described, &mapping);
	assert_string_equal(described.name, "inner");
	assert_string_equal(mapping, "sim");
	profile_builder__describe(b, both, 1, &described, &mapping);
	assert_string_equal(described.name, "outer");
	assert_string_equal(described.system_name, "_Z5outerv");
	assert_string_equal(described.filename, "outer.cpp");
	assert_int_equal(described.line, 70);
	assert_int_equal(described.address, 16);
	packed = finish(b);
	m = unpack(&packed, &plain);
	assert_true(m->mapping[0]->has_inline_frames && m->mapping[0]->has_line_numbers);
	assert_int_equal(m->location[0]->n_line, 2);
	assert_int_equal(m->location[0]->line[0]->line, 3);
	assert_int_equal(m->location[0]->line[1]->line, 70);
	assert_int_equal(m->location[1]->n_line, 1);
	assert_int_equal(m->location[1]->line[0]->function_id, m->location[0]->line[1]->function_id);
	stakeout__pprof__profile__free_unpacked(m, NULL);
	free(plain.bytes);
	counted_free(packed.bytes);
	profile_builder__free(b);
}

/* A profile with one of everything. Returns 0 or the first error. */
static int build_example(struct profile_builder *b)
{
	struct profile_mapping lib = { 0x7f0000001000, 0x7f0000002000, 0x1000, "/usr/lib/libm.so.6",
				       "deadbeef" };
	struct profile_mapping kernel = { .filename = "[kernel.kallsyms]" };
	uint64_t lib_id = profile_builder__mapping(b, &lib), kernel_id = profile_builder__mapping(b, &kernel);
	const struct profile_frame frames[] = {
		{ .mapping_id = kernel_id, .address = 0xffffffff81000000, .name = "clear_page_erms" },
		{ .mapping_id = lib_id, .address = 0x1234, .name = "std::sin(double)", .system_name = "_Zsin" },
		{ .mapping_id = lib_id, .address = 0x5678 },
		{ .name = "step", .filename = "/app/env.py", .line = 42, .start_line = 40 },
		{ .name = "[truncated:no-rules]" },
	};
	uint64_t stack[5];

	if (!lib_id || !kernel_id)
		return -ENOMEM;
	for (size_t i = 0; i < 5; i++) {
		stack[i] = profile_builder__location(b, &frames[i]);
		if (!stack[i])
			return -ENOMEM;
	}
	for (int i = 0; i < 3; i++) {
		int r = thread_sample(b, stack + i, 5 - (size_t)i, 10 + (uint64_t)i, 100, 101 + i,
						"train");

		if (r < 0)
			return r;
	}
	return profile_builder__comment(b, "version", "0.1");
}

static void round_trip_through_the_reader(void **state)
{
	struct profile_builder *b = profile_builder__new(11, 22, PERIOD_NS);
	_cleanup_(profile) struct profile *p = NULL;
	const struct profile_line *line;
	struct so_error err = { "" };
	struct packed packed;

	assert_int_equal(build_example(b), 0);
	packed = finish(b);
	assert_int_equal(profile__read(packed.bytes, packed.length, &p, &err), 0);
	assert_int_equal(p->time_ns, 11);
	assert_int_equal(p->duration_ns, 22);
	assert_int_equal(p->period_ns, PERIOD_NS);
	assert_string_equal(profile__comment(p, "version"), "0.1");
	assert_null(profile__comment(p, "vers"));
	assert_int_equal(p->n_samples, 3);
	for (int i = 0; i < 3; i++) {
		const struct profile_sample *s = &p->samples[i];

		assert_int_equal(s->count, 10 + i);
		assert_int_equal(s->value_ns, (10 + i) * (int64_t)PERIOD_NS);
		assert_int_equal(s->pid, 100);
		assert_int_equal(s->tid, 101 + i);
		assert_string_equal(s->comm, "train");
		assert_int_equal(s->n_lines, 5 - i);
		assert_string_equal(p->lines[s->lines[4 - i]].function, "[truncated:no-rules]");
	}
	line = &p->lines[p->samples[0].lines[0]];
	assert_string_equal(line->function, "clear_page_erms");
	assert_true(line->kernel && !line->python && line->address == 0xffffffff81000000);
	line = &p->lines[p->samples[0].lines[1]];
	assert_string_equal(line->function, "std::sin(double)");
	assert_string_equal(line->mapping, "/usr/lib/libm.so.6");
	assert_true(!line->kernel && !line->python);
	line = &p->lines[p->samples[0].lines[2]];
	assert_string_equal(line->function, "");
	assert_int_equal(line->address, 0x5678);
	line = &p->lines[p->samples[0].lines[3]];
	assert_string_equal(line->filename, "/app/env.py");
	assert_true(line->python && line->line == 42 && !*line->mapping);
	counted_free(packed.bytes);
	profile_builder__free(b);
}

static void names_become_valid_utf8(void **state)
{
	static const char *const cases[][2] = {
		{ "caf\xc3\xa9", "caf\xc3\xa9" },
		{ "cut\xc3", "cut?" }, /* a comm cut at 15 bytes */
		{ "\xff\xfe", "??" },
		{ "\xc0\x80", "??" },           /* overlong */
		{ "\xed\xa0\x80", "???" },      /* surrogate */
		{ "\xf4\x90\x80\x80", "????" }, /* beyond U+10FFFF */
		{ "\xf0\x9f\x90\x8d", "\xf0\x9f\x90\x8d" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct profile_builder *b = profile_builder__new(0, 0, 1);
		_cleanup_(profile) struct profile *p = NULL;
		struct packed packed;

		assert_int_equal(thread_sample(b, NULL, 0, 1, 1, 1, cases[i][0]), 0);
		packed = finish(b);
		assert_int_equal(profile__read(packed.bytes, packed.length, &p, NULL), 0);
		assert_string_equal(p->samples[0].comm, cases[i][1]);
		counted_free(packed.bytes);
		profile_builder__free(b);
	}
}

static void finishing_twice_gives_the_same_and_the_builder_goes_on(void **state)
{
	struct profile_builder *b = profile_builder__new(0, 0, 1);
	struct packed first, second, third;

	assert_int_equal(build_example(b), 0);
	first = finish(b);
	second = finish(b);
	assert_int_equal(first.length, second.length);
	assert_memory_equal(first.bytes, second.bytes, first.length);
	assert_int_equal(thread_sample(b, NULL, 0, 1, 1, 1, "later"), 0);
	third = finish(b);
	assert_true(third.length > second.length);
	counted_free(first.bytes);
	counted_free(second.bytes);
	counted_free(third.bytes);
	profile_builder__free(b);
}

/* Whichever allocation fails: an error, nothing leaked, and the next attempt does better. */
static void every_allocation_may_fail(void **state)
{
	struct packed packed;
	long failing, before = blocks_alive;
	int r = -ENOMEM;

	for (failing = 0; r; failing++) {
		struct profile_builder *b;

		packed = (struct packed){ (uint8_t *)1, 1 };
		allocations_left = failing;
		b = profile_builder__new(0, 0, 1);
		r = b ? build_example(b) : -ENOMEM;
		if (!r)
			r = profile_builder__finish(b, &packed.bytes, &packed.length);
		allocations_left = -1;
		profile_builder__free(b);
		if (r) {
			assert_int_equal(r, -ENOMEM);
			assert_ptr_equal(packed.bytes, (uint8_t *)1);
			assert_int_equal(packed.length, 1);
		} else {
			counted_free(packed.bytes);
		}
		assert_int_equal(blocks_alive, before);
	}
	assert_true(failing > 20);
}

/* A failure in the middle leaves a builder that still packs to a valid profile. */
static void a_builder_survives_failures(void **state)
{
	for (long failing = 0; failing < 60; failing++) {
		struct profile_builder *b = profile_builder__new(0, 0, 1);
		_cleanup_(profile) struct profile *p = NULL;
		struct packed packed;

		allocations_left = failing;
		build_example(b);
		allocations_left = -1;
		assert_int_equal(build_example(b), 0);
		packed = finish(b);
		assert_int_equal(profile__read(packed.bytes, packed.length, &p, NULL), 0);
		assert_int_equal(p->n_samples, 3);
		assert_true(p->samples[0].count == 10 || p->samples[0].count == 20);
		counted_free(packed.bytes);
		profile_builder__free(b);
	}
}

static const struct profile_value_type three[] = { { "calls", "count" },
						   { "host_time", "nanoseconds" },
						   { "bytes", "bytes" } };

static const char *label_of(const Stakeout__Pprof__Profile *m, size_t sample, const char *key)
{
	const Stakeout__Pprof__Sample *s = m->sample[sample];

	for (size_t i = 0; i < s->n_label; i++)
		if (!strcmp(m->string_table[s->label[i]->key], key))
			return m->string_table[s->label[i]->str];
	return NULL;
}

static void other_values_are_kept_as_they_are(void **state)
{
	struct profile_builder *b = profile_builder__new_values(5, 6, three, 3, 2);
	const struct profile_labels launch = { .pid = 1, .tid = 2, .comm = "t", .api = "cudaLaunchKernel" };
	const struct profile_labels sync = { .pid = 1, .tid = 2, .comm = "t", .api = "cudaStreamSynchronize" };
	const uint64_t v[] = { 2, 300, 0 }, zero[3] = { 0 }, large[] = { 1, INT64_MAX, 7 };
	uint64_t location = profile_builder__location(b, &(struct profile_frame){ .name = "f" }), bad = 2;
	struct packed packed, plain;
	Stakeout__Pprof__Profile *m;

	assert_int_equal(profile_builder__sample_values(b, &location, 1, v, &launch), 0);
	assert_int_equal(profile_builder__sample_values(b, &location, 1, v, &sync), 0);
	assert_int_equal(profile_builder__sample_values(b, &location, 1, v, &launch), 0);
	/* What does not fit changes no value, not even those that would. */
	assert_int_equal(profile_builder__sample_values(b, &location, 1, large, &launch), -EOVERFLOW);
	assert_int_equal(profile_builder__sample_values(b, NULL, 0, zero, &launch), 0);
	assert_int_equal(profile_builder__sample_values(b, &bad, 1, v, &launch), -EINVAL);
	/* One form or the other. */
	assert_int_equal(thread_sample(b, &location, 1, 1, 1, 2, "t"), -EINVAL);
	packed = finish(b);
	m = unpack(&packed, &plain);
	assert_int_equal(m->n_sample_type, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(m->string_table[m->sample_type[i]->type], three[i].type);
		assert_string_equal(m->string_table[m->sample_type[i]->unit], three[i].unit);
	}
	assert_string_equal(m->string_table[m->default_sample_type], "bytes");
	assert_null(m->period_type);
	assert_int_equal(m->period, 0);
	assert_int_equal(m->time_nanos, 5);
	assert_int_equal(m->duration_nanos, 6);
	assert_int_equal(m->n_sample, 2);
	assert_int_equal(m->sample[0]->n_value, 3);
	assert_int_equal(m->sample[0]->value[0], 4);
	assert_int_equal(m->sample[0]->value[1], 600);
	assert_int_equal(m->sample[0]->value[2], 0);
	assert_int_equal(m->sample[1]->value[1], 300);
	assert_string_equal(label_of(m, 0, "api"), "cudaLaunchKernel");
	assert_string_equal(label_of(m, 1, "api"), "cudaStreamSynchronize");
	assert_string_equal(label_of(m, 0, "comm"), "t");
	assert_null(label_of(m, 0, "gil"));
	stakeout__pprof__profile__free_unpacked(m, NULL);
	free(plain.bytes);
	counted_free(packed.bytes);
	profile_builder__free(b);
}

static void samples_have_the_labels_of_their_process(void **state)
{
	struct profile_builder *b = profile_builder__new(1, 2, 3);
	const struct process_labels zero = { .rank = "0", .world_size = "2" },
				    one = { .rank = "1", .pod = "p" };
	uint32_t first = profile_builder__process(b, &zero), second = profile_builder__process(b, &one);
	struct profile_labels labels = { .pid = 1, .tid = 2, .comm = "t", .process = first };
	uint64_t location = profile_builder__location(b, &(struct profile_frame){ .name = "f" });
	_cleanup_(profile) struct profile *read = NULL;
	struct packed packed, plain;
	Stakeout__Pprof__Profile *m;

	assert_true(first && second && first != second);
	assert_int_equal(profile_builder__process(b, &zero), first);
	assert_int_equal(profile_builder__sample_labelled(b, &location, 1, 4, &labels), 0);
	assert_int_equal(profile_builder__sample_labelled(b, &location, 1, 4, &labels), 0);
	labels.process = second;
	assert_int_equal(profile_builder__sample_labelled(b, &location, 1, 1, &labels), 0);
	labels.process = 0;
	assert_int_equal(profile_builder__sample_labelled(b, &location, 1, 2, &labels), 0);
	labels.process = second + 1;
	assert_int_equal(profile_builder__sample_labelled(b, &location, 1, 2, &labels), -EINVAL);
	packed = finish(b);
	m = unpack(&packed, &plain);
	assert_int_equal(m->n_sample, 3);
	assert_int_equal(m->sample[0]->value[0], 8);
	assert_int_equal(m->sample[0]->n_label, 5);
	/* As a string: as a number, 0 would read like no label. */
	assert_string_equal(label_of(m, 0, "rank"), "0");
	assert_string_equal(label_of(m, 0, "world_size"), "2");
	assert_null(label_of(m, 0, "local_rank"));
	assert_string_equal(label_of(m, 0, "comm"), "t");
	assert_string_equal(label_of(m, 1, "rank"), "1");
	assert_string_equal(label_of(m, 1, "pod"), "p");
	assert_null(label_of(m, 1, "world_size"));
	assert_int_equal(m->sample[2]->n_label, 3);
	assert_int_equal(profile__read(packed.bytes, packed.length, &read, NULL), 0);
	assert_string_equal(read->samples[0].rank, "0");
	assert_string_equal(read->samples[1].rank, "1");
	assert_string_equal(read->samples[2].rank, "");
	stakeout__pprof__profile__free_unpacked(m, NULL);
	free(plain.bytes);
	counted_free(packed.bytes);
	profile_builder__free(b);
}

static void a_builder_has_one_to_four_values(void **state)
{
	struct profile_builder *two = profile_builder__new(0, 0, 1);
	const struct profile_labels labels = { .pid = 1 };
	const uint64_t values[2] = { 1, 1 };

	assert_null(profile_builder__new_values(0, 0, three, 0, 0));
	assert_null(profile_builder__new_values(0, 0, three, PROFILE_MAX_VALUES + 1, 0));
	assert_null(profile_builder__new_values(0, 0, three, 3, 3));
	assert_int_equal(profile_builder__sample_values(two, NULL, 0, values, &labels), -EINVAL);
	profile_builder__free(two);
}

static int build_values(struct profile_builder *b)
{
	uint64_t location = profile_builder__location(b, &(struct profile_frame){ .name = "f" });
	int r = location ? 0 : -ENOMEM;

	for (uint64_t i = 0; !r && i < 50; i++) {
		const uint64_t values[] = { 1, i, 0 };
		uint32_t process = profile_builder__process(b, &(struct process_labels){ .rank = "7" });

		if (!process)
			return -ENOMEM;
		r = profile_builder__sample_values(b, &location, 1, values,
						   &(struct profile_labels){ .pid = 1,
									     .tid = (pid_t)i,
									     .comm = "t",
									     .api = "cudaFree",
									     .process = process });
	}
	return r;
}

static void every_allocation_for_other_values_may_fail(void **state)
{
	long before = blocks_alive, failing;
	int r = -ENOMEM;

	for (failing = 0; r; failing++) {
		struct packed packed = { (uint8_t *)1, 1 };
		struct profile_builder *b;

		allocations_left = failing;
		b = profile_builder__new_values(0, 0, three, 3, 0);
		r = b ? build_values(b) : -ENOMEM;
		r = r ?: profile_builder__finish(b, &packed.bytes, &packed.length);
		allocations_left = -1;
		profile_builder__free(b);
		if (!r) {
			_cleanup_(profile) struct profile *p = NULL;
			int64_t sum = 0;

			assert_int_equal(
				profile__read_value(packed.bytes, packed.length, "host_time", &p, NULL), 0);
			for (size_t i = 0; i < p->n_samples; i++)
				sum += p->samples[i].count;
			assert_int_equal(p->n_samples, 50);
			assert_int_equal(sum, 49 * 50 / 2);
			counted_free(packed.bytes);
		} else {
			assert_int_equal(r, -ENOMEM);
			assert_ptr_equal(packed.bytes, (uint8_t *)1);
		}
		assert_int_equal(blocks_alive, before);
	}
	assert_true(failing > 20);
}

static void many_samples(void **state)
{
	enum { FRAMES = 500, SAMPLES = 100000, DEPTH = 20 };
	struct profile_builder *b = profile_builder__new(0, 0, 7);
	_cleanup_(profile) struct profile *p = NULL;
	uint64_t ids[FRAMES], stack[DEPTH], seed = 1;
	struct packed packed;
	int64_t total = 0;

	for (int i = 0; i < FRAMES; i++) {
		char name[32];

		snprintf(name, sizeof(name), "function_%d", i);
		ids[i] = profile_builder__location(b, &(struct profile_frame){ .name = name });
		assert_int_equal(ids[i], i + 1);
	}
	for (int i = 0; i < SAMPLES; i++) {
		for (int j = 0; j < DEPTH; j++) {
			seed = seed * 6364136223846793005 + 1442695040888963407;
			stack[j] = ids[(seed >> 33) % FRAMES];
		}
		assert_int_equal(thread_sample(b, stack, DEPTH, (uint64_t)(i % 3), 1, i % 50, "x"),
				 0);
	}
	packed = finish(b);
	assert_int_equal(profile__read(packed.bytes, packed.length, &p, NULL), 0);
	for (size_t i = 0; i < p->n_samples; i++)
		total += p->samples[i].count;
	assert_int_equal(total, SAMPLES / 3 * 3);
	assert_int_equal(p->n_lines, FRAMES);
	counted_free(packed.bytes);
	profile_builder__free(b);
}

static void interning(void **state)
{
	struct intern table = { .n_keys = 0 };
	uint32_t number;
	char key[64];

	/* The empty key is one, too. */
	assert_int_equal(intern__add(&table, "", 0, &number), 1);
	assert_int_equal(number, 0);
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 1; i < 50000; i++) {
			int n = snprintf(key, sizeof(key), "%.*u", (int)(i % 40), i);

			assert_int_equal(intern__add(&table, key, (size_t)n, &number), round ? 0 : 1);
			assert_int_equal(number, i);
		}
	}
	assert_int_equal(table.n_keys, 50000);
	assert_int_equal(intern__length(&table, 39), 39);
	assert_memory_equal(intern__key(&table, 39), "000000000000000000000000000000000000039", 39);
	/* A key that differs in its length only. */
	assert_int_equal(intern__add(&table, "\0", 1, &number), 1);
	assert_int_equal(intern__add(&table, "\0\0", 2, &number), 1);
	intern__clear(&table);
	assert_int_equal(table.n_keys, 0);
}

/* protoc must read the message by the schema, without a field that the schema does not know. */
static void protoc_decodes_it(void **state)
{
	static const char command[] = "protoc --proto_path=include --decode=stakeout.pprof.Profile "
				      "stakeout/profile.proto <";
	char path[] = "/tmp/stakeout-test-XXXXXX", line[512];
	struct profile_builder *b;
	struct packed packed, plain;
	int fd, samples = 0, unknown = 0;
	FILE *pipe;

	if (system("protoc --version >/dev/null 2>&1") || access("include/stakeout/profile.proto", R_OK))
		skip();
	b = profile_builder__new(0, 0, 1);
	assert_int_equal(build_example(b), 0);
	packed = finish(b);
	stakeout__pprof__profile__free_unpacked(unpack(&packed, &plain), NULL);
	fd = mkstemp(path);
	assert_int_equal(write(fd, plain.bytes, plain.length), plain.length);
	close(fd);
	snprintf(line, sizeof(line), "%s %s", command, path);
	pipe = popen(line, "r");
	assert_non_null(pipe);
	while (fgets(line, sizeof(line), pipe)) {
		samples += !strcmp(line, "sample {\n");
		unknown += line[strspn(line, " ")] >= '0' && line[strspn(line, " ")] <= '9';
	}
	unlink(path);
	assert_int_equal(pclose(pipe), 0);
	assert_int_equal(samples, 3);
	assert_int_equal(unknown, 0);
	free(plain.bytes);
	counted_free(packed.bytes);
	profile_builder__free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_profile_is_well_formed),
		cmocka_unit_test(equal_things_get_equal_numbers_without_gaps),
		cmocka_unit_test(samples_of_equal_stack_and_labels_add_up),
		cmocka_unit_test(mappings_say_what_their_frames_have),
		cmocka_unit_test(round_trip_through_the_reader),
		cmocka_unit_test(names_become_valid_utf8),
		cmocka_unit_test(finishing_twice_gives_the_same_and_the_builder_goes_on),
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(a_builder_survives_failures),
		cmocka_unit_test(other_values_are_kept_as_they_are),
		cmocka_unit_test(samples_have_the_labels_of_their_process),
		cmocka_unit_test(inlined_functions_share_a_location),
		cmocka_unit_test(a_builder_has_one_to_four_values),
		cmocka_unit_test(every_allocation_for_other_values_may_fail),
		cmocka_unit_test(many_samples),
		cmocka_unit_test(interning),
		cmocka_unit_test(protoc_decodes_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
