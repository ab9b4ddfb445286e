// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda_calibration.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/clock.h"
#include "daemon/proc_maps.h"

#define CALLS      250 /* some 0.2 ms: short enough to be undisturbed now and then on a busy machine */
#define ROUNDS     80
#define PROBE_SLOT SO_MAX_SLOTS

/* Begins like most functions of the CUDA libraries: with an instruction that the kernel emulates. */
void cuda_calibration_leaf(void);
void cuda_calibration_nesting(void);
__asm__(".text\n"
	".globl cuda_calibration_leaf\n"
	".type cuda_calibration_leaf, @function\n"
	"cuda_calibration_leaf:\n"
	"	push %rbp\n"
	"	pop %rbp\n"
	"	ret\n"
	".size cuda_calibration_leaf, . - cuda_calibration_leaf\n"
	".globl cuda_calibration_nesting\n"
	".type cuda_calibration_nesting, @function\n"
	"cuda_calibration_nesting:\n"
	"	push %rbp\n"
	"	call cuda_calibration_leaf\n"
	"	pop %rbp\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	".size cuda_calibration_nesting, . - cuda_calibration_nesting\n");

/* The file of this program, and where in it the code at an address of ours is. */
static int find_offset(uint64_t address, int *fd, uint64_t *offset)
{
	__attribute__((cleanup(proc_maps__release))) struct proc_maps maps = { 0 };
	int ret = proc_maps__read(getpid(), true, &maps, NULL);

	for (size_t i = 0; !ret && i < maps.n; i++) {
		const struct proc_map *map = &maps.maps[i];

		if (address < map->start || address >= map->end)
			continue;
		*offset = address - map->start + map->offset;
		if (*fd < 0)
			*fd = proc_maps__open_file(getpid(), map);
		return *fd < 0 ? *fd : 0;
	}
	return ret ?: -ENOENT;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/*
 * The median of the rounds: what else runs on the machine disturbs some of them. The quickest would be less than what a call
 * costs in a program that does other things as well.
 */
static double time_of(void (*function)(void))
{
	uint64_t took[ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t begin = clock__now_ns();

		for (int i = 0; i < CALLS; i++)
			function();
		took[round] = clock__now_ns() - begin;
	}
	qsort(took, ROUNDS, sizeof(took[0]), compare);
	return (double)took[ROUNDS / 2] / CALLS;
}

/* The median of the times that the probes themselves saw. */
static uint64_t median_seen(const struct cuda_snapshot *snapshot)
{
	uint64_t counts[LATENCY_OCTAVES][LATENCY_BUCKETS] = { 0 }, total = 0, seen = 0;
	const struct cuda_calls_entry *entries;
	size_t n;

	entries = cuda_snapshot__calls(snapshot, &n);
	for (size_t i = 0; i < n; i++) {
		for (unsigned k = 0; k < LATENCY_BUCKETS; k++) {
			counts[entries[i].key.octave][k] += entries[i].calls.buckets[k];
			total += entries[i].calls.buckets[k];
		}
	}
	for (unsigned o = 0; o < LATENCY_OCTAVES; o++) {
		for (unsigned k = 0; k < LATENCY_BUCKETS; k++) {
			seen += counts[o][k];
			if (seen * 2 >= total && total)
				return latency_lower(o, k) + latency_width(o) / 2;
		}
	}
	return 0;
}

static bool is_own(void *context, uint32_t tgid)
{
	return tgid == (uint32_t)getpid();
}

static int measure(struct cuda_probes *probes, int fd, const uint64_t *offsets, double plain,
		   double plain_nesting, struct cuda_probe_cost *out)
{
	const uint64_t cookies[] = {
		SO_CUDA_COOKIE(SO_CUDA_API_cudaDeviceSynchronize, PROBE_SLOT, 0),
		SO_CUDA_COOKIE(SO_CUDA_API_cudaDeviceSynchronize, PROBE_SLOT, 0),
	};
	_cleanup_(cuda_snapshot) struct cuda_snapshot *snapshot = NULL;
	_cleanup_(cuda_link) struct cuda_link *link = NULL;
	int ret = cuda_probes__attach_offsets(probes, getpid(), fd, offsets, cookies, 2, &link);

	ret = ret ?: cuda_snapshot__new(&snapshot);
	if (ret)
		return ret;
	cuda_probes__control(probes, PROBE_SLOT)->on = 1;
	out->pair_ns = time_of(cuda_calibration_leaf) - plain;
	ret = cuda_probes__snapshot(probes, PROBE_SLOT, NULL, NULL, snapshot);
	out->nested_ns = time_of(cuda_calibration_nesting) - plain_nesting - out->pair_ns;
	cuda_probes__control(probes, PROBE_SLOT)->on = 0;
	if (out->nested_ns < 0)
		out->nested_ns = 0;
	out->floor_ns = median_seen(snapshot);
	cuda_probes__forget(probes, is_own, NULL);
	return ret ?: out->floor_ns ? 0 : -ENOTSUP;
}

int cuda_calibration__run(struct cuda_probes *probes, struct cuda_probe_cost *out)
{
	double plain = time_of(cuda_calibration_leaf), plain_nesting = time_of(cuda_calibration_nesting);
	struct cuda_probe_cost cost = { 0 };
	_cleanup_close_ int fd = -1;
	uint64_t offsets[2];
	int ret = find_offset((uintptr_t)cuda_calibration_leaf, &fd, &offsets[0]);

	ret = ret ?: find_offset((uintptr_t)cuda_calibration_nesting, &fd, &offsets[1]);
	ret = ret ?: measure(probes, fd, offsets, plain, plain_nesting, &cost);
	if (!ret)
		*out = cost;
	return ret;
}
