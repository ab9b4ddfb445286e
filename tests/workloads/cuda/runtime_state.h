/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of the stand-in runtime. */
#ifndef STANDIN_RUNTIME_STATE_H
#define STANDIN_RUNTIME_STATE_H

#include "driver_more.h"
#include "driver_symbols.h"
#include "runtime_symbols.h"
#include "standin_core.h"

/* What the runtime calls in the driver, by symbol. */
struct runtime_driver {
	const struct standin_core *core;
	unsigned image;
#define X(symbol, api, shape) cu_##shape *symbol;
	STANDIN_DRIVER_SYMBOLS(X)
#undef X
#define X(symbol, shape) cu_##shape *symbol;
	STANDIN_DRIVER_MORE(X)
#undef X
};

/* runtime_driver.c: loads libcuda.so.1 with the first call. NULL: there is none, or it is no stand-in. */
extern struct runtime_driver runtime_driver __attribute__((visibility("hidden")));
const struct runtime_driver *runtime__load(void) __attribute__((visibility("hidden")));

/* runtime_kernels.c: what the driver is to launch for a host function, or for a kernel of cudaKernel_t. */
CUfunction runtime__function(const void *func) __attribute__((visibility("hidden")));

/* A capture has begun, on whichever stream. */
extern bool runtime_capturing __attribute__((visibility("hidden")));

/* The calling thread's last error. */
extern __thread cudaError_t runtime_last_error __attribute__((visibility("hidden"), tls_model("initial-exec")));

#endif
