// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "profile/gunzip.h"
#include "profile/profile.h"
#include "daemon/profile/profile_merge.h"
#include "daemon/history/store_blob.h"
#include "stakeout/profile.pb-c.h"
#include "tests/unit/made_profile.h"

struct bytes {
	uint8_t *data;
	size_t length;
};

static void bytes__free(struct bytes *bytes)
{
	free(bytes->data);
}
#define _cleanup_bytes_ __attribute__((cleanup(bytes__free)))

/* One sample of two frames, `count` times, and comments. */
static struct bytes make(const char *leaf, uint64_t count, int tid, const char *lost, const char *hz)
{
	_cleanup_(profile_builder) struct profile_builder *b =
		profile_builder__new(1000000000, 500, hz ? 20000000 : 10000000);
	_cleanup_bytes_ struct bytes packed = { 0 };
	struct bytes plain = { 0 };
	uint64_t stack[2], mapping;

	mapping = profile_builder__mapping(b, &(struct profile_mapping){ 1, 2, 3, "lib.so", "abc" });
	stack[0] = profile_builder__location(
		b, &(struct profile_frame){
			   .mapping_id = mapping, .address = 77, .name = leaf, .system_name = "raw" });
	stack[1] = profile_builder__location(
		b, &(struct profile_frame){ .name = "main", .filename = "a.py", .line = 3, .start_line = 1 });
	assert_int_equal(thread_sample(b, stack, 2, count, 5, tid, "worker"), 0);
	assert_int_equal(profile_builder__comment(b, "lost.map", lost), 0);
	assert_int_equal(profile_builder__comment(b, "python.version", "3.11"), 0);
	assert_int_equal(profile_builder__comment(b, "sample_hz", hz ? hz : "99"), 0);
	assert_int_equal(profile_builder__finish(b, &packed.data, &packed.length), 0);
	assert_int_equal(gunzip(packed.data, packed.length, 1 << 20, &plain.data, &plain.length, NULL), 0);
	return plain;
}

static void add(struct profile_merge *merge, struct bytes message)
{
	struct so_error err = { "" };

	if (profile_merge__add(merge, message.data, message.length, &err))
		fail_msg("%s", err.text);
	free(message.data);
}

static struct profile *finish(struct profile_merge *merge)
{
	_cleanup_bytes_ struct bytes sum = { 0 };
	struct profile *profile = NULL;
	struct so_error err = { "" };

	assert_int_equal(profile_merge__finish(merge, false, &sum.data, &sum.length), 0);
	if (profile__read(sum.data, sum.length, &profile, &err))
		fail_msg("%s", err.text);
	return profile;
}

static int64_t samples_of(struct profile_merge *merge)
{
	_cleanup_(profile) struct profile *profile = finish(merge);
	int64_t sum = 0;

	for (size_t i = 0; i < profile->n_samples; i++)
		sum += profile->samples[i].count;
	return sum;
}

static void test_equal_stacks_are_added(void **state)
{
	_cleanup_(profile_merge) struct profile_merge *merge = profile_merge__new();
	_cleanup_(profile) struct profile *profile = NULL;

	add(merge, make("f", 3, 9, "1", NULL));
	add(merge, make("f", 4, 9, "20", NULL));
	add(merge, make("g", 5, 9, "300", NULL));
	add(merge, make("f", 6, 10, "0", NULL));
	assert_int_equal(samples_of(merge), 18);
	profile = finish(merge);
	assert_int_equal(profile->n_samples, 3);
	assert_int_equal(profile->n_lines, 3);
	assert_int_equal(profile->samples[0].count, 7);
	assert_int_equal(profile->samples[0].value_ns, 70000000);
	assert_int_equal(profile->samples[0].pid, 5);
	assert_int_equal(profile->samples[0].tid, 9);
	assert_string_equal(profile->samples[0].comm, "worker");
	assert_int_equal(profile->samples[1].count, 5);
	assert_string_equal(profile->lines[profile->samples[1].lines[0]].function, "g");
	assert_string_equal(profile->lines[profile->samples[1].lines[0]].mapping, "lib.so");
	assert_string_equal(profile->lines[profile->samples[1].lines[1]].filename, "a.py");
	assert_int_equal(profile->lines[profile->samples[1].lines[1]].line, 3);
	assert_int_equal(profile->samples[2].tid, 10);
	assert_int_equal(profile->time_ns, 1000000000);
	assert_int_equal(profile->duration_ns, 2000);
	assert_int_equal(profile->period_ns, 10000000);
}

