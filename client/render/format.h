/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which form a profile is written in, and how a file's name tells. */
#ifndef STAKEOUT_CLIENT_FORMAT_H
#define STAKEOUT_CLIENT_FORMAT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "profile/profile.h"
#include "client/render/render.h"
#include "stakeout/error.h"

enum format {
	FORMAT_FOLDED,
	FORMAT_PPROF,
	FORMAT_HTML,
	FORMAT_SPEEDSCOPE,
	FORMAT_FIREFOX,
	FORMAT_FIREFOX_GZIP,
	FORMAT_TRACE,
	FORMATS,
};

#define FORMAT_LIST "folded, html, speedscope, firefox, trace or pprof"

/* -EINVAL: an unknown word, in words. path: where it goes, which may ask for compression; NULL: not known. */
int format__parse(const char *word, const char *path, enum format *out, struct so_error *err);
/* By the ending of a file's name; folded when it says nothing. -EINVAL when it promises a form that is not written. */
int format__from_path(const char *path, enum format *out, struct so_error *err);
/* -EINVAL: a form that is not for reading, where path is "-" and standard output a terminal. */
int format__check_terminal(enum format format, const char *path, struct so_error *err);
/* The ending that a file of this form gets, with its dot. */
const char *format__ending(enum format format);

struct format_source {
	const uint8_t *bytes; /* pprof as it came */
	size_t length;
	const struct profile *profile; /* the same, read */
};

/* options: not of a pprof file, which holds everything. */
int format__write(enum format format, const struct format_source *source, const struct render_options *options,
		  FILE *out, struct so_error *err);

#endif
