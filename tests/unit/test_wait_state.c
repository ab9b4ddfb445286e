// SPDX-License-Identifier: GPL-2.0-or-later
/* What a thread waits for, by stacks as kernels and libraries leave them (.design/waiting.md). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "daemon/profile/wait_state.h"

#define MAX_FRAMES 24

/* Of a thread that a free-threaded interpreter has parked, its innermost frames. */
#define PARKED                                                                              \
	"k:futex_do_wait k:do_futex libc.so.6:sem_clockwait python3.13t:_PySemaphore_Wait " \
	"python3.13t:_PyParkingLot_Park "

/*
 * Leaf first, with blanks between: "k:NAME" in the kernel, "p:FILE:NAME" Python, "FILE:NAME" native.
 */
static const struct {
	const char *state, *stack;
} stacks[] = {
	{ "sleep",
	  "k:hrtimer_nanosleep k:common_nsleep k:__x64_sys_clock_nanosleep libc.so.6:clock_nanosleep p:a.py:f" },
	{ "lock", "k:futex_do_wait k:__futex_wait k:do_futex libc.so.6:__lll_lock_wait app:main" },
	{ "lock", "k:do_semtimedop libc.so.6:semop app:main" },
	{ "pipe", "k:anon_pipe_read k:fifo_pipe_read k:vfs_read k:ksys_read libc.so.6:read" },
	{ "pipe", "k:pipe_read k:vfs_read k:ksys_read libc.so.6:read" },
	{ "pipe", "k:n_tty_read k:tty_read k:vfs_read libc.so.6:read" },
	{ "io-net", "k:unix_stream_read_generic k:unix_stream_recvmsg k:sock_recvmsg libc.so.6:recv" },
	{ "io-net", "k:wait_woken k:sk_wait_data k:tcp_recvmsg_locked k:tcp_recvmsg k:sock_read_iter k:vfs_read" },
	{ "io-net", "k:inet_csk_accept k:inet_accept k:do_accept libc.so.6:accept" },
	{ "poll", "k:do_epoll_wait k:__x64_sys_epoll_wait libc.so.6:epoll_wait" },
	{ "poll", "k:poll_schedule_timeout.constprop.0 k:do_select k:core_sys_select libc.so.6:select" },
	{ "poll", "k:do_poll.constprop.0 k:do_sys_poll libc.so.6:poll" },
	{ "child", "k:do_wait k:kernel_wait4 k:__do_sys_wait4 libc.so.6:wait4" },
	{ "signal", "k:do_sigtimedwait.isra.0 k:__x64_sys_rt_sigtimedwait libc.so.6:sigwait" },
	{ "stopped", "k:do_signal_stop k:get_signal k:arch_do_signal_or_restart libc.so.6:clock_nanosleep" },
	{ "stopped", "k:ptrace_stop k:get_signal libc.so.6:read" },
	/* A file's page and a lock of the kernel's, read and taken for a page fault. */
	{ "page-fault", "k:handle_userfault k:do_anonymous_page k:handle_mm_fault k:exc_page_fault app:main" },
	{ "page-fault", "k:request_wait_answer k:fuse_read_folio k:filemap_fault k:handle_mm_fault app:main" },
	{ "page-fault", "k:rwsem_down_read_slowpath k:down_read k:do_user_addr_fault k:exc_page_fault app:main" },
	{ "io-disk", "k:folio_wait_bit_common k:filemap_read k:ext4_file_read_iter k:vfs_read libc.so.6:read" },
	{ "io-disk", "k:request_wait_answer k:fuse_direct_io k:vfs_read libc.so.6:read" },
	{ "io-disk", "k:jbd2_log_wait_commit k:ext4_sync_file k:vfs_fsync_range k:do_fsync libc.so.6:fsync" },
	{ "gpu", "k:nvidia_poll k:do_sys_poll libc.so.6:poll libcuda.so.535.1:cuCtxSynchronize p:t.py:f" },
	{ "gpu", "k:futex_do_wait k:do_futex libc.so.6:pthread_cond_wait libcuda.so.1:[libcuda.so.1+0x10] app:main" },
	/* The driver's own threads. */
	{ "idle",
	  "k:do_sys_poll libc.so.6:__poll libcuda.so.580.1:[libcuda.so.580.1+0x319de0] libc.so.6:start_thread" },
	/* The interpreter's lock: by name, and without symbols by the one condition with a timeout. */
	{ "gil", "k:futex_do_wait k:do_futex libc.so.6:pthread_cond_timedwait libpython3.12.so:take_gil p:a.py:f" },
	{ "gil",
	  "k:futex_do_wait k:do_futex libc.so.6:sem_wait python3.11:x python3.11:PyEval_RestoreThread p:a.py:f" },
	{ "gil",
	  "k:futex_do_wait k:do_futex libc.so.6:pthread_cond_timedwait python3.11:[python3.11+0x4f92c0] p:a.py:f" },
	{ "gil",
	  "k:futex_do_wait k:do_futex libc.so.6:___pthread_cond_timedwait64 python3.9:[python3.9+0x10] p:a.py:f" },
	{ "lock", "k:futex_do_wait k:do_futex libc.so.6:pthread_cond_timedwait app:[app+0x4f92c0] p:a.py:f" },
	{ "lock",
	  "k:futex_do_wait k:do_futex libc.so.6:sem_wait python3.11:PyThread_acquire_lock_timed p:threading.py:wait" },
	/* Free-threaded: a pause, with and without symbols for what is static; an object; the program's own lock. */
	{ "stop-the-world", PARKED "python3.13t:tstate_wait_attach python3.13t:_Py_HandlePending p:a.py:f" },
	{ "stop-the-world", PARKED "python3.13t:PyEval_RestoreThread p:a.py:f" },
	{ "stop-the-world",
	  PARKED "python3.13t:PyEvent_WaitTimed python3.13t:stop_the_world python3.13t:gc_collect_main p:a.py:f" },
	{ "stop-the-world", PARKED "python3.13t:[python3.13t+0x10] python3.13t:_Py_HandlePending p:a.py:f" },
	{ "object-lock",
	  "k:futex_do_wait k:do_futex libc.so.6:sem_clockwait python3.13t:_PyParkingLot_Park python3.13t:PyMutex_Lock "
	  "python3.13t:_Py_HandlePending p:a.py:f" },
	{ "object-lock", PARKED "python3.13t:_PyMutex_LockTimed python3.13t:_PyMutex_LockSlow "
				"python3.13t:_PyCriticalSection_BeginSlow p:a.py:f" },
	{ "lock", PARKED "python3.13t:_PyMutex_LockTimed python3.13t:lock_PyThread_acquire_lock p:a.py:f" },
	/* Behind Python's frames it is another thing's: a call that has returned to Python waits for no lock of its. */
	{ "lock", "k:futex_do_wait k:do_futex libc.so.6:sem_wait p:a.py:f python3.11:PyGILState_Ensure" },
	{ "pipe", "k:pipe_read k:vfs_read libc.so.6:read python3.11:PyEval_RestoreThread" },
	/* Pools without work, and one that waits in what it works on. */
	{ "idle", "k:futex_do_wait k:do_futex libgomp.so.1:gomp_team_barrier_wait_end libgomp.so.1:gomp_thread_start" },
	{ "idle",
	  "k:futex_do_wait libc.so.6:sem_wait p:/usr/lib/python3.11/concurrent/futures/thread.py:_worker p:x.py:run" },
	{ "lock", "k:futex_do_wait libc.so.6:sem_wait p:mine.py:_worker" },
	{ "idle", "k:futex_do_wait libc.so.6:pthread_cond_wait libtorch_cpu.so:torch::autograd::ReadyQueue::pop "
		  "libtorch_cpu.so:torch::autograd::Engine::thread_main libtorch_cpu.so:thread_init libc.so.6:clone3" },
	{ "lock", "k:futex_do_wait libc.so.6:pthread_cond_wait libtorch_cpu.so:torch::autograd::ReadyQueue::pop "
		  "libtorch_cpu.so:torch::autograd::Engine::execute p:train.py:backward" },
	{ "idle", "k:do_sys_poll libc.so.6:poll p:/x/selectors.py:select p:/x/multiprocessing/connection.py:wait "
		  "p:/x/multiprocessing/queues.py:Queue.get p:/x/torch/utils/data/_utils/worker.py:_worker_loop" },
	{ "io-disk",
	  "k:vfs_read libc.so.6:read p:/mine/data.py:load p:/x/torch/utils/data/_utils/worker.py:_worker_loop" },
	{ "poll", "k:do_sys_poll libc.so.6:poll p:/x/selectors.py:select p:/x/multiprocessing/queues.py:Queue.get "
		  "p:/x/torch/utils/data/dataloader.py:_try_get_data p:train.py:main" },
	{ "sleep", "k:hrtimer_nanosleep p:a.py:work p:/usr/lib/python3.11/concurrent/futures/thread.py:_worker" },
	{ "waiting", "k:some_driver_wait k:some_driver_ioctl libc.so.6:ioctl app:main" },
	{ "waiting", "app:main" },
	{ "waiting", "" },
};

