/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the reader of the daemon's answer keeps of it, beside stakeout/json_fields.h: texts, cleaned, and arrays. */
#ifndef STAKEOUT_CLIENT_CUDA_FIELDS_H
#define STAKEOUT_CLIENT_CUDA_FIELDS_H

#include <stddef.h>

#include "profile/arena.h"
#include "client/render/frame_text.h"
#include "stakeout/intern.h"
#include "stakeout/json_fields.h"

struct cuda_fields {
	struct json_fields json;
	struct arena *arena; /* the reader's; what is read is in it */
	struct intern texts; /* as they came, */
	const char **clean;  /* and cleaned, by the same number */
	size_t clean_capacity;
	struct text text;
};

/* The arena stays. */
void cuda_fields__clear(struct cuda_fields *fields);
CLEANUP_DEFINE(struct cuda_fields *, cuda_fields, cuda_fields__clear)

/* A text of the answer, by frame_text__words(), in the arena. */
const char *cuda_fields__clean(struct cuda_fields *fields, const char *text);
/* A member, cleaned. */
const char *cuda_fields__text(struct cuda_fields *fields, const json_t *row, const char *key, const char *absent);
/* Zeroed, in the arena. */
void *cuda_fields__array(struct cuda_fields *fields, size_t n, size_t size);

#endif
