// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Recorded interpreters (tests/golden/python/memory), one of each version: over their memory everything that reads
 * Python must give the frames of which the interpreter itself told, and among the native frames their places. Then the
 * same memory broken on purpose.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>

#include "daemon/python/python_merge.h"
#include "tests/unit/python_replay.h"
#include "tests/unit/python_walk.h"

#define MAX_MERGED 512
#define STRIDE     11 /* bytes from one that is broken to the next, in the test of all of them */

static const char *const versions[] = { "3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15",
					"3.13t", "3.14t", "3.15t" };

#define N_VERSIONS (sizeof(versions) / sizeof(versions[0]))

static bool is_free_threaded(const char *version)
{
	return version[strlen(version) - 1] == 't';
}

/* The walker that the unit tests have of their own agrees. */
static void expect_second_walker(const struct replay *p)
{
	const struct so_python *walker = &p->look.process.walker;
	struct python_walked frames[PYTHON_WALK_MAX];

	for (size_t i = 0; i < p->look.n_threads; i++) {
		const struct python_look_thread *t = &p->look.threads[i];
		uint64_t state = python_walk__thread(&p->memory, &p->look.process, t->thread.thread_id);
		int all = python_walk__frames(&p->memory, &p->look.process.layout, walker, state, frames), n = 0;

		for (int k = 0; k < all; k++) {
			if (strcmp(frames[k].filename, "__init__") != 0)
				frames[n++] = frames[k];
		}
		assert_true(state == t->thread.state);
		assert_int_equal(n, t->n_frames);
		for (int k = 0; k < n; k++) {
			assert_true(frames[k].code == t->frames[k].code);
			assert_int_equal(frames[k].instruction, t->frames[k].instruction);
			assert_int_equal(frames[k].entry, t->frames[k].entry);
		}
	}
}

static void test_frames(void **state)
{
	static struct replay p;
	const char *version = *state;

	load_and_look(&p, version);
	assert_int_equal(p.look.process.layout.version, p.r.version >> 16);
	assert_int_equal(p.r.n_threads, 4);
	assert_int_equal(p.look.process.layout.free_threaded, is_free_threaded(version));
	assert_int_equal(p.n_hidden, p.look.process.layout.version < 0x030d || !strcmp(version, "3.13t") ? 0 : 1);
	expect_same(&p, version);
	expect_second_walker(&p);
	recording__release(&p.r);
}

static unsigned windows;

/* As if what the recording does not hold could be read where frames are read with what lies before them. */
static bool read_around_holes(void *context, uint64_t address, void *to, size_t bytes)
{
	const struct foreign_memory memory = recording__memory(context);
	uint8_t *at = to;

	if (bytes != sizeof(((struct so_python_walk *)NULL)->window))
		return foreign_memory__read(&memory, address, to, bytes);
	windows++;
	for (size_t i = 0; i < bytes; i++) {
		const uint8_t *byte = recording__byte(context, address + i);

		at[i] = byte ? *byte : 0xa5;
	}
	return true;
}

/* From 3.11 on several frames are read at once: they are those that are found one by one. */
static void test_frames_at_once(void **state)
{
	static struct replay p;

	load_and_look(&p, *state);
	p.memory = (struct foreign_memory){ read_around_holes, &p.r };
	windows = 0;
	assert_int_equal(look(&p), 0);
	expect_same(&p, *state);
	assert_true((windows > 0) == (p.look.process.layout.version >= 0x030b));
	recording__release(&p.r);
}

/* What is to be seen in the recordings, so that a poorer one is not taken for good. */
static void test_recording_is_rich(void **state)
{
	static struct replay p;
	unsigned n = 0, recursion = 0, wide = 0, long_lines = 0, entries = 0, held = 0;

	load(&p, *state);
	for (size_t i = 0; i < p.r.n_threads; i++) {
		held += p.r.threads[i].held;
		for (size_t k = 0; k < p.r.threads[i].n_frames; k++) {
			const struct recording_frame *f = &p.r.threads[i].frames[k];

			n += f->kind == RECORDING_PYTHON;
			recursion += !strcmp(f->name, "recurse");
			wide += (f->name[0] & 0x80) != 0;
			long_lines += f->line > 1000 && f->offset > 2 * 512;
			entries += f->entry;
		}
	}
	assert_true(n >= 65 && entries >= 12);
	assert_int_equal(recursion, 40);
	assert_true(wide >= 2);
	assert_int_equal(long_lines, 1);
	assert_int_equal(held, is_free_threaded(*state) ? 0 : 1);
	recording__release(&p.r);
}

