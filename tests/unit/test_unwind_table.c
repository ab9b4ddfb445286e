// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The compiler of unwind tables on hand-assembled call-frame information: which rows a table has, and what damage
 * does. (test_cfi_rules.c has the rules, test_unwind_referee.c real files.)
 */
#include "tests/unit/table_bytes.h"
#include "tests/unit/unwind_expect.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

static void test_prologue_epilogue(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct image im;

	image__init(&im);
	IMAGE_CIE(&im);
	/* +1: CFA rsp+16, rbp at CFA-16. +3 (4 on): CFA rbp+16. +0x20: rsp+8 again, which the image repeats. */
	IMAGE_FDE(&im, 0x400, 0x40, 0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x60, 0x0c, 7, 8, 0xc6, 0x41, 0x0e,
		  8);
	image__finish(&im);
	t = compile(&im);
	assert_int_equal(t->n_fdes, 1);
	assert_int_equal(t->n_bad_fdes, 0);
	assert_int_equal(t->n_rows, 5); /* four rules' beginnings and the end: the repeated one makes no row */
	assert_int_equal(t->n_rules, 3);
	assert_int_equal(t->first_block, (IMAGE_VADDR + 0x400) >> SO_BLOCK_SHIFT);
	assert_int_equal(t->n_blocks, 1);
	expect_none(t, 0x3ff);
	expect(t, 0x400, RSP(8));
	expect(t, 0x401,
	       (struct so_unwind_rule){
		       .cfa_kind = SO_CFA_REG, .cfa_reg = SO_REG_RSP, .cfa_off = 16, WITH_RBP(-16) });
	expect(t, 0x403,
	       (struct so_unwind_rule){
		       .cfa_kind = SO_CFA_REG, .cfa_reg = SO_REG_RSP, .cfa_off = 16, WITH_RBP(-16) });
	expect(t, 0x404,
	       (struct so_unwind_rule){
		       .cfa_kind = SO_CFA_REG, .cfa_reg = SO_REG_RBP, .cfa_off = 16, WITH_RBP(-16) });
	expect(t, 0x423,
	       (struct so_unwind_rule){
		       .cfa_kind = SO_CFA_REG, .cfa_reg = SO_REG_RBP, .cfa_off = 16, WITH_RBP(-16) });
	expect(t, 0x424, RSP(8));
	expect(t, 0x43f, RSP(8));
	expect_none(t, 0x440);
	expect_none(t, 0x7ff);
	expect_none(t, 0x100000);
	assert_int_equal(table_bytes(t), 2 * 4 + 5 * 4 + 3 * 16);
}

static void test_locations(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct image im;

	image__init(&im);
	im.encoding = 0x04; /* udata8, absolute: what DW_CFA_set_loc then takes */
	IMAGE_CIE(&im);
	IMAGE_FDE(&im, 0, 0xd00, 0x02, 0x80, 0x0e, 16, 0x03, 0x80, 0x01, 0x0e, 24, 0x04, 0, 2, 0, 0, 0x0e, 32,
		  0x1d, 0, 2, 0, 0, 0, 0, 0, 0, 0x0e, 40, 0x01, 0x00, 0x0c, 0x01, 0, 0, 0, 0, 0, 0x0e, 48, 0x40,
		  0x0e, 56);
	image__finish(&im);
	t = compile(&im);
	assert_int_equal(t->n_bad_fdes, 0);
	assert_int_equal(t->n_blocks, 4);
	expect(t, 0x7f, RSP(8));
	expect(t, 0x80, RSP(16));
	expect(t, 0x200, RSP(24));
	expect(t, 0x400, RSP(32));
	expect(t, 0x5ff, RSP(32));
	expect(t, 0x600, RSP(40));
	expect(t, 0xbff, RSP(40));
	expect(t, 0xc00, RSP(56)); /* two changes at one address: the last one counts */
	expect(t, 0xcff, RSP(56));
	expect_none(t, 0xd00);
}

static void test_encodings(void **state)
{
	static const uint8_t encodings[] = { 0x00, 0x03, 0x04, 0x0b, 0x0c, 0x10, 0x1a, 0x1b, 0x1c, 0x12 };

	for (size_t i = 0; i < sizeof(encodings); i++) {
		_cleanup_(unwind_table) struct unwind_table *t = NULL;
		struct image im;

		image__init(&im);
		im.encoding = encodings[i];
		IMAGE_CIE(&im);
		/* For the unsigned pc-relative form the function must lie behind its entry. */
		IMAGE_FDE(&im, 0x800, 0x20, 0x44, 0x0e, 16);
		image__finish(&im);
		t = compile(&im);
		assert_int_equal(t->n_bad_fdes, 0);
		expect(t, 0x803, RSP(8));
		expect(t, 0x804, RSP(16));
		expect_none(t, 0x820);
	}
}

