// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/kernel/torch_probes.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpf/memory/torch.skel.h"
#include "daemon/os/fd_closer.h"
#include "daemon/os/privileges.h"
#include "daemon/os/uprobe_links.h"
#include "stakeout/live_thread.h"

#define BUFFERS_A_CPU 2 /* bpf/memory/torch_stack.h */

struct torch_probes {
	struct torch_bpf *skel;
	struct fd_closer *closer;
	bool multi; /* the kernel has links of many uprobes, which need fewer rights than perf's */
	struct torch_maps maps[SO_MAX_SLOTS];
};

struct torch_link {
	struct fd_closer *closer;
	uint64_t tag;
	int fds[2];                /* -1: none */
	struct bpf_link *links[2]; /* NULL: none */
};

static int load(struct torch_probes *p, const struct sampler_shared *shared)
{
	uint32_t buffers = (uint32_t)libbpf_num_possible_cpus() * BUFFERS_A_CPU;
	int ret;

	p->skel = torch_bpf__open();
	if (!p->skel)
		return -errno;
	p->skel->rodata->mappings_at = shared->mappings_at;
	p->skel->rodata->pythons_at = shared->pythons_at;
	if (p->multi) {
		bpf_program__set_expected_attach_type(p->skel->progs.on_memory, UPROBE_LINKS_MULTI);
		bpf_program__set_expected_attach_type(p->skel->progs.on_refused, UPROBE_LINKS_MULTI);
	}
	ret = bpf_map__set_max_entries(p->skel->maps.torch_buffers, buffers);
	ret = ret ?: sampler__share(shared, p->skel->obj, buffers);
	return ret ?: torch_bpf__load(p->skel);
}

int torch_probes__new(const struct sampler *sampler, struct torch_probes **out, struct so_error *err)
{
	_cleanup_(torch_probes) struct torch_probes *p = calloc(1, sizeof(*p));
	struct sampler_shared shared;
	char why[PRIVILEGES_TEXT];
	int ret;

	if (!p)
		return so_err(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++)
		p->maps[i] = (struct torch_maps)TORCH_MAPS_NONE;
	sampler__shared(sampler, &shared);
	if (!shared.have_loop)
		return so_err(err, -ENOTSUP,
			      "PyTorch's memory on GPUs is not seen on this kernel: Linux 5.17 is needed");
	p->multi = uprobe_links__supported(UPROBE_LINKS_MULTI);
	ret = fd_closer__new(&p->closer);
	ret = ret ?: load(p, &shared);
	if (ret)
		return so_err(err, -ENOTSUP,
			      "the kernel refused the programs that see PyTorch's memory on GPUs (%s): they need "
			      "CONFIG_UPROBE_EVENTS, CAP_BPF and CAP_PERFMON (it lacks %s)",
			      strerror(-ret), privileges__why(why));
	*out = TAKE_PTR(p);
	return 0;
}

void torch_probes__free(struct torch_probes *p)
{
	if (!p)
		return;
	for (unsigned i = 0; i < SO_MAX_SLOTS; i++)
		torch_maps__close(&p->maps[i]);
	fd_closer__free(p->closer);
	torch_bpf__destroy(p->skel);
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

static int make_maps(struct torch_maps *out)
{
	int ret = make_map("torch_blocks", sizeof(struct so_torch_block_key), sizeof(struct so_torch_block),
			   SO_TORCH_BLOCKS, &out->blocks);

	ret = ret
		      ?: make_map("torch_sites", sizeof(struct so_torch_site_key), sizeof(struct so_torch_site),
				  SO_TORCH_SITES, &out->sites);
	return ret
		       ?: make_map("torch_devices", sizeof(struct so_torch_device_key), sizeof(struct so_torch_device),
				   SO_TORCH_DEVICES, &out->devices);
}

static int give_map(const struct bpf_map *all, uint32_t slot, int fd)
{
	return bpf_map_update_elem(bpf_map__fd(all), &slot, &fd, BPF_ANY) ? -errno : 0;
}

int torch_probes__begin(struct torch_probes *p, uint32_t slot)
{
	struct torch_maps *maps = &p->maps[slot % SO_MAX_SLOTS];
	int ret;

	torch_probes__forget(p, slot);
	ret = make_maps(maps);
	ret = ret ?: give_map(p->skel->maps.torch_blocks, slot, maps->blocks);
	ret = ret ?: give_map(p->skel->maps.torch_sites, slot, maps->sites);
	ret = ret ?: give_map(p->skel->maps.torch_devices, slot, maps->devices);
	if (ret) {
		torch_probes__forget(p, slot);
		return ret;
	}
	*torch_probes__slot(p, slot) = (struct so_torch_slot){ .on = 1, .epoch = 1 };
	return 0;
}

void torch_probes__end(struct torch_probes *p, uint32_t slot)
{
	torch_probes__slot(p, slot)->on = 0;
}

void torch_probes__forget(struct torch_probes *p, uint32_t slot)
{
	torch_probes__end(p, slot);
	bpf_map_delete_elem(bpf_map__fd(p->skel->maps.torch_blocks), &slot);
	bpf_map_delete_elem(bpf_map__fd(p->skel->maps.torch_sites), &slot);
	bpf_map_delete_elem(bpf_map__fd(p->skel->maps.torch_devices), &slot);
	torch_maps__close(&p->maps[slot % SO_MAX_SLOTS]);
}

struct so_torch_slot *torch_probes__slot(struct torch_probes *p, uint32_t slot)
{
	return &p->skel->bss->torch_slots[slot % SO_MAX_SLOTS];
}

/* Links. */

static int attach_one(struct torch_probes *p, struct torch_link *link, unsigned i, struct bpf_program *program,
		      const char *path, uint64_t offset)
{
	int ret;

	if (p->multi) {
		ret = uprobe_links__make(bpf_program__fd(program), UPROBE_LINKS_MULTI, false, path, &offset,
					 &(const uint64_t){ 0 }, 1, (pid_t)link->tag);
		link->fds[i] = ret < 0 ? -1 : ret;
		return ret < 0 ? ret : 0;
	}
	link->links[i] = bpf_program__attach_uprobe(program, false, live_thread__of((pid_t)link->tag), path, offset);
	return link->links[i] ? 0 : -errno;
}

int torch_probes__attach(struct torch_probes *p, pid_t pid, int fd, const struct torch_places *places,
			 struct torch_link **out)
{
	struct torch_link *link = calloc(1, sizeof(*link));
	char path[64];
	int ret;

	if (!link)
		return -ENOMEM;
	*link = (struct torch_link){ .closer = p->closer, .tag = (uint64_t)pid, .fds = { -1, -1 } };
	/* Through the descriptor: another mount namespace may hide the path. */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), fd);
	/* The process may be another program now, whose calls would be counted twice. */
	fd_closer__wait(p->closer, link->tag, UINT64_MAX);
	ret = attach_one(p, link, 0, p->skel->progs.on_memory, path, places->memory);
	if (!ret && places->refused)
		ret = attach_one(p, link, 1, p->skel->progs.on_refused, path, places->refused);
	if (ret)
		torch_link__free(link);
	else
		*out = link;
	return ret;
}