/* The stack of one thread, by python_merge(). */
struct merge {
	uint8_t loops[MAX_MERGED], entries[MAX_MERGED];
	struct merge_input in;
	struct merged_frame out[MAX_MERGED];
	size_t n_out;
};

static void merge(struct merge *m, const struct recording_thread *want, const struct python_look_thread *got,
		  size_t max_native)
{
	m->in = (struct merge_input){ .loops = m->loops, .entries = m->entries, .n_python = got->n_frames };
	for (size_t i = 0; i < want->n_frames; i++) {
		if (want->frames[i].kind == RECORDING_PYTHON)
			continue;
		if (m->in.n_native == max_native) {
			m->in.native_cut = true;
			break;
		}
		m->loops[m->in.n_native++] = want->frames[i].kind == RECORDING_LOOP;
	}
	for (size_t i = 0; i < got->n_frames; i++)
		m->entries[i] = got->frames[i].entry;
	m->in.interpreter = m->in.n_native;
	m->n_out = python_merge(&m->in, m->out);
}

/*
 * As in the file, less the native frames of calls of the loop. Where the stack is cut, the cut follows the last native
 * frame and the Python frames in it, and then come the other Python frames.
 */
static size_t expected_merge(const struct merge *m, const struct recording_thread *want, struct merged_frame *out)
{
	size_t native = 0, python = 0, n = 0;

	for (size_t i = 0; i < want->n_frames; i++) {
		enum recording_kind kind = want->frames[i].kind;

		if (kind == RECORDING_PYTHON) {
			out[n++] = (struct merged_frame){ (uint32_t)python++, MERGED_PYTHON };
			continue;
		}
		if (native == m->in.n_native)
			break;
		if (kind == RECORDING_NATIVE)
			out[n++] = (struct merged_frame){ (uint32_t)native, MERGED_NATIVE };
		native++;
	}
	if (m->in.native_cut)
		out[n++] = (struct merged_frame){ 0, MERGED_CUT };
	while (python < m->in.n_python)
		out[n++] = (struct merged_frame){ (uint32_t)python++, MERGED_PYTHON };
	return n;
}

static void expect_merged(const struct merge *m, const struct recording_thread *want)
{
	static struct merged_frame expected[MAX_MERGED];
	size_t n = expected_merge(m, want, expected);

	assert_int_equal(m->n_out, n);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(m->out[i].kind, expected[i].kind);
		if (expected[i].kind != MERGED_CUT)
			assert_int_equal(m->out[i].index, expected[i].index);
	}
}

/* Whole stacks, and the same cut behind each of their native frames. */
static void test_merge(void **state)
{
	static struct replay p;
	static struct merge m;

	load_and_look(&p, *state);
	for (size_t i = 0; i < p.r.n_threads; i++) {
		const struct recording_thread *want = &p.r.threads[i];
		const struct python_look_thread *got = find_thread(&p.look, want->descriptor);

		assert_non_null(got);
		assert_true(want->n_frames < MAX_MERGED);
		merge(&m, want, got, SIZE_MAX);
		assert_false(m.in.native_cut);
		expect_merged(&m, want);
		for (size_t n = m.in.n_native; n-- > 0;) {
			merge(&m, want, got, n);
			assert_true(m.in.native_cut);
			expect_merged(&m, want);
		}
	}
	recording__release(&p.r);
}

/* Memory that is not what it was. */

