// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Golden stacks (tests/golden/stacks): each is unwound by include/stakeout/unwinder.h, over tables compiled from its
 * call-frame information, and must give the frames that libdwfl and libdw gave when it was captured. Then the same
 * stacks broken on purpose. With names of files as arguments, those instead.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>

#include "daemon/unwind/table_pool.h"
#include "tests/golden/snapshot.h"
#include "tests/golden/user_space.h"

#define STACKS     "tests/golden/stacks"
#define MAX_STACKS 256

struct replay {
	struct snapshot s;
	struct sampler *sampler;
	struct table_pool *pool;
	struct so_unwind u;
};

static bool read_snapshot(void *context, void *dst, uint32_t bytes, uint64_t address)
{
	return snapshot__read_memory(context, dst, bytes, address);
}

/* Compiles one file's table and fills in the mappings that it serves. */
static void load_file(struct replay *r, unsigned file)
{
	_cleanup_(unwind_table) struct unwind_table *table = NULL;
	struct so_mapping *mappings = sampler__mappings(r->sampler);
	struct table_pieces pieces = { 0 };
	_cleanup_free_ void *image = NULL;
	size_t size;

	image = snapshot__elf_image(&r->s, file, &size);
	assert_non_null(image);
	assert_int_equal(unwind_table__compile_memory(image, size, &table, NULL), 0);
	assert_int_equal(table->n_bad_fdes, 0);
	assert_int_equal(table_pool__add(r->pool, table, &pieces), 0);
	for (size_t i = 0; i < r->s.n_maps; i++) {
		const struct snapshot_map *map = &r->s.maps[i];

		if (map->file != file)
			continue;
		assert_true(pieces.n <= 1);
		mappings[i] = (struct so_mapping){ .start = map->start,
						   .end = map->end,
						   .bias = map->bias,
						   .file = (uint16_t)file,
						   .state = SO_MAPPING_NO_TABLE };
		if (!pieces.n)
			continue;
		mappings[i].state = SO_MAPPING_TABLE;
		mappings[i].index = pieces.pieces[0].index;
		mappings[i].first_block = (uint32_t)pieces.pieces[0].first_block;
		mappings[i].n_blocks = pieces.pieces[0].n_blocks;
		mappings[i].shard = (uint16_t)pieces.pieces[0].shard;
	}
	free(pieces.pieces);
	free(pieces.rules);
}

static void load(struct replay *r, const char *path)
{
	struct so_error err;

	memset(r, 0, sizeof(*r));
	if (snapshot__read(path, &r->s, &err))
		fail_msg("%s: %s", path, err.text);
	r->sampler = fake_sampler__new();
	assert_non_null(r->sampler);
	assert_int_equal(table_pool__new(r->sampler, &r->pool), 0);
	for (unsigned file = 1; file <= r->s.n_files; file++)
		load_file(r, file);
	user_space.sampler = r->sampler;
	user_space.read = read_snapshot;
	user_space.context = &r->s;
}

static void unload(struct replay *r)
{
	table_pool__free(r->pool);
	sampler__free(r->sampler);
	snapshot__release(&r->s);
}

static void unwind(struct replay *r)
{
	memcpy(r->u.regs, r->s.regs, sizeof(r->u.regs));
	user_space__unwind(&r->u, r->s.regs[SO_NREGS], r->s.n_maps);
}

static void print_frames(const struct replay *r)
{
	print_message("%s: cause %u, %u frames, %zu in the file\n", r->s.title, r->u.cause, r->u.n,
		      r->s.n_frames);
	for (size_t i = 0; i < r->u.n || i < r->s.n_frames; i++) {
		const struct snapshot_frame *f = i < r->s.n_frames ? &r->s.frames[i] : NULL;
		uint64_t got = i < r->u.n ? r->u.frames[i] : 0, want = f ? SO_FRAME(f->file, f->address) : 0;

		print_message("%3zu %#18" PRIx64 " %#18" PRIx64 " %s%s\n", i, got, want, f ? f->name : "",
			      got == want ? "" : "   <---");
	}
}

/* The first `n` frames of the file, and then the cause. */
static void expect_frames(const struct replay *r, size_t n, enum so_truncation cause)
{
	bool same = r->u.n == n && r->u.cause == cause;

	for (size_t i = 0; same && i < n; i++)
		same = r->u.frames[i] == SO_FRAME(r->s.frames[i].file, r->s.frames[i].address);
	if (same)
		return;
	print_frames(r);
	fail_msg("%s: not the golden frames", r->s.title);
}

static void test_stack(void **state)
{
	static struct replay r;

	load(&r, *state);
	assert_true(r.s.complete);
	unwind(&r);
	expect_frames(&r, r.s.n_frames, SO_TRUNC_NONE);
	assert_int_equal(r.u.flags, 0);
	unload(&r);
}

/* The place of the return address that leads from frame `i` to the next one, in code that calls in the usual way. */
static uint64_t *return_address(struct replay *r, size_t i)
{
	uint64_t *word = snapshot__word(&r->s, r->s.frames[i + 1].sp - 8);

	assert_non_null(word);
	return word;
}

