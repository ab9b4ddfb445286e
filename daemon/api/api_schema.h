/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The schema of the HTTP API, an OpenAPI 3.0 document: api_schema.json, which is built in. */
#ifndef STAKEOUT_API_SCHEMA_H
#define STAKEOUT_API_SCHEMA_H

#include <jansson.h>

/* With this build's version. New reference; NULL: no memory. */
json_t *api_schema__json(void);

#endif