/* Samples that differ in nothing but the labels of their process. */
static struct bytes make_ranks(const char *first, const char *second)
{
	_cleanup_(profile_builder) struct profile_builder *b = profile_builder__new(1000000000, 500, 10000000);
	uint64_t location = profile_builder__location(b, &(struct profile_frame){ .name = "f" });
	struct process_labels labels = { .container = "c0ffee" };
	_cleanup_bytes_ struct bytes packed = { 0 };
	struct bytes plain = { 0 };

	for (int i = 0; i < 2; i++) {
		struct profile_labels of_sample = { .pid = 1 };

		strcpy(labels.rank, i ? second : first);
		of_sample.process = profile_builder__process(b, &labels);
		assert_int_equal(profile_builder__sample_labelled(b, &location, 1, 1, &of_sample), 0);
	}
	assert_int_equal(profile_builder__finish(b, &packed.data, &packed.length), 0);
	assert_int_equal(gunzip(packed.data, packed.length, 1 << 20, &plain.data, &plain.length, NULL), 0);
	return plain;
}

static void test_labels_of_processes_are_kept(void **state)
{
	_cleanup_(profile_merge) struct profile_merge *merge = profile_merge__new();
	_cleanup_(profile) struct profile *profile = NULL;
	_cleanup_bytes_ struct bytes sum = { 0 };
	Stakeout__Pprof__Profile *m;
	size_t containers = 0;

	add(merge, make_ranks("0", "1"));
	add(merge, make_ranks("1", "2"));
	assert_int_equal(profile_merge__finish(merge, false, &sum.data, &sum.length), 0);
	assert_int_equal(profile__read(sum.data, sum.length, &profile, NULL), 0);
	assert_int_equal(profile->n_samples, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(atoi(profile->samples[i].rank), i);
		assert_int_equal(profile->samples[i].count, i == 1 ? 2 : 1);
	}
	m = stakeout__pprof__profile__unpack(NULL, sum.length, sum.data);
	assert_non_null(m);
	for (size_t i = 0; i < m->n_sample; i++) {
		for (size_t j = 0; j < m->sample[i]->n_label; j++)
			containers += !strcmp(m->string_table[m->sample[i]->label[j]->str], "c0ffee");
	}
	assert_int_equal(containers, 3);
	stakeout__pprof__profile__free_unpacked(m, NULL);
}

static void test_comments(void **state)
{
	_cleanup_(profile_merge) struct profile_merge *merge = profile_merge__new();
	_cleanup_(profile) struct profile *profile = NULL;

	add(merge, make("f", 3, 9, "1", NULL));
	add(merge, make("f", 4, 9, "20", NULL));
	add(merge, make("f", 4, 9, "21x", "49"));
	profile_merge__set_times(merge, 7, 8);
	profile = finish(merge);
	assert_int_equal(profile->n_comments, 5);
	assert_string_equal(profile->comments[0], "stakeout.lost.map=21");
	assert_string_equal(profile->comments[1], "stakeout.python.version=3.11");
	assert_string_equal(profile->comments[2], "stakeout.sample_hz=99");
	assert_string_equal(profile->comments[3], "stakeout.lost.map=21x");
	assert_string_equal(profile->comments[4], "stakeout.sample_hz=49");
	assert_int_equal(profile->time_ns, 7);
	assert_int_equal(profile->duration_ns, 8);
	assert_int_equal(profile->period_ns, 20000000);
}

