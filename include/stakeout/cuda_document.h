/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rows of a document about CUDA calls (GET /v1/targets/ID/cuda, .design/cuda.md): each member once, with its type,
 * its word in JSON, and what becomes of it where documents are added up. The daemon writes documents
 * (daemon/cuda/cuda_rows.h), the history adds them up (daemon/history/cuda_merge.h), the client reads them
 * (cuda/cuda_report.h). A new member is a line here, and its value where the daemon fills the row.
 */
#ifndef STAKEOUT_CUDA_DOCUMENT_H
#define STAKEOUT_CUDA_DOCUMENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/json_fields.h"
#include "stakeout/latency.h"

/* More is refused. */
#define SO_CUDA_MAX_ROWS    (1u << 18) /* of a list */
#define SO_CUDA_MAX_FRAMES  1024u      /* of a stack */
#define SO_CUDA_MAX_BUCKETS (LATENCY_OCTAVES * LATENCY_BUCKETS)

typedef uint32_t so_cuda_dim3[3];

/*
 * X(type, what holds it). Absent and null are the same in JSON. Of a row that was read, texts and JSON belong to the
 * document; of one that is written, the references to JSON are taken over.
 */
#define SO_CUDA_TYPES(X)                                                                         \
	X(TEXT, const char *)     /* absent: "" */                                               \
	X(NAME, const char *)     /* a text; absent: NULL */                                     \
	X(API, const char *)      /* a text, the name of a C function; absent: "" */             \
	X(FLAG, bool)             /* absent: false */                                            \
	X(INTEGER, int64_t)       /* may be negative; absent: 0 */                               \
	X(COUNT, uint64_t)        /* written as 2^63 - 1 if it is more; absent: 0 */             \
	X(CODE, uint32_t)         /* absent: 0 */                                                \
	X(NUMBER, double)         /* from 0; absent: 0 */                                        \
	X(SECONDS, double)        /* the same */                                                 \
	X(KNOWN, double)          /* from 0; absent: NAN */                                      \
	X(PERCENT, double)        /* 0 … 100; absent: NAN */                                   \
	X(ADDRESS, uint64_t)      /* "0x7f12"; absent: 0 */                                      \
	X(HANDLE, uint64_t)       /* an address, and 0 is written as null */                     \
	X(DIM3, so_cuda_dim3)     /* three counts; absent: 0 */                                  \
	X(STACK, json_t *)        /* a list, outermost frame first */                            \
	X(HISTOGRAM, json_t *)    /* a list, see so_cuda_buckets__read() */                      \
	X(ROWS, json_t *)         /* a list of rows of another kind */                           \
	X(OBJECT, json_t *)       /* values by words that are not listed here */                 \
	X(STORED_COUNT, uint64_t) /* only in the form that daemon/history/cuda_merge.h stores */ \
	X(STORED_SECONDS, double) /* the same; absent: NAN */

enum so_cuda_type {
#define X(type, holder) SO_CUDA_TYPE_##type,
	SO_CUDA_TYPES(X)
#undef X
};

#define X(type, holder) typedef holder so_cuda_##type;
SO_CUDA_TYPES(X)
#undef X

/* What the sum of rows has. */
enum so_cuda_sum {
	SO_CUDA_SUM_KEY,      /* rows that are equal in all keys are one row of the sum */
	SO_CUDA_SUM_SUM,      /* of counts and real numbers, below their types' ends; of flags, whether one is set */
	SO_CUDA_SUM_LEAST,    /* of counts */
	SO_CUDA_SUM_GREATEST, /* of counts */
	SO_CUDA_SUM_LAST,     /* that of the last document */
	SO_CUDA_SUM_OWN,      /* what the history's code for this kind of row makes of it */
};

/* X(type, member, word in JSON, sum), in the order in which they are written. */

/*
 * What stands in the document itself. estimated: some calls were not seen. available: CUDA is loaded. steps: of the
 * program that began meanwhile, where they are reported (.design/steps.md); steps_s: from the first to the last of
 * them. lines_missing: addresses of native code whose source lines there was no time to read.
 */
#define SO_CUDA_HEAD_ROW(X)                       \
	X(INTEGER, pid, "pid", LAST)              \
	X(TEXT, comm, "comm", LAST)               \
	X(SECONDS, duration_s, "duration_s", SUM) \
	X(SECONDS, cpu_s, "cpu_s", SUM)           \
	X(FLAG, estimated, "estimated", SUM)      \
	X(FLAG, available, "available", SUM)      \
	X(COUNT, steps, "steps", SUM)             \
	X(SECONDS, steps_s, "steps_s", SUM)       \
	X(COUNT, lines_missing, "lines_missing", SUM)

