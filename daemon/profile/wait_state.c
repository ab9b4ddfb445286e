// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/profile/wait_state.h"

#include <stdbool.h>
#include <string.h>

#include "profile/waiting_modules.h"
#include "stakeout/short_path.h"

#define KERNEL_MAPPING "[kernel.kallsyms]"

/* How many user frames from the innermost one on may say what a lock is: the C library and the interpreter's locks. */
#define LOCK_FRAMES 8

struct known_function {
	const char *name; /* with an asterisk at its end: all that begin so */
	const char *state;
};

/* By what a kernel function waits for, the innermost that is listed counts. Linux 5.10 to 6.18. */
static const struct known_function kernel_functions[] = {
	{ "futex_*", "lock" },
	{ "do_futex", "lock" },
	{ "__futex_wait", "lock" },
	{ "do_semtimedop", "lock" },
	{ "hrtimer_nanosleep", "sleep" },
	{ "do_nanosleep", "sleep" },
	{ "pipe_*", "pipe" },
	{ "anon_pipe_*", "pipe" },
	{ "fifo_open", "pipe" },
	{ "eventfd_read", "pipe" },
	{ "n_tty_*", "pipe" },
	{ "tty_read", "pipe" },
	{ "unix_*", "io-net" },
	{ "tcp_*", "io-net" },
	{ "udp_*", "io-net" },
	{ "inet_*", "io-net" },
	{ "inet_csk_accept", "io-net" },
	{ "sk_wait_data", "io-net" },
	{ "sk_stream_wait_memory", "io-net" },
	{ "__skb_*", "io-net" },
	{ "sock_recvmsg", "io-net" },
	{ "sock_sendmsg", "io-net" },
	{ "vsock_*", "io-net" },
	{ "do_epoll_wait", "poll" },
	{ "ep_poll", "poll" },
	{ "do_sys_poll", "poll" },
	{ "do_poll*", "poll" },
	{ "do_select", "poll" },
	{ "do_wait", "child" },
	{ "__do_wait", "child" },
	{ "kernel_wait4", "child" },
	{ "do_signal_stop", "stopped" },
	{ "ptrace_stop", "stopped" },
	{ "do_freezer_trap", "stopped" },
	{ "do_sigtimedwait*", "signal" },
	{ "sigsuspend", "signal" },
	{ "__do_sys_pause", "signal" },
	{ "__x64_sys_pause", "signal" },
	{ "exc_page_fault", "page-fault" },
	{ "do_user_addr_fault", "page-fault" },
	{ "__x64_sys_madvise", "page-fault" },
	{ "handle_mm_fault", "page-fault" },
	{ "vfs_read", "io-disk" },
	{ "vfs_write", "io-disk" },
	{ "vfs_readv", "io-disk" },
	{ "vfs_writev", "io-disk" },
	{ "vfs_fsync*", "io-disk" },
	{ "do_fsync", "io-disk" },
	{ "ksys_sync", "io-disk" },
	{ "__do_sys_sync*", "io-disk" },
	{ "path_openat", "io-disk" },
	{ "vfs_statx", "io-disk" },
	{ "vfs_fstat*", "io-disk" },
	{ "vfs_unlink", "io-disk" },
	{ "vfs_rename", "io-disk" },
	{ "iterate_dir", "io-disk" },
	{ "filename_lookup", "io-disk" },
	{ "fuse_*", "io-disk" },
	{ "nfs_*", "io-disk" },
	{ "io_cqring_wait", "io-disk" },
	{ "read_events", "io-disk" },
	{ "nvidia_*", "gpu" },
	{ "uvm_*", "gpu" },
	{ "mutex_lock*", "lock" },
	{ "__mutex_lock*", "lock" },
	{ "rwsem_down_*", "lock" },
	{ "down_read*", "lock" },
	{ "down_write*", "lock" },
};

/* CPython 3.8 to 3.15: what a thread is in that waits for the interpreter's lock. */
static const char *const gil_functions[] = {
	"take_gil",           "PyEval_RestoreThread",  "PyEval_AcquireThread",
	"PyEval_AcquireLock", "_PyThreadState_Attach", "PyGILState_Ensure",
};

/*
 * Free-threaded CPython 3.13 to 3.15: what a thread is in that waits until all may go on, or for all to stand still;
 * and one that waits for an object of another's (Python/pystate.c, critical_section.c, lock.c).
 */
static const char *const pause_functions[] = {
	"tstate_wait_attach",      "stop_the_world",         "_PyEval_StopTheWorld",
	"_PyEval_StopTheWorldAll", "_PyThreadState_Suspend",
};

