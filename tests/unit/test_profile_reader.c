/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The reader against profiles as other tools write them, and against damaged ones. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "profile/arena.h"
#include "profile/gunzip.h"
#include "profile/id_index.h"
#include "profile/profile.h"
#include "stakeout/profile.pb-c.h"

/* A small profile with a place for everything that a test may want to change. */
struct example {
	Stakeout__Pprof__Profile m;
	Stakeout__Pprof__ValueType types[3], *type_pointers[3], period_type;
	Stakeout__Pprof__Mapping mappings[2], *mapping_pointers[2];
	Stakeout__Pprof__Function functions[3], *function_pointers[3];
	Stakeout__Pprof__Line lines[4], *line_pointers[4];
	Stakeout__Pprof__Location locations[3], *location_pointers[3];
	Stakeout__Pprof__Label labels[3], *label_pointers[3];
	Stakeout__Pprof__Sample samples[2], *sample_pointers[2];
	uint64_t stack[3];
	int64_t values[2][3], comment[1];
	char *strings[32];
};

enum {
	S_EMPTY,
	S_SAMPLES,
	S_COUNT,
	S_CPU,
	S_NS,
	S_LIB,
	S_KERNEL,
	S_MAIN,
	S_INLINED,
	S_PY,
	S_FILE_C,
	S_FILE_PY,
	S_PID,
	S_TID,
	S_COMM,
	S_TRAIN,
	S_COMMENT,
	S_NUMBER,
	S_OTHER,
	S_N
};

#define POINT(message, pointers, field, array, init)                                       \
	do {                                                                               \
		(message)->n_##field = sizeof(pointers) / sizeof((pointers)[0]);           \
		(message)->field = pointers;                                               \
		for (size_t i_ = 0; i_ < sizeof(pointers) / sizeof((pointers)[0]); i_++) { \
			init(&(array)[i_]);                                                \
			(pointers)[i_] = &(array)[i_];                                     \
		}                                                                          \
	} while (0)

static void example__strings(struct example *e)
{
	static char *const strings[S_N] = { "",
					    "samples",
					    "count",
					    "cpu",
					    "nanoseconds",
					    "/lib/libfoo.so.1",
					    "[kernel.kallsyms]_text",
					    "main",
					    "inlined",
					    "step",
					    "main.c",
					    "env.py",
					    "pid",
					    "tid",
					    "comm",
					    "train",
					    "stakeout.key=value=x",
					    "4711",
					    "other" };

	memcpy(e->strings, strings, sizeof(strings));
	e->m.string_table = e->strings;
	e->m.n_string_table = S_N;
}

static void example__frames(struct example *e)
{
	for (int i = 0; i < 2; i++)
		e->mappings[i].id = (uint64_t)i + 1;
	e->mappings[0].filename = S_LIB;
	e->mappings[1].filename = S_KERNEL;
	for (int i = 0; i < 3; i++) {
		e->functions[i].id = (uint64_t)i + 1;
		e->locations[i].id = (uint64_t)i + 1;
		e->locations[i].address = 0x100 * (uint64_t)i;
		e->stack[i] = (uint64_t)i + 1;
	}
	e->functions[0].name = S_MAIN;
	e->functions[0].filename = S_FILE_C;
	e->functions[1].name = S_INLINED;
	e->functions[2].name = S_PY;
	e->functions[2].filename = S_FILE_PY;
	for (int i = 0; i < 4; i++) {
		stakeout__pprof__line__init(&e->lines[i]);
		e->line_pointers[i] = &e->lines[i];
	}
	/* Location 1: "inlined", which was inlined into "main". Location 2: Python. Location 3: kernel, no name. */
	e->lines[0].function_id = 2;
	e->lines[1].function_id = 1;
	e->lines[1].line = 7;
	e->lines[2].function_id = 3;
	e->lines[2].line = 42;
	e->locations[0].mapping_id = 1;
	e->locations[0].n_line = 2;
	e->locations[0].line = &e->line_pointers[0];
	e->locations[1].n_line = 1;
	e->locations[1].line = &e->line_pointers[2];
	e->locations[2].mapping_id = 2;
}