void torch_link__free(struct torch_link *link)
{
	if (!link)
		return;
	for (int i = 0; i < 2; i++) {
		bpf_link__destroy(link->links[i]);
		if (link->fds[i] >= 0)
			fd_closer__give(link->closer, link->fds[i], link->tag);
	}
	free(link);
}

/* Reading. */

static int share(int fd, int *out)
{
	*out = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return *out < 0 ? -errno : 0;
}

int torch_maps__share(const struct torch_maps *maps, struct torch_maps *out)
{
	struct torch_maps shared = TORCH_MAPS_NONE;
	int ret;

	if (maps->blocks < 0)
		return -ENODATA;
	ret = share(maps->blocks, &shared.blocks) ?: share(maps->sites, &shared.sites);
	ret = ret ?: share(maps->devices, &shared.devices);
	if (ret)
		torch_maps__close(&shared);
	else
		*out = shared;
	return ret;
}

int torch_probes__share(const struct torch_probes *p, uint32_t slot, struct torch_maps *out)
{
	return torch_maps__share(&p->maps[slot % SO_MAX_SLOTS], out);
}

void torch_maps__close(struct torch_maps *maps)
{
	int *const fds[] = { &maps->blocks, &maps->sites, &maps->devices };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
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

static int read_devices(int fd, struct torch_reading *out)
{
	return read_map(fd, sizeof(*out->device_keys), sizeof(*out->devices), SO_TORCH_DEVICES, &out->device_keys,
			&out->devices, &out->n_devices);
}

int torch_maps__read(const struct torch_maps *maps, struct torch_reading *out)
{
	int ret;

	*out = (struct torch_reading){ .n_blocks = 0 };
	ret = read_map(maps->blocks, sizeof(*out->block_keys), sizeof(*out->blocks), SO_TORCH_BLOCKS, &out->block_keys,
		       &out->blocks, &out->n_blocks);
	ret = ret
		      ?: read_map(maps->sites, sizeof(*out->site_keys), sizeof(*out->sites), SO_TORCH_SITES,
				  &out->site_keys, &out->sites, &out->n_sites);
	return ret ?: read_devices(maps->devices, out);
}

int torch_probes__read_devices(const struct torch_probes *p, uint32_t slot, struct torch_reading *out)
{
	*out = (struct torch_reading){ .n_blocks = 0 };
	return read_devices(p->maps[slot % SO_MAX_SLOTS].devices, out);
}

bool torch_reading__is_copy(const struct torch_reading *r, size_t device, const struct u64_table *copies)
{
	const struct so_torch_device_key *key = &r->device_keys[device];
	uint32_t of = 0;

	if (r->devices[device].allocations || !copies || !u64_table__get(copies, key->tgid, &of) || !of)
		return false;
	for (size_t i = 0; i < r->n_devices; i++)
		if (r->device_keys[i].tgid == of && r->device_keys[i].device == key->device)
			return true;
	return false;
}

void torch_probes__executed(struct torch_probes *p, uint32_t slot, pid_t tgid)
{
	struct torch_reading reading;

	if (!torch_probes__read_devices(p, slot, &reading))
		for (size_t i = 0; i < reading.n_devices; i++)
			if (reading.device_keys[i].tgid == (uint32_t)tgid)
				bpf_map_delete_elem(p->maps[slot % SO_MAX_SLOTS].devices, &reading.device_keys[i]);
	torch_reading__release(&reading);
}

void torch_reading__release(struct torch_reading *reading)
{
	free(reading->block_keys);
	free(reading->blocks);
	free(reading->site_keys);
	free(reading->sites);
	free(reading->device_keys);
	free(reading->devices);
	*reading = (struct torch_reading){ .n_blocks = 0 };
}
