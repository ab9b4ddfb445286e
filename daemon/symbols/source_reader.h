/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process that reads DWARF for the daemon (source_lines.h): what is in a file that somebody else wrote may end it,
 * and nothing but it. It holds no privileges, opens nothing (files come as descriptors), and ends with its socket.
 *
 * One message a request and one an answer, over a SOCK_SEQPACKET socket that is its standard input. Both ends are the
 * same program, so there is no version.
 */
#ifndef STAKEOUT_SOURCE_READER_H
#define STAKEOUT_SOURCE_READER_H

#include <stdint.h>

/* The first argument of a stakeoutd that is to be this. */
#define SOURCE_READER_ARGUMENT "--read-source-lines"

enum source_request_kind {
	SOURCE_OPEN, /* with one descriptor, or two: the ELF file, and the file of its .gnu_debugaltlink */
	SOURCE_FIND, /* an address of an open file */
};

struct source_request {
	uint32_t kind;
	uint32_t file; /* the daemon's number for it */
	uint64_t address;
};

enum source_status {
	SOURCE_OK,
	SOURCE_NOT_OPEN, /* closed for want of room or use, or never opened */
	SOURCE_NOTHING,  /* SOURCE_OPEN: there is nothing to be read in it */
};

#define SOURCE_MOST_S       90 /* a request takes longer: the process ends, even where nobody waits for it any more */
#define SOURCE_LONG_OPEN_NS 50000000ull /* a file takes so much CPU time to open: it stays open before others */
#define SOURCE_MAX_FRAMES   32
#define SOURCE_MAX_FUNCTION 4095 /* bytes of a name; more is cut */
#define SOURCE_MAX_FILE     1023
#define SOURCE_MAX_ANSWER   (64u << 10)

/* Then, for each frame, innermost first, a source_answer_frame and its two names. */
struct source_answer {
	uint32_t status;
	uint32_t n_frames;
	uint64_t cpu_ns; /* what the process used so far */
	uint64_t bytes;  /* of memory that it has allocated */
};

struct source_answer_frame {
	uint32_t line; /* 0: not known */
	uint16_t function_bytes, file_bytes;
};

/* Serves until standard input ends, and does not return. */
_Noreturn void source_reader__run(void);

#endif