#define SO_CUDA_LIBRARY_ROW(X)            \
	X(INTEGER, id, "id", OWN)         \
	X(INTEGER, pid, "pid", KEY)       \
	X(TEXT, path, "path", KEY)        \
	X(TEXT, kind, "kind", KEY)        \
	X(FLAG, is_static, "static", KEY) \
	X(ROWS, probes_json, "probes", OWN)

/* The addresses are the file's own. */
#define SO_CUDA_PROBE_ROW(X)                        \
	X(TEXT, symbol, "symbol", OWN)              \
	X(TEXT, api, "api", OWN)                    \
	X(ADDRESS, address, "address", OWN)         \
	X(COUNT, offset, "offset_in_function", OWN) \
	X(TEXT, instruction, "instruction", OWN)    \
	X(FLAG, emulated, "emulated", OWN)          \
	X(TEXT, why, "why", OWN)

/* Calls of one thread to one API, of one kernel or direction. Times are the host's, from entry to return. */
#define SO_CUDA_CALL_ROW(X)                               \
	X(API, api, "api", KEY)                           \
	X(TEXT, kind_word, "kind", KEY)                   \
	X(INTEGER, library_id, "library", KEY)            \
	X(INTEGER, pid, "pid", KEY)                       \
	X(INTEGER, tid, "tid", KEY)                       \
	X(TEXT, comm, "comm", LAST)                       \
	X(NAME, kernel, "kernel", KEY)                    \
	X(HANDLE, kernel_address, "kernel_address", LAST) \
	X(TEXT, direction, "direction", KEY)              \
	X(COUNT, calls, "calls", SUM)                     \
	X(COUNT, errors, "errors", SUM)                   \
	X(COUNT, total_ns, "total_ns", SUM)               \
	X(COUNT, min_ns, "min_ns", LEAST)                 \
	X(COUNT, max_ns, "max_ns", GREATEST)              \
	X(NUMBER, squares_ns2, "squares_ns2", SUM)        \
	X(COUNT, bytes, "bytes", SUM)                     \
	X(COUNT, blocks, "blocks", SUM)                   \
	X(COUNT, threads, "threads", SUM)                 \
	X(DIM3, grid, "grid", LAST)                       \
	X(DIM3, block, "block", LAST)                     \
	X(ADDRESS, stream, "stream", LAST)                \
	X(HISTOGRAM, histogram_json, "histogram", OWN)

#define SO_CUDA_ERROR_ROW(X)                   \
	X(API, api, "api", KEY)                \
	X(INTEGER, library_id, "library", KEY) \
	X(INTEGER, pid, "pid", KEY)            \
	X(CODE, code, "code", KEY)             \
	X(COUNT, count, "count", SUM)

/*
 * stacks: of calls whose stacks were taken. sampled: one stack in several calls; the figures are scaled. needless:
 * calls that waited for nothing (struct so_cuda_line).
 */
#define SO_CUDA_LINE_ROW(X)                          \
	X(TEXT, line, "line", KEY)                   \
	X(STACK, stack_json, "stack", OWN)           \
	X(TEXT, event_word, "event", KEY)            \
	X(API, api, "api", KEY)                      \
	X(INTEGER, pid, "pid", KEY)                  \
	X(INTEGER, tid, "tid", KEY)                  \
	X(COUNT, calls, "calls", SUM)                \
	X(COUNT, total_ns, "total_ns", SUM)          \
	X(COUNT, bytes, "bytes", SUM)                \
	X(COUNT, stacks, "stacks", SUM)              \
	X(FLAG, sampled, "sampled", SUM)             \
	X(COUNT, needless, "needless", SUM)          \
	X(COUNT, needless_ns, "needless_ns", SUM)    \
	X(STORED_COUNT, stacks_ns, "stacks_ns", SUM) \
	X(STORED_COUNT, stacks_bytes, "stacks_bytes", SUM)

#define SO_CUDA_ALLOCATION_ROW(X)                       \
	X(INTEGER, pid, "pid", KEY)                     \
	X(NAME, line, "line", KEY)                      \
	X(STACK, stack_json, "stack", OWN)              \
	X(FLAG, host, "host", KEY)                      \
	X(COUNT, allocations, "allocations", SUM)       \
	X(COUNT, frees, "frees", SUM)                   \
	X(COUNT, bytes, "bytes", SUM)                   \
	X(INTEGER, current_bytes, "current_bytes", OWN) \
	X(INTEGER, peak_bytes, "peak_bytes", OWN)

/* since_ns: how long already. */
#define SO_CUDA_IN_PROGRESS_ROW(X)   \
	X(INTEGER, pid, "pid", LAST) \
	X(INTEGER, tid, "tid", LAST) \
	X(API, api, "api", LAST)     \
	X(COUNT, since_ns, "since_ns", LAST)

