/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tests of hand-assembled call-frame information have in common. */
#ifndef STAKEOUT_TESTS_UNWIND_EXPECT_H
#define STAKEOUT_TESTS_UNWIND_EXPECT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "daemon/unwind/unwind_table.h"
#include "tests/unit/cfi_image.h"

/* With `--write-corpus DIR` the images are also written, as seeds for the fuzzer. */
static const char *corpus_dir, *corpus_prefix;

static inline void write_seed(const struct image *im)
{
	static unsigned serial;
	_cleanup_fclose_ FILE *file = NULL;
	char path[256];

	snprintf(path, sizeof(path), "%s/%s-%02u", corpus_dir, corpus_prefix, serial++);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(im->bytes, 1, sizeof(im->bytes), file), sizeof(im->bytes));
}

static inline struct unwind_table *compile(const struct image *im)
{
	struct unwind_table *t = NULL;

	if (corpus_dir)
		write_seed(im);
	assert_int_equal(unwind_table__compile_memory(im->bytes, sizeof(im->bytes), &t, NULL), 0);
	assert_non_null(t);
	assert_true(unwind_table__sound(t));
	return t;
}

/* The rule at `offset` from the image's beginning. */
static inline void expect(const struct unwind_table *t, uint64_t offset, struct so_unwind_rule want)
{
	const struct so_unwind_rule *got = unwind_table__lookup(t, IMAGE_VADDR + offset);

	assert_non_null(got);
	if (memcmp(got, &want, sizeof(want)))
		fail_msg("at %#lx: kind %u reg %u off %d off2 %d saves %#x %d %d ra %#x", (unsigned long)offset,
			 got->cfa_kind, got->cfa_reg, got->cfa_off, got->cfa_off2, got->saves, got->rbp_off,
			 got->rbx_off, got->ra);
}

static inline void expect_none(const struct unwind_table *t, uint64_t offset)
{
	assert_null(unwind_table__lookup(t, IMAGE_VADDR + offset));
}

#define REG(reg, off) ((struct so_unwind_rule){ .cfa_kind = SO_CFA_REG, .cfa_reg = (reg), .cfa_off = (off) })
#define RSP(off)      REG(SO_REG_RSP, off)
#define KIND(kind)    ((struct so_unwind_rule){ .cfa_kind = (kind) })
#define WITH_RBP(off) .rbp_off = (off), .saves = SO_SAVES(SO_SAVE_CFA, SO_SAVE_SAME)
#define END           KIND(SO_CFA_END)
#define UNSUPPORTED   KIND(SO_CFA_UNSUPPORTED)

static inline void take_corpus_option(int argc, char **argv, const char *prefix)
{
	corpus_prefix = prefix;
	if (argc == 3 && !strcmp(argv[1], "--write-corpus"))
		corpus_dir = argv[2];
}

#endif
