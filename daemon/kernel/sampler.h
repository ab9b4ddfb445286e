/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel side as the daemon sees it: loads bpf/sampler.bpf.c, opens the clock events, gives access to its maps.
 * Knows nothing of files, symbols or targets. Not thread-safe: the engine serialises.
 */
#ifndef STAKEOUT_SAMPLER_H
#define STAKEOUT_SAMPLER_H

#include <jansson.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stakeout/cleanup.h"
#include "stakeout/error.h"
#include "stakeout/pages_abi.h"
#include "stakeout/sampler_abi.h"
#include "stakeout/torch_abi.h"

struct sampler;

struct sampler_options {
	bool force_tail_calls;
	unsigned counts_entries; /* capacity of a window; 0: SO_WINDOW_ENTRIES */
};

/* What arrives from the kernel. Pointers are valid during the call only. */
struct sampler_handlers {
	void *context;
	void (*stack)(void *context, const struct so_stack_record *record, const uint64_t *frames);
	void (*raw)(void *context, const struct so_raw_record *record);
	void (*call)(void *context, const struct so_call_record *record);
	void (*page)(void *context, const struct so_page_record *record);   /* behind its stack */
	void (*torch)(void *context, const struct so_torch_record *record); /* behind its stack */
	void (*alloc)(void *context, const struct so_torch_record *record); /* the same */
	void (*event)(void *context, const struct so_event *event);
	void (*count)(void *context, const struct so_count_key *key, const struct so_count *count);
};

int sampler__new(const struct sampler_options *options, const struct sampler_handlers *handlers, struct sampler **out,
		 struct so_error *err);
/* What other objects that take stacks share with the sampler: borrowed descriptors of maps, and places in the map of its globals. */
struct sampler_shared {
	int rules, shards, processes, stacks, globals;
	uint32_t mappings_at, pythons_at; /* bytes */
	uint32_t globals_bytes;
	bool have_loop;
};
void sampler__shared(const struct sampler *s, struct sampler_shared *out);
/*
 * For another object that takes stacks (bpf/walk.h), opened and not loaded: its maps of these names become the sampler's,
 * and walk_caches has so many entries. -errno. The object's mappings_at and pythons_at are for who has its skeleton.
 */
struct bpf_object;
int sampler__share(const struct sampler_shared *shared, struct bpf_object *object, uint32_t walk_caches);

/* What the handlers get as their context. */
void sampler__set_context(struct sampler *s, void *context);
void sampler__free(struct sampler *s);
CLEANUP_DEFINE(struct sampler *, sampler, sampler__free)

/* Arrays shared with the kernel; entries must not change while a process refers to them. */
struct so_mapping *sampler__mappings(struct sampler *s);  /* SO_MAX_MAPPINGS */
struct so_python *sampler__pythons(struct sampler *s);    /* SO_MAX_PYTHONS */
struct so_unwind_rule *sampler__rules(struct sampler *s); /* SO_MAX_RULES */

/*
 * Maps shard `i` (made if need be) for writing. *words: SO_SHARD_WORDS words, to be handed to sampler__shard_close()
 * so that they do not count as the daemon's memory. -ENOMEM, -ENOSPC.
 */
int sampler__shard_open(struct sampler *s, unsigned i, uint32_t **words);
void sampler__shard_close(uint32_t *words);

/*
 * The same for `n` words of it from `first` on, which is words[0]; for sampler__words_close(). What is mapped of a
 * shard is paid for by the page, and a target has hundreds of small tables. -ENOMEM, -ENOSPC.
 */
struct sampler_words {
	uint32_t *words;
	void *map; /* NULL: nothing */
	size_t bytes;
};
int sampler__words_open(struct sampler *s, unsigned i, uint32_t first, uint32_t n, struct sampler_words *out);
void sampler__words_close(struct sampler_words *words);

int sampler__set_process(struct sampler *s, pid_t tgid, const struct so_process *process);
int sampler__get_process(struct sampler *s, pid_t tgid, struct so_process *process);
int sampler__delete_process(struct sampler *s, pid_t tgid);
/* Those that the kernel side has now, at most `room`; returns how many. What comes or goes meanwhile may be missed. */
size_t sampler__list_processes(struct sampler *s, pid_t *out, size_t room);

/*
 * Makes the clock events of this rate exist on exactly these CPUs; an empty set closes them. A CPU that is not
 * online is left out. On failure some may be open; call again or close.
 */
int sampler__set_events(struct sampler *s, unsigned rate_hz, const cpu_set_t *cpus, struct so_error *err);
/* CPUs that have events now, of any rate. */
void sampler__event_cpus(const struct sampler *s, cpu_set_t *cpus);

/* File descriptors to poll for input: new stacks, and process events. */
int sampler__stacks_fd(const struct sampler *s);
int sampler__events_fd(const struct sampler *s);
/* Hands over what waits in the rings. */
void sampler__consume_stacks(struct sampler *s);
void sampler__consume_events(struct sampler *s);
/* Process events that did not fit into their ring since the last call. */
uint64_t sampler__take_lost_events(struct sampler *s);

/*
 * Ends the open window: a new one takes over, the programs that still write to the old one are waited for, then its
 * stacks and counts are handed over and it is cleared. Nothing is lost in between. Takes some milliseconds.
 */
int sampler__drain(struct sampler *s, struct so_error *err);
unsigned sampler__window_entries(const struct sampler *s);

/*
 * Reports each time that a thread of the process reaches an offset of a file, as a count of SO_STEP_STACK + mark. mark:
 * below SO_MARKS. path: of the file. -errno of the kernel.
 */
struct mark_probe;
int sampler__probe_mark(struct sampler *s, unsigned mark, pid_t pid, const char *path, uint64_t offset,
			struct mark_probe **out);
/* The same each time that a thread reads a byte of its memory (os/watchpoint.h). */
int sampler__watch_mark(struct sampler *s, unsigned mark, pid_t tid, uint64_t address, struct mark_probe **out);
/* NULL is fine. */
void sampler__end_probe(struct mark_probe *probe);

/* Sum over the CPUs of a slot's counters, and their reset. */
int sampler__read_slot(struct sampler *s, unsigned slot, struct so_slot *sum);
int sampler__clear_slot(struct sampler *s, unsigned slot);

/* {"NAME": {"run_count", "run_ns"}} since loading, of those whose figures could be read. New reference. */
json_t *sampler__programs(const struct sampler *s);
/* Mechanisms in use, for `stakeout status`. New reference. */
json_t *sampler__mechanisms(const struct sampler *s);
uint64_t sampler__table_bytes(const struct sampler *s); /* kernel memory of shards and rules */

#endif