static void example__samples(struct example *e)
{
	for (int i = 0; i < 2; i++) {
		e->samples[i].n_location_id = 3;
		e->samples[i].location_id = e->stack;
		e->samples[i].n_value = 2;
		e->samples[i].value = e->values[i];
		e->values[i][0] = 3 + i;
		e->values[i][1] = 30 + 10 * i;
	}
	POINT(&e->samples[0], e->label_pointers, label, e->labels, stakeout__pprof__label__init);
	e->labels[0].key = S_PID;
	e->labels[0].num = 100;
	e->labels[1].key = S_TID;
	e->labels[1].num = 101;
	e->labels[2].key = S_COMM;
	e->labels[2].str = S_TRAIN;
}

static void example__init(struct example *e)
{
	memset(e, 0, sizeof(*e));
	stakeout__pprof__profile__init(&e->m);
	POINT(&e->m, e->type_pointers, sample_type, e->types, stakeout__pprof__value_type__init);
	POINT(&e->m, e->mapping_pointers, mapping, e->mappings, stakeout__pprof__mapping__init);
	POINT(&e->m, e->function_pointers, function, e->functions, stakeout__pprof__function__init);
	POINT(&e->m, e->location_pointers, location, e->locations, stakeout__pprof__location__init);
	POINT(&e->m, e->sample_pointers, sample, e->samples, stakeout__pprof__sample__init);
	stakeout__pprof__value_type__init(&e->period_type);
	e->m.n_sample_type = 2;
	e->types[0].type = S_SAMPLES;
	e->types[0].unit = S_COUNT;
	e->types[1].type = S_CPU;
	e->types[1].unit = S_NS;
	e->period_type.type = S_CPU;
	e->period_type.unit = S_NS;
	e->m.period_type = &e->period_type;
	e->m.period = 10;
	e->m.n_comment = 1;
	e->m.comment = e->comment;
	e->comment[0] = S_COMMENT;
	example__strings(e);
	example__frames(e);
	example__samples(e);
}

static uint8_t *example__pack(const struct example *e, size_t *length)
{
	uint8_t *bytes;

	*length = stakeout__pprof__profile__get_packed_size(&e->m);
	bytes = malloc(*length + 1);
	assert_non_null(bytes);
	assert_int_equal(stakeout__pprof__profile__pack(&e->m, bytes), *length);
	return bytes;
}

static int read_example(const struct example *e, struct profile **out)
{
	struct so_error err = { "" };
	size_t length;
	uint8_t *bytes = example__pack(e, &length);
	int r = profile__read(bytes, length, out, &err);

	free(bytes);
	/* An error is told in words, in one line. */
	assert_int_equal(r == 0, !*err.text);
	assert_null(strchr(err.text, '\n'));
	return r;
}

static uint8_t *compress_member(const uint8_t *bytes, size_t n, size_t *length)
{
	z_stream z = { .next_in = (uint8_t *)bytes, .avail_in = (uInt)n };
	uint8_t *out = malloc(n + 1024);

	assert_non_null(out);
	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_out = out;
	z.avail_out = (uInt)n + 1024;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	*length = z.total_out;
	deflateEnd(&z);
	return out;
}

static void everything_is_read(void **state)
{
	_cleanup_(profile) struct profile *p = NULL;
	const struct profile_sample *s;
	struct example e;

	example__init(&e);
	assert_int_equal(read_example(&e, &p), 0);
	assert_int_equal(p->n_samples, 2);
	assert_int_equal(p->period_ns, 10);
	assert_string_equal(profile__comment(p, "key"), "value=x");
	assert_null(profile__comment(p, "ke"));
	s = &p->samples[0];
	assert_int_equal(s->count, 3);
	assert_int_equal(s->value_ns, 30);
	assert_int_equal(s->pid, 100);
	assert_int_equal(s->tid, 101);
	assert_string_equal(s->comm, "train");
	assert_int_equal(s->n_lines, 4);
	assert_string_equal(p->lines[s->lines[0]].function, "inlined");
	assert_string_equal(p->lines[s->lines[1]].function, "main");
	assert_string_equal(p->lines[s->lines[1]].mapping, "/lib/libfoo.so.1");
	assert_string_equal(p->lines[s->lines[1]].filename, "main.c");
	assert_int_equal(p->lines[s->lines[1]].line, 7);
	assert_false(p->lines[s->lines[1]].python);
	assert_true(p->lines[s->lines[2]].python);
	assert_string_equal(p->lines[s->lines[3]].function, "");
	assert_true(p->lines[s->lines[3]].kernel);
	assert_int_equal(p->lines[s->lines[3]].address, 0x200);
	s = &p->samples[1];
	assert_int_equal(s->pid + s->tid, 0);
	assert_string_equal(s->comm, "");
}