static uint64_t add_frame(struct profile_builder *b, char *word)
{
	struct profile_frame frame = { .address = 1 };
	struct profile_mapping mapping = { 1, 2, 0, "[kernel.kallsyms]", "" };
	char *name = strchr(word, ':') + 1;
	char path[64];

	name[-1] = 0;
	if (!strcmp(word, "p")) {
		frame.filename = name;
		frame.line = frame.start_line = 1;
		frame.address = 0;
		name = strrchr(name, ':') + 1;
		name[-1] = 0;
	} else {
		snprintf(path, sizeof(path), "/usr/lib/%s", word);
		if (strcmp(word, "k"))
			mapping.filename = path;
		frame.mapping_id = profile_builder__mapping(b, &mapping);
	}
	frame.name = name;
	return profile_builder__location(b, &frame);
}

static void each_state_by_its_stack(void **state)
{
	for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
		_cleanup_(profile_builder) struct profile_builder *b = profile_builder__new_wall(1, 1, 1);
		uint64_t locations[MAX_FRAMES];
		char text[512], *at = text, *word;
		const char *found;
		size_t n = 0;

		snprintf(text, sizeof(text), "%s", stacks[i].stack);
		while ((word = strsep(&at, " ")))
			if (*word)
				locations[n++] = add_frame(b, word);
		found = wait_state__of(b, locations, n);
		if (strcmp(found, stacks[i].state))
			fail_msg("%s, not %s: %s", found, stacks[i].state, stacks[i].stack);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_state_by_its_stack) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