static void test_refused_encodings(void **state)
{
	static const uint8_t encodings[] = { 0x9b, 0x2b, 0x3b, 0x4b, 0x50, 0xff, 0x07 };

	for (size_t i = 0; i < sizeof(encodings); i++) {
		_cleanup_(unwind_table) struct unwind_table *t = NULL;
		struct image im;

		image__init(&im);
		IMAGE_CIE(&im);
		IMAGE_FDE(&im, 0x800, 0x20, 0x00);
		im.bytes[IMAGE_FRAME_AT + 16] = encodings[i]; /* the CIE's augmentation data */
		image__finish(&im);
		t = compile(&im);
		assert_int_equal(t->n_fdes, 1);
		assert_int_equal(t->n_bad_fdes, 1);
		assert_int_equal(t->n_rows, 0);
		expect_none(t, 0x800);
	}
}

static void test_augmentations(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct image im;

	image__init(&im);
	image__cie(&im, 1, "zPLR", 16, IMAGE_CODE(0x0c, 7, 8, 0x90, 1));
	image__fde_data(&im, IMAGE_VADDR + 0x00, 0x10, 4, IMAGE_CODE(0x0e, 16));
	image__cie(&im, 3, "zRB", 16, IMAGE_CODE(0x0c, 7, 8, 0x90, 1));
	IMAGE_FDE(&im, 0x10, 0x10, 0x0e, 24);
	image__cie(&im, 4, "zR", 16, IMAGE_CODE(0x0c, 7, 8, 0x90, 1));
	IMAGE_FDE(&im, 0x20, 0x10, 0x0e, 32);
	image__cie(&im, 1, "zRQ", 16, IMAGE_CODE(0x0c, 7, 8, 0x90, 1)); /* unknown letter */
	IMAGE_FDE(&im, 0x40, 0x10, 0x0e, 40);
	image__cie(&im, 1, "zR", 16, IMAGE_CODE(0x0c, 7, 8, 0x90, 1, 0x41)); /* a CIE must not advance */
	IMAGE_FDE(&im, 0x60, 0x10, 0x0e, 40);
	im.encoding = 0; /* no augmentation: plain addresses, no augmentation data */
	image__cie(&im, 1, "", 16, IMAGE_CODE(0x0c, 7, 8, 0x90, 1));
	image__fde_data(&im, IMAGE_VADDR + 0x30, 0x10, -1, IMAGE_CODE(0x0e, 48));
	image__finish(&im);
	t = compile(&im);
	expect(t, 0x00, RSP(16));
	expect(t, 0x10, RSP(24));
	expect(t, 0x20, RSP(32));
	expect(t, 0x30, RSP(48));
	expect_none(t, 0x40);
	expect_none(t, 0x60);
	assert_int_equal(t->n_fdes, 6);
	assert_int_equal(t->n_bad_fdes, 2);
}

static void test_gaps(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct image im;

	image__init(&im);
	IMAGE_CIE(&im);
	IMAGE_FDE(&im, 0x505, 0x20, 0x00);      /* not at a block's beginning */
	IMAGE_FDE(&im, 0x534, 0x0c, 0x00);      /* 15 bytes on: padding */
	IMAGE_FDE(&im, 0x550, 0x10, 0x00);      /* 16 bytes on: a gap */
	IMAGE_FDE(&im, 0xc00, 0x200, 0x0e, 16); /* a block away, up to the image's end */
	image__finish(&im);
	t = compile(&im);
	assert_int_equal(t->n_rows, 7);
	expect_none(t, 0x400);
	expect_none(t, 0x504);
	expect(t, 0x505, RSP(8));
	expect(t, 0x524, RSP(8));
	expect(t, 0x525, RSP(8));
	expect(t, 0x533, RSP(8));
	expect(t, 0x53f, RSP(8));
	expect_none(t, 0x540);
	expect_none(t, 0x54f);
	expect(t, 0x550, RSP(8));
	expect_none(t, 0x560);
	expect_none(t, 0x801);
	expect_none(t, 0xbff);
	expect(t, 0xc00, RSP(16));
	expect(t, 0xdff, RSP(16));
	expect_none(t, 0xe00);
}