static const char *const object_lock_functions[] = {
	"_PyCriticalSection_BeginSlow",
	"_PyCriticalSection2_BeginSlow",
	"_PyCriticalSection_Resume",
	"PyCriticalSection_Begin",
	"PyCriticalSection2_Begin",
	"PyCriticalSection_BeginMutex",
	"PyCriticalSection2_BeginMutex",
	"_PyMutex_LockSlow",
	"PyMutex_Lock",
	"_PyRWMutex_RLock",
	"_PyRWMutex_Lock",
};

/*
 * What such interpreters wait for they wait for by a semaphore: below these, the functions above take no GIL. These are
 * exported, as is _Py_HandlePending(), which suspends a running thread; others may have no symbol.
 */
static const char *const parking_functions[] = { "_PyParkingLot_Park", "_PySemaphore_Wait" };

/*
 * Debian's interpreter has no symbol for take_gil(). Nothing else in it waits for a condition with a timeout: its other
 * locks are semaphores.
 */
static const char *const timed_conditions[] = {
	"pthread_cond_timedwait",
	"___pthread_cond_timedwait64",
	"pthread_cond_clockwait",
	"___pthread_cond_clockwait64",
};

/* Threads of pools that have no work. Python's by the file as well. */
static const struct {
	const char *function, *file;
} idle_functions[] = {
	{ "gomp_thread_start", NULL },
	{ "__kmp_launch_worker", NULL },
	{ "blas_thread_server", NULL },
	{ "c10::ThreadPool::main_loop(unsigned long)", NULL },
	{ "c10::ThreadPool::main_loop", NULL },
	{ "thread_main", NULL }, /* pthreadpool */
	{ "_worker", "concurrent/futures/thread.py" },
	{ "worker", "multiprocessing/pool.py" },
	{ "Queue._feed", "multiprocessing/queues.py" },
	{ "_feed", "multiprocessing/queues.py" },
	{ "_ResourceSharer._serve", "multiprocessing/resource_sharer.py" },
	{ "_serve", "multiprocessing/resource_sharer.py" },
	/* PyTorch's loader: a worker without a request for a batch, and the thread that pins what workers bring. */
	{ "_worker_loop", "torch/utils/data/_utils/worker.py" },
	{ "_pin_memory_loop.<locals>.do_one_step", "torch/utils/data/_utils/pin_memory.py" },
	{ "do_one_step", "torch/utils/data/_utils/pin_memory.py" },
	{ "_pin_memory_loop", "torch/utils/data/_utils/pin_memory.py" },
	{ "node::(anonymous namespace)::PlatformWorkerThread(void*)", NULL },
	{ "node::(anonymous namespace)::PlatformWorkerThread", NULL },
	{ "background_thread_entry", NULL }, /* jemalloc */
};

/* The same, where no Python frame is below: a Python thread that waits for others is in these as well. */
static const char *const idle_native_functions[] = {
	"torch::autograd::ReadyQueue::pop",         "c10d::ProcessGroupNCCL::Watchdog::runLoop",
	"c10d::ProcessGroupNCCL::watchdogHandler",  "c10d::ProcessGroupNCCL::HeartbeatMonitor::runLoop",
	"c10d::ProcessGroupNCCL::heartbeatMonitor",
};

/*
 * Libraries whose own threads have work only from others: where all of a stack lies in them, there is none. Two of
 * libcuda.so wait for events of the driver's in each process that uses a GPU (driver 580).
 */
static const char *const pool_libraries[] = { "libgomp", "libiomp5",          "libomp.",        "libopenblas", "libmkl",
					      "libtbb",  "libscipy_openblas", "libpthreadpool", "libcuda.so" };

/* Functions of a pool's thread that does work lie between its start and where it waits. */
#define IDLE_USER_FRAMES 8

struct frame {
	const char *name, *file, *mapping;
	bool kernel, python;
};

static void describe(const struct profile_builder *b, uint64_t location, struct frame *out)
{
	struct profile_frame frame;
	size_t last = profile_builder__frames(b, location) - 1;

	profile_builder__describe(b, location, last, &frame, &out->mapping);
	out->name = frame.name;
	out->file = frame.filename;
	out->kernel = !strcmp(out->mapping, KERNEL_MAPPING);
	out->python = !out->mapping[0] && out->file[0];
}

static bool matches(const char *pattern, const char *name)
{
	size_t length = strlen(pattern);

	if (length && pattern[length - 1] == '*')
		return !strncmp(pattern, name, length - 1);
	return !strcmp(pattern, name);
}

static const char *kernel_state(const char *name)
{
	for (size_t i = 0; i < sizeof(kernel_functions) / sizeof(kernel_functions[0]); i++)
		if (matches(kernel_functions[i].name, name))
			return kernel_functions[i].state;
	return NULL;
}

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