/* Merging in two stages, as minutes and ten minutes are, gives what one stage gives. */
static void test_stages(void **state)
{
	_cleanup_(profile_merge) struct profile_merge *whole = profile_merge__new(),
						      *upper = profile_merge__new();
	_cleanup_bytes_ struct bytes one = { 0 }, two = { 0 };
	uint64_t samples = 0;

	for (unsigned group = 0; group < 4; group++) {
		_cleanup_(profile_merge) struct profile_merge *lower = profile_merge__new();
		_cleanup_bytes_ struct bytes sum = { 0 };

		for (unsigned i = 0; i < 5; i++) {
			struct made_profile made = MADE_PROFILE_TRAINING;
			_cleanup_bytes_ struct bytes packed = { 0 }, plain = { 0 };

			made.stacks = 100;
			made.seed = group * 5 + i;
			samples += made_profile__make(&made, &packed.data, &packed.length);
			assert_int_equal(
				gunzip(packed.data, packed.length, 16 << 20, &plain.data, &plain.length, NULL),
				0);
			assert_int_equal(profile_merge__add(whole, plain.data, plain.length, NULL), 0);
			assert_int_equal(profile_merge__add(lower, plain.data, plain.length, NULL), 0);
		}
		assert_int_equal(profile_merge__finish(lower, false, &sum.data, &sum.length), 0);
		assert_int_equal(profile_merge__add(upper, sum.data, sum.length, NULL), 0);
	}
	assert_int_equal(samples_of(whole), samples);
	assert_int_equal(samples_of(upper), samples);
	{
		_cleanup_(profile) struct profile *a = finish(whole), *b = finish(upper);

		assert_int_equal(a->n_samples, b->n_samples);
		assert_int_equal(a->n_lines, b->n_lines);
		for (size_t i = 0; i < a->n_samples; i++) {
			assert_int_equal(a->samples[i].count, b->samples[i].count);
			assert_int_equal(a->samples[i].value_ns, b->samples[i].value_ns);
			assert_int_equal(a->samples[i].n_lines, b->samples[i].n_lines);
			for (size_t j = 0; j < a->samples[i].n_lines; j++)
				assert_string_equal(a->lines[a->samples[i].lines[j]].function,
						    b->lines[b->samples[i].lines[j]].function);
		}
		assert_string_equal(profile__comment(a, "lost.map"), "20");
		assert_string_equal(profile__comment(b, "lost.map"), "20");
	}
}

/* Of 500 ns: one thread that ran for 10 ms at the clock's 7 samples and, with wall time, waited for 30 ms. */
static struct bytes make_wall(bool wall, const char *hz)
{
	_cleanup_(profile_builder) struct profile_builder *b =
		wall ? profile_builder__new_wall(1000000000, 500, 10000000)
		     : profile_builder__new(1000000000, 500, 10000000);
	uint64_t f = profile_builder__location(b, &(struct profile_frame){ .name = "f" });
	struct profile_labels labels = { .pid = 5, .tid = 9, .comm = "t", .state = wall ? "running" : NULL };
	_cleanup_bytes_ struct bytes packed = { 0 };
	struct bytes plain = { 0 };

	if (wall) {
		assert_int_equal(
			profile_builder__sample_values(b, &f, 1, (uint64_t[]){ 7, 70000000, 10000000 }, &labels), 0);
		labels.state = "lock";
		assert_int_equal(profile_builder__sample_values(b, &f, 1, (uint64_t[]){ 2, 0, 30000000 }, &labels), 0);
		assert_int_equal(profile_builder__comment(b, "wall_hz", hz), 0);
	} else {
		assert_int_equal(profile_builder__sample_labelled(b, &f, 1, 7, &labels), 0);
	}
	assert_int_equal(profile_builder__finish(b, &packed.data, &packed.length), 0);
	assert_int_equal(gunzip(packed.data, packed.length, 1 << 20, &plain.data, &plain.length, NULL), 0);
	return plain;
}

static int64_t wall_in(const struct profile *p, const char *state)
{
	int64_t sum = 0;

	for (size_t i = 0; i < p->n_samples; i++)
		if (!strcmp(p->samples[i].state, state))
			sum += p->samples[i].value_ns;
	return sum;
}

