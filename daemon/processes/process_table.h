/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The processes that are watched: for each the run of mappings that the kernel searches. A forked child shares its
 * parent's run until either changes its memory map.
 *
 * Everything here but process_scan__read() is for the engine's lock. Learning a process's mappings takes three steps,
 * since reading and compiling files takes long: process_table__begin_scan() (locked), process_scan__prepare() (not
 * locked), process_table__end_scan() (locked).
 */
#ifndef STAKEOUT_PROCESS_TABLE_H
#define STAKEOUT_PROCESS_TABLE_H

#include "daemon/files/file_registry.h"
#include "daemon/python/python_process.h"
#include "daemon/kernel/sampler.h"

struct mapping_run {
	uint32_t first, n;
	uint32_t number; /* never used twice; from 1 */
	unsigned refs;
	uid_t uid;             /* whose share it is taken from */
	bool replaced;         /* another has its place in that share */
	struct file_use *uses; /* of its files; process_table.c's */
	size_t n_uses;
	uint64_t freed_ns;        /* when the last reference went */
	struct mapping_run *next; /* in the list of runs that wait to be reused */
};

/* What is learned of one anonymous mapping's code. Addresses are relative to the mapping. */
struct learned_mapping {
	uint64_t start, end;
	struct learned_code code;
	struct learned_mapping *next;
};

/* A piece of a mapping that is not there any more. */
struct past_mapping {
	struct so_mapping piece;
	struct file_use use;
	uint64_t until_ns; /* CLOCK_MONOTONIC */
};

struct mapping_change;

/* Code that is in no file and keeps changing is not learned for a while after it had to be forgotten so often. */
#define PROCESS_MAX_FORGOTTEN 16
#define PROCESS_FORGOTTEN_NS  600000000000ull

struct process {
	pid_t tgid;
	uid_t uid;                      /* when it was scanned last; root's until then */
	struct so_process kernel;       /* what the kernel was given last */
	struct mapping_run *run;        /* NULL until scanned */
	struct mapping_change *changes; /* reported since it was scanned; past_mappings.h */
	size_t n_changes, changes_capacity;
	struct past_mapping *past; /* by until_ns */
	size_t n_past, past_capacity;
	struct mapping_run *past_run; /* of the latest of these; NULL: none */
	unsigned execs;               /* programs that it has executed since it is known */
	uint64_t memory_since_ns;     /* when the latest of these began, or it was forked; 0: not known */
	pid_t copy_of; /* whose memory it has a copy of, since a fork that was seen; 0: it executed a program */
	bool labelled; /* its labels have been read since it began or executed another program */
	bool gone;     /* it has exited; its counts may still arrive */
	uint64_t gone_ns;
	struct learned_mapping *learned;
	unsigned forgotten;                   /* times that code was another than what it was learned from */
	uint64_t forgotten_ns;                /* the latest of these */
	const struct file_entry *python_file; /* the file with its interpreter; NULL: none */
	uint64_t python_bias;                 /* of that file */
	uint64_t asyncio_table;               /* address of asyncio's table of offsets; 0: none */
	struct python_process *python;        /* NULL: not ready yet, or refused */
	uint64_t python_asked_ns;             /* when it was first not ready; 0: never */
	bool python_refused;
	uint64_t scans;
	uint64_t last_scan_ns;  /* when the latest one ended */
	uint64_t last_read_ns;  /* and when it, or a later one in vain, began: its mappings are none of before */
	unsigned scanning;      /* scans of it that are under way */
	uint64_t not_before_ns; /* not scanned before this: it could not be read */
	struct process *next;   /* in its hash bucket */
};

struct process_table;

int process_table__new(struct sampler *sampler, struct file_registry *registry, struct table_pool *pool,
		       struct process_table **out);
void process_table__free(struct process_table *table);
CLEANUP_DEFINE(struct process_table *, process_table, process_table__free)

