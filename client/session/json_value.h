/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Members of the daemon's answers, which may be anything: what is not of the kind reads as none. */
#ifndef STAKEOUT_CLIENT_JSON_VALUE_H
#define STAKEOUT_CLIENT_JSON_VALUE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/session/message.h"

/* Cut to `size` bytes with its NUL, and without what a terminal would act on. */
static inline void json_value__text(const json_t *json, const char *name, char *out, size_t size)
{
	const char *text = json_string_value(json_object_get(json, name));

	snprintf(out, size, "%s", text ? text : "");
	message__clean(out);
}

static inline uint64_t json_value__number(const json_t *json, const char *name)
{
	json_int_t value = json_integer_value(json_object_get(json, name));

	return value > 0 ? (uint64_t)value : 0;
}

#endif
