/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the daemon bounds for its whole process, how much of it is in use, and how often the bound was met: the array
 * `limits` of GET /v1/status. All bounds, these and those of single files and answers: .design/limits.md. Thread-safe.
 */
#ifndef STAKEOUT_LIMITS_H
#define STAKEOUT_LIMITS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/error.h"

/* Targets at a time; recordings of processes that are targets already, pulls included: three of all targets at once. */
#define ENGINE_MAX_TARGETS 64
#define ENGINE_MAX_VIEWS   (3 * ENGINE_MAX_TARGETS)
/*
 * Sum of the different sampling rates of one user other than root, and of all such: each has clocks of its own, which
 * interrupt every CPU that a target may run on, whoever runs there.
 */
#define ENGINE_MAX_USER_RATES_HZ  20000
#define ENGINE_MAX_USERS_RATES_HZ 40000
/* Stacks and counters of all targets; beyond: lost, out-of-memory. */
#define ENGINE_ALL_SAMPLES_BYTES (1u << 30)

#define HTTP_MAX_BODY_BYTES       65536
#define HTTP_MAX_CONNECTIONS      256 /* a thread each */
#define HTTP_MAX_USER_CONNECTIONS 16  /* of one user other than root, so that one cannot shut out the others */

/* Names of files that threads waited for. */
#define FILE_NAMES_MAX 16384

#define DENIALS_LINES_A_SECOND 10

/* Threads of one target whose names in the program are known; beyond, half of them are forgotten (thread_names.h). */
#define THREAD_NAMES_MAX 4096

/* Of one table of Python functions, names and all; more is refused. */
#define PYTHON_FUNCTIONS_BYTES (16u << 20)
/* As many as there may be before no new one is begun: targets that are quiet for months hold on to tables of before. */
#define PYTHON_FUNCTIONS_TABLES 16

/* Handles of CUDA kernels of one process whose names are known; the one first told of is forgotten first. */
#define KERNEL_NAMES_MAX 65536

/* Copies of files that a user's program serves (file_copy.h): of one file, and of all. */
#define FILE_COPY_MAX_BYTES (64u << 20)
#define FILE_COPY_ALL_BYTES (256u << 20)

#define LIMITS_REPLY_BYTES   (1u << 30) /* of all answers that are not sent yet */
#define LIMITS_PROFILES      4          /* built at once; each needs a copy of its target's counters */
#define LIMITS_PROFILES_WAIT 20000      /* ms that a request waits for its turn */

/* Name here, name in the answer, the most. What "now" is of a limit that is met by each single thing: null. */
#define LIMITS(X)                                                                                              \
	X(TARGETS, "targets", ENGINE_MAX_TARGETS, true)                                                        \
	X(VIEWS, "views", ENGINE_MAX_VIEWS, true)                                                              \
	X(USER_RATES, "rates_hz_of_a_user", ENGINE_MAX_USER_RATES_HZ, false)                                   \
	X(PROCESSES, "processes", SO_MAX_PROCESSES, true)                                                      \
	X(LOOKED_THREADS, "looked_threads", SO_MAX_LOOKED_THREADS, true)                                       \
	X(FILE_NAMES, "waited_files", FILE_NAMES_MAX, true)                                                    \
	X(STUCK, "stuck_processes", BOUNDED_CALL_MAX_STUCK, true)                                              \
	X(THREAD_NAMES, "thread_names_of_a_target", THREAD_NAMES_MAX, false)                                   \
	X(FILES, "files", SO_MAX_FILES, true)                                                                  \
	X(TABLE_BYTES, "table_bytes", SO_MAX_SHARDS * 4ull * SO_SHARD_WORDS, true)                             \
	X(UNWIND_RULES, "unwind_rules", SO_MAX_RULES - SO_FIRST_RULE, true)                                    \
	X(PYTHON_NAMES, "python_names_bytes", (uint64_t)PYTHON_FUNCTIONS_TABLES *PYTHON_FUNCTIONS_BYTES, true) \
	X(KERNEL_NAMES, "kernel_names_of_a_process", KERNEL_NAMES_MAX, false)                                  \
	X(FILE_COPIES, "copied_file_bytes", FILE_COPY_ALL_BYTES, true)                                         \
	X(SAMPLE_BYTES, "sample_bytes", ENGINE_ALL_SAMPLES_BYTES, true)                                        \
	X(CONNECTIONS, "connections", HTTP_MAX_CONNECTIONS, true)                                              \
	X(USER_CONNECTIONS, "connections_of_a_user", HTTP_MAX_USER_CONNECTIONS, false)                         \
	X(TCP_CONNECTIONS, "tcp_connections", HTTP_MAX_CONNECTIONS, true)                                      \
	X(BODY_BYTES, "body_bytes", HTTP_MAX_BODY_BYTES, false)                                                \
	X(REPLY_BYTES, "reply_bytes", LIMITS_REPLY_BYTES, true)                                                \
	X(PROFILES, "profiles_at_once", LIMITS_PROFILES, true)                                                 \
	X(DENIAL_LINES, "denial_lines_a_second", DENIALS_LINES_A_SECOND, false)

enum limit {
#define X(name, word, most, counted) LIMIT_##name,
	LIMITS(X)
#undef X
		LIMIT_COUNT,
};

/* It was met n times by something that was refused, cut or left out. */
void limits__hit(enum limit limit, uint64_t n);
/* How much is in use, where that is not taken and given back. */
void limits__set(enum limit limit, uint64_t now);
/* Takes n of it; false, and a hit, where that is more than is left. */
bool limits__take(enum limit limit, uint64_t n);
/* The same, but waits up to ms until there is enough. */
bool limits__wait(enum limit limit, uint64_t n, unsigned ms);
void limits__give(enum limit limit, uint64_t n);
/*
 * The same for a user, of LIMIT_PROFILES, LIMIT_REPLY_BYTES and LIMIT_FILE_COPIES: a part of these is every user's at
 * most, and a part is left to root.
 */
bool limits__take_of(enum limit limit, uid_t uid, uint64_t n);
void limits__give_of(enum limit limit, uid_t uid, uint64_t n);
/*
 * Waits for the turn to build a profile: few are built at once, since each takes a copy of what it is built from. To be
 * given back as 1 of LIMIT_PROFILES and the user. -EBUSY: whose turns are taken, as one line for the user.
 */
int limits__wait_profile(uid_t uid, struct so_error *err);

/* [{"name", "limit", "now" (null: not counted), "hit"}]. New reference; NULL: no memory. */
json_t *limits__json(void);

#endif