struct process *process_table__find(struct process_table *table, pid_t tgid);
/* Adds a process without mappings and tells the kernel. -EEXIST, -ENOMEM, -E2BIG (kernel map full). */
int process_table__add(struct process_table *table, pid_t tgid, const struct so_process *kernel, struct process **out);
/* Adds a child that the kernel has entered already as a copy of its parent. */
int process_table__add_child(struct process_table *table, pid_t tgid, const struct process *parent,
			     struct process **out);
/* Sets the flags, of enum so_process_flags, in the kernel too. */
int process_table__set_flags(struct process_table *table, struct process *process, uint32_t flags);
/* Tells the kernel where process->python is, and its build's index in sampler__pythons(), from 1. */
int process_table__set_python(struct process_table *table, struct process *process, uint32_t build);
/* The process was replaced by exec: its mappings are void. */
void process_table__exec(struct process_table *table, struct process *process);
void process_table__remove(struct process_table *table, struct process *process);
/* Calls visit for each process of a slot (SO_MAX_SLOTS: of all); visit may remove it. */
void process_table__each(struct process_table *table, uint32_t slot, void (*visit)(void *, struct process *),
			 void *context);
size_t process_table__count(const struct process_table *table);

/*
 * Asked after its memory was read by its number: whether that was the memory of this process, and of a program that its
 * target's user may read.
 */
bool process__is_readable(const struct process *process);

/* What is learned of the anonymous mapping that begins at `start`, made if need be; NULL when out of memory. */
struct learned_mapping *process__learned(struct process *process, uint64_t start, uint64_t end);
/* Makes it part of what the next scan gives the kernel. */
int process_table__publish_learned(struct process_table *table, struct process *process, struct learned_mapping *m);

/* True once, PROCESS_FORGOTTEN_NS after code in no file was replaced too often: to be scanned, and learned again. */
bool process__learns_again(struct process *process);
/* Forgets mappings that have been gone for long. */
void process_table__forget_past(struct process_table *table, struct process *process);
/* The process's mappings at a moment: see past_mappings__at(). */
size_t process_table__mappings_at(struct process_table *table, struct process *process, uint64_t when_ns,
				  struct so_mapping **out);
/* Forgets rules of code that is another by now. True: the process must be scanned for the kernel to forget them too. */
bool process_table__code_changed(struct process_table *table, struct process *process);

struct process_scan {
	pid_t tgid;
	uid_t uid;
	uint64_t generation; /* of the process's mappings, reported before they were read; 0: no report */
	uint64_t read_ns, was_read_ns; /* before and after the memory map was read */
	struct proc_maps maps;
	struct mapping_change *changes; /* what the kernel reported since the scan before */
	size_t n_changes;
	const struct proc_map **missing; /* mappings of files not registered yet */
	struct prepared_file **prepared; /* [n_missing], NULL where it failed */
	size_t n_missing;
	bool again; /* set by process_table__end_scan(): a file was retired meanwhile */
};

/*
 * Reads the executable part of the memory map; copies of a file's text are mappings of the file there (text_copies.h).
 * -ESRCH when the process is gone.
 */
int process_scan__read(struct process_scan *scan, pid_t tgid);
/* Finds which files are missing. Takes what was reported of the process. */
int process_table__begin_scan(struct process_table *table, struct process_scan *scan);
/* Reads and compiles them, several at once. */
void process_scan__prepare(struct process_scan *scan, struct file_registry *registry);
/*
 * Registers them and gives the kernel the mappings. -ENOENT when the process was removed meanwhile; -EAGAIN: its user's
 * runs of before are to be given back first (mapping_runs.h); -ENOSPC, -ENOMEM.
 */
int process_table__end_scan(struct process_table *table, struct process_scan *scan);
void process_scan__release(struct process_scan *scan);
CLEANUP_DEFINE_OF(struct process_scan, process_scan, process_scan__release)

#endif
