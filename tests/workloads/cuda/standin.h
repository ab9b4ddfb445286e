/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stand-ins for NVIDIA's driver (libcuda.so.1) and runtime (libcudart.so.12): the real names, signatures and nesting,
 * no GPU. Memory of the device is address space that nobody may touch, a copy moves nothing, a kernel does not run. Any
 * pointer can be launched; one that __cudaRegisterFunction was not told of goes to the driver as it is.
 *
 * STANDIN_CUDA, read when the driver is loaded: rules with commas between them, a later one wins. A name is that of an
 * API (cudaMalloc; its _v2 and _ptsz go with it) and may end in *.
 *   NAME=TIME[/TIME…]   how long the call waits, after the driver's calls in it; the process's calls take the values in
 *   turn.
 *                       TIME is a number with ns (also if nothing is behind it), us, ms or s, and *N behind: N times.
 *   NAME!CODE[@N]       every Nth call (N absent: every call) does nothing and returns CODE, after its wait
 *   measure             truth has times of all outermost calls; without it, of those whose wait is set
 *   spin                long waits keep the CPU too; without it, those over a millisecond sleep until shortly before
 *   the end
 * A rule that cannot be read ends the process with status 2.
 *
 * STANDIN_CUDA_TRUTH=FILE: truth is written there at exit; %p stands for the process's number.
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <stdio.h>

/*
 * Writes one line of JSON: {"images":{IMAGE:{API:{…}}},"kernels":{NAME:launches},"memory":{…}}, where IMAGE is the
 * library that was called. Of each API that was called:
 *   calls, errors (did not return 0), not_ready (of these, returned 600), nested (made by the runtime), bytes (copied,
 *   set, allocated, released; of calls that returned 0), bytes_failed, directions {word: bytes asked for}, timed,
 *   sum_ns, min_ns, max_ns (outermost calls, from inside; a caller sees a little more), times: their histogram, [lowest
 *   ns, width, calls].
 * Exact for threads that have ended or are in no call; calls of others under way may be half in it.
 * libcuda.so.1 exports it, and the runtime one that passes on to it.
 */
void standin_truth_print(FILE *f);

#endif
