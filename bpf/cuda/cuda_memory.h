/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is allocated, by the stack that allocated it. */
#ifndef STAKEOUT_BPF_CUDA_MEMORY_H
#define STAKEOUT_BPF_CUDA_MEMORY_H

#include "bpf/cuda/cuda_maps.h"

static __always_inline bool is_host(__u32 api)
{
	return api == SO_CUDA_API_cudaMallocHost || api == SO_CUDA_API_cudaHostAlloc ||
	       api == SO_CUDA_API_cudaHostRegister || api == SO_CUDA_API_cudaFreeHost ||
	       api == SO_CUDA_API_cudaHostUnregister || api == SO_CUDA_API_cuMemAllocHost ||
	       api == SO_CUDA_API_cuMemHostAlloc || api == SO_CUDA_API_cuMemHostRegister ||
	       api == SO_CUDA_API_cuMemFreeHost || api == SO_CUDA_API_cuMemHostUnregister;
}

static __always_inline void add_to_site(const struct so_cuda_call *c, const struct so_cuda_site_key *key, __u64 bytes)
{
	struct so_cuda_site first = {}, *site = bpf_map_lookup_elem(&cuda_sites, key);

	if (!site) {
		bpf_map_update_elem(&cuda_sites, key, &first, BPF_NOEXIST);
		site = bpf_map_lookup_elem(&cuda_sites, key);
	}
	if (!site) {
		lose(c->cookie, SO_CUDA_LOSS_SITES_FULL);
		return;
	}
	__sync_fetch_and_add(&site->allocations, 1);
	__sync_fetch_and_add(&site->bytes, bytes);
	__sync_fetch_and_add(&site->current_bytes, bytes);
	/* Two threads at once may leave the lower of two peaks. */
	if (site->current_bytes > site->peak_bytes)
		site->peak_bytes = site->current_bytes;
}

static __always_inline void take_off(const struct so_cuda_pointer *key, const struct so_cuda_allocation *a)
{
	struct so_cuda_site_key at = { .tgid = key->tgid, .host = a->host, .kind = a->kind, .stack = a->site };
	struct so_cuda_site *site = bpf_map_lookup_elem(&cuda_sites, &at);

	if (!site)
		return;
	__sync_fetch_and_add(&site->frees, 1);
	__sync_fetch_and_add(&site->current_bytes, -(__s64)a->bytes);
}

static __always_inline struct so_cuda_pointer pointer_of(__u32 space, __u64 address)
{
	return (struct so_cuda_pointer){ .tgid = bpf_get_current_pid_tgid() >> 32, .space = space, .address = address };
}

/* What is at the address already was released unseen: in an off-window, or by a call that has no probe. */
static __noinline int keep_allocation(struct so_cuda_call *c, const struct so_cuda_pointer *key,
				      const struct so_cuda_allocation *a)
{
	struct so_cuda_site_key at = { .tgid = key->tgid, .host = a->host, .kind = a->kind, .stack = a->site };
	struct so_cuda_allocation *old = bpf_map_lookup_elem(&cuda_allocations, key);

	if (!c)
		return 0;
	if (old)
		take_off(key, old);
	if (bpf_map_update_elem(&cuda_allocations, key, a, BPF_ANY))
		lose(c->cookie, SO_CUDA_LOSS_ALLOCATIONS_FULL);
	add_to_site(c, &at, a->bytes);
	return 0;
}

static __noinline int allocated(struct so_cuda_call *c, __u32 api, __u64 stack)
{
	struct so_cuda_pointer key = pointer_of(is_host(api) ? SO_CUDA_SPACE_HOST : SO_CUDA_SPACE_DEVICE, 0);
	struct so_cuda_allocation a = { .site = stack,
					.kind = calls_info[bounded_api(api)].kind,
					.host = is_host(api) };

	if (!c)
		return 0;
	if (calls_info[bounded_api(api)].args == SO_CUDA_ARGS_REGISTER)
		key.address = c->pointer;
	else if (bpf_probe_read_user(&key.address, sizeof(key.address), (void *)c->pointer))
		return 0;
	if (!key.address)
		return 0; /* of no size */
	a.bytes = c->bytes;
	return keep_allocation(c, &key, &a);
}

static __always_inline void release(const struct so_cuda_pointer *key)
{
	struct so_cuda_allocation *a = bpf_map_lookup_elem(&cuda_allocations, key);

	if (!a)
		return; /* allocated before watching began */
	take_off(key, a);
	bpf_map_delete_elem(&cuda_allocations, key);
}

static __noinline int freed(struct so_cuda_call *c, __u32 api)
{
	struct so_cuda_pointer key = pointer_of(is_host(api) ? SO_CUDA_SPACE_HOST : SO_CUDA_SPACE_DEVICE, 0);

	if (!c)
		return 0;
	key.address = c->pointer;
	release(&key);
	return 0;
}

#endif
