/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rules that give frames a category: the shipped ones, and a user's file before them (.design/summary.md). */
#ifndef STAKEOUT_PROFILE_CATEGORY_RULES_H
#define STAKEOUT_PROFILE_CATEGORY_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"
#include "stakeout/cleanup.h"
#include "stakeout/error.h"

/* Limits of a file. */
#define CATEGORY_MAX_FILE_BYTES (1u << 20)
#define CATEGORY_MAX_CATEGORIES 200
#define CATEGORY_MAX_PATTERNS   4000
#define CATEGORY_MAX_NAME_BYTES 60

enum category_kind {
	CATEGORY_ACTIVITY,  /* what a part of the program is for: any frame of the stack */
	CATEGORY_MECHANISM, /* by what means: the frames that the innermost Python frame has called */
};

/* Where no rule matches; no category of a file may be called so. */
#define CATEGORY_LEFTOVER_LIST(X)  \
	X(PYTHON, "other Python")  \
	X(NATIVE, "other native")  \
	X(KERNEL, "kernel, other") \
	X(NO_STACK, "no stack")

enum category_leftover {
#define X(id, name) CATEGORY_LEFT_##id,
	CATEGORY_LEFTOVER_LIST(X)
#undef X
		CATEGORY_LEFTOVERS,
};

struct category_rules;

/* The shipped rules as text, in the format of a user's file. */
extern const char category_shipped_text[];

/*
 * text: length bytes of a user's file, NULL for none; name: how messages call it. -EINVAL: "NAME:LINE: what is
 * wrong"; -EFBIG: too large; -ENOMEM. *out is untouched then.
 */
int category_rules__new(const char *text, size_t length, const char *name, struct category_rules **out,
			struct so_error *err);
/* The same with the file read; also other errors of reading, in words. path NULL: the shipped rules alone. */
int category_rules__load(const char *path, struct category_rules **out, struct so_error *err);
void category_rules__free(struct category_rules *rules);
CLEANUP_DEFINE(struct category_rules *, category_rules, category_rules__free)

/* Categories are numbered from 0; the order means nothing. Names are UTF-8 in one line. */
size_t category_rules__count(const struct category_rules *rules);
const char *category_rules__name(const struct category_rules *rules, size_t category);
enum category_kind category_rules__kind(const struct category_rules *rules, size_t category);
/* False: a shipped one whose patterns a user's file has dropped, without any of its own. */
bool category_rules__has_patterns(const struct category_rules *rules, size_t category);

/* A rank: the lower, the earlier the rule stands. */
#define CATEGORY_NO_RANK UINT32_MAX

/* What a sample says of the GIL, as rules ask for it. */
enum category_gil {
	CATEGORY_GIL_RELEASED, /* or nothing */
	CATEGORY_GIL_HELD,
	CATEGORY_GIL_DISABLED,
	CATEGORY_GIL_STATES,
};

struct category_ranks {
	uint32_t activity;
	/* By enum category_gil. leaf: the frame is the leaf; as good as mechanism or better. */
	uint32_t mechanism[CATEGORY_GIL_STATES], leaf[CATEGORY_GIL_STATES];
};

/* The first rules that match a frame. */
void category_rules__match(const struct category_rules *rules, const struct profile_line *line,
			   struct category_ranks *out);
size_t category_rules__of_rank(const struct category_rules *rules, uint32_t rank);

#endif
