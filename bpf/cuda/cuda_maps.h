/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What bpf/cuda/cuda.bpf.c keeps: a thread's call, the maps of stakeout/cuda_abi.h, and the daemon's switches. */
#ifndef STAKEOUT_BPF_CUDA_MAPS_H
#define STAKEOUT_BPF_CUDA_MAPS_H

#include "bpf/target_maps.h"
#include "stakeout/cuda_abi.h"

/* Whether the kernel has bpf_loop (5.17); without it no stacks are taken, and little is read of a batch. */
const volatile bool have_loop = true;

struct so_cuda_control control[SO_CUDA_SLOTS];

/* How the arguments of each call are read, and what it does. */
static const struct {
	__u8 kind, does, args, of, has_stream, unit; /* does: so_cuda_kind__does() */
} calls_info[SO_CUDA_API_ROOM] = {
/* A copy has a stream if its name ends in "Async". */
#define IS_ASYNC(name) (sizeof(name) > 6 && name[sizeof(name) - 2] == 'c' && name[sizeof(name) - 6] == 'A')
#define X(name, library, kind, args)                                      \
	{ SO_CUDA_##kind,       SO_CUDA_DOES_##kind, SO_CUDA_ARGS_##args, \
	  SO_CUDA_OF_##library, IS_ASYNC(#name),     SO_CUDA_UNIT(SO_CUDA_OF_##library, SO_CUDA_##kind) },
	SO_CUDA_APIS(X)
#undef X
};

static const struct {
	__u8 out, handle, text;
} namers_info[SO_CUDA_NAMER_COUNT] = {
#define X(name, library, out, handle, text) { out, handle, text },
	SO_CUDA_NAMERS(X)
#undef X
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct so_cuda_call);
} cuda_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SO_CUDA_CALLS_ENTRIES);
	__type(key, struct so_cuda_key);
	__type(value, struct so_cuda_calls);
} cuda_calls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SO_CUDA_ERROR_ENTRIES);
	__type(key, struct so_cuda_error_key);
	__type(value, __u64);
} cuda_errors SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SO_CUDA_ALLOCATION_ENTRIES);
	__type(key, struct so_cuda_pointer);
	__type(value, struct so_cuda_allocation);
} cuda_allocations SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SO_CUDA_SITE_ENTRIES);
	__type(key, struct so_cuda_site_key);
	__type(value, struct so_cuda_site);
} cuda_sites SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SO_MAX_PROCESSES);
	__type(key, __u32);
	__type(value, struct so_cuda_runtimes);
} cuda_runtimes SEC(".maps");

/* Whose probes these are, and their hits by cookie; with perf events alone. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SO_CUDA_MAX_LIBRARIES);
	__type(key, struct so_cuda_owner);
	__type(value, __u8);
} cuda_owners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SO_CUDA_HEAT_ENTRIES);
	__type(key, __u64);
	__type(value, __u64);
} cuda_heat SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SO_CUDA_EVENT_ENTRIES);
	__type(key, struct so_cuda_event_key);
	__type(value, struct so_cuda_event_times);
} cuda_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SO_CUDA_LAUNCH_ENTRIES);
	__type(key, struct so_cuda_launch_key);
	__type(value, struct so_cuda_launch);
} cuda_launches SEC(".maps");

struct window {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SO_CUDA_WINDOW_ENTRIES);
	__type(key, struct so_cuda_line_key);
	__type(value, struct so_cuda_line);
} cuda_window_a SEC(".maps"), cuda_window_b SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct window);
} cuda_open_window SEC(".maps") = { .values = { (void *)&cuda_window_a } };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SO_MAX_SLOTS + 1);
	__type(key, __u32);
	__type(value, struct so_cuda_slot);
} cuda_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} cuda_names SEC(".maps");

/*
 * The same, of a number below SO_CUDA_API_COUNT: verifiers (6.1) forget a bound that was tested on one copy when the
 * compiler reads another from the stack, and the compiler leaves out a mask that it knows to change nothing.
 */
static __always_inline __u32 bounded_api(__u32 api)
{
	asm volatile("%0 &= %1" : "+r"(api) : "i"(SO_CUDA_API_ROOM - 1));
	return api;
}

/* The same for numbers of kinds and units. */
static __always_inline __u32 bounded_kind(__u32 kind)
{
	asm volatile("%0 &= %1" : "+r"(kind) : "i"(SO_CUDA_KIND_ROOM - 1));
	return kind;
}

static __always_inline __u32 unit_of(__u32 api)
{
	__u32 unit = calls_info[bounded_api(api)].unit;

	asm volatile("%0 &= %1" : "+r"(unit) : "i"(SO_CUDA_UNITS - 1));
	return unit;
}

static __always_inline struct so_cuda_slot *slot_of(__u64 cookie)
{
	__u32 slot = SO_CUDA_COOKIE_SLOT(cookie);

	return bpf_map_lookup_elem(&cuda_slots, &slot);
}

static __always_inline const struct so_cuda_control *control_of(__u64 cookie)
{
	return &control[SO_CUDA_COOKIE_SLOT(cookie) & (SO_CUDA_SLOTS - 1)];
}

/* Calls of the target are reported by themselves: for a time line. */
static __always_inline bool is_told(__u64 cookie)
{
	return control_of(cookie)->tell_ns != 0;
}

static __always_inline void lose(__u64 cookie, enum so_cuda_loss cause)
{
	struct so_cuda_slot *slot = slot_of(cookie);

	if (slot)
		slot->lost[cause]++;
}

static __always_inline struct so_cuda_call *thread_call(bool create)
{
	return bpf_task_storage_get(&cuda_threads, bpf_get_current_task_btf(), 0,
				    create ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
}

#endif
