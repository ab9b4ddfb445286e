// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/cuda_calibration.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/os/clock.h"
#include "daemon/os/proc_maps.h"

#define CALLS      100 /* some 0.4 ms: short enough to be undisturbed now and then on a busy machine */
#define LOOP       5000
#define ROUNDS     80
#define FEW_ROUNDS 15 /* of calls that are single-stepped: some 1.2 ms each */
#define PROBE_SLOT SO_MAX_SLOTS

/*
 * Calls of a program that has other things to do: before each, more is read than a core's caches hold, but for the last level's.
 */
#define COLD_BYTES   (8u << 20)
#define COLD_READ    (5u << 19) /* the largest second-level caches of a core have 2 MiB */
#define LINE_BYTES   64
#define COLD_CALLS   150
#define COLD_WARM_UP 20

/*
 * As a launch, which is what most calls are: the kernel, two sizes of two registers each, and one more. What of the arguments is on the
 * stack is whatever is there.
 */
typedef void function(const void *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* Begins like most functions of the CUDA libraries: with an instruction that the kernel emulates. */
function cuda_calibration_leaf;
function cuda_calibration_nesting;
/* Begin with what is single-stepped, always and before Linux 6.16. */
function cuda_calibration_stepped;
function cuda_calibration_nop;
/*
 * 24 KiB of a program's code, and as much of its data, around a call of cuda_calibration_launch(): as deep down a stack as a library's calls
 * are, and with branches that depend on the data, the same ones each time.
 */
void cuda_calibration_around(const uint8_t *data);
void cuda_calibration_launch(void);
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
	".size cuda_calibration_nop, . - cuda_calibration_nop\n"
	".globl cuda_calibration_around\n"
	".type cuda_calibration_around, @function\n"
	"cuda_calibration_around:\n"
	"	push %rbp\n"
	"	push %rbx\n"
	"	push %r12\n"
	"	mov %rdi, %r12\n"
	"	mov $1, %ebx\n"
	"	call 2f\n"
	"	pop %r12\n"
	"	pop %rbx\n"
	"	pop %rbp\n"
	"	ret\n"
	".macro cuda_calibration_line\n"
	"	imul $(cuda_calibration_at * 40503 & 0xffff | 1), %ebx, %ebx\n"
	"	add cuda_calibration_at * 64(%r12), %ebx\n"
	"	test $(1 << (cuda_calibration_at % 13)), %ebx\n"
	"	jz 1f\n"
	"	xor $(cuda_calibration_at * 30011 & 0xffff), %ebx\n"
	"	.balign 64\n"
	"1:\n"
	"	.set cuda_calibration_at, cuda_calibration_at + 1\n"
	".endm\n"
	".set cuda_calibration_at, 0\n"
	".balign 64\n"
	/* What goes down, and what comes up again. */
	".rept 24\n"
	"2:\n"
	"	push %rbp\n"
	"	.rept 8\n"
	"	cuda_calibration_line\n"
	"	.endr\n"
	"	call 2f\n"
	"	.rept 7\n"
	"	cuda_calibration_line\n"
	"	.endr\n"
	"	pop %rbp\n"
	"	ret\n"
	"	.balign 64\n"
	".endr\n"
	"2:\n"
	"	jmp cuda_calibration_launch\n"
	".size cuda_calibration_around, . - cuda_calibration_around\n");

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

/* Our functions, and the places of their probes. */
enum { LEAF, NESTING, STEPPED, NOP, FUNCTIONS };

static function *const functions[FUNCTIONS] = {
	[LEAF] = cuda_calibration_leaf,
	[NESTING] = cuda_calibration_nesting,
	[STEPPED] = cuda_calibration_stepped,
	[NOP] = cuda_calibration_nop,
};

static void launch(function *called)
{
	called(cuda_calibration_leaf, 1, 1, 1, 1, 0);
}

static function *launched;

__attribute__((used, visibility("hidden"))) void cuda_calibration_launch(void)
{
	launch(launched);
}

/*
 * What probes cost shows behind them as well: a kernel that was entered leaves less of the program's code, data and branches in the caches. So
 * what is timed is a call with code around it.
 */
static void launch_within(function *called, const uint8_t *data)
{
	launched = called;
	cuda_calibration_around(data);
}