static void test_overwritten_return_address(void **state)
{
	static const size_t at[] = { 0, 1, 7, 300, 605 };
	static struct replay r;

	load(&r, STACKS "/recursion");
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		uint64_t *word = return_address(&r, at[i]), old = *word;

		*word = 0x4141414141414141;
		unwind(&r);
		expect_frames(&r, at[i] + 1, SO_TRUNC_NO_MAPPING);
		*word = 0; /* the beginning of a coroutine's stack, but not in the innermost frame */
		unwind(&r);
		expect_frames(&r, at[i] + 1, at[i] ? SO_TRUNC_NONE : SO_TRUNC_NO_MAPPING);
		*word = r.s.maps[0].start; /* the byte before it is in no code */
		unwind(&r);
		expect_frames(&r, at[i] + 1, SO_TRUNC_NO_MAPPING);
		*word = old;
	}
	unwind(&r);
	expect_frames(&r, r.s.n_frames, SO_TRUNC_NONE);
	unload(&r);
}

/*
 * A return address into the same function at another depth: plausible frames, but it ends, and within the stack. It
 * does so at a word of 0, which looks like the beginning of a coroutine's.
 */
static void test_loop(void **state)
{
	static struct replay r;

	load(&r, STACKS "/recursion");
	*return_address(&r, 604) = *return_address(&r, 300);
	unwind(&r);
	assert_true(r.u.n >= 605 && r.u.n < 620);
	unload(&r);
}

/* Only the lower pages of the stack can be read, as when the rest is not resident. */
static void test_pages_missing(void **state)
{
	static struct replay r;

	for (unsigned pages = 1; pages < 8; pages++) {
		uint64_t end;
		size_t n = 0;

		load(&r, STACKS "/recursion");
		end = (r.s.stacks[0].address & ~4095ull) + pages * 4096;
		r.s.stacks[0].n = (end - r.s.stacks[0].address) / 8;
		while (n + 1 < r.s.n_frames && r.s.frames[n + 1].sp <= end)
			n++;
		unwind(&r);
		expect_frames(&r, n + 1, SO_TRUNC_STACK_READ);
		unload(&r);
	}
}

/* A signal frame whose saved registers are garbage. */
static void test_broken_signal_frame(void **state)
{
	static struct replay r;
	size_t trampoline = 0;
	uint64_t *pc;

	load(&r, STACKS "/signal");
	while (trampoline < r.s.n_frames && strncmp(r.s.frames[trampoline].name, "on_signal", 9))
		trampoline++;
	trampoline++;
	assert_true(trampoline < r.s.n_frames);
	pc = snapshot__word(&r.s, r.s.frames[trampoline].sp + UW_SIGCONTEXT_OFFSET + UW_SC_RIP * 8);
	assert_non_null(pc);
	*pc = 0x1234;
	unwind(&r);
	expect_frames(&r, trampoline + 1, SO_TRUNC_NO_MAPPING);
	unload(&r);
}

/* Every word of every stack replaced in turn: the walk ends and its frames are right up to there. */
static void test_any_word_broken(void **state)
{
	static struct replay r;

	load(&r, STACKS "/realigned");
	for (size_t i = 0; i < r.s.stacks[0].n; i++) {
		uint64_t old = r.s.stacks[0].words[i], at = r.s.stacks[0].address + i * 8;
		size_t right = 0;

		for (unsigned bit = 0; bit < 48; bit++) {
			r.s.stacks[0].words[i] = old ^ 1ull << bit;
			unwind(&r);
			for (right = 0; right < r.u.n && right < r.s.n_frames && r.s.frames[right].sp <= at;
			     right++)
				assert_true(r.u.frames[right] ==
					    SO_FRAME(r.s.frames[right].file, r.s.frames[right].address));
			assert_true(r.u.n >= right && r.u.n <= SO_MAX_USER_FRAMES);
		}
		r.s.stacks[0].words[i] = old;
	}
	unload(&r);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct CMUnitTest *)a)->name, ((const struct CMUnitTest *)b)->name);
}

static size_t list_stacks(struct CMUnitTest *tests)
{
	DIR *dir = opendir(STACKS);
	struct dirent *entry;
	size_t n = 0;

	while (dir && (entry = readdir(dir)) && n < MAX_STACKS) {
		char *path;

		if (entry->d_name[0] == '.' || asprintf(&path, STACKS "/%s", entry->d_name) < 0)
			continue;
		tests[n++] = (struct CMUnitTest){ path + sizeof(STACKS), test_stack, NULL, NULL, path };
	}
	if (dir)
		closedir(dir);
	qsort(tests, n, sizeof(*tests), compare_names);
	return n;
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest broken[] = {
		cmocka_unit_test(test_overwritten_return_address),
		cmocka_unit_test(test_loop),
		cmocka_unit_test(test_pages_missing),
		cmocka_unit_test(test_broken_signal_frame),
		cmocka_unit_test(test_any_word_broken),
	};
	static struct CMUnitTest tests[MAX_STACKS + 8];
	size_t n = 0, n_stacks;
	int failed;

	for (; argc > 1 && n < MAX_STACKS && (int)n + 1 < argc; n++)
		tests[n] = (struct CMUnitTest){ argv[n + 1], test_stack, NULL, NULL, argv[n + 1] };
	if (n)
		return _cmocka_run_group_tests("stacks", tests, n, NULL, NULL);
	n_stacks = n = list_stacks(tests);
	memcpy(&tests[n], broken, sizeof(broken));
	n += sizeof(broken) / sizeof(broken[0]);
	failed = _cmocka_run_group_tests("golden", tests, n, NULL, NULL);
	for (size_t i = 0; i < n_stacks; i++)
		free(tests[i].initial_state);
	if (!n_stacks)
		fprintf(stderr, "no stacks in " STACKS "\n");
	return n_stacks ? failed : 1;
}