/* A stack may begin at a small function without instructions: what is looked up then is the byte before it. */
static void test_padding_before_small_function(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct image im;

	image__init(&im);
	IMAGE_CIE(&im);
	IMAGE_FDE(&im, 0x500, 0x4d, 0x0e, 16);
	IMAGE_FDE(&im, 0x550, 0x1a, 0x00, 0x00);
	IMAGE_FDE(&im, 0x570, 0x1a, 0x0e, 16);
	IMAGE_FDE(&im, 0x590, 0x41, 0x00);
	image__finish(&im);
	t = compile(&im);
	expect(t, 0x54c, RSP(16));
	expect_none(t, 0x54d);
	expect_none(t, 0x54f);
	expect(t, 0x550, RSP(8));
	expect(t, 0x56f, RSP(8));
	expect(t, 0x58f, RSP(16));
	expect(t, 0x590, RSP(8));
}

/* The end of the last function on a block's boundary still has its row. */
static void test_end_on_boundary(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct image im;

	image__init(&im);
	IMAGE_CIE(&im);
	IMAGE_FDE(&im, 0x400, 0x400, 0x00);
	image__finish(&im);
	t = compile(&im);
	assert_int_equal(t->n_blocks, 2);
	assert_int_equal(t->n_rows, 2);
	assert_int_equal(t->index[1], 1);
	expect(t, 0x7ff, RSP(8));
	expect_none(t, 0x800);
}

static void test_unsorted_and_overlapping(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct image im;

	image__init(&im);
	IMAGE_CIE(&im);
	IMAGE_FDE(&im, 0x200, 0x40, 0x0e, 64);
	IMAGE_FDE(&im, 0x100, 0x40, 0x0e, 16);
	IMAGE_FDE(&im, 0x130, 0x30, 0x0e, 24, 0x48, 0x0e, 32, 0x60, 0x0e,
		  40);                         /* begins inside: cut to 0x140 on */
	IMAGE_FDE(&im, 0x110, 0x10, 0x0e, 48); /* wholly inside */
	IMAGE_FDE(&im, 0x200, 0x40, 0x0e, 56); /* the same text again */
	image__finish(&im);
	t = compile(&im);
	assert_int_equal(t->n_fdes, 5);
	assert_int_equal(t->n_bad_fdes, 3);
	expect(t, 0x100, RSP(16));
	expect(t, 0x115, RSP(16));
	expect(t, 0x13f, RSP(16));
	expect(t, 0x140, RSP(32));
	expect(t, 0x157, RSP(32));
	expect(t, 0x158, RSP(40));
	expect_none(t, 0x160);
	expect(t, 0x200, RSP(64));
	expect(t, 0x23f, RSP(64));
}

/* Each of these entries is damaged; the sound ones around them must not notice. */
static void test_damaged_programs(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct image im;

	image__init(&im);
	IMAGE_CIE(&im);
	IMAGE_FDE(&im, 0x000, 0x20, 0x00);
	IMAGE_FDE(&im, 0x020, 0x20, 0x44, 0x0e, 16, 0x3e); /* unknown instruction, after a row */
	IMAGE_FDE(&im, 0x040, 0x20, 0x0b);                 /* nothing to restore */
	IMAGE_FDE(&im, 0x060, 0x20, 0x0f, 0x70, 0x77);     /* an expression longer than the entry */
	IMAGE_FDE(&im, 0x080, 0x20, 0x0e, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
		  0x02);                                              /* 65 bits */
	IMAGE_FDE(&im, 0x0a0, 0x20, 0x0a, 0x0b, 0x0b);                /* restored twice */
	IMAGE_FDE(&im, 0x0c0, 0x20, 0x44, 0x01, 0, 0xfe, 0xff, 0xff); /* set_loc backwards */
	IMAGE_FDE(&im, 0xd00, 0x200, 0x00);                           /* beyond the text */
	IMAGE_FDE(&im, 0x0e0, 0, 0x00);                               /* empty: not an error */
	IMAGE_FDE(&im, 0x100, 0x20, 0x0e, 16, 0x7f, 0x0e, 24, 0x7f,
		  0x3e); /* past its end: what follows is unread */
	image__finish(&im);
	t = compile(&im);
	assert_int_equal(t->n_fdes, 10);
	assert_int_equal(t->n_bad_fdes, 7);
	expect(t, 0x1f, RSP(8));
	for (unsigned offset = 0x20; offset < 0x100; offset += 4)
		expect_none(t, offset);
	expect(t, 0x100, RSP(16));
	expect(t, 0x11f, RSP(16));
	expect_none(t, 0x120);
}

