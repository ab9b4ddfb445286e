/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Output formats of a profile: one file a format (folded.c, …). */
#ifndef STAKEOUT_CLIENT_RENDER_H
#define STAKEOUT_CLIENT_RENDER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "stakeout/options.h"
#include "profile/profile.h"

/* Of a profile that is made of two: the samples of one have the thread name "base", the others "new". */
struct render_diff {
	const char *per;       /* "a step"; "": shares */
	const char *words[2];  /* the totals of base and new, for people */
	double totals[2];      /* the same as counts */
	double observation[2]; /* counts that one sample is worth on either side */
};

struct render_options {
	bool threads;                   /* first frame is comm-PID/TID rather than comm */
	bool gil;                       /* only samples whose thread held the GIL */
	bool functions;                 /* Python frames without their lines */
	bool python_only;               /* only Python frames; a stack that has none becomes PROFILE_NATIVE */
	bool addresses;                 /* reserved */
	struct option_texts only;       /* KEY=VALUE: only samples that have these (selection.h) */
	const char *value;              /* type of what is counted; NULL: samples, or wall time */
	const struct render_diff *diff; /* of a flame graph: coloured by change; NULL: of one profile */
};

/*
 * Folded stacks (DESIGN: "comm;outermost;…;innermost COUNT"): blanks in comm become '_', ';' in a name ':',
 * control characters '?'; kernel frames end in "_[k]"; Python frames read "function (file.py:line)" with the
 * basename of the file, one that could not be read "[python:CAUSE]"; a native frame without a symbol reads
 * "[libname.so]", one without a mapping "[unknown]"; a name that ends in blank and number gets '_' for the blank,
 * lest the number at the end of a line be read as a column. Lines are unique and sorted bytewise. -EIO when
 * writing fails (errno's words in err); -ENOMEM; -EFBIG: names of more than 4 GiB in all.
 */
int render__folded(const struct profile *profile, const struct render_options *options, FILE *out,
		   struct so_error *err);

#define RENDER_HTML_BYTES 300000

/*
 * A flame graph as one HTML file that needs nothing else, of RENDER_HTML_BYTES at most: of a profile that is too large
 * for that the smallest frames are merged, beside their larger siblings. options->threads: how the page begins. -EIO
 * when writing fails (errno's words in err); -ENOMEM.
 */
int render__html(const struct profile *profile, const struct render_options *options, FILE *out, struct so_error *err);

/*
 * speedscope's own format, a profile for each thread name, or with options->threads for each thread. Weights are
 * counts, as in the folded form. Errors as render__folded().
 */
int render__speedscope(const struct profile *profile, const struct render_options *options, FILE *out,
		       struct so_error *err);
/* The Firefox Profiler's processed format, plain and compressed, always with each thread by itself; wall time in ms. */
int render__firefox(const struct profile *profile, const struct render_options *options, FILE *out,
		    struct so_error *err);
int render__firefox_gzip(const struct profile *profile, const struct render_options *options, FILE *out,
			 struct so_error *err);
/* A time line for Perfetto's interface and chrome://tracing. -ENODATA: the profile keeps no times. */
int render__trace(const struct profile *profile, const struct render_options *options, FILE *out, struct so_error *err);
/* Of several on one time line, each where its own clock put it: ranks of a job. -ERANGE: they are too far apart. */
int render__traces(const struct profile *const *profiles, size_t n, const struct render_options *options, FILE *out,
		   struct so_error *err);

/*
 * The short summary at the end of a recording: the largest category of the shipped rules, samples, complete %, losses
 * by cause, the same for Python and how much the GIL was held, cost, and the ten functions with most self time and the
 * ten innermost Python lines with most time, with their 95 % intervals. stats: the `--stats` object, or NULL when only
 * a file is at hand; what the profile's comments say is used then. A figure that neither has is "not measured".
 */
int render__summary(const struct profile *profile, const json_t *stats, FILE *out, struct so_error *err);
/* options: gil and python_only choose what the tables are made of; all above them is of the whole profile. */
int render__summary_of(const struct profile *profile, const json_t *stats, const struct render_options *options,
		       FILE *out, struct so_error *err);

/* Wilson's score interval for a share of `hits` in `total`, 95 %: Wilson, JASA 22 (1927) 209–212. Shares in 0…1. */
void wilson_interval(uint64_t hits, uint64_t total, double *low, double *high);

/* The same of counts of a profile, of which several may be one observation. */
void share_interval(const struct profile *profile, int64_t hits, int64_t total, double *low, double *high);

#define NOT_MEASURED "not measured"

static inline const char *plural(int64_t n)
{
	return n == 1 ? "" : "s";
}

#endif
