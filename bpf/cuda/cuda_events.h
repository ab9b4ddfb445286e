/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Needless waits of streams: for an event that the stream has waited for already, and that was not recorded since. A
 * stream's work is in order, so what it has waited for once holds for all that follows.
 *
 * What is not seen counts for nothing: a wait is compared with one before it only if both, and all records of events
 * between them, were made while such calls counted. What had to give way in the map is not known any more.
 */
#ifndef STAKEOUT_BPF_CUDA_EVENTS_H
#define STAKEOUT_BPF_CUDA_EVENTS_H

#include "bpf/cuda/cuda_maps.h"
#include "bpf/cuda/cuda_registers.h"

/* Only of events that something has waited for: most are for taking times. */
static __noinline int note_record(__u64 event)
{
	struct so_cuda_event_key key = { .tgid = bpf_get_current_pid_tgid() >> 32,
					 .event = event,
					 .stream = SO_CUDA_EVENT_RECORD };
	struct so_cuda_event_times *record = bpf_map_lookup_elem(&cuda_events, &key);

	if (record)
		record->recorded_ns = bpf_ktime_get_ns();
	return 0;
}

/* Since when each record has been seen that is made through the library of this call; ~0: not all are now. */
static __always_inline __u64 records_since(const struct so_cuda_control *control, __u32 api)
{
	__u32 unit = SO_CUDA_UNIT(calls_info[bounded_api(api)].of, SO_CUDA_EVENT);

	asm volatile("%0 &= %1" : "+r"(unit) : "i"(SO_CUDA_UNITS - 1));
	return control->off[unit] ? ~0ull : control->since_ns[unit];
}

/* Returns whether the wait is needless. since_ns: records_since(). */
static __noinline int note_wait(__u64 event, __u64 stream, __u64 since_ns)
{
	__u64 id = bpf_get_current_pid_tgid(), now_ns = bpf_ktime_get_ns();
	struct so_cuda_event_key record_key = { .tgid = id >> 32, .event = event, .stream = SO_CUDA_EVENT_RECORD },
				 key = { .tgid = id >> 32,
					 .tid = stream < SO_CUDA_DEFAULT_STREAMS ? (__u32)id : 0,
					 .event = event,
					 .stream = stream };
	const struct so_cuda_event_times *record = bpf_map_lookup_elem(&cuda_events, &record_key);
	/* Whatever was before is not known where there is no record: another time than any wait has. */
	struct so_cuda_event_times now = { .recorded_ns = record ? record->recorded_ns : now_ns, .waited_ns = now_ns },
				   *before = bpf_map_lookup_elem(&cuda_events, &key);
	bool needless = before && before->recorded_ns == now.recorded_ns && before->waited_ns > since_ns;

	if (!record)
		bpf_map_update_elem(&cuda_events, &record_key, &now, BPF_NOEXIST);
	if (before)
		*before = now;
	else
		bpf_map_update_elem(&cuda_events, &key, &now, BPF_ANY);
	return needless;
}

/* Of any call: one that records an event, or makes a stream wait for one, is noted. */
static __always_inline void note_event(struct so_cuda_call *c, const struct arguments *a, __u64 cookie, __u32 api)
{
	__u32 kind = calls_info[bounded_api(api)].kind;

	c->needless = 0;
	if (kind == SO_CUDA_EVENT)
		note_record(a->rdi);
	else if (kind == SO_CUDA_WAIT)
		c->needless = note_wait(a->rsi, a->rdi, records_since(control_of(cookie), api));
}

#endif
