/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What to try, for each finding of cuda_findings.c. */
#ifndef STAKEOUT_CUDA_ADVICE_H
#define STAKEOUT_CUDA_ADVICE_H

static const char HIDDEN_SCALAR[] =
	"`.item()`, `.tolist()`, `.cpu()`, `float(tensor)`, `if tensor:` read a value and wait until the GPU "
	"has come to it. "
	"Keep it on the GPU (torch.where, in-place sums), or read it once in many steps";
static const char HIDDEN_OTHER[] = "`.to(device)`, `.cuda()` and `.cpu()` wait for their copy unless the memory is "
				   "pinned and non_blocking=True is given: pin_memory=True in the DataLoader, and wait "
				   "once, when the value is needed; or keep it on the GPU";
static const char EXPLICIT_SYNC[] = "torch.cuda.synchronize() and its like are needed to take times, seldom "
				    "for results: queue the next step's work before "
				    "waiting, or wait for one event instead of the whole device";
static const char PAGEABLE[] = "pageable memory makes a copy wait: pinned memory (pin_memory=True) and an "
			       "asynchronous copy (non_blocking=True, "
			       "cudaMemcpyAsync on a stream of its own), in few large pieces";
static const char FEWER_LAUNCHES[] = "fewer, larger kernels: CUDA graphs (torch.cuda.graphs), "
				     "torch.compile(mode=\"reduce-overhead\"), foreach or fused "
				     "optimisers, larger batches, no Python loop over tensors";
static const char SLOW_LAUNCH[] =
	"a kernel's first launch loads it (warm up, or CUDA_MODULE_LOADING=EAGER); a launch into a full queue "
	"waits for the "
	"GPU, which then is the limit; threads that launch at the same time wait for one another";
static const char POOL_MEMORY[] = "allocate once, outside the loop, or from a pool (PyTorch's caching "
				  "allocator, cudaMallocAsync): look for "
				  "torch.cuda.empty_cache(), for memory near its limit and for changing shapes "
				  "(expandable_segments:True). cudaFree may "
				  "wait for the whole device";
static const char SEGMENT_MEMORY[] =
	"memory is created and mapped piece by piece (PyTorch's expandable segments have it so): look for "
	"torch.cuda.empty_cache(), for memory near its limit and for changing shapes. To unmap and to release "
	"may "
	"wait for the device";
static const char FEED_THE_GPU[] = "the other findings and the tables say what the host does meanwhile. For "
				   "its time outside CUDA calls: stakeout record";
static const char READ_ERRORS[] = "failures of asynchronous work are returned by later calls: compute-sanitizer, or "
				  "CUDA_LAUNCH_BLOCKING=1, names the first one";
static const char ESTIMATES[] = "a larger budget counts every call";
static const char FOLDED[] = "these calls are counted, only not apart: record for a shorter time, or a single process";
static const char UNFINISHED[] = "the figures are too low by these: a few were under way when probes were "
				 "placed anew (--budget 100 has none), many are left by longjmp(), or by "
				 "threads that end in them";
static const char BATCHES[] =
	"what these batches copied, or asked to be near, is more than the bytes that are reported";

static const char INCOMPLETE[] = "the figures are too low by these; record for a shorter time, or a single process";

#endif
