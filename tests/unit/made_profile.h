/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Profiles as a training process gives them: made up, but of the size, depth and variety that PyTorch stacks have. */
#ifndef STAKEOUT_TEST_MADE_PROFILE_H
#define STAKEOUT_TEST_MADE_PROFILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/thread_sample.h"

struct made_profile {
	unsigned stacks;    /* distinct ones */
	unsigned depth;     /* frames of each */
	unsigned locations; /* distinct frames of the program */
	unsigned threads;
	unsigned seed; /* other seeds: other stacks, by half, of the same program */
	uint64_t begin_ns, duration_ns;
	uint64_t lost; /* comment */
};

#define MADE_PROFILE_BITS   16 /* of a leaf's number */
#define MADE_PROFILE_LEAVES ((1u << MADE_PROFILE_BITS) - 1)

#define MADE_PROFILE_TRAINING                                                                \
	{                                                                                    \
		.stacks = 1500, .depth = 60, .locations = 3000, .threads = 8, .seed = 1,     \
		.begin_ns = 1700000000000000000ull, .duration_ns = 10000000000ull, .lost = 1 \
	}

static inline uint32_t made_profile__mix(uint32_t x)
{
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	return x ^ x >> 16;
}

static inline uint64_t made_profile__location(struct profile_builder *b, const uint64_t *mappings, uint32_t i)
{
	char name[96], system_name[96], file[64];
	struct profile_frame frame = { .name = name, .system_name = system_name, .filename = file };

	if (i % 4 == 0) {
		snprintf(name, sizeof(name), "Module%u._call_impl_%u", i % 37, i / 6);
		snprintf(file, sizeof(file), "/usr/lib/python3/dist-packages/torch/nn/modules/module_%u.py",
			 i % 50);
		frame.system_name = NULL;
		frame.line = 10 + i % 900;
		frame.start_line = 10;
	} else {
		snprintf(name, sizeof(name),
			 "at::native::(anonymous namespace)::operation_%u(at::Tensor const&)", i / 2);
		snprintf(system_name, sizeof(system_name),
			 "_ZN2at6native12_GLOBAL__N_1%uoperationERKNS_6TensorE", i / 2);
		frame.filename = NULL;
		frame.mapping_id = mappings[i % 20];
		frame.address = 0x7f0000000000ull + made_profile__mix(i) % 0x10000000u;
	}
	return profile_builder__location(b, &frame);
}

/* gzip-compressed, as the daemon serves it; the number of samples comes back. 0: out of memory. */
static inline uint64_t made_profile__make(const struct made_profile *wanted, uint8_t **out, size_t *length)
{
	_cleanup_(profile_builder) struct profile_builder *b =
		profile_builder__new(wanted->begin_ns, wanted->duration_ns, 10101010);
	_cleanup_free_ uint64_t *locations = calloc(wanted->locations, sizeof(*locations));
	_cleanup_free_ uint64_t *stack = calloc(wanted->depth, sizeof(*stack));
	uint64_t mappings[20], samples = 0;
	char text[64];

	if (!b || !locations || !stack)
		return 0;
	for (unsigned i = 0; i < 20; i++) {
		snprintf(text, sizeof(text), "/usr/lib/x86_64-linux-gnu/libtorch_part_%u.so", i);
		mappings[i] = profile_builder__mapping(
			b, &(struct profile_mapping){ 0x7f0000000000ull, 0x7f0010000000ull, 0, text, "" });
	}
	for (unsigned i = 0; i < wanted->stacks; i++) {
		uint32_t name = made_profile__mix(i * 2 + 1 + (i % 2 ? wanted->seed * 1000003u : 0)), count;
		pid_t tid = 1000 + (pid_t)(name % wanted->threads);

		/* A call tree: the outermost frames are everybody's, and the stacks part on the way in. */
		for (unsigned d = 0; d < wanted->depth; d++) {
			unsigned shared = d * MADE_PROFILE_BITS / wanted->depth; /* leaf first: low bits go */
			uint32_t at = made_profile__mix(((name & MADE_PROFILE_LEAVES) >> shared) * 131u + d) %
				      wanted->locations;

			if (!locations[at])
				locations[at] = made_profile__location(b, mappings, at);
			stack[d] = locations[at];
		}
		count = 1 + (name % 16 == 0 ? name / 16 % 50 : 0);
		samples += count;
		snprintf(text, sizeof(text), "worker-%d", tid);
		if (thread_sample(b, stack, wanted->depth, count, 1000, tid, text))
			return 0;
	}
	snprintf(text, sizeof(text), "%llu", (unsigned long long)wanted->lost);
	if (profile_builder__comment(b, "pid", "1000") || profile_builder__comment(b, "lost.map", text) ||
	    profile_builder__finish(b, out, length))
		return 0;
	return samples;
}

#endif
