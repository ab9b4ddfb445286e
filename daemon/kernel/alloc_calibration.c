// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/kernel/alloc_calibration.h"
#include "daemon/os/clock.h"
#include "daemon/os/proc_maps.h"

#define CALLS  100 /* some 0.1 ms: short enough to be undisturbed now and then on a busy machine */
#define ROUNDS 40

/* Probes of whoever are placed one after the other. */
#define PATIENCE_NS 10000000000ull

typedef void function(uint64_t);

/* Begin with an instruction that the kernel emulates, and with one that it single-steps. */
function alloc_calibration_emulated;
function alloc_calibration_stepped;
__asm__(".text\n"
	".globl alloc_calibration_emulated\n"
	".type alloc_calibration_emulated, @function\n"
	"alloc_calibration_emulated:\n"
	"	push %rbp\n"
	"	pop %rbp\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	".size alloc_calibration_emulated, . - alloc_calibration_emulated\n"
	".globl alloc_calibration_stepped\n"
	".type alloc_calibration_stepped, @function\n"
	"alloc_calibration_stepped:\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	".size alloc_calibration_stepped, . - alloc_calibration_stepped\n");

enum { EMULATED, STEPPED, FUNCTIONS };

static function *const functions[FUNCTIONS] = { alloc_calibration_emulated, alloc_calibration_stepped };

static int find_offset(uint64_t address, int *fd, uint64_t *offset)
{
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };
	const struct proc_map *map;
	int ret = proc_maps__read(getpid(), true, &maps, NULL);

	map = ret ? NULL : proc_maps__find(&maps, address);
	if (!map)
		return ret ?: -ENOENT;
	*offset = address - map->start + map->offset;
	if (*fd < 0)
		*fd = proc_maps__open_file(getpid(), map);
	return *fd < 0 ? *fd : 0;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/*
 * Of one call, in a loop that does nothing else, so with warm caches; the lower quartile of the rounds: what else runs
 * on the machine disturbs many of them.
 */
static double time_of(int which)
{
	uint64_t took[ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t begin = clock__read_ns(CLOCK_THREAD_CPUTIME_ID);

		/* Bytes that are hardly ever chosen. */
		for (int i = 0; i < CALLS; i++)
			functions[which](16);
		took[round] = clock__read_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
	}
	qsort(took, ROUNDS, sizeof(took[0]), compare);
	return (double)took[ROUNDS / 4] / CALLS;
}

static double positive(double ns)
{
	return ns > 0 ? ns : 0;
}

static int place(struct alloc_probes *p, int fd, const struct alloc_places *places, struct alloc_link **out)
{
	struct alloc_link *link = NULL;
	int ret = alloc_links__ask(alloc_probes__links(p), getpid(), fd, places, &link);

	ret = ret ?: alloc_link__wait(link, clock__now_ns() + PATIENCE_NS);

	if (ret)
		alloc_link__free(link);
	else
		*out = link;
	return ret;
}

int alloc_calibration__run(struct alloc_probes *p, struct alloc_prices *out)
{
	const uint64_t cookie = SO_ALLOC_COOKIE(SO_ALLOC_MALLOC, SO_ALLOC_SIZE) | SO_ALLOC_CALIBRATION;
	const uint64_t cookies[FUNCTIONS] = { cookie, cookie };
	struct so_alloc_slot *slot = alloc_probes__slot(p, SO_MAX_SLOTS);
	struct alloc_link *link = NULL;
	_cleanup_close_ int fd = -1;
	uint64_t offsets[FUNCTIONS];
	double plain[FUNCTIONS];
	int ret = 0;

	for (int i = 0; !ret && i < FUNCTIONS; i++) {
		plain[i] = time_of(i);
		ret = find_offset((uintptr_t)functions[i], &fd, &offsets[i]);
	}
	ret = ret ?: place(p, fd, &(struct alloc_places){ offsets, cookies, FUNCTIONS }, &link);
	if (ret)
		return ret;
	*slot = (struct so_alloc_slot){ .on = 1 };
	out->hit_ns = positive(time_of(EMULATED) - plain[EMULATED]);
	out->stepped_ns = positive(time_of(STEPPED) - plain[STEPPED]);
	slot->on = 0;
	alloc_link__free(link);
	return slot->hits ? 0 : -ENOTSUP;
}
