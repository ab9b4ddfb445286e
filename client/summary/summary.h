/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The whole summary, as `stakeout summary` shows it; render.h has the short one at the end of a recording. */
#ifndef STAKEOUT_CLIENT_SUMMARY_H
#define STAKEOUT_CLIENT_SUMMARY_H

#include <jansson.h>
#include <stdio.h>

#include "profile/category_rules.h"
#include "client/render/render.h"
#include "client/summary/summary_names.h"
#include "client/summary/summary_phases.h"

struct summary_request {
	struct render_options render;
	const struct category_rules *rules;
	const struct phases *phases; /* NULL: none */
	struct summary_style style;
};

/* stats as for render__summary(). Errors: -ENOMEM, -EFBIG (names of more than 4 GiB), -EIO, in words. */
int summary__print(const struct profile *profile, const json_t *stats, const struct summary_request *request, FILE *out,
		   struct so_error *err);
/* Everything as one JSON object, with a newline at its end. .design/summary.md lists the keys. */
int summary__print_json(const struct profile *profile, const json_t *stats, const struct summary_request *request,
			FILE *out, struct so_error *err);

#endif
