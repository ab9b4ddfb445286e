/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory without an address (cuMemCreate), as allocators of growing segments have it. It is there as long as somebody
 * has its handle or it is mapped somewhere: a handle counts references, one for cuMemCreate and for each
 * cuMemRetainAllocationHandle, which cuMemRelease gives back, and one for each cuMemMap, which cuMemUnmap gives back
 * for all that is mapped in a range.
 */
#ifndef STAKEOUT_BPF_CUDA_HANDLES_H
#define STAKEOUT_BPF_CUDA_HANDLES_H

#include "bpf/cuda/cuda_memory.h"

#define MAPPINGS_MOST 4096 /* in a range that is unmapped at once; without bpf_loop one */

static __always_inline void add_reference(__u64 handle)
{
	struct so_cuda_pointer key = pointer_of(SO_CUDA_SPACE_HANDLE, handle);
	struct so_cuda_allocation *a = bpf_map_lookup_elem(&cuda_allocations, &key);

	if (a)
		__sync_fetch_and_add(&a->references, 1);
}

static __noinline int drop_reference(__u64 handle)
{
	struct so_cuda_pointer key = pointer_of(SO_CUDA_SPACE_HANDLE, handle);
	struct so_cuda_allocation *a = bpf_map_lookup_elem(&cuda_allocations, &key);

	if (a && __sync_fetch_and_add(&a->references, -1) == 1)
		release(&key);
	return 0;
}

struct unmapping {
	__u64 at, left;
};

/* The next mapping of a range. Not 0: that was all, or nothing is known to be mapped there. */
static long unmap_next(__u32 i, struct unmapping *u)
{
	struct so_cuda_pointer key = pointer_of(SO_CUDA_SPACE_MAPPING, u->at);
	struct so_cuda_allocation *mapping = bpf_map_lookup_elem(&cuda_allocations, &key);
	__u64 bytes, handle;

	if (!mapping)
		return 1;
	bytes = mapping->bytes;
	handle = mapping->site;
	bpf_map_delete_elem(&cuda_allocations, &key);
	drop_reference(handle);
	u->at += bytes;
	if (!bytes || bytes >= u->left)
		return 1;
	u->left -= bytes;
	return 0;
}

static __noinline int unmapped(struct so_cuda_call *c)
{
	struct unmapping u = {};

	if (!c)
		return 0;
	u.at = c->pointer;
	u.left = c->bytes_mapped;
	if (have_loop)
		bpf_loop(MAPPINGS_MOST, unmap_next, &u, 0);
	else
		unmap_next(0, &u);
	return 0;
}

static __noinline int mapped(struct so_cuda_call *c)
{
	struct so_cuda_pointer key = pointer_of(SO_CUDA_SPACE_MAPPING, 0), of = key;
	struct so_cuda_allocation mapping = {}, *old;

	if (!c)
		return 0;
	key.address = c->pointer;
	mapping.bytes = c->bytes_mapped;
	mapping.site = c->handle_mapped;
	of.space = SO_CUDA_SPACE_HANDLE;
	of.address = c->handle_mapped;
	/* Of a handle that is not known nothing is to be taken off. */
	if (!bpf_map_lookup_elem(&cuda_allocations, &of))
		return 0;
	/* What was mapped there before was unmapped unseen. */
	old = bpf_map_lookup_elem(&cuda_allocations, &key);
	if (old)
		drop_reference(old->site);
	if (bpf_map_update_elem(&cuda_allocations, &key, &mapping, BPF_ANY))
		lose(c->cookie, SO_CUDA_LOSS_ALLOCATIONS_FULL);
	else
		add_reference(c->handle_mapped);
	return 0;
}

static __noinline int created(struct so_cuda_call *c, __u32 api, __u64 stack)
{
	struct so_cuda_pointer key = pointer_of(SO_CUDA_SPACE_HANDLE, 0);
	struct so_cuda_allocation a = { .site = stack, .kind = calls_info[bounded_api(api)].kind, .references = 1 };

	if (!c || bpf_probe_read_user(&key.address, sizeof(key.address), (void *)c->pointer))
		return 0;
	a.bytes = c->bytes;
	a.host = c->host;
	return keep_allocation(c, &key, &a);
}

/* A call of these arguments has succeeded. */
static __noinline int handle_call(struct so_cuda_call *c, __u32 api, __u64 stack)
{
	__u64 handle = 0;

	if (!c)
		return 0;
	switch (calls_info[bounded_api(api)].args) {
	case SO_CUDA_ARGS_CREATE:
		return created(c, api, stack);
	case SO_CUDA_ARGS_MAP:
		return mapped(c);
	case SO_CUDA_ARGS_UNMAP:
		return unmapped(c);
	case SO_CUDA_ARGS_RELEASE:
		return drop_reference(c->pointer);
	case SO_CUDA_ARGS_RETAIN:
		if (!bpf_probe_read_user(&handle, sizeof(handle), (void *)c->pointer))
			add_reference(handle);
	}
	return 0;
}

#endif
