/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/ptrace.h>

#include "tests/unit/made_python.h"
#include "tests/unit/python_world.h"

static const char waiting[] = SHOW "show('main')\n"
				   "os.read(0, 1)\n";

static void test_lock(void **state)
{
	static const char script[] = SHOW "show('main')\n"
					  "x = 0\n"
					  "while True: x += 1\n";

	if (n_interpreters == 0)
		skip();
	for (size_t i = 0; i < n_interpreters; i++) {
		const struct so_python *walker;
		struct shown shown;
		uint64_t gil, thread;
		int32_t locked = 0;
		WORLD(w);

		start(&w, interpreters[i].path, script);
		read_shown(&w, &shown);
		open_world(&w);
		walker = &w.process.walker;
		thread = python_walk__thread(&w.memory, &w.process, shown.thread);
		gil = w.process.place.gil;
		if (!(walker->flags & SO_PYTHON_GIL_RUNTIME))
			gil = foreign_memory__u64(&w.memory, foreign_memory__u64(&w.memory, thread + walker->interp) +
								     walker->interp_gil);
		if (w.process.layout.free_threaded) {
			assert_true(
				foreign_memory__read(&w.memory, gil + walker->gil_enabled, &locked, sizeof(locked)));
			assert_int_equal(locked, 0);
			continue;
		}
		for (unsigned k = 0; k < 20000 && locked != 1; k++) {
			assert_true(foreign_memory__read(&w.memory, gil + walker->gil_locked, &locked, sizeof(locked)));
			usleep(1000);
		}
		assert_int_equal(locked, 1);
		assert_true(foreign_memory__u64(&w.memory, gil + walker->gil_holder) == thread);
	}
}

/* The bias of a file that another process has been seen to map, in this one. */
static bool find_mapped(pid_t pid, const struct proc_map *known, const struct elf_file *elf, uint64_t *bias)
{
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };

	if (proc_maps__read(pid, true, &maps, NULL) < 0)
		return false;
	for (size_t i = 0; i < maps.n; i++) {
		const struct proc_map *map = &maps.maps[i];

		if (map->inode == known->inode && map->dev_minor == known->dev_minor &&
		    elf_file__bias(elf, map->start, map->end - map->start, map->offset, bias) == 0)
			return true;
	}
	return false;
}

static void learn_file(struct world *w, struct proc_map *map, struct elf_file *elf)
{
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };
	_cleanup_close_ int fd = -1;
	const struct proc_map *found;

	assert_int_equal(proc_maps__read(w->target.pid, true, &maps, NULL), 0);
	found = proc_maps__find(&maps, w->found.image.loops[0].low + w->found.bias);
	assert_non_null(found);
	fd = proc_maps__open_file(w->target.pid, found);
	assert_int_equal(elf_file__read(fd, elf, NULL), 0);
	*map = *found;
	map->path = NULL;
}

/* A process that stops before and after each of its system calls, from its first instruction on. */
static void start_stepped(struct world *w, const char *path)
{
	char *argv[] = { (char *)"/bin/sh", (char *)"-c",    (char *)"read line; exec \"$0\" -c \"$1\"",
			 (char *)path,      (char *)waiting, NULL };

	assert_int_equal(python_target__run(argv, &w->target), 0);
	w->memory = (struct foreign_memory){ python_memory__read, &w->target.pid };
	assert_int_equal(ptrace(PTRACE_SEIZE, w->target.pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, w->target.pid, NULL, NULL), 0);
	assert_true(python_target__say(&w->target, "go\n"));
}

static void wait_for_stop(struct world *w)
{
	int status;

	assert_int_equal(waitpid(w->target.pid, &status, 0), w->target.pid);
	assert_true(WIFSTOPPED(status));
}