/* seconds, process_seconds: of how much time the percentages are. */
#define SO_CUDA_DEVICE_ROW(X)                                                       \
	X(INTEGER, index, "index", KEY)                                             \
	X(TEXT, name, "name", LAST)                                                 \
	X(TEXT, uuid, "uuid", KEY)                                                  \
	X(PERCENT, utilisation_percent, "utilisation_percent", OWN)                 \
	X(PERCENT, memory_utilisation_percent, "memory_utilisation_percent", OWN)   \
	X(KNOWN, memory_used_bytes, "memory_used_bytes", LAST)                      \
	X(KNOWN, memory_total_bytes, "memory_total_bytes", LAST)                    \
	X(PERCENT, process_utilisation_percent, "process_utilisation_percent", OWN) \
	X(KNOWN, process_memory_bytes, "process_memory_bytes", LAST)                \
	X(COUNT, samples, "samples", SUM)                                           \
	X(NAME, problem, "problem", LAST)                                           \
	X(STORED_SECONDS, seconds, "seconds", OWN)                                  \
	X(STORED_SECONDS, process_seconds, "process_seconds", OWN)

/* What the daemon says of its probes: the one row of "probes". */
#define SO_CUDA_PROBES_ROW(X)                                \
	X(COUNT, installed, "installed", LAST)               \
	X(TEXT, kind, "kind", LAST)                          \
	X(COUNT, floor_ns, "floor_ns", LAST)                 \
	X(COUNT, hits, "hits", SUM)                          \
	X(COUNT, returns, "returns", SUM)                    \
	X(COUNT, nested, "nested", SUM)                      \
	X(COUNT, stacks, "stacks", SUM)                      \
	X(KNOWN, cost_ns_per_call, "cost_ns_per_call", LAST) \
	X(KNOWN, overhead_percent, "overhead_percent", OWN)  \
	X(KNOWN, budget_percent, "budget_percent", LAST)     \
	X(TEXT, state, "state", OWN)                         \
	X(OBJECT, rungs_json, "rungs", OWN)                  \
	X(OBJECT, stack_period_json, "stack_period", OWN)    \
	X(OBJECT, stack_time_ns_json, "stack_time_ns", OWN)

/* X(KIND, struct so_cuda_…_row, the list that has them) */
#define SO_CUDA_ROWS(X)                            \
	X(HEAD, head, NULL)                        \
	X(LIBRARY, library, "libraries")           \
	X(PROBE, probe, "probes")                  \
	X(CALL, call, "calls")                     \
	X(ERROR, error, "errors")                  \
	X(LINE, line, "lines")                     \
	X(ALLOCATION, allocation, "allocations")   \
	X(IN_PROGRESS, in_progress, "in_progress") \
	X(DEVICE, device, "devices")               \
	X(PROBES, probes, NULL)

enum so_cuda_row_kind {
#define X(KIND, kind, list) SO_CUDA_ROW_##KIND,
	SO_CUDA_ROWS(X)
#undef X
		SO_CUDA_ROW_KINDS,
};

/* A struct that begins with all fields of a row serves as one, whatever follows. */
#define SO_CUDA_FIELD(type, member, word, sum) so_cuda_##type member;
#define X(KIND, kind, list)                         \
	struct so_cuda_##kind##_row {               \
		SO_CUDA_##KIND##_ROW(SO_CUDA_FIELD) \
	};
SO_CUDA_ROWS(X)
#undef X

struct so_cuda_member {
	const char *word; /* NULL: behind the last */
	enum so_cuda_type type;
	enum so_cuda_sum sum;
	size_t offset; /* in the row */
};

struct so_cuda_rows {
	const char *list;
	size_t row_bytes;
	const struct so_cuda_member *members;
};

const struct so_cuda_rows *so_cuda_rows__of(enum so_cuda_row_kind kind);

/* All of the row is set. false: refused, now or before. */
bool so_cuda_row__read(struct json_fields *fields, enum so_cuda_row_kind kind, const json_t *json, void *row);
/* A new object; NULL: out of memory, or a JSON member is NULL. stored: with the members of that form. */
json_t *so_cuda_row__write(enum so_cuda_row_kind kind, const void *row, bool stored);
/* Each text of the row becomes what replace() makes of it; NULL stays. */
void so_cuda_row__replace_texts(enum so_cuda_row_kind kind, void *row,
				const char *(*replace)(void *data, const char *text), void *data);

/* Of a histogram, one of stakeout/latency.h's: in JSON [lower_ns, width_ns, count]. */
struct cuda_bucket {
	uint32_t index; /* octave × LATENCY_BUCKETS + bucket */
	uint64_t count;
};

/* Rising ones, into json_array_size(histogram) elements. false: refused. */
bool so_cuda_buckets__read(struct json_fields *fields, const json_t *histogram, struct cuda_bucket *out);
/* New reference; NULL: out of memory. */
json_t *so_cuda_bucket__write(const struct cuda_bucket *bucket);

#endif
