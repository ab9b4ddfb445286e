// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/kernel/page_sampler.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "bpf/memory/pages.skel.h"
#include "daemon/os/privileges.h"

struct page_sampler {
	struct pages_bpf *skel;
	bool attached;
};

static int load(struct page_sampler *s, const struct sampler_shared *shared)
{
	uint64_t salt = 0;
	int ret;

	s->skel = pages_bpf__open();
	if (!s->skel)
		return -errno;
	/* Whoever knew it could keep all memory in pages that are not chosen. */
	if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt))
		return -errno;
	s->skel->rodata->salt = salt;
	s->skel->rodata->mappings_at = shared->mappings_at;
	s->skel->rodata->pythons_at = shared->pythons_at;
	s->skel->rodata->have_task_pt_regs =
		libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT, BPF_FUNC_task_pt_regs, NULL) == 1;
	ret = sampler__share(shared, s->skel->obj, (uint32_t)libbpf_num_possible_cpus());
	return ret ?: pages_bpf__load(s->skel);
}

int page_sampler__new(const struct sampler *sampler, struct page_sampler **out, struct so_error *err)
{
	_cleanup_(page_sampler) struct page_sampler *s = calloc(1, sizeof(*s));
	struct sampler_shared shared;
	char why[PRIVILEGES_TEXT];
	int ret;

	if (!s)
		return so_err(err, -ENOMEM, "out of memory");
	sampler__shared(sampler, &shared);
	if (!shared.have_loop)
		return so_err(err, -ENOTSUP, "the growth of memory is not seen on this kernel: Linux 5.17 is needed");
	ret = load(s, &shared);
	if (ret)
		return so_err(err, -ENOTSUP,
			      "the kernel refused the programs that see memory grow (%s): they need the tracepoints of "
			      "page faults, CAP_BPF and CAP_PERFMON (it lacks %s)",
			      strerror(-ret), privileges__why(why));
	*out = TAKE_PTR(s);
	return 0;
}

void page_sampler__free(struct page_sampler *s)
{
	if (!s)
		return;
	pages_bpf__destroy(s->skel);
	free(s);
}

uint64_t page_sampler__salt(const struct page_sampler *s)
{
	return s->skel->rodata->salt;
}

static struct so_page_slot *slot_of(const struct page_sampler *s, uint32_t slot)
{
	return &s->skel->bss->page_slots[slot % SO_MAX_SLOTS];
}

/* One that the kernel side halves later is not looked at: then a page too many is looked at there, no more. */
static void set_highest(struct page_sampler *s)
{
	uint32_t by_page = 0, random = 0;

	for (uint32_t i = 0; i < SO_MAX_SLOTS; i++) {
		const struct so_page_slot *slot = slot_of(s, i);

		by_page = slot->threshold > by_page ? slot->threshold : by_page;
		random = slot->threshold && slot->random > random ? slot->random : random;
	}
	s->skel->bss->highest = by_page;
	s->skel->bss->highest_random = random;
}

int page_sampler__begin(struct page_sampler *s, uint32_t slot)
{
	*slot_of(s, slot) = (struct so_page_slot){ .threshold = 0 };
	return page_sampler__go_on(s, slot, SO_PAGE_MAX_THRESHOLD, SO_PAGE_MAX_THRESHOLD);
}

int page_sampler__go_on(struct page_sampler *s, uint32_t slot, uint32_t threshold, uint32_t random)
{
	struct so_page_slot *at = slot_of(s, slot);
	int ret;

	at->random = random;
	at->lowest = at->threshold = threshold;
	set_highest(s);
	if (s->attached)
		return 0;
	ret = pages_bpf__attach(s->skel);
	s->attached = !ret;
	if (!ret)
		return 0;
	pages_bpf__detach(s->skel);
	page_sampler__end(s, slot);
	return ret;
}

void page_sampler__end(struct page_sampler *s, uint32_t slot)
{
	slot_of(s, slot)->threshold = 0;
	set_highest(s);
	if (s->skel->bss->highest || !s->attached)
		return;
	pages_bpf__detach(s->skel);
	s->attached = false;
}

uint32_t page_sampler__take_lowest(struct page_sampler *s, uint32_t slot)
{
	struct so_page_slot *at = slot_of(s, slot);
	uint32_t lowest = at->lowest;

	at->lowest = at->threshold;
	return lowest < at->threshold ? lowest : at->threshold;
}

void page_sampler__set_threshold(struct page_sampler *s, uint32_t slot, uint32_t threshold)
{
	struct so_page_slot *at = slot_of(s, slot);

	if (threshold < at->lowest)
		at->lowest = threshold;
	at->threshold = threshold;
	set_highest(s);
}

void page_sampler__set_random(struct page_sampler *s, uint32_t slot, uint32_t threshold)
{
	slot_of(s, slot)->random = threshold;
	set_highest(s);
}

struct so_page_slot page_sampler__slot(const struct page_sampler *s, uint32_t slot)
{
	return *slot_of(s, slot);
}

static uint64_t seen_ns(const struct page_sampler *s, uint32_t tgid, uint64_t page)
{
	const struct so_page_seen *seen = &s->skel->bss->page_seen[so_page_place(tgid, page) % SO_PAGE_SEEN];

	return seen->page == page && seen->tgid == tgid ? seen->when_ns : 0;
}

/* One of those that a single fault made resident is known by the first of them. */
uint64_t page_sampler__touched_ns(const struct page_sampler *s, uint32_t tgid, uint64_t page)
{
	uint64_t alone_ns = seen_ns(s, tgid, page);
	uint64_t huge_ns = seen_ns(s, tgid, page & ~((1ull << SO_HUGE_ORDER) - 1));

	return alone_ns > huge_ns ? alone_ns : huge_ns;
}
