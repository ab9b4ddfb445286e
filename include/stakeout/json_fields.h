/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Members of JSON objects, checked as they are read. The first that is not what it must be ends the reading: its code
 * is in `ret`, its words are in err, and every later call gives what it gives for an absent member. So a row is read
 * without a test behind each member, and `ret` tells at the end. A member that is null is absent.
 */
#ifndef STAKEOUT_JSON_FIELDS_H
#define STAKEOUT_JSON_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"

CLEANUP_DEFINE(json_t *, json, json_decref)

#define JSON_FIELDS_MAX_MEMBERS 1024 /* of an object whose members are not named by the reader */

struct json_fields {
	const char *what; /* is read: "the answer about CUDA calls" */
	struct so_error *err;
	bool whole; /* counts with a fraction are refused; else they are rounded, as scaled ones may have one */
	int ret;
	const char *list; /* the row that is read: an element of this list; NULL: none */
	size_t index;
};

/* An element of a list, or with list NULL the whole, is read next. false: it is no object. */
bool json_fields__row(struct json_fields *fields, const json_t *row, const char *list, size_t index);
/* Keeps the first code and its words. why: "a number is expected" */
int json_fields__refuse(struct json_fields *fields, int code, const char *key, const char *why);

/* The member; NULL: absent, or nothing is read any more. Borrowed, as all that follows. */
json_t *json_fields__member(const struct json_fields *fields, const json_t *row, const char *key);
/* 0 … 2^63 - 1. Absent: 0. */
uint64_t json_fields__count(struct json_fields *fields, const json_t *row, const char *key);
/* May be negative. Absent: 0. */
int64_t json_fields__integer(struct json_fields *fields, const json_t *row, const char *key);
/* 0 … most. */
double json_fields__number(struct json_fields *fields, const json_t *row, const char *key, double most, double absent);
bool json_fields__flag(struct json_fields *fields, const json_t *row, const char *key, bool absent);
/* "0x7f12". Absent: 0. */
uint64_t json_fields__address(struct json_fields *fields, const json_t *row, const char *key);
/* Without a NUL inside. */
const char *json_fields__text(struct json_fields *fields, const json_t *row, const char *key, const char *absent);
/* The same of an element of the list `key`; NULL: refused. */
const char *json_fields__element(struct json_fields *fields, const json_t *element, const char *key);
/* Of at most `most` elements; more is -EFBIG. Absent: NULL. */
json_t *json_fields__list(struct json_fields *fields, const json_t *row, const char *key, size_t most);
/* Absent: NULL. */
json_t *json_fields__object(struct json_fields *fields, const json_t *row, const char *key);

#endif
