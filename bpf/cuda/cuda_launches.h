/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which launch a call waits for: the last one into the stream before it, by any thread of the process. Of a wait for an
 * event, the last one before the event was recorded; of one for the device, the process's last one, whatever its
 * device.
 *
 * What is not seen counts for nothing: a launch is named only if all since then were seen that are of its kind.
 */
#ifndef STAKEOUT_BPF_CUDA_LAUNCHES_H
#define STAKEOUT_BPF_CUDA_LAUNCHES_H

#include "bpf/cuda/cuda_events.h"
#include "bpf/cuda/cuda_maps.h"
#include "bpf/cuda/cuda_registers.h"

#define LEGACY_STREAM     1 /* cudaStreamLegacy, CU_STREAM_LEGACY: stream 0 of calls that are not per thread */
#define PER_THREAD_STREAM 2 /* cudaStreamPerThread, CU_STREAM_PER_THREAD */

static __always_inline struct so_cuda_launch_key launch_key(enum so_cuda_launches_of of, __u64 handle, __u64 cookie)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct so_cuda_launch_key key = { .tgid = id >> 32, .handle = handle, .of = of };

	if (of != SO_CUDA_LAUNCH_OF_STREAM)
		return key;
	if (!handle)
		key.handle = cookie & SO_CUDA_COOKIE_PER_THREAD ? PER_THREAD_STREAM : LEGACY_STREAM;
	if (key.handle == PER_THREAD_STREAM)
		key.tid = (__u32)id;
	return key;
}

/* A launch that succeeded. ns: 0: it was not timed. */
static __noinline int note_launch(struct so_cuda_call *c, __u64 cookie, __u32 api, __u64 ns)
{
	struct so_cuda_launch_key key;
	struct so_cuda_launch launch = {};

	if (!c)
		return 0;
	launch.begin_ns = ns ? c->begin_ns : bpf_ktime_get_ns();
	launch.ns = ns;
	launch.kernel = c->kernel;
	launch.stream = c->has_stream ? c->stream : 0;
	launch.tid = (__u32)bpf_get_current_pid_tgid();
	launch.api = api;
	launch.has_stream = c->has_stream;
	key = launch_key(SO_CUDA_LAUNCH_OF_PROCESS, 0, cookie);
	bpf_map_update_elem(&cuda_launches, &key, &launch, BPF_ANY);
	if (c->has_stream) {
		key = launch_key(SO_CUDA_LAUNCH_OF_STREAM, c->stream, cookie);
		bpf_map_update_elem(&cuda_launches, &key, &launch, BPF_ANY);
	}
	return 0;
}

/* An event is recorded in a stream. */
static __noinline int note_recorded(struct so_cuda_call *c, __u64 cookie, __u64 event)
{
	struct so_cuda_launch_key of_stream, of_event = launch_key(SO_CUDA_LAUNCH_OF_EVENT, event, cookie);
	const struct so_cuda_launch *known;
	struct so_cuda_launch launch;

	if (!c)
		return 0;
	of_stream = launch_key(SO_CUDA_LAUNCH_OF_STREAM, c->stream, cookie);
	known = bpf_map_lookup_elem(&cuda_launches, &of_stream);
	if (!known) {
		bpf_map_delete_elem(&cuda_launches, &of_event);
		return 0;
	}
	launch = *known;
	bpf_map_update_elem(&cuda_launches, &of_event, &launch, BPF_ANY);
	return 0;
}

/*
 * At the entry of a call that waits. event: of one that waits for an event. since_ns: before that not all was seen that
 * may have changed what it waits for.
 */
static __noinline int find_awaited(struct so_cuda_call *c, __u64 cookie, __u32 kind, __u64 event, __u64 since_ns)
{
	struct so_cuda_launch_key key;
	const struct so_cuda_launch *launch;
	__u32 unit;

	if (!c)
		return 0;
	key = kind == SO_CUDA_SYNC ? launch_key(SO_CUDA_LAUNCH_OF_PROCESS, 0, cookie)
	      : kind == SO_CUDA_SYNC_EVENT
		      ? launch_key(SO_CUDA_LAUNCH_OF_EVENT, event, cookie)
		      : launch_key(SO_CUDA_LAUNCH_OF_STREAM, c->has_stream ? c->stream : 0, cookie);
	launch = bpf_map_lookup_elem(&cuda_launches, &key);
	if (!launch)
		return 0;
	unit = unit_of(launch->api);
	if (!control_of(cookie)->off[unit] && launch->begin_ns > control_of(cookie)->since_ns[unit] &&
	    launch->begin_ns > since_ns)
		c->awaited = *launch;
	return 0;
}

/* Of any call, at its entry, when its arguments are read. */
static __always_inline void note_awaited(struct so_cuda_call *c, const struct arguments *a, __u64 cookie, __u32 api)
{
	__u32 kind = calls_info[bounded_api(api)].kind;

	c->awaited.begin_ns = 0;
	if (!is_told(cookie))
		return;
	if (kind == SO_CUDA_EVENT && c->has_stream)
		note_recorded(c, cookie, a->rdi);
	else if (kind == SO_CUDA_SYNC || kind == SO_CUDA_SYNC_STREAM || kind == SO_CUDA_SYNC_EVENT ||
		 kind == SO_CUDA_BLOCKING_COPY)
		find_awaited(c, cookie, kind, a->rdi,
			     kind == SO_CUDA_SYNC_EVENT ? records_since(control_of(cookie), api) : 0);
}

#endif
