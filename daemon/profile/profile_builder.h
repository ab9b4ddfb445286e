/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Builds one pprof message (stakeout/profile.proto). The caller interns frames once and then adds samples by
 * the returned numbers, so a profile of many samples costs little more than its distinct frames. Bytes of names
 * that are not UTF-8, which a protobuf string must be, become '?'.
 *
 * How stakeout fills the message: sample_type[0] is samples/count, sample_type[1] is cpu/nanoseconds (count × period),
 * default_sample_type "cpu"; period_type cpu/nanoseconds. Labels of a sample: "pid" and "tid" (num), "comm" (str),
 * "gil" (str), "state" (str), "api" (str), "device" (str), "time_ns" (num), "age_ns" (num), and those of a process.
 * Frames of the kernel lie in a mapping whose filename is "[kernel.kallsyms]". A Python frame has no mapping, and a
 * function with filename and a line. A cut stack ends (outermost) in a frame without mapping named "[truncated:CAUSE]".
 * Figures about the recording are comments of the form "stakeout.KEY=VALUE".
 */
#ifndef STAKEOUT_PROFILE_BUILDER_H
#define STAKEOUT_PROFILE_BUILDER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/processes/process_labels.h"
#include "stakeout/cleanup.h"

struct profile_builder;

/* period_ns: CPU time that one sample is scaled to. NULL: out of memory. */
struct profile_builder *profile_builder__new(uint64_t time_ns, uint64_t duration_ns, uint64_t period_ns);

#define PROFILE_MAX_VALUES 7

struct profile_value_type {
	const char *type, *unit;
};
/*
 * The same in wall time: a third value, wall/nanoseconds, is the default. It takes profile_builder__sample_values()
 * alone.
 */
struct profile_builder *profile_builder__new_wall(uint64_t time_ns, uint64_t duration_ns, uint64_t period_ns);

/*
 * A profile of other values, n of them a sample (1 … PROFILE_MAX_VALUES), without a period: sample_type[i] is types[i],
 * default_sample_type that of types[by_default]. It takes profile_builder__sample_values() alone. NULL: out of memory,
 * or a number out of range.
 */
struct profile_builder *profile_builder__new_values(uint64_t time_ns, uint64_t duration_ns,
						    const struct profile_value_type *types, size_t n,
						    size_t by_default);

struct profile_mapping {
	uint64_t start, limit, offset; /* as the process had it; zero when unknown */
	const char *filename;          /* basename or full path */
	const char *build_id;          /* hex, "" when unknown */
};
/* Mapping number (from 1), or 0 when out of memory. Equal mappings give the same number. */
uint64_t profile_builder__mapping(struct profile_builder *b, const struct profile_mapping *mapping);

struct profile_frame {
	uint64_t mapping_id;     /* 0: none */
	uint64_t address;        /* 0: none */
	const char *name;        /* readable; NULL or "": unknown, only mapping and address are given */
	const char *system_name; /* raw name; NULL: same as name */
	const char *filename;    /* source file; NULL: unknown */
	int64_t line;            /* 0: unknown */
	int64_t start_line;      /* of the function; 0: unknown */
};
/* Location number (from 1), or 0 when out of memory or there is no such mapping. Equal frames: equal numbers. */
uint64_t profile_builder__location(struct profile_builder *b, const struct profile_frame *frame);
/*
 * The same for an address at which functions were inlined: n frames (1 … PROFILE_MAX_INLINED), innermost first, of
 * which the last one is the function itself. Mapping and address are the first one's. Those without a name are left
 * out.
 */
#define PROFILE_MAX_INLINED 32
uint64_t profile_builder__location_of(struct profile_builder *b, const struct profile_frame *frames, size_t n);

/* How many frames a location has: 1, and those that were inlined. */
size_t profile_builder__frames(const struct profile_builder *b, uint64_t location);
/*
 * One of them, from 0, the innermost: its names are borrowed until the builder next changes; unknown ones are "".
 * mapping: the filename of its mapping, "" when it has none. The number must be one that profile_builder__location()
 * gave.
 */
void profile_builder__describe(const struct profile_builder *b, uint64_t location, size_t frame,
			       struct profile_frame *out, const char **mapping);

struct profile_labels {
	pid_t pid, tid;
	const char *comm;
	const char *gil;    /* "held", "released", "disabled"; NULL, and no such label: none of Python's threads */
	const char *state;  /* of a thread that was looked at, not sampled; NULL: no such label */
	const char *thread; /* what its program calls the thread; NULL, "": no such label */
	const char *api;    /* name of the call that the sample is of; NULL: no such label */
	const char *device; /* the GPU that it is about; NULL: no such label */
	int64_t time_ns;    /* when it was, or began, since the profile's begin; 0: no such label */
	int64_t age_ns;     /* how old a block of memory was that was freed; 0: no such label */
	uint32_t process;   /* of profile_builder__process(): labels that all samples of a process have; 0: none */
};

/*
 * Interns what is known of a process, for struct profile_labels: string labels "rank", "local_rank", "world_size",
 * "container", "pod", without those that are "". A number from 1; 0: out of memory.
 */
uint32_t profile_builder__process(struct profile_builder *b, const struct process_labels *labels);

/*
 * locations: leaf first. Samples of equal stack and labels are added up. -ENOMEM; -EINVAL: a location that
 * profile_builder__location() did not return, or a builder of other values; -EOVERFLOW: count × period passes 2^63 ns;
 * nothing is added then.
 */
int profile_builder__sample_labelled(struct profile_builder *b, const uint64_t *locations, size_t n, uint64_t count,
				     const struct profile_labels *labels);

/*
 * For profile_builder__new_values(), with as many values as there are types: values of equal stack and labels are added
 * up, each for itself; all zero: nothing is added. Errors as above; -EOVERFLOW: a value's sum passes 2^63.
 */
int profile_builder__sample_values(struct profile_builder *b, const uint64_t *locations, size_t n,
				   const uint64_t *values, const struct profile_labels *labels);

/* Adds "stakeout.KEY=VALUE". -ENOMEM. */
int profile_builder__comment(struct profile_builder *b, const char *key, const char *value);
/* The same of a number. word: behind the key and a dot; NULL: nothing. */
int profile_builder__number(struct profile_builder *b, const char *key, const char *word, uint64_t value);

/* Packs and gzips. *out is malloc'ed. The builder can go on being used. -ENOMEM. */
int profile_builder__finish(struct profile_builder *b, uint8_t **out, size_t *length);

void profile_builder__free(struct profile_builder *b);
CLEANUP_DEFINE(struct profile_builder *, profile_builder, profile_builder__free)

#endif
