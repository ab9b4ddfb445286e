/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A training loop that logs too much, for the tests of the summary. Include after <cmocka.h>. */
#ifndef STAKEOUT_TESTS_TRAINING_PROFILE_H
#define STAKEOUT_TESTS_TRAINING_PROFILE_H

#include "profile/profile.h"

#define PY(name, path, number)                                                                    \
	{                                                                                         \
		.function = name, .filename = path, .mapping = "", .line = number, .python = true \
	}
#define NATIVE(name, library)                                        \
	{                                                            \
		.function = name, .filename = "", .mapping = library \
	}
#define KERNEL(name)                                                                             \
	{                                                                                        \
		.function = name, .filename = "", .mapping = "[kernel.kallsyms]", .kernel = true \
	}
#define LOGGING "/usr/lib/python3.11/logging/__init__.py"

enum {
	MAIN,
	STEP,
	ENV,
	OBSERVE,
	INFO,
	FORMAT,
	EMIT,
	USER_FORMAT,
	MALLOC,
	WRITE,
	VFS_WRITE,
	GC,
	GC_LEAF,
	GEMM,
	ENGINE,
	MEMCPY,
	VECTORCALL,
	RESTORE,
	FUTEX,
	TIMER,
	UNKNOWN,
	START,
	N_LINES,
};

static struct profile_line training_lines[N_LINES] = {
	[MAIN] = PY("main", "/app/train.py", 47),
	[STEP] = PY("train_step", "/app/train.py", 30),
	[ENV] = PY("PoleEnv.step", "/app/pole.py", 12),
	[OBSERVE] = PY("PoleEnv._get_obs", "/app/pole.py", 20),
	[INFO] = PY("Logger.info", LOGGING, 1489),
	[FORMAT] = PY("Formatter.format", LOGGING, 700),
	[EMIT] = PY("StreamHandler.emit", LOGGING, 1100),
	[USER_FORMAT] = PY("Pretty.format", "/app/pretty.py", 5),
	[MALLOC] = NATIVE("PyObject_Malloc", "/usr/bin/python3.11"),
	[WRITE] = NATIVE("write", "/lib/libc.so.6"),
	[VFS_WRITE] = KERNEL("vfs_write"),
	[GC] = NATIVE("gc_collect_main", "/usr/bin/python3.11"),
	[GC_LEAF] = NATIVE("dict_traverse", "/usr/bin/python3.11"),
	[GEMM] = NATIVE("sgemm_kernel", "/usr/lib/libopenblas.so.0"),
	[ENGINE] = NATIVE("torch::autograd::Engine::thread_main", "/usr/lib/libtorch_cpu.so"),
	[MEMCPY] = NATIVE("__memcpy_avx_unaligned", "/lib/libc.so.6"),
	[VECTORCALL] = NATIVE("PyObject_Vectorcall", "/usr/bin/python3.11"),
	[RESTORE] = NATIVE("PyEval_RestoreThread", "/usr/bin/python3.11"),
	[FUTEX] = KERNEL("do_futex"),
	[TIMER] = KERNEL("timekeeping_advance"),
	[UNKNOWN] = NATIVE("compute", "/app/libown.so"),
	[START] = NATIVE("start_thread", "/lib/libc.so.6"),
};

#define SAMPLE(lock, n, ...)                                                                              \
	{                                                                                                 \
		.lines = (const uint32_t[]){ __VA_ARGS__ },                                               \
		.n_lines = sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t), .count = n,      \
		.value_ns = (n)*10000000ll, .pid = 7, .tid = 7, .comm = "train", .state = "", .gil = lock \
	}
#define HELD     PROFILE_GIL_HELD
#define RELEASED PROFILE_GIL_RELEASED
#define NO_GIL   PROFILE_GIL_NONE

/* 1,000 samples of 10 ms, leaf first. */
static struct profile_sample training_samples[] = {
	/* 800 of logging: its C code, its system calls, a formatter of the user's, what lies inside a simulator */
	SAMPLE(HELD, 400, FORMAT, INFO, STEP, MAIN),
	SAMPLE(HELD, 150, MALLOC, FORMAT, INFO, STEP, MAIN),
	SAMPLE(RELEASED, 140, VFS_WRITE, WRITE, EMIT, INFO, STEP, MAIN),
	SAMPLE(HELD, 10, USER_FORMAT, FORMAT, INFO, STEP, MAIN),
	SAMPLE(HELD, 90, EMIT, USER_FORMAT, FORMAT, INFO, STEP, MAIN),
	SAMPLE(HELD, 10, FORMAT, INFO, ENV, STEP, MAIN),
	/* 60 of the simulator, of which 20 its observations */
	SAMPLE(HELD, 40, ENV, STEP, MAIN),
	SAMPLE(HELD, 20, MALLOC, OBSERVE, ENV, STEP, MAIN),
	/* 20 of garbage collection within logging */
	SAMPLE(HELD, 20, GC_LEAF, GC, MALLOC, FORMAT, INFO, STEP, MAIN),
	/* 120 of what is no activity, by mechanism and without one */
	SAMPLE(HELD, 30, GEMM, STEP, MAIN),
	SAMPLE(HELD, 11, MEMCPY, VECTORCALL, STEP, MAIN),
	SAMPLE(HELD, 9, VECTORCALL, STEP, MAIN),
	SAMPLE(RELEASED, 8, FUTEX, RESTORE, MAIN),
	SAMPLE(HELD, 7, RESTORE, MAIN),
	SAMPLE(HELD, 5, STEP, MAIN),
	SAMPLE(NO_GIL, 30, GEMM, ENGINE, START),
	SAMPLE(NO_GIL, 12, UNKNOWN, START),
	SAMPLE(NO_GIL, 6, TIMER, UNKNOWN, START),
	{ .count = 2, .value_ns = 20000000, .pid = 7, .tid = 8, .comm = "odd", .state = "" },
};

static const struct profile training = {
	.lines = training_lines,
	.n_lines = N_LINES,
	.samples = training_samples,
	.n_samples = sizeof(training_samples) / sizeof(training_samples[0]),
	.duration_ns = 10000000000,
	.period_ns = 10000000,
};

#endif
