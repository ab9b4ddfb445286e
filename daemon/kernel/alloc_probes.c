// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/kernel/alloc_probes.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpf/memory/alloc.skel.h"
#include "daemon/os/privileges.h"
#include "daemon/os/uprobe_links.h"

#define BUFFERS_A_CPU 2 /* bpf/memory/torch_stack.h */

struct alloc_probes {
	struct alloc_bpf *skel;
	struct alloc_links *links;
	bool session; /* the kernel looks at the return of chosen calls alone; else at all (before 6.13) */
	struct alloc_maps maps[SO_MAX_SLOTS];
};

/* Loading. */

/* For tests: STAKEOUT_ALLOC_PROBES says what the kernel is taken to have: "session", "multi" or "none". */
static bool is_supported(uint32_t type)
{
	const char *word = getenv("STAKEOUT_ALLOC_PROBES");

	if (word && (!strcmp(word, "none") || (!strcmp(word, "multi") && type == UPROBE_LINKS_SESSION)))
		return false;
	return uprobe_links__supported(type);
}

static int load(struct alloc_probes *p, const struct sampler_shared *shared)
{
	uint32_t buffers = (uint32_t)libbpf_num_possible_cpus() * BUFFERS_A_CPU;
	int ret;

	p->skel = alloc_bpf__open();
	if (!p->skel)
		return -errno;
	p->skel->rodata->mappings_at = shared->mappings_at;
	p->skel->rodata->pythons_at = shared->pythons_at;
	bpf_program__set_autoload(p->skel->progs.alloc_session, p->session);
	bpf_program__set_autoload(p->skel->progs.alloc_enter, !p->session);
	bpf_program__set_autoload(p->skel->progs.alloc_leave, !p->session);
	bpf_program__set_expected_attach_type(p->skel->progs.alloc_session, UPROBE_LINKS_SESSION);
	bpf_program__set_expected_attach_type(p->skel->progs.alloc_enter, UPROBE_LINKS_MULTI);
	bpf_program__set_expected_attach_type(p->skel->progs.alloc_leave, UPROBE_LINKS_MULTI);
	ret = bpf_map__set_max_entries(p->skel->maps.torch_buffers, buffers);
	ret = ret ?: sampler__share(shared, p->skel->obj, buffers);
	return ret ?: alloc_bpf__load(p->skel);
}

static int make_links(struct alloc_probes *p)
{
	const struct alloc_programs programs = { p->session ? bpf_program__fd(p->skel->progs.alloc_session) : -1,
						 bpf_program__fd(p->skel->progs.alloc_enter),
						 bpf_program__fd(p->skel->progs.alloc_leave) };

	return alloc_links__new(&programs, &p->links);
}

int alloc_probes__new(const struct sampler *sampler, struct alloc_probes **out, struct so_error *err)
{
	_cleanup_(alloc_probes) struct alloc_probes *p = calloc(1, sizeof(*p));
	struct sampler_shared shared;
	char why[PRIVILEGES_TEXT];
	int ret;

	if (!p)
		return so_err(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++)
		p->maps[i] = (struct alloc_maps)ALLOC_MAPS_NONE;
	sampler__shared(sampler, &shared);
	if (!shared.have_loop || !is_supported(UPROBE_LINKS_MULTI))
		return so_err(err, -ENOTSUP, "allocations are not seen on this kernel: Linux 6.6 is needed");
	p->session = is_supported(UPROBE_LINKS_SESSION);
	ret = load(p, &shared) ?: make_links(p);
	if (ret)
		return so_err(
			err, -ENOTSUP,
			"the kernel refused the programs that see allocations (%s): they need CONFIG_UPROBE_EVENTS, "
			"CAP_BPF and CAP_PERFMON (it lacks %s)",
			strerror(-ret), privileges__why(why));
	*out = TAKE_PTR(p);
	return 0;
}

void alloc_probes__free(struct alloc_probes *p)
{
	if (!p)
		return;
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++)
		alloc_maps__close(&p->maps[i]);
	alloc_links__free(p->links);
	alloc_bpf__destroy(p->skel);
	free(p);
}

/* Maps of targets. */

static int make_map(const char *name, size_t key_bytes, size_t value_bytes, uint32_t entries, int *fd)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_NO_PREALLOC);
	int ret = bpf_map_create(BPF_MAP_TYPE_HASH, name, (uint32_t)key_bytes, (uint32_t)value_bytes, entries, &opts);

	if (ret < 0)
		return -errno;
	*fd = ret;
	return 0;
}

static int give_map(const struct bpf_map *all, uint32_t slot, int fd)
{
	return bpf_map_update_elem(bpf_map__fd(all), &slot, &fd, BPF_ANY) ? -errno : 0;
}

