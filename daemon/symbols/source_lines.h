/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Source lines and inlined functions of addresses, for files that have DWARF information, their own or in a separate
 * debug file. It is read by other processes (source_reader.h), one for each user's files, which are started when a file
 * with such information is first asked about; one that ends, or does not answer in time, costs the file that it was
 * asked about its lines, and keeps waiting who asks about files of the same user. Root has one of its own; for one more
 * of the others, the one that was used longest ago ends. What was found is remembered.
 *
 * Thread-safe. No lock of the engine's may be held: a large file's units take seconds.
 */
#ifndef STAKEOUT_SOURCE_LINES_H
#define STAKEOUT_SOURCE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/symbols/source_reader.h"
#include "stakeout/cleanup.h"

#define SOURCE_OPEN_LIMIT_NS 60000000000ull /* all units of a file: 1 GiB takes 8 s to unpack */
#define SOURCE_FIND_LIMIT_NS 10000000000ull /* one address */
/*
 * What takes SOURCE_LONG_OPEN_NS to open is not opened again, if the reader had to close it, before this times as long
 * has passed.
 */
#define SOURCE_OPEN_INTERVAL 100
/* A file without lines is looked at again: a debug package may have been installed. */
#define SOURCE_AGAIN_NS     600000000000ull
#define SOURCE_MEMORY_BYTES (64u << 20) /* of what was found; then all of it is forgotten */
#define SOURCE_MAX_READERS  4           /* at a time; one of them root's */
#define SOURCE_MAX_FILES    65536       /* that were asked about; then all that is known is forgotten */

struct source_lines;

/*
 * program: the stakeoutd that is to be the reader; NULL: this program. patience_ns: how long a profile should wait for
 * lines, for source_lines__patience_ns(). NULL: out of memory.
 */
struct source_lines *source_lines__new(const char *program, uint64_t patience_ns);
void source_lines__free(struct source_lines *lines);
CLEANUP_DEFINE(struct source_lines *, source_lines, source_lines__free)

/*
 * Which file: what is known of it outlives whoever asks, so that a file that costs much is not read anew for each
 * target that has it. No padding.
 */
struct source_file {
	uint64_t dev, inode, bytes;
	int64_t changed_ns; /* st_ctim */
};

/* Opens the file and, if there is one, the one of its .gnu_debugaltlink; else fds[1] is -1. -errno: it has no lines. */
struct source_opener {
	int (*open)(void *context, bool quick, int fds[2]); /* quick: -EAGAIN instead of reading much */
	void *context;
	const char *path; /* for the log */
	uid_t uid;        /* whose file it is, always the same for a file: it is read together with no other user's */
};

struct source_frame {
	const char *function; /* as the linker knows it, or the source; "" when unknown */
	const char *file;     /* "" when unknown */
	uint32_t line;        /* 0 when unknown */
};

struct source_frames {
	size_t n;                                    /* 0: nothing is known */
	struct source_frame list[SOURCE_MAX_FRAMES]; /* innermost first: all but the last are inlined */
	char names[SOURCE_MAX_ANSWER + 2 * SOURCE_MAX_FRAMES];
};

/*
 * -ETIMEDOUT: it is not known by deadline_ns (CLOCK_MONOTONIC), or it is too soon to open a large file again. The
 * reader goes on with what it was asked, within the limits above, so that a later call finds it.
 */
int source_lines__find(struct source_lines *lines, const struct source_file *file, const struct source_opener *opener,
		       uint64_t address, uint64_t deadline_ns, struct source_frames *out);

/* Has the reader open the file, and does not wait for it; not if it is busy. */
void source_lines__prepare(struct source_lines *lines, const struct source_file *file,
			   const struct source_opener *opener);
uint64_t source_lines__patience_ns(const struct source_lines *lines);

struct source_lines_stats {
	uint64_t read;   /* addresses, by the reader */
	uint64_t files;  /* that have lines */
	uint64_t failed; /* files that the reader did not survive, or that took too long */
	uint64_t cpu_ns; /* of readers */
	uint64_t bytes;  /* of memory that the readers had when they last answered */
};
struct source_lines_stats source_lines__stats(struct source_lines *lines);

#endif
