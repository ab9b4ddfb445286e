/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What stakeoutd and stakeout-nvml say to each other over a Unix stream socket, which is the helper's standard input:
 * one request, one answer, in turn; both in the machine's own byte order, for both come from one build. The first
 * request is NVML_CALL_LOAD; the helper ends when the socket is closed.
 */
#ifndef STAKEOUT_NVML_PROTOCOL_H
#define STAKEOUT_NVML_PROTOCOL_H

#include <stdint.h>

#define NVML_HELPER       "stakeout-nvml"
#define NVML_PROTOCOL     0x6e760001u  /* changes with the structures below */
#define NVML_MAX_ANSWER   (256u << 10) /* bytes that may follow an answer */
#define NVML_LOAD_LIMIT_S 30           /* for loading and for init: a driver may have to start the GPUs */
#define NVML_CALL_LIMIT_S 2            /* for any other call */

/* One for each function of daemon/nvml/nvml_library.h that is called, and the two around them. */
enum nvml_call {
	/* answer: code 0 or -errno; bytes: text of the error; n: bits, 1 << nvml_call, that are there */
	NVML_CALL_LOAD,
	NVML_CALL_WORDS, /* argument: nvmlReturn_t; bytes: text, absent where NVML has none */
	NVML_CALL_INIT,
	NVML_CALL_SHUTDOWN,
	NVML_CALL_DRIVER_VERSION,
	NVML_CALL_COUNT,  /* n: devices */
	NVML_CALL_HANDLE, /* device: number; the helper keeps the handle under it */
	NVML_CALL_NAME,
	NVML_CALL_UUID,
	NVML_CALL_UTILISATION, /* bytes: struct nvml_utilisation */
	NVML_CALL_MEMORY,      /* bytes: struct nvml_memory */
	NVML_CALL_PROCESS_SAMPLES, /* argument: µs; n: as NVML set it; bytes: that many struct nvml_process_sample */
	NVML_CALL_PROCESSES, /* n: as NVML set it; bytes: room for n of the largest kind, as NVML wrote them */
	NVML_CALLS,
};

struct nvml_request {
	uint32_t protocol, call;
	uint32_t device;
	uint32_t room; /* entries that the caller has room for */
	uint64_t argument;
};

struct nvml_answer {
	uint32_t protocol, call;
	int32_t code; /* nvmlReturn_t where nothing else is said; other than 0: no bytes follow, but for LOAD */
	uint32_t n;
	uint32_t bytes; /* that follow, at most NVML_MAX_ANSWER */
	uint32_t unused;
};

_Static_assert(sizeof(struct nvml_request) == 24 && sizeof(struct nvml_answer) == 24, "no padding");

#endif