/* Until it is ready, and a while on. Returns how often it was not. */
static unsigned step_until_ready(struct world *w, const struct world *known, const struct proc_map *map,
				 const struct elf_file *elf)
{
	unsigned waited = 0, ready = 0;

	for (unsigned i = 0; i < 100000 && ready < 50; i++) {
		uint64_t bias;
		int r;

		wait_for_stop(w);
		r = find_mapped(w->target.pid, map, elf, &bias)
			    ? python_process__open(&w->memory, &known->found.image, bias, &w->process, &w->err)
			    : -ENOENT;
		assert_int_equal(ptrace(PTRACE_SYSCALL, w->target.pid, NULL, NULL), 0);
		if (r == -ENOENT)
			continue;
		if (r != (ready ? 0 : -EAGAIN) && r != 0)
			fail_msg("3.%u: %d %s", known->process.layout.version & 0xff, r, w->err.text);
		ready += r == 0;
		waited += r < 0;
	}
	assert_int_equal(ready, 50);
	return waited;
}

/* A process has no interpreter, then one that is not ready, until it has one for good. */
static void test_starting(void **state)
{
	if (n_interpreters == 0)
		skip();
	for (size_t i = 0; i < n_interpreters; i++) {
		struct elf_file elf;
		struct proc_map map;
		struct shown shown;
		unsigned waited;
		WORLD(known);
		WORLD(w);

		start(&known, interpreters[i].path, waiting);
		read_shown(&known, &shown);
		open_world(&known);
		learn_file(&known, &map, &elf);
		start_stepped(&w, interpreters[i].path);
		waited = step_until_ready(&w, &known, &map, &elf);
		assert_true(waited > 10);
		assert_int_equal(w.process.place.tss, known.process.place.tss);
	}
}

/* Threads come and go while the lists are read. */
static void test_changing_threads(void **state)
{
	static const char script[] = SHOW "def short(): pass\n"
					  "def churn():\n"
					  "    while True:\n"
					  "        t = [threading.Thread(target=short) for i in range(4)]\n"
					  "        for x in t: x.start()\n"
					  "        for x in t: x.join()\n"
					  "threading.Thread(target=churn, daemon=True).start()\n"
					  "show('main')\n"
					  "os.read(0, 1)\n";
	unsigned broken = 0, listed = 0;

	if (n_interpreters == 0)
		skip();
	for (size_t i = 0; i < n_interpreters; i++) {
		struct python_process first;
		struct shown shown;
		WORLD(w);

		start(&w, interpreters[i].path, script);
		read_shown(&w, &shown);
		open_world(&w);
		first = w.process;
		for (unsigned k = 0; k < 200; k++) {
			struct python_thread threads[64];
			int r = python_process__open_running(&w.memory, &w.found.image, w.found.bias, &w.process,
							     &w.err);

			/* A list that changes right then: who asks is to ask again, as the daemon does. */
			if (r == -EAGAIN) {
				broken++;
				continue;
			}
			if (r < 0)
				fail_msg("%s: %d %s", interpreters[i].path, r, w.err.text);
			assert_memory_equal(&w.process.walker, &first.walker, sizeof(first.walker));
			r = python_process__threads(&w.memory, &w.process, threads, 64);
			broken += r < 0;
			listed += r >= 2;
		}
	}
	print_message("%u lists read, %u broken\n", listed, broken);
	assert_true(listed > broken * 20);
}

/* A reader that damages what it reads. */
struct damaged {
	pid_t pid;
	unsigned seed, one_in; /* reads */
	uint64_t from, to;     /* addresses that it damages; 0, 0: all */
	unsigned damages;
};

static bool read_damaged(void *context, uint64_t address, void *to, size_t bytes)
{
	struct damaged *d = context;

	if (!python_memory__read(&d->pid, address, to, bytes))
		return false;
	if ((!d->to || (address < d->to && address + bytes > d->from)) && rand_r(&d->seed) % d->one_in == 0) {
		d->damages++;
		if (rand_r(&d->seed) % 8 == 0)
			return false;
		if (rand_r(&d->seed) % 4 == 0)
			memset((uint8_t *)to + rand_r(&d->seed) % bytes / 2, rand_r(&d->seed), bytes / 2);
		else
			((uint8_t *)to)[(unsigned)rand_r(&d->seed) % bytes] ^= (uint8_t)(1 << rand_r(&d->seed) % 8);
	}
	return true;
}

