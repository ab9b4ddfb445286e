/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A daemon's targets as its API tells them (.design/api.md). */
#ifndef STAKEOUT_CLIENT_TARGET_H
#define STAKEOUT_CLIENT_TARGET_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/session/api_client.h"
#include "stakeout/error.h"
#include "stakeout/sampler_abi.h"

struct target {
	uint32_t id;
	pid_t pid;
	char comm[64];
	char state[16], end[16]; /* the API's words; end is "" while it runs */
	unsigned rate_hz;
	bool keep, children, kernel;
	double elapsed_s;
	uint64_t processes, samples, lost;
	uint32_t rule;                        /* that attached it; 0: none */
	char rank[16];                        /* of its process in a distributed job; "": it has none */
	uint64_t slow_step_ns, usual_step_ns; /* the step for which it ended, and the 95th percentile; 0: none */
	char container[13];                   /* as much of its id as container tools show; "": it is in none */
};

/* From the API's JSON; absent fields are zero. */
void target__read(const json_t *json, struct target *out);
bool target__ended(const struct target *target);

#define TARGET_MOST_COUNTED (SO_MARKS - 1)

struct attach_request {
	pid_t pid;
	unsigned rate_hz;
	double duration_s; /* 0: until stopped */
	bool children, kernel, keep;
	bool wall;        /* look where its threads wait as well */
	bool timed;       /* keep each sample with its time */
	bool memory;      /* see how its memory grows */
	bool gpu_memory;  /* see what its PyTorch has on GPUs */
	bool allocations; /* see its calls of malloc and its like */
	const char *step; /* the function that begins its steps; NULL: none */
	/* Other functions, whose calls are counted; TARGET_MOST_COUNTED at most. */
	const char *const *counted;
	size_t n_counted;
	/* With `step`: only of so many steps, after so many others; steps 0: of all time. */
	unsigned skip_steps, steps;
	double until_slow; /* end after a step of so many times the 95th percentile; 0: do not */
	/*
	 * With `timed`: when to keep the latest seconds as an incident (rules with commas), and how; NULL, 0: the
	 * defaults.
	 */
	const char *save_on;
	double save_last_s, save_pause_s;
	bool cuda;
	double cuda_budget_percent; /* 0: the daemon's own */
};

int target__attach(struct api_client *api, const struct attach_request *request, struct target *out,
		   struct so_error *err);
/* The same for requests whose samples do not matter: if the daemon watches the process already, at its rate. */
int target__attach_at_any_rate(struct api_client *api, const struct attach_request *request, struct target *out,
			       struct so_error *err);
int target__get(struct api_client *api, uint32_t id, struct target *out, struct so_error *err);
/* A running target of that process before one that ended, a kept one before a recording. -ENOENT. */
int target__find(struct api_client *api, pid_t pid, struct target *out, struct so_error *err);
int target__stop(struct api_client *api, uint32_t id, struct target *out, struct so_error *err);
int target__detach(struct api_client *api, uint32_t id, struct so_error *err);
/* *out: malloc'ed gzip-compressed pprof. last_s: of the latest seconds alone, where it keeps times; 0: all. */
int target__last(struct api_client *api, uint32_t id, double last_s, uint8_t **out, size_t *length,
		 struct so_error *err);
int target__profile(struct api_client *api, uint32_t id, uint8_t **out, size_t *length, struct so_error *err);
/* Stacks of its CUDA calls, in the same form; event: a word of SO_CUDA_EVENTS. For a target attached with `cuda`. */
int target__cuda_profile(struct api_client *api, uint32_t id, const char *event, uint8_t **out, size_t *length,
			 struct so_error *err);
/* Every thread of one of its processes, its root's or a child's, as it is now, in the same form. */
int target__threads(struct api_client *api, uint32_t id, pid_t pid, uint8_t **out, size_t *length,
		    struct so_error *err);
/* The same of the child of any running target, *of. -ENOENT: it is none. */
int target__threads_of_child(struct api_client *api, pid_t pid, struct target *of, uint8_t **out, size_t *length,
			     struct so_error *err);
/* The CUDA calls of a target that was attached with `cuda`. New reference. */
int target__cuda(struct api_client *api, uint32_t id, json_t **out, struct so_error *err);
/* How the memory of a target that was attached with `memory` grew, in the same form: alloc_space and inuse_space. */
int target__memory(struct api_client *api, uint32_t id, uint8_t **out, size_t *length, struct so_error *err);
/* What the PyTorch of one with `gpu_memory` has on GPUs. */
int target__gpu_memory(struct api_client *api, uint32_t id, uint8_t **out, size_t *length, struct so_error *err);
/* What one with `allocations` allocated and freed. */
int target__allocations(struct api_client *api, uint32_t id, uint8_t **out, size_t *length, struct so_error *err);
/* The tasks of its root process's event loops. New reference. */
int target__tasks(struct api_client *api, uint32_t id, json_t **out, struct so_error *err);
int target__stats(struct api_client *api, uint32_t id, json_t **out, struct so_error *err);

#endif