static void kernel_and_python_frames_are_told_by_their_files(void **state)
{
	static const struct {
		char *mapping, *source;
		int64_t line;
		bool mapped, kernel, python;
		char *name;
		int64_t first_line;
		uint64_t address;
	} cases[] = {
		{ "[kernel.kallsyms]", "", 0, true, true, false, "step", 0, 0 },
		{ "[kernel]", "", 0, true, true, false, "step", 0, 0 },
		{ "[guest.kernel.kallsyms]", "", 0, true, true, false, "step", 0, 0 },
		{ "[vmlinux]", "sched.c", 1, true, true, false, "step", 0, 0 },
		{ "/usr/lib/kernel.so", "a.c", 1, true, false, false, "step", 0, 0 },
		{ "/usr/bin/python3", "env.py", 0, true, false, true, "step", 0, 0 },
		{ "", "<string>", 1, false, false, true, "step", 0, 0 },
		{ "", "<string>", 0, false, false, false, "step", 0, 0 },
		{ "", "env.py", 0, false, false, true, "step", 0, 0 },
		{ "", ".py", 0, false, false, false, "step", 0, 0 },
		{ "", "", 5, false, false, false, "step", 0, 0 },
		/* Where an instruction belongs to no line, the function still has its first one. */
		{ "", "<string>", 0, false, false, true, "step", 7, 0 },
		{ "", "", 0, false, false, false, "step", 7, 0 },
		{ "/usr/lib/libfoo.so.1", "a.c", 0, true, false, false, "step", 7, 0 },
		{ "", "", 0, false, false, true, "[python:stale]", 0, 0 },
		{ "/usr/lib/libfoo.so.1", "", 0, true, false, false, "[python:stale]", 0, 0 },
		{ "", "", 0, false, false, false, "[python:stale", 0, 0 },
		{ "", "", 0, false, false, false, "python:stale]", 0, 0 },
		/* A script's code that a just-in-time compiler made and named. */
		{ "", "/app/server.js", 15, false, false, false, "renderPage", 15, 0x7f0000001000 },
		{ "", "/app/env.py", 15, false, false, true, "step", 15, 0x7f0000001000 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(profile) struct profile *p = NULL;
		const struct profile_line *line;
		struct example e;

		example__init(&e);
		e.strings[S_LIB] = cases[i].mapping;
		e.strings[S_FILE_PY] = cases[i].source;
		e.strings[S_PY] = cases[i].name;
		e.functions[2].start_line = cases[i].first_line;
		e.lines[2].line = cases[i].line;
		e.locations[1].mapping_id = cases[i].mapped;
		e.locations[1].address = cases[i].address;
		assert_int_equal(read_example(&e, &p), 0);
		line = &p->lines[p->samples[0].lines[2]];
		assert_string_equal(line->function, cases[i].name);
		assert_int_equal(line->kernel, cases[i].kernel);
		assert_int_equal(line->python, cases[i].python);
	}
}

static void values_are_found_by_their_types(void **state)
{
	static const struct {
		char *types[2][2];
		size_t n;
		char *period_unit;
		int64_t period, values[2], count, value_ns;
	} cases[] = {
		{ { { "samples", "count" }, { "cpu", "nanoseconds" } },
		  2,
		  "nanoseconds",
		  10,
		  { 4, 40 },
		  4,
		  40 },
		{ { { "cpu", "nanoseconds" }, { "samples", "count" } },
		  2,
		  "nanoseconds",
		  10,
		  { 40, 4 },
		  4,
		  40 },
		{ { { "samples", "count" }, { "cpu", "microseconds" } }, 2, "", 0, { 4, 40 }, 4, 40000 },
		/* Only time: divided by the period and rounded to the nearest. */
		{ { { "cpu", "nanoseconds" } }, 1, "nanoseconds", 10, { 44 }, 4, 44 },
		{ { { "cpu", "nanoseconds" } }, 1, "nanoseconds", 10, { 45 }, 5, 45 },
		{ { { "cpu", "milliseconds" } }, 1, "ms", 10, { 40 }, 4, 40000000 },
		{ { { "cpu", "nanoseconds" } },
		  1,
		  "nanoseconds",
		  INT64_MAX,
		  { INT64_MAX / 2 },
		  0,
		  INT64_MAX / 2 },
		{ { { "wall", "nanoseconds" } }, 1, "nanoseconds", 10, { 40 }, 4, 0 },
		/* Without a usable period the time itself has to do. */
		{ { { "cpu", "nanoseconds" } }, 1, "bytes", 10, { 44 }, 44, 44 },
		{ { { "cpu", "nanoseconds" } }, 1, "nanoseconds", -10, { 44 }, 44, 44 },
		/* Neither samples nor CPU time: the first. */
		{ { { "alloc_objects", "count" }, { "alloc_space", "bytes" } },
		  2,
		  "bytes",
		  10,
		  { 4, 999 },
		  4,
		  0 },
		{ { { "inuse_space", "bytes" }, { "samples", "samples" } }, 2, "bytes", 10, { 999, 4 }, 4, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(profile) struct profile *p = NULL;
		struct example e;

		example__init(&e);
		for (size_t j = 0; j < cases[i].n; j++) {
			e.strings[S_N + 2 * j] = cases[i].types[j][0];
			e.strings[S_N + 2 * j + 1] = cases[i].types[j][1];
			e.types[j].type = S_N + 2 * (int64_t)j;
			e.types[j].unit = S_N + 2 * (int64_t)j + 1;
			e.values[0][j] = cases[i].values[j];
		}
		e.strings[S_N + 4] = cases[i].period_unit;
		e.period_type.unit = S_N + 4;
		for (size_t j = 2 * cases[i].n; j < 4; j++)
			e.strings[S_N + j] = "";
		e.m.n_string_table = S_N + 5;
		e.m.n_sample_type = cases[i].n;
		e.m.period = cases[i].period;
		e.m.n_sample = 1;
		e.samples[0].n_value = cases[i].n;
		assert_int_equal(read_example(&e, &p), 0);
		assert_int_equal(p->samples[0].count, cases[i].count);
		assert_int_equal(p->samples[0].value_ns, cases[i].value_ns);
	}
}

static int read_value_of(const struct example *e, const char *type, struct profile **out, struct so_error *err)
{
	size_t length;
	uint8_t *bytes = example__pack(e, &length);
	int r = profile__read_value(bytes, length, type, out, err);

	free(bytes);
	return r;
}

static void a_value_is_found_by_its_type(void **state)
{
	static char *const types[] = { "calls", "count", "host_time", "microseconds", "bytes", "bytes" };
	static const int64_t sums[] = { 12, 103, INT64_MAX };
	struct so_error err = { "" };
	struct profile *none = NULL;
	struct example e;

	example__init(&e);
	for (int i = 0; i < 3; i++) {
		e.strings[S_N + 2 * i] = types[2 * i];
		e.strings[S_N + 2 * i + 1] = types[2 * i + 1];
		e.types[i].type = S_N + 2 * i;
		e.types[i].unit = S_N + 2 * i + 1;
		e.values[0][i] = (int64_t[]){ 5, 100, INT64_MAX - 1 }[i];
		e.values[1][i] = (int64_t[]){ 7, 3, 1 }[i];
	}
	e.m.n_string_table = S_N + 6;
	e.m.n_sample_type = 3;
	e.samples[0].n_value = e.samples[1].n_value = 3;
	for (int i = 0; i < 3; i++) {
		_cleanup_(profile) struct profile *p = NULL;

		assert_int_equal(read_value_of(&e, types[2 * i], &p, &err), 0);
		assert_int_equal(p->n_samples, 2);
		assert_int_equal(p->samples[0].count, e.values[0][i]);
		assert_int_equal(p->samples[0].count + p->samples[1].count, sums[i]);
		assert_int_equal(p->samples[0].value_ns, 0);
	}
	assert_int_equal(read_value_of(&e, "samples", &none, &err), -ENODATA);
	assert_string_equal(err.text, "the profile has no 'samples' among its values");
	e.types[0].type = e.types[2].type;
	assert_int_equal(read_value_of(&e, "bytes", &none, &err), -ENODATA);
	assert_non_null(strstr(err.text, "more than one 'bytes'"));
	assert_int_equal(read_value_of(&e, "host_time", &none, &err), 0);
	profile__free(none);
	none = NULL;
	/* What is wrong with a file is found whichever value is asked for. */
	e.types[2].unit = S_N + 6;
	assert_int_equal(read_value_of(&e, "host_time", &none, &err), -EINVAL);
	e.types[2].unit = S_N;
	e.values[1][1] = -1;
	assert_int_equal(read_value_of(&e, "host_time", &none, &err), -EINVAL);
	e.values[1][1] = INT64_MAX - 99;
	assert_int_equal(read_value_of(&e, "host_time", &none, &err), -EINVAL);
	assert_non_null(strstr(err.text, "2^63"));
	e.samples[1].n_value = 2;
	assert_int_equal(read_value_of(&e, "host_time", &none, &err), -EINVAL);
	assert_null(none);
}

static void labels_of_other_tools(void **state)
{
	static const struct {
		char *pid_key, *tid_key, *comm_key, *pid_text;
		int64_t pid, tid;
		const char *comm;
	} cases[] = {
		{ "process_id", "thread_id", "thread", "", 100, 101, "train" },
		{ "process id", "thread id", "thread name", "", 100, 101, "train" },
		{ "pid", "tid", "thread_name", "4711", 4711, 101, "train" },
		{ "pid", "tid", "comm", "-4711", 0, 101, "train" },
		{ "pid", "tid", "comm", "4711x", 0, 101, "train" },
		{ "pid", "tid", "comm", "99999999999999999999", 0, 101, "train" },
		{ "Pid", "host", "name", "", 0, 0, "" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(profile) struct profile *p = NULL;
		struct example e;

		example__init(&e);
		e.strings[S_PID] = cases[i].pid_key;
		e.strings[S_TID] = cases[i].tid_key;
		e.strings[S_COMM] = cases[i].comm_key;
		e.strings[S_NUMBER] = cases[i].pid_text;
		e.labels[0].str = S_NUMBER;
		assert_int_equal(read_example(&e, &p), 0);
		assert_int_equal(p->samples[0].pid, cases[i].pid);
		assert_int_equal(p->samples[0].tid, cases[i].tid);
		assert_string_equal(p->samples[0].comm, cases[i].comm);
	}
}

static void the_gils_state_is_a_label(void **state)
{
	static const struct {
		char *key, *word;
		enum profile_gil gil;
	} cases[] = {
		{ "gil", "held", PROFILE_GIL_HELD }, { "gil", "released", PROFILE_GIL_RELEASED },
		{ "gil", "", PROFILE_GIL_NONE },     { "gil", "maybe", PROFILE_GIL_NONE },
		{ "GIL", "held", PROFILE_GIL_NONE }, { "gil", "disabled", PROFILE_GIL_DISABLED },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(profile) struct profile *p = NULL;
		struct example e;

		example__init(&e);
		e.strings[S_COMM] = cases[i].key;
		e.strings[S_TRAIN] = cases[i].word;
		assert_int_equal(read_example(&e, &p), 0);
		assert_int_equal(p->samples[0].gil, cases[i].gil);
		assert_int_equal(p->samples[0].tid, 101);
		assert_int_equal(p->samples[1].gil, PROFILE_GIL_NONE);
	}
}

static void comm_wins_over_the_threads_name(void **state)
{
	for (int order = 0; order < 2; order++) {
		_cleanup_(profile) struct profile *p = NULL;
		struct example e;

		example__init(&e);
		e.strings[S_TID] = "thread";
		e.labels[1 + order].key = S_COMM;
		e.labels[1 + order].str = S_TRAIN;
		e.labels[2 - order].key = S_TID;
		e.labels[2 - order].str = S_OTHER;
		assert_int_equal(read_example(&e, &p), 0);
		assert_string_equal(p->samples[0].comm, "train");
	}
}

/* Each breaks the example in one way. */
#define BREAKS(X)                                                          \
	X(e->m.n_string_table = 0)                                         \
	X(e->strings[0] = "not empty")                                     \
	X(e->m.n_sample_type = 0)                                          \
	X(e->types[0].type = S_N)                                          \
	X(e->types[1].unit = -1)                                           \
	X(e->mappings[0].id = 0)                                           \
	X(e->mappings[1].id = 1)                                           \
	X(e->functions[2].id = 0)                                          \
	X(e->functions[2].id = 2)                                          \
	X(e->locations[0].id = 3)                                          \
	X(e->locations[0].id = 0)                                          \
	X(e->mappings[0].filename = S_N)                                   \
	X(e->mappings[0].filename = INT64_MIN)                             \
	X(e->locations[0].mapping_id = 3)                                  \
	X(e->locations[0].mapping_id = UINT64_MAX)                         \
	X(e->lines[0].function_id = 4)                                     \
	X(e->functions[0].name = S_N)                                      \
	X(e->functions[0].system_name = -1)                                \
	X(e->functions[0].filename = INT64_MAX)                            \
	X(e->stack[1] = 0)                                                 \
	X(e->stack[2] = 4)                                                 \
	X(e->samples[1].n_value = 1)                                       \
	X(e->samples[1].n_value = 0)                                       \
	X((e->samples[1].n_value = 3, e->values[1][2] = 1))                \
	X(e->values[0][0] = -1)                                            \
	X(e->values[1][1] = -1)                                            \
	X((e->values[0][0] = INT64_MAX, e->values[1][0] = 1))              \
	X((e->values[0][1] = INT64_MAX, e->values[1][1] = 1))              \
	X((e->strings[S_NS] = "seconds", e->values[0][1] = INT64_MAX / 2)) \
	X(e->labels[0].key = S_N)                                          \
	X(e->labels[2].str = -1)                                           \
	X(e->labels[1].num_unit = S_N)                                     \
	X(e->comment[0] = S_N)

static void broken_references_are_refused(void **state)
{
	struct example storage, *e = &storage;
	struct profile *p = (struct profile *)e;

#define X(change)                                       \
	example__init(e);                               \
	change;                                         \
	assert_int_equal(read_example(e, &p), -EINVAL); \
	assert_ptr_equal(p, e);
	BREAKS(X)
#undef X
}

static void any_numbering_will_do(void **state)
{
	_cleanup_(profile) struct profile *p = NULL;
	struct example e;

	example__init(&e);
	e.mappings[0].id = UINT64_MAX;
	e.mappings[1].id = 7;
	e.locations[0].mapping_id = UINT64_MAX;
	e.locations[2].mapping_id = 7;
	e.locations[0].id = 1ull << 40;
	e.locations[1].id = 5;
	e.locations[2].id = 1000;
	e.stack[0] = 1ull << 40;
	e.stack[1] = 5;
	e.stack[2] = 1000;
	e.functions[0].id = 3;
	e.functions[2].id = 1;
	e.lines[1].function_id = 3;
	e.lines[2].function_id = 1;
	assert_int_equal(read_example(&e, &p), 0);
	assert_string_equal(p->lines[p->samples[0].lines[0]].function, "inlined");
	assert_string_equal(p->lines[p->samples[0].lines[1]].function, "main");
	assert_string_equal(p->lines[p->samples[0].lines[1]].mapping, "/lib/libfoo.so.1");
	assert_string_equal(p->lines[p->samples[0].lines[2]].function, "step");
	assert_true(p->lines[p->samples[0].lines[3]].kernel);
}

static void missing_names_fall_back(void **state)
{
	_cleanup_(profile) struct profile *p = NULL;
	struct example e;

	example__init(&e);
	e.functions[0].name = 0;
	e.functions[0].system_name = S_OTHER;
	e.lines[0].function_id = 0;
	e.lines[1].line = -5;
	e.m.time_nanos = e.m.duration_nanos = -1;
	e.m.period_type = NULL;
	assert_int_equal(read_example(&e, &p), 0);
	assert_string_equal(p->lines[p->samples[0].lines[0]].function, "");
	assert_string_equal(p->lines[p->samples[0].lines[1]].function, "other");
	assert_int_equal(p->lines[p->samples[0].lines[1]].line, 0);
	assert_int_equal(p->time_ns + p->duration_ns + p->period_ns, 0);
}

static void gzip_in_its_forms(void **state)
{
	size_t n, half, lengths[2];
	_cleanup_(profile) struct profile *one = NULL;
	struct profile *p = NULL;
	uint8_t *plain, *parts[2], *file;
	struct example e;

	example__init(&e);
	plain = example__pack(&e, &n);
	half = n / 2;
	parts[0] = compress_member(plain, half, &lengths[0]);
	parts[1] = compress_member(plain + half, n - half, &lengths[1]);
	file = calloc(1, lengths[0] + lengths[1] + 100);
	memcpy(file, parts[0], lengths[0]);
	memcpy(file + lengths[0], parts[1], lengths[1]);
	n = lengths[0] + lengths[1];
	assert_int_equal(profile__read(file, n, &one, NULL), 0);
	assert_int_equal(one->n_samples, 2);
	/* Padding. */
	assert_int_equal(profile__read(file, n + 100, &p, NULL), 0);
	profile__free(p);
	p = NULL;
	/* Something else behind it. */
	file[n + 50] = 1;
	assert_int_equal(profile__read(file, n + 100, &p, NULL), -EINVAL);
	/* A checksum that is wrong. */
	file[n - 5] ^= 1;
	assert_int_equal(profile__read(file, n, &p, NULL), -EINVAL);
	file[n - 5] ^= 1;
	/* Cut anywhere, except where a member ends and leaves half a message, which is none either. */
	for (size_t cut = 0; cut < n; cut++) {
		struct so_error err = { "" };

		assert_int_equal(profile__read(file, cut, &p, &err), -EINVAL);
		assert_true(*err.text);
	}
	assert_null(p);
	free(plain);
	free(parts[0]);
	free(parts[1]);
	free(file);
}

static void other_files_are_refused(void **state)
{
	static const char *const files[] = { "",
					     "\n",
					     "main;f 12\n",
					     "{\"a\": 1}",
					     "PERFILE2",
					     "\x1f\x8b",
					     "\x7f"
					     "ELF" };
	struct so_error err;
	struct profile *p = NULL;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		*err.text = '\0';
		assert_int_equal(profile__read(files[i], strlen(files[i]), &p, &err), -EINVAL);
		assert_true(*err.text);
	}
	assert_int_equal(profile__read("", PROFILE_MAX_BYTES + 1, &p, &err), -EFBIG);
	assert_null(p);
	assert_null(profile__comment(&(struct profile){ .n_comments = 0 }, "x"));
	profile__free(NULL);
}

static void decompression_is_bounded(void **state)
{
	size_t n = 1 << 20, length, out_length = 7;
	uint8_t *zeros = calloc(1, n), *file = compress_member(zeros, n, &length), *out = NULL;
	struct so_error err;

	assert_int_equal(gunzip(file, length, n - 1, &out, &out_length, &err), -EFBIG);
	assert_null(out);
	assert_int_equal(out_length, 7);
	assert_int_equal(gunzip(file, length, n, &out, &out_length, &err), 0);
	assert_int_equal(out_length, n);
	assert_memory_equal(out, zeros, n);
	free(out);
	free(zeros);
	free(file);
}

/*
 * Two bytes of an empty sub-message become some hundred in memory, and inlined frames multiply with the stacks in
 * which they are: both end at a limit that depends on the file's size.
 */
static void amplification_is_bounded(void **state)
{
	enum { EMPTY = 2 << 20 };
	uint8_t *bytes = malloc(EMPTY * 2);
	struct profile *p = NULL;
	struct so_error err;

	for (size_t i = 0; i < EMPTY; i++) {
		bytes[2 * i] = 2 << 3 | 2; /* sample, of 0 bytes */
		bytes[2 * i + 1] = 0;
	}
	assert_int_equal(profile__read(bytes, EMPTY * 2, &p, &err), -EFBIG);
	free(bytes);
	assert_null(p);
}

static void multiplied_stacks_are_bounded(void **state)
{
	enum { LINES = 20000, STACK = 20000 };
	Stakeout__Pprof__Line *line = malloc(sizeof(*line)), **lines = malloc(LINES * sizeof(*lines));
	uint64_t *stack = malloc(STACK * sizeof(*stack));
	struct profile *p = NULL;
	struct example e;

	example__init(&e);
	stakeout__pprof__line__init(line);
	for (int i = 0; i < LINES; i++)
		lines[i] = line;
	for (int i = 0; i < STACK; i++)
		stack[i] = 1;
	e.locations[0].n_line = LINES;
	e.locations[0].line = lines;
	e.samples[0].n_location_id = STACK;
	e.samples[0].location_id = stack;
	assert_int_equal(read_example(&e, &p), -EFBIG);
	assert_null(p);
	free(line);
	free(lines);
	free(stack);
}

static void arenas(void **state)
{
	_cleanup_(arena) struct arena *arena = arena__new(1 << 20);
	unsigned char *pieces[2000];

	assert_int_equal(arena__error(arena), 0);
	for (size_t i = 0; i < 2000; i++) {
		pieces[i] = arena__alloc(arena, i % 300);
		assert_non_null(pieces[i]);
		assert_int_equal((uintptr_t)pieces[i] % 16, 0);
		memset(pieces[i], (int)i, i % 300);
	}
	for (size_t i = 0; i < 2000; i++)
		for (size_t j = 0; j < i % 300; j++)
			assert_int_equal(pieces[i][j], (unsigned char)i);
	assert_null(arena__alloc(arena, 1 << 20));
	assert_int_equal(arena__error(arena), -EFBIG);
	assert_null(arena__array(arena, SIZE_MAX / 4, 8));
	assert_null(arena__alloc(arena, SIZE_MAX));
	assert_non_null(arena__alloc(arena, 0));
}

static void id_indices(void **state)
{
	_cleanup_(arena) struct arena *arena = arena__new(1 << 20);
	uint64_t ids[3][2] = { { 9, 1 }, { 9, 2 }, { 9, 3 } };
	void *const messages[3] = { ids[0], ids[1], ids[2] };
	struct id_index *index = NULL;

	assert_int_equal(id_index__new(arena, messages, 0, 8, &index), 0);
	assert_int_equal(id_index__find(index, 0), ID_INDEX_NONE);
	assert_int_equal(id_index__find(index, 1), ID_INDEX_NONE);
	assert_int_equal(id_index__new(arena, messages, 3, 8, &index), 0);
	assert_int_equal(id_index__find(index, 0), ID_INDEX_NONE);
	assert_int_equal(id_index__find(index, 3), 2);
	assert_int_equal(id_index__find(index, 4), ID_INDEX_NONE);
	ids[0][1] = UINT64_MAX;
	assert_int_equal(id_index__new(arena, messages, 3, 8, &index), 0);
	assert_int_equal(id_index__find(index, UINT64_MAX), 0);
	assert_int_equal(id_index__find(index, 2), 1);
	assert_int_equal(id_index__find(index, 1), ID_INDEX_NONE);
	ids[2][1] = 2;
	assert_int_equal(id_index__new(arena, messages, 3, 8, &index), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_is_read),
		cmocka_unit_test(kernel_and_python_frames_are_told_by_their_files),
		cmocka_unit_test(values_are_found_by_their_types),
		cmocka_unit_test(a_value_is_found_by_its_type),
		cmocka_unit_test(labels_of_other_tools),
		cmocka_unit_test(the_gils_state_is_a_label),
		cmocka_unit_test(comm_wins_over_the_threads_name),
		cmocka_unit_test(broken_references_are_refused),
		cmocka_unit_test(any_numbering_will_do),
		cmocka_unit_test(missing_names_fall_back),
		cmocka_unit_test(gzip_in_its_forms),
		cmocka_unit_test(other_files_are_refused),
		cmocka_unit_test(decompression_is_bounded),
		cmocka_unit_test(amplification_is_bounded),
		cmocka_unit_test(multiplied_stacks_are_bounded),
		cmocka_unit_test(arenas),
		cmocka_unit_test(id_indices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