static bool known_answer(int r)
{
	return r == 0 || r == -EAGAIN || r == -EINVAL || r == -ENOTSUP;
}

static void test_damaged_memory(void **state)
{
	if (n_interpreters == 0)
		skip();
	for (size_t i = 0; i < n_interpreters; i++) {
		struct damaged damaged = { .seed = 1, .one_in = 20 };
		struct foreign_memory memory = { read_damaged, &damaged };
		unsigned refused = 0;
		struct shown shown;
		WORLD(w);

		start(&w, interpreters[i].path, waiting);
		read_shown(&w, &shown);
		open_world(&w);
		damaged.pid = w.target.pid;
		for (unsigned round = 0; round < 1000; round++) {
			struct python_process process = { .runtime = 1 };
			struct python_thread threads[64];
			int r = python_process__open(&memory, &w.found.image, w.found.bias, &process, &w.err);

			assert_true(known_answer(r));
			assert_true(r == 0 || process.runtime == 1);
			refused += r < 0;
			r = python_process__threads(&memory, &w.process, threads, 64);
			assert_true(r == -EFAULT || (r >= 0 && r <= 64));
			/* The storage is found by what is in it, so it is never a wrong place. */
			if (process.runtime != 1)
				assert_int_equal(process.place.tss, w.process.place.tss);
		}
		assert_true(damaged.damages > 100);
		assert_true(refused > 50);
	}
}

/* Another version's offsets do not fit, though the memory is in order. */
static void test_wrong_version(void **state)
{
	if (n_interpreters == 0)
		skip();
	for (size_t i = 0; i < n_interpreters; i++) {
		struct shown shown;
		WORLD(w);

		start(&w, interpreters[i].path, waiting);
		read_shown(&w, &shown);
		open_world(&w);
		for (unsigned minor = 7; minor <= 16; minor++) {
			struct python_image image = w.found.image;
			struct python_process process;
			int r;

			image.version = 3u << 24 | minor << 16 | 0xf0;
			r = python_process__open(&w.memory, &image, w.found.bias, &process, &w.err);
			/* 3.9 and 3.10 differ in the instruction's place in a frame only. */
			if (minor + interpreters[i].minor == 9 + 10)
				continue;
			if ((r == 0) != (minor == interpreters[i].minor))
				fail_msg("3.%u as 3.%u: %d %s", interpreters[i].minor, minor, r, w.err.text);
			if (minor == 7 || minor == 16)
				assert_int_equal(r, -ENOTSUP);
			assert_true(r == 0 || w.err.text[0]);
		}
	}
}

/* What describes itself, but not as it is: an offset that is possible and wrong. */
static bool read_patched(void *context, uint64_t address, void *to, size_t bytes)
{
	struct {
		pid_t pid;
		uint64_t at, value;
	} *patch = context;

	if (!python_memory__read(&patch->pid, address, to, bytes))
		return false;
	if (address <= patch->at && patch->at + 8 <= address + bytes)
		memcpy((uint8_t *)to + (patch->at - address), &patch->value, 8);
	return true;
}

static void test_wrong_offsets(void **state)
{
	/* Words of 3.13's table and values that pass for offsets in a structure. */
	static const struct {
		unsigned word;
		uint64_t value;
		const char *what;
	} cases[] = {
		{ 5, 640 + 8, "interpreters_head" },
		{ 9, 7344 + 16, "threads_head" },
		{ 14, 3200, "ceval_gil" },
		{ 22, 24, "interp" },
		{ 23, 120, "current_frame" },
		{ 24, 168, "thread_id" },
		{ 30, 16, "executable" },
	};
	size_t i;

	for (i = 0; i < n_interpreters && interpreters[i].minor != 13; i++)
		;
	if (i == n_interpreters)
		skip();
	struct {
		pid_t pid;
		uint64_t at, value;
	} patch = { 0 };
	struct foreign_memory memory = { read_patched, &patch };
	struct python_process process;
	struct shown shown;
	WORLD(w);

	start(&w, interpreters[i].path, waiting);
	read_shown(&w, &shown);
	open_world(&w);
	patch.pid = w.target.pid;
	for (unsigned k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		int r;

		patch.at = w.process.runtime + cases[k].word * 8;
		patch.value = cases[k].value;
		r = python_process__open(&memory, &w.found.image, w.found.bias, &process, &w.err);
		if (r == 0)
			fail_msg("%s is not there, and was believed", cases[k].what);
	}
	patch.at = w.process.runtime + 16;
	patch.value = 1;
	assert_int_equal(python_process__open(&memory, &w.found.image, w.found.bias, &process, &w.err), -EINVAL);
	assert_non_null(strstr(w.err.text, "of an unknown layout"));
}

