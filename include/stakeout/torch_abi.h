/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What bpf/memory/torch.bpf.c and the daemon share: the memory that PyTorch's caching allocator has given out, by
 * block, by the stack that took it, and by device.
 *
 * Source: c10::reportMemoryUsageToProfiler(ptr, alloc_size, total_allocated, total_reserved, device) and
 * c10::reportOutOfMemoryToProfiler(alloc_size, total_allocated, total_reserved, device), c10/core/Allocator.h of
 * PyTorch 1.9 and later (the second: 1.12 and later). The allocator for CUDA calls the first under its lock after each
 * block that it gives out (alloc_size > 0) and takes back (alloc_size < 0), with the device's totals after it. A
 * c10::Device is two int8_t in one register: type, and index (c10/core/Device.h, DeviceType.h).
 */
#ifndef STAKEOUT_TORCH_ABI_H
#define STAKEOUT_TORCH_ABI_H

#include "stakeout/abi.h"

#define SO_TORCH_CUDA 1
#define SO_TORCH_HIP  6

/* A device by its type and index, as the program hands it over; the index is 255 where it gave none. */
#define SO_TORCH_DEVICE(word)         ((__u32)(word)&0xffff)
#define SO_TORCH_DEVICE_TYPE(device)  ((device)&0xff)
#define SO_TORCH_DEVICE_INDEX(device) ((device) >> 8 & 0xff)

/* Of one target. What does not fit is counted, without its stack or its block. */
#define SO_TORCH_BLOCKS  131072 /* that are live at a time: some 12 MiB of the kernel's memory, as they come */
#define SO_TORCH_SITES   8192
#define SO_TORCH_DEVICES 256 /* of all its processes */

/* No device has that much: what a program hands over beyond is no size. */
#define SO_TORCH_MAX_BYTES (1ull << 50)

struct so_torch_block_key {
	__u64 address;
	__u32 tgid, device;
};

struct so_torch_block {
	__u64 bytes;
	__u64 stack; /* hash; 0: none was taken */
	__u64 when_ns;
};

struct so_torch_site_key {
	__u64 stack;
	__u32 tgid, device;
};

/* Sums since the target is watched so. */
struct so_torch_site {
	__u64 allocations, frees;
	__u64 bytes;                  /* given out */
	__u64 live, peak;             /* bytes in use now, and the most of it */
	__u64 refused, refused_bytes; /* that there was no memory for */
	__u64 live_then;              /* in use when memory of the device was refused last to the process */
	__u64 since_ns;               /* as its device's, when it was used last */
	__u32 sent, pad;              /* its stack is in the ring */
};

struct so_torch_device_key {
	__u32 tgid, device;
};

/*
 * What a program has on a device: when it executes another one, the daemon takes its devices away, so that what is
 * older than a device is of the program before.
 */
struct so_torch_device {
	__u64 since_ns;            /* its first call */
	__u64 allocated, reserved; /* as the program said last */
	__u64 peak_allocated, peak_reserved;
	__u64 low, epoch; /* the least that was allocated since the slot has that epoch */
	__u64 live;       /* of the blocks that are followed */
	__u64 allocations, frees;
	__u64 unseen_frees, unseen_bytes; /* of blocks that are not followed: allocated before, or: */
	__u64 left_out, left_out_bytes;   /* there was no room to follow them */
	__u64 replaced;                   /* blocks whose address was given out again, without having been given back */
	__u64 refused, refused_bytes;     /* all; the bytes are the last one's, */
	__u64 refused_allocated, refused_reserved, refused_ns; /* and what there was then */
	struct so_torch_site rest;                             /* those whose stack was not taken */
};

/*
 * In a span of 2^27 ns stacks may take so long (struct so_torch_slot.budget_ns); beyond that only one in twice as many
 * has its stack taken.
 */
#define SO_TORCH_SPAN_SHIFT   27
#define SO_TORCH_SPAN_REFUSED 16 /* of memory that was refused, in any case */
#define SO_TORCH_MAX_MASK     0xfffffu

/* By slot, in memory that the daemon has mapped. */
struct so_torch_slot {
	__u32 on;
	__u32 mask; /* of those allocations that a random number has no bit of, stacks are taken: one in mask + 1 */
	__u64 epoch;
	__u64 budget_ns;
	__u64 span, span_ns;
	__u32 span_refused, refused; /* the second: ever */
	__u64 hits;                  /* of both probes */
	__u64 stacks;                /* taken */
	__u64 skipped;               /* not taken, by the budget */
	__u64 lost;      /* stacks that there was no room for: in the ring, or among the sites; or no buffer */
	__u64 hidden;    /* calls of threads that the target's user may not look into */
	__u64 strange;   /* calls with no sizes */
	__u64 full;      /* devices that there was no room for */
	__u64 stacks_ns; /* what taking stacks took */
	__u64 run_ns;    /* what the programs took, with the stacks */
};

/* A record of the ring of stacks, SO_RECORD_TORCH: behind the record of a site's stack. */
struct so_torch_record {
	__u32 type;
	__u32 slot;
	__u64 stack; /* its hash */
};

#endif