/* Looks again with one byte changed: whether anything is different from what the interpreter told. */
static bool is_noticed(struct replay *p, uint64_t address, uint8_t bits)
{
	uint8_t *byte = recording__byte(&p->r, address);
	char text[512];
	bool noticed;

	assert_non_null(byte);
	*byte ^= bits;
	noticed = look(p) != 0 || !same(p, text, sizeof(text));
	*byte ^= bits;
	return noticed;
}

static void expect_noticed(struct replay *p, const char *what, const char *name, uint64_t address, size_t n,
			   uint8_t bits)
{
	for (size_t i = 0; i < n; i++) {
		if (!is_noticed(p, address + i, bits))
			fail_msg("3.%u: %s of %s: byte %zu is not noticed", p->r.version >> 16 & 0xff, what, name, i);
	}
}

/* Pointers are broken by a bit that keeps them aligned, all but the outermost byte, which is 0 in any case. */
#define POINTER_BIT   0x10
#define POINTER_BYTES 6

static void break_frame(struct replay *p, const struct python_look_frame *f, bool at_work)
{
	const struct so_python *w = &p->look.process.walker;
	size_t instruction_bytes = w->flags & SO_PYTHON_LASTI ? sizeof(int32_t) : POINTER_BYTES;

	expect_noticed(p, "the code", f->name, f->address + w->frame_code, POINTER_BYTES, POINTER_BIT);
	expect_noticed(p, "the caller", f->name, f->address + w->frame_back, POINTER_BYTES, POINTER_BIT);
	/* Of the frame that was at work only the line is known. */
	if (!at_work)
		expect_noticed(p, "the instruction", f->name, f->address + w->frame_instruction, instruction_bytes, 4);
	if (w->entry == SO_PYTHON_ENTRY_FLAG)
		expect_noticed(p, "the entry mark", f->name, f->address + w->frame_entry, 1, 1);
	if (w->entry == SO_PYTHON_ENTRY_SHIM)
		expect_noticed(p, "the owner", f->name, f->address + w->frame_entry, 1, 0x80);
}

/* A str: its characters, and its length. */
static void break_text(struct replay *p, const char *what, const char *name, uint64_t object)
{
	const struct python_str_layout *str = &p->look.process.layout.str;
	uint64_t length = foreign_memory__u64(&p->memory, object + str->length);
	uint32_t kind = 0;

	assert_true(foreign_memory__read(&p->memory, object + str->state, &kind, sizeof(kind)));
	kind >>= str->kind_bit;
	assert_true(length > 0 && length < PYTHON_LOOK_NAME);
	expect_noticed(p, what, name, object + str->length, 1, 1);
	expect_noticed(p, what, name, object + (kind >> 4 & 1 ? str->ascii_data : str->compact_data),
		       length * (kind & 7), 1);
}

static void break_code(struct replay *p, const struct python_look_frame *f)
{
	const struct python_code_layout *at = &p->look.process.layout.code;
	uint64_t name = f->code + (at->qualname ? at->qualname : at->name);

	expect_noticed(p, "the pointer to the name", f->name, name, POINTER_BYTES, POINTER_BIT);
	break_text(p, "the name", f->name, foreign_memory__u64(&p->memory, name));
	expect_noticed(p, "the pointer to the file", f->name, f->code + at->filename, POINTER_BYTES, POINTER_BIT);
	break_text(p, "the file", f->name, foreign_memory__u64(&p->memory, f->code + at->filename));
	expect_noticed(p, "the first line", f->name, f->code + at->firstlineno, sizeof(int32_t), 1);
	expect_noticed(p, "the type", f->name, f->code + p->look.process.layout.object_type, POINTER_BYTES,
		       POINTER_BIT);
}

/* Some bit of the table must matter where the line is not that of the definition. */
static void break_lines(struct replay *p, const struct python_look_frame *f)
{
	const struct python_layout *l = &p->look.process.layout;
	uint64_t table = foreign_memory__u64(&p->memory, f->code + l->code.linetable);
	uint64_t bytes = foreign_memory__u64(&p->memory, table + l->bytes.size);
	int first = 0;

	assert_true(foreign_memory__read(&p->memory, f->code + l->code.firstlineno, &first, sizeof(first)));
	if (f->line == first)
		return;
	for (uint64_t i = 0; i < bytes * 8; i++) {
		if (is_noticed(p, table + l->bytes.data + i / 8, (uint8_t)(1u << i % 8)))
			return;
	}
	fail_msg("3.%u: no bit of the line table of %s matters", l->version & 0xff, f->name);
}