/* A thread whose innermost cframe is linked in already and has no frame yet: the one before has it. */
struct half_pushed {
	pid_t pid;
	const struct so_python *walker;
	uint64_t state, cframe; /* of the thread, and what is really there */
};

#define MADE_CFRAME 0x7000ull /* nothing is mapped there */

static bool read_half_pushed(void *context, uint64_t address, void *to, size_t bytes)
{
	struct half_pushed *h = context;
	uint64_t word = 0;

	if (address == h->state + h->walker->frame)
		word = MADE_CFRAME;
	else if (address == MADE_CFRAME + h->walker->cframe_frame)
		word = 0x123; /* what an earlier call left */
	else if (address == MADE_CFRAME + h->walker->cframe_frame + 8)
		word = h->cframe;
	else
		return python_memory__read(&h->pid, address, to, bytes);
	memcpy(to, &word, bytes);
	return bytes == sizeof(word);
}

static void test_half_pushed(void **state)
{
	bool any = false;

	for (size_t i = 0; i < n_interpreters; i++) {
		struct python_process process;
		struct half_pushed half;
		struct shown shown;
		WORLD(w);

		if (interpreters[i].minor != 11 && interpreters[i].minor != 12)
			continue;
		any = true;
		start(&w, interpreters[i].path, waiting);
		read_shown(&w, &shown);
		open_world(&w);
		half = (struct half_pushed){ .pid = w.target.pid, .walker = &w.process.walker };
		half.state = python_walk__thread(&w.memory, &w.process, shown.thread);
		half.cframe = foreign_memory__u64(&w.memory, half.state + w.process.walker.frame);
		w.memory = (struct foreign_memory){ read_half_pushed, &half };
		assert_int_equal(python_process__open(&w.memory, &w.found.image, w.found.bias, &process, &w.err), 0);
		/* And there is none either. */
		half.cframe = MADE_CFRAME + 64;
		assert_int_equal(python_process__open(&w.memory, &w.found.image, w.found.bias, &process, &w.err),
				 -EINVAL);
	}
	if (!any)
		skip();
}

static void test_process_that_is_gone(void **state)
{
	struct python_thread threads[4];
	struct shown shown;
	pid_t gone;
	WORLD(w);

	if (n_interpreters == 0)
		skip();
	start(&w, interpreters[0].path, waiting);
	read_shown(&w, &shown);
	open_world(&w);
	gone = w.target.pid;
	w.memory.context = &gone;
	python_target__stop(&w.target);
	assert_int_equal(python_process__open(&w.memory, &w.found.image, w.found.bias, &w.process, &w.err), -EAGAIN);
	assert_int_equal(python_process__threads(&w.memory, &w.process, threads, 4), -EFAULT);
}

/* Memory made by hand, in order and then not. */
static int open_made(struct made_python *made, struct python_process *out)
{
	const struct python_image image = { .runtime = 0x1000, .version = 0x030812f0 };
	struct python_process process = { .runtime = 1 };
	struct so_error err = { "" };
	int r = python_process__open(&made->memory, &image, MADE_RUNTIME - 0x1000, &process, &err);

	assert_true(r == 0 || (process.runtime == 1 && err.text[0]));
	if (r == 0)
		*out = process;
	return r;
}

