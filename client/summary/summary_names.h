/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The samples that the summary's options let through, and tables of functions, source lines, threads, processes. */
#ifndef STAKEOUT_CLIENT_SUMMARY_NAMES_H
#define STAKEOUT_CLIENT_SUMMARY_NAMES_H

#include "profile/profile.h"
#include "client/render/render.h"
#include "stakeout/cleanup.h"
#include "stakeout/intern.h"

struct share {
	int64_t samples;
	double ns; /* CPU time */
};

static inline void share__add(struct share *share, const struct share *more)
{
	share->samples += more->samples;
	share->ns += more->ns;
}

/* How a summary looks. */
struct summary_style {
	bool page;               /* tables have titles, with a blank line before each */
	bool color;              /* for a terminal that shows it */
	bool native_interpreter; /* the interpreter's own functions as others; else a part of the Python function */
	bool details;            /* what is in a category, each process, the innermost lines */
	size_t top;              /* rows of each table */
	size_t columns;          /* of the terminal; 0: none */
};

/* What a summary is of. */
struct scope {
	const struct summary_style *style;
	const struct profile *profile;
	const struct render_options *options;
	struct share total; /* of the samples that the options let through */
	struct share idle;  /* of these, what threads of pools waited for work */
};

void scope__init(const struct profile *profile, const struct render_options *options, const struct summary_style *style,
		 struct scope *out);
/* false: the options leave this sample out. */
bool scope__share_any(const struct scope *scope, const struct profile_sample *sample, struct share *out);
/* The same without the threads of pools that have no work: nothing happens there, and they would lead every table. */
bool scope__share(const struct scope *scope, const struct profile_sample *sample, struct share *out);
/* Does the profile tell time? Otherwise ns is 0 everywhere and means nothing. */
static inline bool scope__timed(const struct scope *scope)
{
	return scope->total.ns > 0;
}

#define NAMES_NONE UINT32_MAX

/* Which name each of the profile's lines has. */
struct names {
	struct intern texts;
	uint32_t *of_line; /* a number of texts, or NAMES_NONE */
	uint32_t *example; /* by number: a line that has this name */
	size_t capacity;
	const char *none;  /* how the frames of a sample without any name are called */
	bool none_in_rows; /* such samples are a row like others */
	bool of_sources;   /* native source lines, and code that has no name */
	uint32_t folded; /* the name of all code of the interpreter, which counts where a stack has no other; or NONE */
};

/* Functions with their files; those of Python, or all. -ENOMEM; -EFBIG: names of more than 4 GiB in all. */
int names__functions(const struct scope *scope, bool python_only, struct names *out);
/* Python's source lines; in a profile without Python those of native code, where they are known. Errors as above. */
int names__lines(const struct scope *scope, struct names *out);
void names__clear(struct names *names);
/* Of the innermost frame that has one. NAMES_NONE: no frame has. */
uint32_t names__leaf(const struct names *names, const struct profile_sample *sample);

#define ROW_NO_LINE UINT32_MAX

struct row {
	const char *text; /* not terminated */
	size_t length;
	struct share self;            /* samples whose innermost named frame it is */
	struct share total;           /* samples in whose stack it is */
	const char *rank, *container; /* of a thread's or process's samples; NULL or "": none */
	size_t alike;                 /* processes in a row that stands for several; 0: it is one's own */
	uint32_t line;                /* a line of the profile that has this name, or ROW_NO_LINE */
};

struct rows {
	struct row *list;
	size_t n;
	struct share none;   /* samples without a named frame */
	struct intern texts; /* of threads and processes; the others' texts are their names' */
};

void rows__clear(struct rows *rows);

/* All names with samples, in order of self, then text. They point into names. -ENOMEM. */
int rows__of_names(const struct scope *scope, const struct names *names, struct rows *out);
void rows__sort_by_total(struct rows *rows);
void rows__sort_by_self(struct rows *rows);
/*
 * Of rows of processes: those of one name, each with a small share, as one row, whose text is the name; what short
 * commands in a loop make. *out has no texts of its own. -ENOMEM.
 */
int rows__join_alike(const struct rows *rows, const struct scope *scope, struct rows *out);
/* Threads or, without threads, processes; self is total. Samples without labels are none. -ENOMEM. */
int rows__of_threads(const struct scope *scope, bool threads, struct rows *out);

#endif