int alloc_probes__begin(struct alloc_probes *p, uint32_t slot)
{
	struct alloc_maps *maps = &p->maps[slot % SO_MAX_SLOTS];
	int ret;

	alloc_probes__forget(p, slot);
	ret = make_map("alloc_blocks", sizeof(struct so_alloc_block_key), sizeof(struct so_alloc_block),
		       SO_ALLOC_BLOCKS, &maps->blocks);
	ret = ret
		      ?: make_map("alloc_sites", sizeof(struct so_alloc_site_key), sizeof(struct so_alloc_site),
				  SO_ALLOC_SITES, &maps->sites);
	ret = ret ?: give_map(p->skel->maps.alloc_blocks, slot, maps->blocks);
	ret = ret ?: give_map(p->skel->maps.alloc_sites, slot, maps->sites);
	if (ret) {
		alloc_probes__forget(p, slot);
		return ret;
	}
	*alloc_probes__slot(p, slot) = (struct so_alloc_slot){ .on = 1 };
	return 0;
}

void alloc_probes__end(struct alloc_probes *p, uint32_t slot)
{
	alloc_probes__slot(p, slot)->on = 0;
}

void alloc_probes__forget(struct alloc_probes *p, uint32_t slot)
{
	alloc_probes__end(p, slot);
	bpf_map_delete_elem(bpf_map__fd(p->skel->maps.alloc_blocks), &slot);
	bpf_map_delete_elem(bpf_map__fd(p->skel->maps.alloc_sites), &slot);
	alloc_maps__close(&p->maps[slot % SO_MAX_SLOTS]);
}

struct so_alloc_slot *alloc_probes__slot(struct alloc_probes *p, uint32_t slot)
{
	return &p->skel->bss->alloc_slots[slot % (SO_MAX_SLOTS + 1)];
}

struct alloc_links *alloc_probes__links(struct alloc_probes *p)
{
	return p->links;
}

/* Reading. */

int alloc_probes__share(const struct alloc_probes *p, uint32_t slot, struct alloc_maps *out)
{
	const struct alloc_maps *maps = &p->maps[slot % SO_MAX_SLOTS];
	struct alloc_maps shared = ALLOC_MAPS_NONE;

	if (maps->blocks < 0)
		return -ENODATA;
	shared.blocks = fcntl(maps->blocks, F_DUPFD_CLOEXEC, 0);
	shared.sites = fcntl(maps->sites, F_DUPFD_CLOEXEC, 0);
	if (shared.blocks < 0 || shared.sites < 0) {
		alloc_maps__close(&shared);
		return -EMFILE;
	}
	*out = shared;
	return 0;
}

void alloc_maps__close(struct alloc_maps *maps)
{
	if (maps->blocks >= 0)
		close(maps->blocks);
	if (maps->sites >= 0)
		close(maps->sites);
	*maps = (struct alloc_maps)ALLOC_MAPS_NONE;
}

/* In one call, which goes from bucket to bucket: what comes or goes meanwhile is there or not. */
static int read_map(int fd, size_t key_bytes, size_t value_bytes, uint32_t entries, void *keys, void *values, size_t *n)
{
	void **key_array = keys, **value_array = values;
	uint32_t count = entries;
	uint64_t next = 0;

	*key_array = calloc(entries, key_bytes);
	*value_array = calloc(entries, value_bytes);
	if (!*key_array || !*value_array)
		return -ENOMEM;
	if (bpf_map_lookup_batch(fd, NULL, &next, *key_array, *value_array, &count, NULL) && errno != ENOENT)
		return -errno;
	*n = count < entries ? count : entries;
	return 0;
}

int alloc_maps__read(const struct alloc_maps *maps, struct alloc_reading *out)
{
	int ret;

	*out = (struct alloc_reading){ .n_blocks = 0 };
	/* Blocks first: each of them has its site in what is read later. */
	ret = read_map(maps->blocks, sizeof(*out->block_keys), sizeof(*out->blocks), SO_ALLOC_BLOCKS, &out->block_keys,
		       &out->blocks, &out->n_blocks);
	return ret
		       ?: read_map(maps->sites, sizeof(*out->site_keys), sizeof(*out->sites), SO_ALLOC_SITES,
				   &out->site_keys, &out->sites, &out->n_sites);
}

void alloc_reading__release(struct alloc_reading *reading)
{
	free(reading->block_keys);
	free(reading->blocks);
	free(reading->site_keys);
	free(reading->sites);
	*reading = (struct alloc_reading){ .n_blocks = 0 };
}