/* A word of the checksum. */
static void break_sum(struct replay *p, const struct python_look_frame *f)
{
	const struct python_layout *l = &p->look.process.layout;

	for (unsigned i = 0; i < SO_PYTHON_SUM_WORDS; i++) {
		uint8_t *byte = recording__byte(&p->r, f->code + l->walker.code_sum + i * 8);
		uint64_t sum = f->sum;

		assert_non_null(byte);
		*byte ^= 1;
		assert_true(python_code__sum(&p->memory, l, f->code, &sum));
		*byte ^= 1;
		assert_int_equal(sum != f->sum, l->walker.sum_words >> i & 1);
	}
}

static bool seen_before(const struct python_look_thread *t, size_t i)
{
	for (size_t k = 0; k < i; k++) {
		if (t->frames[k].code == t->frames[i].code)
			return true;
	}
	return false;
}

/* Whatever belongs to a frame, or to what it is called. */
static void test_broken_bytes(void **state)
{
	static struct replay p;
	static struct python_look whole;

	load_and_look(&p, *state);
	whole = p.look;
	for (size_t i = 0; i < whole.n_threads; i++) {
		const struct python_look_thread *t = &whole.threads[i];

		for (size_t k = 0; k < t->n_frames; k++) {
			const struct python_look_frame *f = &t->frames[k];

			if (seen_before(t, k) && k > 0 && seen_before(t, k - 1))
				continue; /* the middle of the recursion */
			break_frame(&p, f, k == 0 && !strcmp(f->name, "say"));
			if (seen_before(t, k))
				continue;
			break_code(&p, f);
			break_lines(&p, f);
			break_sum(&p, f);
		}
	}
	assert_int_equal(look(&p), 0);
	expect_same(&p, *state);
	recording__release(&p.r);
}

/* Bytes of all that was read, whatever they are for: nothing crashes, and what is found stays within bounds. */
static void test_any_byte_broken(void **state)
{
	static struct replay p;
	unsigned noticed = 0, n = 0;
	size_t at = 0;

	load(&p, *state);
	for (size_t i = 0; i < p.r.n_pieces; i++) {
		const struct recording_piece *piece = &p.r.pieces[i];

		for (; at < piece->n; at += STRIDE, n++)
			noticed += is_noticed(&p, piece->address + at, (uint8_t)(1u << n % 8));
		at -= piece->n;
	}
	assert_true(noticed > 0 && noticed < n);
	recording__release(&p.r);
}

static void test_memory_missing(void **state)
{
	static struct replay p;
	char text[512];

	load_and_look(&p, *state);
	for (size_t i = 0; i < p.r.n_pieces; i++) {
		struct recording_piece *piece = &p.r.pieces[i];
		size_t n = piece->n;

		piece->n = 0;
		look(&p);
		piece->n = n;
	}
	assert_int_equal(look(&p), 0);
	assert_true(same(&p, text, sizeof(text)));
	recording__release(&p.r);
}

/* Others get these files: no path and no setting of an environment, in 1, 2 or 4 bytes a character. */
static void test_nothing_private(void **state)
{
	static const char *const texts[] = { "/home", "/root", "/usr", "/tmp", "/lib", ".py/", "=/", "PATH=", "HOME=" };
	static struct replay p;

	load(&p, *state);
	for (size_t i = 0; i < p.r.n_pieces; i++) {
		for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]) * 3; k++) {
			const char *text = texts[k / 3];
			size_t width = 1u << k % 3;
			char wide[64] = "";

			for (size_t c = 0; text[c]; c++)
				wide[c * width] = text[c];
			assert_null(memmem(p.r.pieces[i].bytes, p.r.pieces[i].n, wide, strlen(text) * width));
		}
	}
	recording__release(&p.r);
}

