/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Members of a daemon's JSON objects, checked as they are read. The first that is not what it must be ends the reading:
 * its words are in err, its code in rc, and every later call does nothing and gives what it gives for an absent member.
 * So a row is read without a test behind each member, and rc tells at the end.
 */
#ifndef STAKEOUT_CLIENT_CUDA_FIELDS_H
#define STAKEOUT_CLIENT_CUDA_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/arena.h"
#include "client/render/frame_text.h"
#include "stakeout/error.h"
#include "stakeout/intern.h"

struct cuda_fields {
	struct arena *arena; /* the reader's; what is read is in it */
	struct so_error *err;
	int rc;
	char where[96];      /* "calls[3].", in front of a member's name in messages */
	struct intern texts; /* as they came, */
	const char **clean;  /* and cleaned, by the same number */
	size_t clean_capacity;
	struct text text;
};

/* The arena stays. */
void cuda_fields__clear(struct cuda_fields *fields);
CLEANUP_DEFINE(struct cuda_fields *, cuda_fields, cuda_fields__clear)

/* An element of a list, or with list NULL the whole, is read next. false: it is no object. */
bool cuda_fields__row(struct cuda_fields *fields, const json_t *row, const char *list, size_t index);
/* Returns and keeps the code. what: "a number is expected" */
int cuda_fields__refuse(struct cuda_fields *fields, int code, const char *key, const char *what);

/* 0 or more; rounded if it has a fraction, as scaled counts may. Absent: 0. */
uint64_t cuda_fields__count(struct cuda_fields *fields, const json_t *row, const char *key);
/* May be negative. */
int64_t cuda_fields__integer(struct cuda_fields *fields, const json_t *row, const char *key);
/* 0 … most. */
double cuda_fields__number(struct cuda_fields *fields, const json_t *row, const char *key, double most, double absent);
bool cuda_fields__flag(struct cuda_fields *fields, const json_t *row, const char *key, bool absent);
/* "0x7f12"; false: absent. */
bool cuda_fields__address(struct cuda_fields *fields, const json_t *row, const char *key, uint64_t *out);
/* Cleaned by frame_text__words(). */
const char *cuda_fields__text(struct cuda_fields *fields, const json_t *row, const char *key, const char *absent);
/* The same of a string by itself: an element of a list, or a key. */
const char *cuda_fields__clean(struct cuda_fields *fields, const char *text, size_t length);
/* A list of at most `most` elements; absent: NULL and 0. */
const json_t *cuda_fields__list(struct cuda_fields *fields, const json_t *row, const char *key, size_t most, size_t *n);
/* An object; absent: NULL. */
const json_t *cuda_fields__object(struct cuda_fields *fields, const json_t *row, const char *key);
/* Zeroed, in the arena. */
void *cuda_fields__array(struct cuda_fields *fields, size_t n, size_t size);

#endif