/* A history in which waits were looked at for a while. kinds: w with wall time, n without. */
static void check_walls(const char *kinds, int64_t running, int64_t lock, int64_t other, const char *without)
{
	_cleanup_(profile_merge) struct profile_merge *merge = profile_merge__new();
	_cleanup_(profile) struct profile *p = NULL;
	const char *said;

	for (const char *kind = kinds; *kind; kind++)
		add(merge, make_wall(*kind == 'w', "20"));
	p = finish(merge);
	assert_true(p->wall);
	assert_int_equal(p->duration_ns, 500 * (int64_t)strlen(kinds));
	assert_int_equal(wall_in(p, "running"), running);
	assert_int_equal(wall_in(p, "lock"), lock);
	assert_int_equal(wall_in(p, ""), other);
	assert_string_equal(profile__comment(p, "wall_hz"), "20");
	said = profile__comment(p, "wall.without_ns");
	if (without)
		assert_string_equal(said, without);
	else
		assert_null(said);
}

static void test_with_and_without_wall_time(void **state)
{
	check_walls("ww", 20000000, 60000000, 0, NULL);
	/* Of one that ran, its CPU time; whoever came first. */
	check_walls("wn", 10000000, 30000000, 70000000, "500");
	check_walls("nw", 10000000, 30000000, 70000000, "500");
	check_walls("nnwnw", 20000000, 60000000, 210000000, "1500");
}

/* Sums of sums: what is said of the time without is added up as well, and once. */
static void test_stages_with_wall_time(void **state)
{
	_cleanup_(profile_merge) struct profile_merge *upper = profile_merge__new();
	_cleanup_(profile) struct profile *p = NULL;

	for (unsigned i = 0; i < 3; i++) {
		_cleanup_(profile_merge) struct profile_merge *lower = profile_merge__new();
		_cleanup_bytes_ struct bytes first = { 0 }, again = { 0 };

		add(lower, make_wall(i != 1, "20"));
		add(lower, make_wall(false, "20"));
		assert_int_equal(profile_merge__finish(lower, false, &first.data, &first.length), 0);
		assert_int_equal(profile_merge__finish(lower, false, &again.data, &again.length), 0);
		assert_int_equal(first.length, again.length);
		assert_int_equal(profile_merge__add(upper, again.data, again.length, NULL), 0);
	}
	p = finish(upper);
	assert_string_equal(profile__comment(p, "wall.without_ns"), "2000");
	assert_int_equal(wall_in(p, "running"), 20000000);
	assert_int_equal(wall_in(p, "lock"), 60000000);
	assert_int_equal(wall_in(p, ""), 280000000);
}

/* A third value that is none of wall time is another kind of profile. */
static void test_other_third_values(void **state)
{
	_cleanup_bytes_ struct bytes wall = make_wall(true, "20"), cpu = make_wall(false, NULL), other = { 0 };
	Stakeout__Pprof__Profile *p = stakeout__pprof__profile__unpack(NULL, wall.length, wall.data);

	assert_non_null(p);
	p->sample_type[2]->type = p->sample_type[0]->type;
	other.length = stakeout__pprof__profile__get_packed_size(p);
	other.data = malloc(other.length);
	stakeout__pprof__profile__pack(p, other.data);
	stakeout__pprof__profile__free_unpacked(p, NULL);
	for (unsigned i = 0; i < 2; i++) {
		_cleanup_(profile_merge) struct profile_merge *merge = profile_merge__new();
		const struct bytes *first = i ? &cpu : &other, *second = i ? &other : &cpu;

		assert_int_equal(profile_merge__add(merge, first->data, first->length, NULL), 0);
		assert_int_equal(profile_merge__add(merge, second->data, second->length, NULL), -EINVAL);
	}
}

static Stakeout__Pprof__Profile *unpack(const struct bytes *message)
{
	Stakeout__Pprof__Profile *p = stakeout__pprof__profile__unpack(NULL, message->length, message->data);

	assert_non_null(p);
	return p;
}

static int add_changed(Stakeout__Pprof__Profile *p, bool after_another)
{
	_cleanup_(profile_merge) struct profile_merge *merge = profile_merge__new();
	_cleanup_bytes_ struct bytes message = { 0 };
	struct so_error err = { "" };
	int r;

	if (after_another)
		add(merge, make("f", 1, 9, "1", NULL));
	message.length = stakeout__pprof__profile__get_packed_size(p);
	message.data = malloc(message.length);
	stakeout__pprof__profile__pack(p, message.data);
	r = profile_merge__add(merge, message.data, message.length, &err);
	assert_true((r == 0) == !*err.text);
	return r;
}