/* Files that are none, or are damaged. */
static int read_text(const char *text, size_t n)
{
	char path[] = "/tmp/stakeout-recording-XXXXXX";
	struct recording r = { .version = 1 };
	struct so_error err = { "" };
	int fd = mkstemp(path), ret;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, n), n);
	close(fd);
	ret = recording__read(path, &r, &err);
	unlink(path);
	if (ret == 0)
		recording__release(&r);
	else
		assert_true(r.version == 1 && err.text[0]);
	return ret;
}

static void test_damaged_files(void **state)
{
	static const char *const texts[] = {
		"",
		"stakeout-stack 1\n",
		"stakeout-python 1\n",
		"stakeout-python 1\ninterpreter\n",
		"stakeout-python 1\ninterpreter 1 2\nnative x\n",
		"stakeout-python 1\ninterpreter 1 2\nthread 1\n",
		"stakeout-python 1\ninterpreter 1 2\nthread 1 2 held\npython a\tb\n",
		"stakeout-python 1\ninterpreter 1 2\nthread 1 2 held\nmemory 10 10\nabc",
		"stakeout-python 1\ninterpreter 1 2\nthread 1 2 held\nmemory 10 10\nabcdefghijk",
		"stakeout-python 1\ninterpreter 1 2\nthread 1 2 held\nmemory 10 10\nabcdefghij",
		"stakeout-python 1\ninterpreter 1 2\nthread 1 2 held\nmemory 99999999999 1\n",
	};
	struct recording r = { 0 };
	struct so_error err;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(read_text(texts[i], strlen(texts[i])), -EBADMSG);
	assert_int_equal(recording__read(PYTHON_RECORDINGS "none", &r, &err), -ENOENT);
}

static void test_changed_while_recording(void **state)
{
	struct recording r = { 0 };
	struct foreign_memory memory = recording__memory(&r);
	char text[8] = "";

	assert_int_equal(recording__add_memory(&r, 104, "efgh", 4), 0);
	assert_int_equal(recording__add_memory(&r, 100, "abcdef", 6), 0);
	assert_int_equal(recording__add_memory(&r, 101, "bc", 2), 0);
	assert_int_equal(recording__add_memory(&r, 109, "j", 1), 0);
	assert_int_equal(recording__join(&r), 0);
	assert_int_equal(r.n_pieces, 2);
	assert_true(foreign_memory__read(&memory, 101, text, 7));
	assert_string_equal(text, "bcdefgh");
	assert_false(foreign_memory__read(&memory, 101, text, 8));
	assert_false(foreign_memory__read(&memory, 99, text, 1));
	assert_int_equal(recording__add_memory(&r, 107, "x", 1), 0);
	assert_int_equal(recording__join(&r), -EBADMSG);
	recording__release(&r);
}

static size_t add_tests(struct CMUnitTest *out)
{
	static const struct CMUnitTest each[] = {
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_frames_at_once),
		cmocka_unit_test(test_recording_is_rich),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_broken_bytes),
		cmocka_unit_test(test_any_byte_broken),
		cmocka_unit_test(test_memory_missing),
		cmocka_unit_test(test_nothing_private),
	};
	static char names[N_VERSIONS * sizeof(each) / sizeof(each[0])][64];
	size_t n = 0;

	for (size_t i = 0; i < N_VERSIONS; i++) {
		for (size_t k = 0; k < sizeof(each) / sizeof(each[0]); k++, n++) {
			snprintf(names[n], sizeof(names[n]), "%s %s", each[k].name, versions[i]);
			out[n] = each[k];
			out[n].name = names[n];
			out[n].initial_state = (void *)versions[i];
		}
	}
	return n;
}

int main(void)
{
	static const struct CMUnitTest of_files[] = {
		cmocka_unit_test(test_damaged_files),
		cmocka_unit_test(test_changed_while_recording),
	};
	static struct CMUnitTest tests[128];
	size_t n = add_tests(tests);

	memcpy(&tests[n], of_files, sizeof(of_files));
	n += sizeof(of_files) / sizeof(of_files[0]);
	return _cmocka_run_group_tests("golden Python", tests, n, NULL, NULL);
}
