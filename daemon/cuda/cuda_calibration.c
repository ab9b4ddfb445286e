// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_calibration.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/cuda/cuda_probes.h"
#include "daemon/os/clock.h"
#include "daemon/os/proc_maps.h"

#define CALLS      100 /* some 0.1 ms: short enough to be undisturbed now and then on a busy machine */
#define ROUNDS     60
#define PROBE_SLOT SO_MAX_SLOTS
#define UNIT       SO_CUDA_UNIT(SO_CUDA_OF_RUNTIME, SO_CUDA_LAUNCH)

/* As a launch, which is what most calls are: the kernel, two sizes of two registers each, and one more. */
typedef void function(const void *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* Begins like most functions of the CUDA libraries: with an instruction that the kernel emulates. */
function cuda_calibration_leaf;
function cuda_calibration_nesting;
/* Begin with what is single-stepped, always and before Linux 6.16. */
function cuda_calibration_stepped;
function cuda_calibration_nop;
__asm__(".text\n"
	".globl cuda_calibration_leaf\n"
	".type cuda_calibration_leaf, @function\n"
	"cuda_calibration_leaf:\n"
	"	push %rbp\n"
	"	pop %rbp\n"
	"	xor %eax, %eax\n" /* a launch that did not fail */
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
	".size cuda_calibration_nesting, . - cuda_calibration_nesting\n"
	".globl cuda_calibration_stepped\n"
	".type cuda_calibration_stepped, @function\n"
	"cuda_calibration_stepped:\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	".size cuda_calibration_stepped, . - cuda_calibration_stepped\n"
	".globl cuda_calibration_nop\n"
	".type cuda_calibration_nop, @function\n"
	"cuda_calibration_nop:\n"
	"	nopl 0(%rax)\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	".size cuda_calibration_nop, . - cuda_calibration_nop\n");

enum { LEAF, NESTING, STEPPED, NOP, FUNCTIONS };

static function *const functions[FUNCTIONS] = {
	[LEAF] = cuda_calibration_leaf,
	[NESTING] = cuda_calibration_nesting,
	[STEPPED] = cuda_calibration_stepped,
	[NOP] = cuda_calibration_nop,
};

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

/* Of one call; the median of the rounds: what else runs on the machine disturbs some of them. */
static double time_of(int which)
{
	uint64_t took[ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t begin = clock__now_ns();

		for (int i = 0; i < CALLS; i++)
			functions[which](cuda_calibration_leaf, 1, 1, 1, 1, 0);
		took[round] = clock__now_ns() - begin;
	}
	qsort(took, ROUNDS, sizeof(took[0]), compare);
	return (double)took[ROUNDS / 2] / CALLS;
}

/* The median of the times that the probes themselves saw. */
static double median_seen(const struct cuda_snapshot *snapshot)
{
	uint64_t counts[LATENCY_OCTAVES][LATENCY_BUCKETS] = { 0 }, total = 0, seen = 0;
	const struct cuda_calls_entry *entries;
	size_t n;

	entries = cuda_snapshot__calls(snapshot, &n);
	for (size_t i = 0; i < n; i++) {
		if (entries[i].key.octave == SO_CUDA_UNTIMED)
			continue;
		for (unsigned k = 0; k < LATENCY_BUCKETS; k++) {
			counts[entries[i].key.octave][k] += entries[i].calls.buckets[k];
			total += entries[i].calls.buckets[k];
		}
	}
	for (unsigned o = 0; o < LATENCY_OCTAVES; o++) {
		for (unsigned k = 0; k < LATENCY_BUCKETS; k++) {
			seen += counts[o][k];
			if (seen * 2 >= total && total)
				return (double)(latency_lower(o, k) + latency_width(o) / 2);
		}
	}
	return 0;
}

static bool is_own(void *context, uint32_t tgid)
{
	return tgid == (uint32_t)getpid();
}

static double positive(double ns)
{
	return ns > 0 ? ns : 0;
}

static double mean(uint64_t ns, uint64_t n)
{
	return n ? (double)ns / (double)n : 0;
}

/* plain: what the functions take without a probe. */
static int measure(struct cuda_probes *probes, const double *plain, struct cuda_prices *out)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *snapshot = NULL;
	struct so_cuda_control *control = cuda_probes__control(probes, PROBE_SLOT);
	struct so_cuda_slot slot;
	double share = 1.0 / SO_CUDA_TIMED_ONE_IN, pair, both;
	int ret = cuda_snapshot__new(&snapshot);

	if (ret)
		return ret;
	control->off[UNIT] = 1;
	out->off_ns = positive(time_of(LEAF) - plain[LEAF]);
	control->off[UNIT] = 0;
	pair = time_of(LEAF);
	ret = cuda_probes__snapshot(probes, PROBE_SLOT, NULL, NULL, snapshot);
	ret = ret ?: cuda_probes__slot(probes, PROBE_SLOT, &slot);
	if (ret)
		return ret;
	out->floor_ns = median_seen(snapshot);
	out->timed_program_ns = mean(slot.timed_ns, slot.timed);
	out->timed_ns = positive(pair - plain[LEAF]);
	/* Without probes the two take the same: it is a part of a pair, whatever disturbed either. */
	out->nested_ns = fmin(positive(time_of(NESTING) - pair), out->timed_ns);
	out->stepped_ns = positive(time_of(STEPPED) - plain[STEPPED] - out->timed_ns);
	out->nops_stepped = positive(time_of(NOP) - plain[NOP] - out->timed_ns) > out->stepped_ns / 2;
	out->has_counted = cuda_probes__kind(probes) == CUDA_PROBE_SESSION;
	if (out->has_counted) {
		control->counted[UNIT] = 1;
		both = positive(time_of(LEAF) - plain[LEAF]);
		control->counted[UNIT] = 0;
		out->counted_ns = positive(both - share * out->timed_ns) / (1 - share);
		ret = cuda_probes__slot(probes, PROBE_SLOT, &slot);
		out->counted_program_ns = mean(slot.untimed_ns, slot.untimed);
	}
	return ret ?: out->floor_ns > 0 ? 0 : -ENOTSUP;
}

int cuda_calibration__run(struct cuda_probes *probes, struct cuda_prices *out)
{
	_cleanup_(cuda_link) struct cuda_link *link = NULL;
	struct so_cuda_control *control = cuda_probes__control(probes, PROBE_SLOT);
	uint64_t offsets[FUNCTIONS], cookies[FUNCTIONS];
	const struct cuda_places places = { offsets, cookies, FUNCTIONS };
	struct cuda_prices prices = { 0 };
	_cleanup_close_ int fd = -1;
	double plain[FUNCTIONS];
	int ret = 0;

	for (int i = 0; !ret && i < FUNCTIONS; i++) {
		cookies[i] = SO_CUDA_COOKIE(SO_CUDA_API_cudaLaunchKernel, PROBE_SLOT, 0);
		plain[i] = time_of(i);
		ret = find_offset((uintptr_t)functions[i], &fd, &offsets[i]);
	}
	ret = ret ?: cuda_probes__attach_places(probes, getpid(), fd, &places, &link);
	if (ret)
		return ret;
	control->on = SO_CUDA_ON;
	ret = measure(probes, plain, &prices);
	control->on = SO_CUDA_OFF;
	cuda_probes__forget(probes, is_own, NULL);
	if (!ret)
		*out = prices;
	return ret;
}