#define IS_ONE_OF(name, names) is_one_of(name, names, sizeof(names) / sizeof((names)[0]))

/* "[python3.11+0x4f92c0]": a function without a symbol, by its address. */
static bool is_nameless(const char *name)
{
	return !*name || *name == '[';
}

static bool is_interpreter(const char *mapping)
{
	const char *base = short_path(mapping);

	return !strncmp(base, "python3", 7) || !strncmp(base, "libpython3", 10);
}

static bool ends_in(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && !strcmp(text + n - m, end);
}

static bool is_idle(const struct frame *f)
{
	for (size_t i = 0; i < sizeof(idle_functions) / sizeof(idle_functions[0]); i++)
		if (!strcmp(idle_functions[i].function, f->name) &&
		    (!idle_functions[i].file || ends_in(f->file, idle_functions[i].file)))
			return true;
	return false;
}

static bool is_gpu(const struct frame *f)
{
	const char *base = short_path(f->mapping);

	return !strncmp(base, "libcuda.so", 10) || !strncmp(base, "libcudart", 9);
}

struct user_part {
	unsigned n;
	bool gil, gpu, idle, python;
	bool parked, pause, object_lock; /* of a free-threaded interpreter */
	bool idle_native;                /* unless a Python frame is below */
	bool caller;                     /* a Python frame outside of the modules that others wait with */
	bool pool, other;                /* frames in libraries of pools; in others than these and the C library */
	bool timed_condition;            /* the frame before */
};

static bool lies_in_one(const struct frame *f, const char *const *names, size_t n)
{
	const char *base = short_path(f->mapping);

	for (size_t i = 0; i < n; i++)
		if (!strncmp(base, names[i], strlen(names[i])))
			return true;
	return false;
}

/* One of the frames that say what kind of lock it is. */
static void take_lock(struct user_part *u, const struct frame *f)
{
	bool gil = IS_ONE_OF(f->name, gil_functions);

	u->parked |= IS_ONE_OF(f->name, parking_functions);
	u->object_lock |= IS_ONE_OF(f->name, object_lock_functions);
	u->pause |= IS_ONE_OF(f->name, pause_functions) ||
		    (u->parked && !u->object_lock && (gil || !strcmp(f->name, "_Py_HandlePending")));
	u->gil |= gil || (u->timed_condition && is_nameless(f->name) && is_interpreter(f->mapping));
}

/* The frame by which it is known may be the pool's first one, or Python's innermost. */
static void take_user(struct user_part *u, const struct frame *f)
{
	static const char *const c_library[] = { "libc.so", "libc-2.", "libpthread", "ld-linux", "[vdso]" };
	bool pool = lies_in_one(f, pool_libraries, sizeof(pool_libraries) / sizeof(pool_libraries[0]));

	u->pool |= pool;
	u->other |= !pool && !lies_in_one(f, c_library, sizeof(c_library) / sizeof(c_library[0]));
	u->gpu |= is_gpu(f);
	if (u->n < LOCK_FRAMES && !u->python)
		take_lock(u, f);
	u->timed_condition = IS_ONE_OF(f->name, timed_conditions);
	u->idle |= (f->python ? !u->caller : u->n < IDLE_USER_FRAMES && !u->python) && is_idle(f);
	u->idle_native |= u->n < IDLE_USER_FRAMES && IS_ONE_OF(f->name, idle_native_functions);
	u->python |= f->python;
	u->caller |= f->python && !is_waiting_module(f->file);
	u->n++;
}

const char *wait_state__of(const struct profile_builder *b, const uint64_t *locations, size_t n)
{
	const char *state = NULL;
	struct user_part user = { 0 };
	struct frame f;

	for (size_t i = 0; i < n; i++) {
		describe(b, locations[i], &f);
		/* The file that it waits for. */
		if (!i && !f.mapping[0] && !strncmp(f.name, "[file ", 6))
			continue;
		if (f.kernel && (!state || !strcmp(state, "io-disk") || !strcmp(state, "lock"))) {
			const char *outer = kernel_state(f.name);

			/* What a page fault waits for is a read or a lock of the kernel's. */
			if (!state || (outer && !strcmp(outer, "page-fault")))
				state = outer;
		} else if (!f.kernel) {
			take_user(&user, &f);
		}
	}
	if (user.pool && !user.other)
		return "idle";
	if (user.gpu)
		return "gpu";
	if (state && !strcmp(state, "lock") && user.pause)
		return "stop-the-world";
	if (state && !strcmp(state, "lock") && (user.gil || user.object_lock))
		return user.gil ? "gil" : "object-lock";
	if (user.idle || (user.idle_native && !user.python))
		return "idle";
	return state ?: "waiting";
}