static void nothing(const void *kernel, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static uint64_t time_once(function *called, const uint8_t *bytes)
{
	uint64_t begin = clock__now_ns();

	for (int i = 0; i < CALLS; i++)
		launch_within(called, bytes);
	return clock__now_ns() - begin;
}

/*
 * The median of the rounds: what else runs on the machine disturbs some of them. The quickest would be less than what a call
 * costs in a program that does other things as well.
 */
static double median(uint64_t *took, int n)
{
	qsort(took, n, sizeof(took[0]), compare);
	return (double)took[n / 2];
}

static double time_of(function *called, int rounds, const uint8_t *bytes)
{
	uint64_t took[ROUNDS];

	for (int round = 0; round < rounds; round++)
		took[round] = time_once(called, bytes);
	return median(took, rounds) / CALLS;
}

static void switch_launches(struct cuda_probes *probes, bool on)
{
	cuda_probes__control(probes, PROBE_SLOT)->off[SO_CUDA_LAUNCH] = !on;
}

struct turns {
	double pair, light, nesting;
};

/* In turn: their differences matter more than each of them, and machines change their speed. */
static void time_turns(struct cuda_probes *probes, const uint8_t *bytes, struct turns *times)
{
	uint64_t pairs[ROUNDS], lights[ROUNDS], nestings[ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		pairs[round] = time_once(functions[LEAF], bytes);
		nestings[round] = time_once(functions[NESTING], bytes);
		switch_launches(probes, false);
		lights[round] = time_once(functions[LEAF], bytes);
		switch_launches(probes, true);
	}
	times->pair = median(pairs, ROUNDS) / CALLS;
	times->light = median(lights, ROUNDS) / CALLS;
	times->nesting = median(nestings, ROUNDS) / CALLS;
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

static double positive(double ns)
{
	return ns > 0 ? ns : 0;
}

static uint32_t read_much(const volatile uint8_t *bytes, unsigned round)
{
	size_t begin = (size_t)round * COLD_READ % COLD_BYTES;
	uint32_t sum = 0;

	for (size_t i = 0; i < COLD_READ; i += LINE_BYTES)
		sum += bytes[(begin + i) % COLD_BYTES];
	return sum;
}

/* Of a call and of the code around it, which has just been run. */
static uint64_t cold_time_once(function *called, const uint8_t *bytes, unsigned round)
{
	uint64_t begin;

	read_much(bytes, round);
	launch_within(nothing, bytes);
	begin = clock__now_ns();
	launch_within(called, bytes);
	return clock__now_ns() - begin;
}

/* The medians of so many functions' calls, which take turns. */
static void cold_times(const int *which, int n, const uint8_t *bytes, double *times)
{
	uint64_t took[FUNCTIONS][COLD_CALLS];
	unsigned round = 0;

	for (int i = -COLD_WARM_UP; i < COLD_CALLS; i++) {
		for (int k = 0; k < n; k++) {
			uint64_t ns = cold_time_once(functions[which[k]], bytes, round++);

			if (i >= 0)
				took[k][i] = ns;
		}
	}
	for (int k = 0; k < n; k++) {
		times[k] = median(took[k], COLD_CALLS);
	}
}

static double cold_time(const uint8_t *bytes)
{
	const int leaf = LEAF;
	double time;

	cold_times(&leaf, 1, bytes, &time);
	return time;
}

/* The own time of an entry's program, since `before`. */
static double program_time(const struct so_cuda_slot *now, const struct so_cuda_slot *before)
{
	uint64_t entries = now->entries - before->entries;

	return entries ? (double)(now->entries_ns - before->entries_ns) / (double)entries : 0;
}

static int measure_cold(struct cuda_probes *probes, const uint8_t *bytes, double plain,
			struct cuda_probe_cost *out)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *before = NULL, *after = NULL, *seen = NULL;
	struct so_cuda_slot first, last;
	int ret = cuda_snapshot__new(&before);

	ret = ret ?: cuda_snapshot__new(&after);
	ret = ret ?: cuda_probes__snapshot(probes, PROBE_SLOT, NULL, NULL, before);
	ret = ret ?: cuda_probes__slot(probes, PROBE_SLOT, &first);
	if (ret)
		return ret;
	out->cold.pair_ns = positive(cold_time(bytes) - plain);
	ret = cuda_probes__snapshot(probes, PROBE_SLOT, NULL, NULL, after);
	ret = ret ?: cuda_probes__slot(probes, PROBE_SLOT, &last);
	ret = ret ?: cuda_snapshot__subtract(after, before, &seen);
	if (ret)
		return ret;
	out->cold.floor_ns = (double)median_seen(seen);
	out->cold.program_ns = program_time(&last, &first);
	return 0;
}

/* What the functions take without a probe. */
struct plain {
	double warm[FUNCTIONS];
	double cold; /* of the first */
};

/* Where they are a link of their own, which is there now, and no other. */
static void measure_light_link(struct cuda_probes *probes, const struct plain *plain, const uint8_t *bytes,
			       struct cuda_probe_cost *out)
{
	switch_launches(probes, false);
	out->light_ns = positive(time_of(functions[LEAF], ROUNDS, bytes) - plain->warm[LEAF]);
	out->cold.light_ns = positive(cold_time(bytes) - plain->cold);
	switch_launches(probes, true);
}

static int measure_pairs(struct cuda_probes *probes, bool light_is_known, const struct plain *plain,
			 const uint8_t *bytes, struct cuda_probe_cost *out)
{
	_cleanup_(cuda_snapshot) struct cuda_snapshot *snapshot = NULL;
	struct so_cuda_slot slot, none = { 0 };
	struct turns turns;
	int ret = cuda_snapshot__new(&snapshot);

	if (ret)
		return ret;
	/* What they see themselves, and how long their programs take: by nothing but calls. */
	for (int i = 0; i < LOOP; i++)
		launch(functions[LEAF]);
	ret = cuda_probes__snapshot(probes, PROBE_SLOT, NULL, NULL, snapshot);
	ret = ret ?: cuda_probes__slot(probes, PROBE_SLOT, &slot);
	if (ret)
		return ret;
	out->floor_ns = (double)median_seen(snapshot);
	out->program_ns = program_time(&slot, &none);
	time_turns(probes, bytes, &turns);
	out->pair_ns = positive(turns.pair - plain->warm[LEAF]);
	/* It is a part of what a pair is, whatever disturbed the one or the other; without probes the two take the same. */
	out->nested_ns = fmin(positive(turns.nesting - turns.pair), out->pair_ns);
	ret = measure_cold(probes, bytes, plain->cold, out);
	if (ret || light_is_known)
		return ret;
	out->light_ns = positive(turns.light - plain->warm[LEAF]);
	switch_launches(probes, false);
	out->cold.light_ns = positive(cold_time(bytes) - plain->cold);
	switch_launches(probes, true);
	return 0;
}

/* What a function's probes take more than those of an entry and its return. */
static double beyond_pair(function *called, double plain, const uint8_t *bytes,
			  const struct cuda_probe_cost *cost)
{
	return positive(time_of(called, FEW_ROUNDS, bytes) - plain - cost->pair_ns);
}

/* That of the others by the first. Without probes they differ by less than a cold call varies. */
static void measure_cold_others(const uint8_t *bytes, struct cuda_probe_cost *out)
{
	const int which[] = { LEAF, NESTING, STEPPED };
	double times[FUNCTIONS];

	cold_times(which, sizeof(which) / sizeof(which[0]), bytes, times);
	out->cold.nested_ns = fmin(positive(times[1] - times[0]), out->cold.pair_ns);
	out->cold.stepped_ns = positive(times[2] - times[0]);
}

static int measure(struct cuda_probes *probes, int fd, const uint64_t *offsets, const struct plain *plain,
		   const uint8_t *bytes, struct cuda_probe_cost *out)
{
	_cleanup_(cuda_link) struct cuda_link *link = NULL;
	uint64_t cookies[FUNCTIONS];
	const struct cuda_places places = { offsets, cookies, FUNCTIONS };
	bool light;
	double nop;
	int ret;

	for (int i = 0; i < FUNCTIONS; i++)
		cookies[i] = SO_CUDA_COOKIE(SO_CUDA_API_cudaLaunchKernel, PROBE_SLOT, 0);
	ret = cuda_probes__attach_places(probes, getpid(), fd, &places, true, &link);
	if (ret)
		return ret;
	light = cuda_link__is_light(link);
	cuda_probes__control(probes, PROBE_SLOT)->on = 1;
	if (light) {
		measure_light_link(probes, plain, bytes, out);
		ret = cuda_probes__attach_places(probes, getpid(), fd, &places, false, &link);
	}
	ret = ret ?: measure_pairs(probes, light, plain, bytes, out);
	out->stepped_ns = beyond_pair(functions[STEPPED], plain->warm[STEPPED], bytes, out);
	measure_cold_others(bytes, out);
	nop = beyond_pair(functions[NOP], plain->warm[NOP], bytes, out);
	out->nops_stepped = nop > out->stepped_ns / 2;
	cuda_probes__control(probes, PROBE_SLOT)->on = 0;
	cuda_probes__forget(probes, is_own, NULL);
	return ret ?: out->floor_ns > 0 ? 0 : -ENOTSUP;
}

int cuda_calibration__run(struct cuda_probes *probes, struct cuda_probe_cost *out)
{
	_cleanup_free_ uint8_t *bytes = malloc(COLD_BYTES);
	struct cuda_probe_cost cost = { 0 };
	_cleanup_close_ int fd = -1;
	uint64_t offsets[FUNCTIONS];
	struct plain plain;
	int ret = bytes ? 0 : -ENOMEM;

	if (bytes)
		memset(bytes, 1, COLD_BYTES); /* or all of it would be one page of zeros */
	for (int i = 0; !ret && i < FUNCTIONS; i++) {
		plain.warm[i] = time_of(functions[i], ROUNDS, bytes);
		ret = find_offset((uintptr_t)functions[i], &fd, &offsets[i]);
	}
	if (!ret)
		plain.cold = cold_time(bytes);
	ret = ret ?: measure(probes, fd, offsets, &plain, bytes, &cost);
	if (!ret)
		*out = cost;
	return ret;
}