static void test_deep_remember(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	uint8_t code[200];
	struct image im;

	memset(code, 0x0a, sizeof(code));
	image__init(&im);
	IMAGE_CIE(&im);
	image__fde_data(&im, IMAGE_VADDR, 0x20, 0, code, 32);
	image__fde_data(&im, IMAGE_VADDR + 0x40, 0x20, 0, code, sizeof(code));
	image__finish(&im);
	t = compile(&im);
	assert_int_equal(t->n_bad_fdes, 1);
	expect(t, 0, RSP(8));
	expect_none(t, 0x40);
}

static void put32(struct image *im, size_t at, uint32_t v)
{
	memcpy(im->bytes + at, &v, 4);
}

static void test_broken_lengths(void **state)
{
	static const uint32_t lengths[] = { 1, 3, 4, 0x7fffffff, 0xfffffff0, 0xffffffff, 0xe00 };
	size_t last;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		_cleanup_(unwind_table) struct unwind_table *t = NULL;
		struct image im;

		image__init(&im);
		IMAGE_CIE(&im);
		IMAGE_FDE(&im, 0x000, 0x20, 0x0e, 16);
		IMAGE_FDE(&im, 0x020, 0x20, 0x0e, 24);
		last = im.entry;
		image__finish(&im);
		put32(&im, last, lengths[i]);
		t = compile(&im);
		expect(t, 0x00, RSP(16));
		expect_none(t, 0x20);
		assert_true(t->n_bad_fdes >= 1);
	}
}

static void test_cie_pointers(void **state)
{
	static const uint32_t pointers[] = { 8, 0x7fffffff, 0xffffff00, 5 };

	for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
		_cleanup_(unwind_table) struct unwind_table *t = NULL;
		struct image im;

		image__init(&im);
		IMAGE_CIE(&im);
		IMAGE_FDE(&im, 0x000, 0x20, 0x0e, 16);
		IMAGE_FDE(&im, 0x020, 0x20, 0x0e, 24);
		put32(&im, im.entry + 4, pointers[i]);
		image__finish(&im);
		t = compile(&im);
		expect(t, 0x00, RSP(16));
		expect_none(t, 0x20);
		assert_int_equal(t->n_bad_fdes, 1);
	}
}

/* The zero word that ended one object file's section may stand in the middle of the linked one. */
static void test_terminator_inside(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct image im;

	image__init(&im);
	IMAGE_CIE(&im);
	IMAGE_FDE(&im, 0x000, 0x20, 0x0e, 16);
	image__put_number(&im, 0, 4);
	IMAGE_CIE(&im);
	IMAGE_FDE(&im, 0x020, 0x20, 0x0e, 24);
	image__put_number(&im, 0, 4);
	image__finish(&im);
	t = compile(&im);
	assert_int_equal(t->n_bad_fdes, 0);
	expect(t, 0x1f, RSP(16));
	expect(t, 0x20, RSP(24));
}

static void sample_image(struct image *im)
{
	image__init(im);
	IMAGE_CIE(im);
	IMAGE_FDE(im, 0x000, 0x20, 0x44, 0x0e, 16);
	IMAGE_FDE(im, 0x020, 0x20, 0x44, 0x0e, 24);
}

static void assert_sample(const struct unwind_table *t)
{
	assert_int_equal(t->n_fdes, 2);
	assert_int_equal(t->n_bad_fdes, 0);
	expect(t, 0x03, RSP(8));
	expect(t, 0x04, RSP(16));
	expect(t, 0x3f, RSP(24));
	expect_none(t, 0x40);
}

static void test_ways_to_the_section(void **state)
{
	_cleanup_(unwind_table) struct unwind_table *stripped = NULL, *unwind_type = NULL, *debug = NULL,
						    *fd_table = NULL;
	_cleanup_close_ int fd = memfd_create("image", MFD_CLOEXEC);
	struct image im;

	sample_image(&im);
	image__finish_stripped(&im);
	stripped = compile(&im);
	assert_sample(stripped);

	assert_int_equal(write(fd, im.bytes, sizeof(im.bytes)), sizeof(im.bytes));
	assert_int_equal(unwind_table__compile(fd, &fd_table, NULL), 0);
	assert_sample(fd_table);

	sample_image(&im);
	image__finish_as(&im, SHT_X86_64_UNWIND);
	unwind_type = compile(&im);
	assert_sample(unwind_type);

	sample_image(&im); /* a separate debug file: the section has no bytes here */
	image__finish_as(&im, SHT_NOBITS);
	debug = compile(&im);
	assert_int_equal(debug->n_rows, 0);
	assert_int_equal(debug->n_blocks, 0);
	expect_none(debug, 0);
}

