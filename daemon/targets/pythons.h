/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The interpreters of watched processes: found, given to the kernel side, their frames read. With the engine's lock. */
#ifndef STAKEOUT_PYTHONS_H
#define STAKEOUT_PYTHONS_H

#include <string.h>

#include "daemon/processes/process_table.h"
#include "daemon/python/python_functions.h"
#include "daemon/python/python_names.h"

#define TARGET_MAX_PYTHONS          4 /* different versions that are told apart in a target's figures */
#define TARGET_PYTHON_FREE_THREADED 0x8000

struct stack;
struct target;

struct pythons {
	struct sampler *sampler;
	struct file_registry *files;
	struct process_table *processes;
	struct target **targets;            /* by slot */
	struct python_functions *functions; /* that frames which are read now refer to */
	uint32_t n_builds;                  /* of sampler__pythons() in use */
	uint64_t again_ns;                  /* when those that were starting are asked again; 0: none was */
};

/* A target's part, for pythons.c. */
struct target_python {
	/* Met: 0x030b for 3.11, with TARGET_PYTHON_FREE_THREADED for its free-threaded build; 0: none. */
	uint16_t versions[TARGET_MAX_PYTHONS];
	char problem[256];          /* of an interpreter that cannot be read; "": none */
	struct python_names *names; /* made when first needed */
};

static inline struct python_names_stats target_python__names(const struct target_python *p)
{
	return p->names ? python_names__stats(p->names) : (struct python_names_stats){ 0 };
}

/* For a profile and its figures. */
struct python_facts {
	uint16_t versions[TARGET_MAX_PYTHONS];
	char problem[256];
	struct python_names_stats names;
};

/* Whether an interpreter was met. */
static inline bool python_facts__any(const struct python_facts *facts)
{
	return facts->versions[0] || facts->problem[0];
}

static inline struct python_facts target_python__facts(const struct target_python *p)
{
	struct python_facts facts = { .names = target_python__names(p) };

	memcpy(facts.versions, p->versions, sizeof(facts.versions));
	memcpy(facts.problem, p->problem, sizeof(facts.problem));
	return facts;
}

static inline void target_python__release(struct target_python *p)
{
	python_names__free(p->names);
}

/* Whether a process that has just been scanned has an interpreter. */
void pythons__find(struct pythons *ps, struct process *p, const struct process_scan *scan);
/* Asks all interpreters again that were not ready. */
void pythons__look(struct pythons *ps);
/* Those that started a moment ago. Returns when it wants to be called again; UINT64_MAX: when one is found. */
uint64_t pythons__tick(struct pythons *ps, uint64_t now_ns);
/*
 * Reads n Python frames: each one's words are replaced by a struct python_frame, whose function is NULL only when out
 * of memory. False when one could not be read; its function then is "[python:CAUSE]".
 */
bool pythons__read(struct pythons *ps, pid_t tgid, uint64_t *words, size_t n);
/*
 * Notes in the stack's record where Python frames are missing in it (SO_PYTHON_STATE_MISSING). From then on the walker
 * looks for further thread states of the process's threads.
 */
void pythons__check(struct pythons *ps, struct stack *stack);
/* A window ended: begins a new table of functions if the old one is large. */
void pythons__turn(struct pythons *ps);
/* No process is left. */
void pythons__forget(struct pythons *ps);

#endif
