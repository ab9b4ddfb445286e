/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Turns a target's accumulated stacks into a profile: names for addresses, one location a frame. */
#ifndef STAKEOUT_PROFILE_EXPORT_H
#define STAKEOUT_PROFILE_EXPORT_H

#include "daemon/profile/accumulator.h"
#include "daemon/profile/file_names.h"
#include "daemon/profile/jit_names.h"
#include "daemon/files/file_registry.h"
#include "daemon/os/u64_table.h"
#include "daemon/symbols/kernel_symbols.h"
#include "daemon/processes/process_labels.h"
#include "daemon/processes/thread_names.h"
#include "daemon/profile/profile_builder.h"

struct profile_source {
	const struct accumulator *acc;
	struct file_registry *files;
	struct jit_names *jits; /* NULL: JIT code gets its newest names */
	uint32_t main_file;     /* the program among them: the profile's first mapping, as pprof has it; 0: not known */
	struct kernel_symbols *kernel; /* NULL: kernel frames have no names */
	uint64_t since_ns; /* from when on the stacks were taken; for kernel modules that have gone meanwhile */
	/* For processes that have ended: whether they ran in the daemon's own namespaces, and as whom. */
	bool own_namespaces;
	uid_t uid;
	const struct process_label_table *labels; /* NULL: none */
	const struct thread_names *thread_names;  /* NULL: none */
	const struct u64_table *hidden;           /* processes whose samples are left out, by number; NULL: none */
	struct file_names *waited;                /* of files that threads wait for; NULL: stacks have none */
	bool timed;                               /* samples have their times, since since_ns */
	bool no_kernel;                           /* kernel frames say what a thread waits for, and are left out */
	bool hasty; /* others wait: source lines that take long are left to a later profile */
};

/* For single stacks. source, builder: borrowed. NULL: out of memory. */
struct profile_export;
struct profile_export *profile_export__new(const struct profile_source *source, struct profile_builder *builder);
/*
 * Collects evidence of whose probes there are from all of the source's stacks (probe_time.h), before samples are added.
 */
void profile_export__look_for_probes(struct profile_export *export);
/* Adds a sample; labels->gil is filled in from the stack, labels->process from the pid. -ENOMEM. */
int profile_export__stack(struct profile_export *export, struct stack *stack, uint64_t count,
			  struct profile_labels *labels);
/* The numbers of a stack's frames in the builder, leaf first; borrowed until the next call. -ENOMEM. */
int profile_export__locations(struct profile_export *export, struct stack *stack, const uint64_t **locations,
			      size_t *n);
/*
 * Removes the kernel's frames from the last locations that were asked for, which were n; the file that is waited for
 * stays. Returns how many are left.
 */
size_t profile_export__drop_kernel(struct profile_export *export, const struct stack *stack, size_t n);
/* Whether the thread "held" or had "released" its interpreter's lock; NULL: it is none of Python's. */
const char *profile_export__gil(const struct stack *stack);
/* For labels->time_ns, of a counter. */
int64_t profile_export__time(const struct profile_source *source, const struct counter *c);
/* The number in the builder of what the source says of a process, for struct profile_labels; 0 where it is silent. */
uint32_t profile_export__process(struct profile_export *export, pid_t pid);
/* Addresses whose source lines there was no time to read. */
uint64_t profile_export__lines_missing(const struct profile_export *export);
/* Adds that number as the comment "lines-missing", if it is not 0. -ENOMEM. */
int profile_export__comment(const struct profile_export *export);
void profile_export__free(struct profile_export *export);

/* Adds all samples, and the comment. -ENOMEM. */
int profile_export__samples(const struct profile_source *source, struct profile_builder *builder);

#endif