static int try(const void *bytes, size_t size)
{
	_cleanup_(unwind_table) struct unwind_table *t = NULL;
	struct so_error err = { "" };
	int r = unwind_table__compile_memory(bytes, size, &t, &err);

	if (r) {
		assert_null(t);
		assert_true(err.text[0] != '\0');
	} else {
		assert_true(unwind_table__sound(t));
	}
	return r;
}

static void test_not_for_us(void **state)
{
	struct image good, im;

	sample_image(&good);
	image__finish(&good);
	assert_int_equal(try(good.bytes, sizeof(good.bytes)), 0);
#define REFUSED(at, value)                                                  \
	do {                                                                \
		im = good;                                                  \
		im.bytes[at] = (value);                                     \
		assert_int_equal(try(im.bytes, sizeof(im.bytes)), -EINVAL); \
	} while (0)
	REFUSED(0, 'x');
	REFUSED(EI_CLASS, ELFCLASS32);
	REFUSED(EI_DATA, ELFDATA2MSB);
	REFUSED(offsetof(Elf64_Ehdr, e_machine), EM_386);
	REFUSED(offsetof(Elf64_Ehdr, e_type), ET_REL);
	REFUSED(offsetof(Elf64_Ehdr, e_type), ET_CORE);
	REFUSED(offsetof(Elf64_Ehdr, e_phentsize), 32);
	REFUSED(offsetof(Elf64_Ehdr, e_phnum), 0);
	REFUSED(offsetof(Elf64_Ehdr, e_phoff) + 4, 1);
	REFUSED(64 + offsetof(Elf64_Phdr, p_filesz) + 2, 1); /* a segment longer than the file */
	REFUSED(64 + offsetof(Elf64_Phdr, p_vaddr) + 7, 0x80);
	REFUSED(IMAGE_BYTES - 128 + offsetof(Elf64_Shdr, sh_size) + 3, 1); /* .eh_frame longer than the file */
#undef REFUSED
	assert_int_equal(try("", 0), -EINVAL);
}

static void test_every_truncation(void **state)
{
	struct image im;

	sample_image(&im);
	image__finish(&im);
	for (size_t size = 0; size < sizeof(im.bytes); size++) {
		_cleanup_free_ uint8_t *copy =
			malloc(size + 1); /* its own allocation: a reader too far is seen */

		memcpy(copy, im.bytes, size);
		assert_int_equal(try(copy, size), -EINVAL);
	}
	for (size_t size = 0; size < sizeof(im.bytes); size += 7) {
		_cleanup_close_ int fd = memfd_create("image", MFD_CLOEXEC);
		_cleanup_(unwind_table) struct unwind_table *t = NULL;

		assert_int_equal(write(fd, im.bytes, size), (ssize_t)size);
		assert_int_equal(unwind_table__compile(fd, &t, NULL), -EINVAL);
		assert_null(t);
	}
}

/* No flipped bit may crash the compiler or make an unsound table. */
static void test_every_flipped_byte(void **state)
{
	struct image im;
	unsigned refused = 0;

	sample_image(&im);
	image__finish(&im);
	for (size_t at = 0; at < sizeof(im.bytes); at++) {
		im.bytes[at] ^= 0xff;
		refused += try(im.bytes, sizeof(im.bytes)) != 0;
		im.bytes[at] ^= 0xff;
	}
	assert_true(refused > 20);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_prologue_epilogue),  cmocka_unit_test(test_locations),
		cmocka_unit_test(test_encodings),          cmocka_unit_test(test_refused_encodings),
		cmocka_unit_test(test_augmentations),      cmocka_unit_test(test_gaps),
		cmocka_unit_test(test_padding_before_small_function),
		cmocka_unit_test(test_end_on_boundary),    cmocka_unit_test(test_unsorted_and_overlapping),
		cmocka_unit_test(test_damaged_programs),   cmocka_unit_test(test_deep_remember),
		cmocka_unit_test(test_broken_lengths),     cmocka_unit_test(test_cie_pointers),
		cmocka_unit_test(test_terminator_inside),  cmocka_unit_test(test_ways_to_the_section),
		cmocka_unit_test(test_not_for_us),         cmocka_unit_test(test_every_truncation),
		cmocka_unit_test(test_every_flipped_byte),
	};

	take_corpus_option(argc, argv, "table");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