/* Every reference, led astray. */
static void test_damaged_references(void **state)
{
	_cleanup_bytes_ struct bytes message = make("f", 1, 9, "1", NULL);
	Stakeout__Pprof__Profile *p = unpack(&message);

	assert_int_equal(add_changed(p, false), 0);
#define REFUSED(place, value, code)                            \
	do {                                                   \
		__typeof__(place) _kept = (place);             \
		(place) = (value);                             \
		assert_int_equal(add_changed(p, false), code); \
		(place) = _kept;                               \
	} while (0)
	REFUSED(p->sample[0]->location_id[0], 3, -EINVAL);
	REFUSED(p->sample[0]->location_id[0], 0, -EINVAL);
	REFUSED(p->sample[0]->location_id[1], UINT64_MAX, -EINVAL);
	REFUSED(p->sample[0]->value[0], -1, -EINVAL);
	REFUSED(p->sample[0]->n_value, 1, -EINVAL);
	REFUSED(p->sample[0]->label[0]->key, 1000, -EINVAL);
	REFUSED(p->sample[0]->label[0]->str, -1, -EINVAL);
	REFUSED(p->location[0]->id, 2, -EINVAL);
	REFUSED(p->location[0]->mapping_id, 2, -EINVAL);
	REFUSED(p->location[0]->line[0]->function_id, 3, -EINVAL);
	REFUSED(p->function[1]->id, 1, -EINVAL);
	REFUSED(p->function[0]->name, 1000, -EINVAL);
	REFUSED(p->mapping[0]->id, 7, -EINVAL);
	REFUSED(p->mapping[0]->filename, INT64_MAX, -EINVAL);
	REFUSED(p->comment[0], 1000, -EINVAL);
	REFUSED(p->sample_type[0]->unit, 1000, -EINVAL);
	REFUSED(p->n_sample_type, 0, -EINVAL);
	REFUSED(p->default_sample_type, 1000, -EINVAL);
	REFUSED(p->n_string_table, 0, -EINVAL);
	/* Sound, but of another kind than the one before. */
	assert_int_equal(add_changed(p, true), 0);
	p->sample_type[0]->type = p->sample_type[1]->type;
	assert_int_equal(add_changed(p, false), 0);
	assert_int_equal(add_changed(p, true), -EINVAL);
	stakeout__pprof__profile__free_unpacked(p, NULL);
}

static void test_every_cut_is_survived(void **state)
{
	_cleanup_bytes_ struct bytes message = make("f", 1, 9, "1", NULL);

	for (size_t n = 0; n < message.length; n++) {
		_cleanup_(profile_merge) struct profile_merge *merge = profile_merge__new();
		_cleanup_free_ uint8_t *cut = malloc(n ? n : 1);

		memcpy(cut, message.data, n);
		profile_merge__add(merge, cut, n, NULL);
	}
}

static void test_sums_that_pass_the_limit(void **state)
{
	_cleanup_(profile_merge) struct profile_merge *merge = profile_merge__new();
	_cleanup_bytes_ struct bytes message = make("f", (uint64_t)INT64_MAX / 20000000, 9, "1", NULL);
	uint8_t *out;
	size_t length;

	assert_int_equal(profile_merge__finish(merge, false, &out, &length), -ENODATA);
	assert_int_equal(profile_merge__add(merge, message.data, message.length, NULL), 0);
	assert_int_equal(profile_merge__add(merge, message.data, message.length, NULL), 0);
	assert_int_equal(profile_merge__add(merge, message.data, message.length, NULL), -EOVERFLOW);
}

/* Empty samples: two bytes each in the message, and some seventy in memory. */
static void test_memory_bomb(void **state)
{
	_cleanup_(profile_merge) struct profile_merge *merge = profile_merge__new();
	_cleanup_bytes_ struct bytes message = { NULL, 20 << 20 };
	struct so_error err = { "" };

	message.data = malloc(message.length);
	for (size_t i = 0; i < message.length; i += 2) {
		message.data[i] = 2 << 3 | 2; /* field 2, of a length */
		message.data[i + 1] = 0;
	}
	assert_true(profile_merge__add(merge, message.data, message.length, &err) < 0);
}