static void test_made_memory(void **state)
{
	static struct made_python made;
	const struct python_layout *l;
	struct python_process process;
	struct python_thread threads[8];
	int32_t initialized = 0;

	made_python__init(&made, 3);
	l = made.layout;
	assert_int_equal(open_made(&made, &process), 0);
	assert_int_equal(process.place.tss, MADE_KEY_SLOT(3) + 8);
	assert_true(process.place.gil == MADE_RUNTIME + l->runtime_gil);
	assert_int_equal(python_process__threads(&made.memory, &process, threads, 8), 3);
	assert_true(threads[2].state == MADE_THREAD(2) && threads[2].thread_id == MADE_SELF(2));

	/* Lists in circles, and one that leads into nothing. */
	made_python__u64(&made, MADE_THREAD(2) + l->thread_next, MADE_THREAD(0));
	assert_int_equal(python_process__threads(&made.memory, &process, threads, 8), -EFAULT);
	made_python__u64(&made, MADE_THREAD(2) + l->thread_next, MADE_THREAD(2));
	assert_int_equal(python_process__threads(&made.memory, &process, threads, 8), -EFAULT);
	made_python__u64(&made, MADE_THREAD(2) + l->thread_next, MADE_BASE + MADE_BYTES);
	assert_int_equal(python_process__threads(&made.memory, &process, threads, 8), -EFAULT);
	/* What was read before that is enough to know the process. */
	assert_int_equal(open_made(&made, &process), 0);
	made_python__init(&made, 3);
	made_python__u64(&made, MADE_INTERPRETER + l->interp_next, MADE_INTERPRETER);
	assert_int_equal(python_process__threads(&made.memory, &process, threads, 8), -EFAULT);
	made_python__u64(&made, MADE_INTERPRETER + l->interp_threads_head, 0);
	assert_int_equal(python_process__threads(&made.memory, &process, threads, 8), -EFAULT);

	/* Another interpreter's thread state. */
	made_python__init(&made, 1);
	made_python__u64(&made, MADE_THREAD(0) + l->walker.interp, MADE_INTERPRETER + 8);
	assert_int_equal(python_process__threads(&made.memory, &process, threads, 8), -EFAULT);
	assert_int_equal(open_made(&made, &process), -EINVAL);
	/* Ids that are none, and one that is not given yet. */
	made_python__init(&made, 1);
	made_python__u64(&made, MADE_SELF(0), MADE_SELF(1));
	assert_int_equal(open_made(&made, &process), -EINVAL);
	made_python__init(&made, 2);
	made_python__u64(&made, MADE_THREAD(0) + l->walker.thread_id, 0);
	assert_int_equal(open_made(&made, &process), 0);
	made_python__u64(&made, MADE_THREAD(1) + l->walker.thread_id, 0);
	assert_int_equal(open_made(&made, &process), -EAGAIN);
	/* Something else than code in a frame; without a frame there is nothing to see. */
	made_python__init(&made, 1);
	memcpy(made.bytes + (MADE_TYPE_NAME - MADE_BASE), "cord", 5);
	assert_int_equal(open_made(&made, &process), -EINVAL);
	made_python__u64(&made, MADE_THREAD(0) + l->walker.frame, 0);
	assert_int_equal(open_made(&made, &process), 0);
	/* A lock that is none. */
	made_python__u32(&made, MADE_RUNTIME + l->runtime_gil + l->walker.gil_locked, 2);
	assert_int_equal(open_made(&made, &process), -EINVAL);
	/* All of that may be so while the interpreter starts. */
	memcpy(made.bytes + l->runtime_initialized, &initialized, sizeof(initialized));
	assert_int_equal(open_made(&made, &process), -EAGAIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_made_memory),
		cmocka_unit_test(test_lock),
		cmocka_unit_test(test_starting),
		cmocka_unit_test(test_changing_threads),
		cmocka_unit_test(test_damaged_memory),
		cmocka_unit_test(test_wrong_version),
		cmocka_unit_test(test_wrong_offsets),
		cmocka_unit_test(test_half_pushed),
		cmocka_unit_test(test_process_that_is_gone),
	};

	return cmocka_run_group_tests(tests, find_interpreters, NULL);
}