static void test_blobs(void **state)
{
	_cleanup_(store_blob_reader) struct store_blob_reader *reader = store_blob_reader__new();
	_cleanup_(profile_merge) struct profile_merge *merge = profile_merge__new();
	_cleanup_bytes_ struct bytes blob = { 0 }, message = make("f", 1, 9, "1", NULL), packed = { 0 };
	const uint8_t *content;
	size_t size;

	assert_int_equal(store_blob__encode(message.data, message.length, &blob.data, &blob.length, &size), 0);
	assert_int_equal(size, message.length);
	assert_int_equal(store_blob_reader__decode(reader, blob.data, blob.length, size, &content), 0);
	assert_memory_equal(content, message.data, size);
	/* Gzip is taken off on the way in, and damaged gzip is not taken. */
	assert_int_equal(profile_merge__add(merge, message.data, message.length, NULL), 0);
	assert_int_equal(profile_merge__finish(merge, true, &packed.data, &packed.length), 0);
	free(TAKE_PTR(message.data));
	assert_int_equal(profile_merge__finish(merge, false, &message.data, &message.length), 0);
	free(TAKE_PTR(blob.data));
	assert_int_equal(store_blob__encode(packed.data, packed.length, &blob.data, &blob.length, &size), 0);
	assert_int_equal(size, message.length);
	assert_int_equal(store_blob_reader__decode(reader, blob.data, blob.length, size, &content), 0);
	assert_memory_equal(content, message.data, size);
	assert_int_equal(
		store_blob__encode(packed.data, packed.length - 1, &packed.data, &packed.length, &size),
		-EINVAL);
	/* Other sizes than the one that was noted, cuts, something behind it, and each bit changed. */
	assert_int_equal(store_blob_reader__decode(reader, blob.data, blob.length, size + 1, &content),
			 -EBADMSG);
	for (size_t n = 0; n < blob.length; n++)
		assert_int_equal(store_blob_reader__decode(reader, blob.data, n, size, &content), -EBADMSG);
	for (size_t bit = 0; bit < blob.length * 8; bit++) {
		int r;

		blob.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		r = store_blob_reader__decode(reader, blob.data, blob.length, size, &content);
		/* A frame's header has a bit that means nothing. */
		assert_true(r == -EBADMSG || (r == 0 && !memcmp(content, message.data, size)));
		blob.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	blob.data = realloc(blob.data, blob.length + 1);
	blob.data[blob.length] = 0;
	assert_int_equal(store_blob_reader__decode(reader, blob.data, blob.length + 1, size, &content),
			 -EBADMSG);
}

static void test_zip_bombs(void **state)
{
	size_t huge = STORE_BLOB_MAX_BYTES + 1, room = ZSTD_compressBound(huge), size;
	_cleanup_(store_blob_reader) struct store_blob_reader *reader = store_blob_reader__new();
	_cleanup_bytes_ struct bytes zeros = { calloc(1, huge), huge }, bomb = { malloc(room), 0 }, out = { 0 };
	const uint8_t *content;

	assert_true(zeros.data && bomb.data);
	bomb.length = ZSTD_compress(bomb.data, room, zeros.data, huge, 1);
	assert_false(ZSTD_isError(bomb.length));
	assert_int_equal(store_blob_reader__decode(reader, bomb.data, bomb.length, huge, &content), -EBADMSG);
	assert_int_equal(store_blob__encode(zeros.data, huge, &out.data, &out.length, &size), -EFBIG);
	assert_null(out.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_stacks_are_added),
		cmocka_unit_test(test_labels_of_processes_are_kept),
		cmocka_unit_test(test_comments),
		cmocka_unit_test(test_stages),
		cmocka_unit_test(test_with_and_without_wall_time),
		cmocka_unit_test(test_stages_with_wall_time),
		cmocka_unit_test(test_other_third_values),
		cmocka_unit_test(test_damaged_references),
		cmocka_unit_test(test_every_cut_is_survived),
		cmocka_unit_test(test_sums_that_pass_the_limit),
		cmocka_unit_test(test_memory_bomb),
		cmocka_unit_test(test_blobs),
		cmocka_unit_test(test_zip_bombs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
