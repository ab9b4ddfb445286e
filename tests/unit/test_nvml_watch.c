/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NVML that comes late, refuses a GPU, or is lost with its helper: figures come again, and attempts do not pile up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "daemon/os/clock.h"
#include "daemon/nvml/nvml_watch.h"
#include "tests/unit/nvml_fake.h"

#define S     1000000000ull
#define START (100 * S) /* when the watch is opened */

/* A file of the build folder, seen from this program in tests/unit/. */
static const char *built(const char *name, char path[PATH_MAX + 64])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);

	assert_true(n > 0);
	path[n] = '\0';
	strcpy(strrchr(path, '/') + 1, "../../");
	return strcat(path, name);
}

struct world {
	char folder[32], path[64]; /* of the library, which is not there yet */
	char helper[PATH_MAX + 64], library[PATH_MAX + 64];
	struct nvml_watch *watch;
	struct nvml_fake *fake;
	char problem[NVML_WATCH_TEXT_BYTES]; /* of the last report */
};

static int set_up(void **state)
{
	static struct world w;

	w = (struct world){ .folder = "/tmp/stakeout-nvml-XXXXXX" };
	assert_non_null(mkdtemp(w.folder));
	snprintf(w.path, sizeof(w.path), "%s/libnvidia-ml.so.1", w.folder);
	built("dist/stakeout-nvml", w.helper);
	built("workloads/cuda/plain/libnvidia-ml.so.1", w.library);
	*state = &w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	nvml_watch__free(w->watch);
	unlink(w->path);
	rmdir(w->folder);
	return 0;
}

static void open_watch(struct world *w, const char *path, const char *helper)
{
	assert_int_equal(nvml_watch__new(path, helper, &w->watch), 0);
	nvml_watch__open(w->watch, START);
}

/* The driver is installed: its stand-in with `devices` GPUs. */
static void install(struct world *w, unsigned devices)
{
	char from[PATH_MAX + 64];
	void *library;

	assert_int_equal(symlink(built("tests/unit/nvml_fake.so", from), w->path), 0);
	library = dlopen(w->path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(library);
	w->fake = dlsym(library, "nvml_fake");
	assert_non_null(w->fake);
	*w->fake = (struct nvml_fake){ .devices = devices, .info_bytes = 24, .name = "NVIDIA H100" };
	for (unsigned i = 0; i < devices; i++)
		w->fake->device[i].gpu_percent = 40;
}

/* NULL: there is no report. */
static json_t *device_of(struct world *w, unsigned index)
{
	json_t *report = nvml_watch__report(w->watch, NULL, 0, 0, w->problem), *device;

	if (!report)
		return NULL;
	device = json_incref(json_array_get(json_object_get(report, "devices"), index));
	json_decref(report);
	return device;
}

static json_int_t samples_of(struct world *w, unsigned index)
{
	json_t *device = device_of(w, index);
	json_int_t n = json_integer_value(json_object_get(device, "samples"));

	json_decref(device);
	return n;
}

/* "": none. */
static const char *problem_of(struct world *w, unsigned index)
{
	static char text[512];
	json_t *device = device_of(w, index);

	snprintf(text, sizeof(text), "%s", json_string_value(json_object_get(device, "problem")) ?: "");
	json_decref(device);
	return text;
}

/* Ticks at that time until the attempt that they begin has brought a sample more. */
static void await_sample(struct world *w, unsigned index, uint64_t at_ns)
{
	json_int_t before = samples_of(w, index);

	for (unsigned i = 0; i < 6000 && samples_of(w, index) == before; i++) {
		nvml_watch__tick(w->watch, at_ns + i * S / 100);
		nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
	}
	assert_true(samples_of(w, index) > before);
}

static void test_library_comes_later(void **state)
{
	struct world *w = *state;

	open_watch(w, w->path, NULL);
	assert_null(device_of(w, 0));
	assert_non_null(strstr(w->problem, "libnvidia-ml.so.1 is not there"));
	install(w, 1);
	nvml_watch__open(w->watch, START + 70 * S); /* the attach of another target: it must not wait */
	nvml_watch__tick(w->watch, START + 60 * S - 1);
	nanosleep(&(struct timespec){ 0, 100000000 }, NULL);
	assert_int_equal(w->fake->starts, 0);
	await_sample(w, 0, START + 60 * S);
	assert_string_equal(problem_of(w, 0), "");
	assert_string_equal(w->problem, "");
	assert_int_equal(w->fake->starts, 1);
}

static void test_driver_comes_later(void **state)
{
	struct world *w = *state;

	install(w, 1);
	w->fake->init = 9; /* NVML_ERROR_DRIVER_NOT_LOADED */
	open_watch(w, w->path, NULL);
	assert_null(device_of(w, 0));
	assert_non_null(strstr(w->problem, "does not start"));
	w->fake->init = 0;
	await_sample(w, 0, START + 60 * S);
	assert_string_equal(w->problem, "");
}

static void test_gpu_is_refused_at_first(void **state)
{
	struct world *w = *state;

	install(w, 2);
	w->fake->device[1].handle = 4; /* NVML_ERROR_NO_PERMISSION */
	open_watch(w, w->path, NULL);
	await_sample(w, 0, START + S);
	assert_memory_equal(problem_of(w, 1), "device: ", 8);
	assert_int_equal(samples_of(w, 1), 0);
	w->fake->device[1].handle = 0;
	await_sample(w, 1, START + 60 * S);
	assert_string_equal(problem_of(w, 1), "");
	/* The library was not started anew for that, and the other's figures go on. */
	assert_int_equal(w->fake->starts, 1);
	assert_true(samples_of(w, 0) > 1);
}

static void await_problem(struct world *w, unsigned index, const char *words)
{
	for (unsigned i = 0; i < 6000 && !strstr(problem_of(w, index), words); i++)
		nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
	if (!strstr(problem_of(w, index), words))
		fail_msg("\"%s\" in place of \"%s\"", problem_of(w, index), words);
}

/* Nobody waits for it, and that there are no figures meanwhile is said. */
static void test_gpu_hangs_when_asked_again(void **state)
{
	struct world *w = *state;
	json_int_t before;

	install(w, 2);
	w->fake->device[1].handle = 4;
	open_watch(w, w->path, NULL);
	await_sample(w, 0, START + S);
	w->fake->device[1].hangs = true;
	nvml_watch__tick(w->watch, START + 60 * S);
	before = samples_of(w, 0);
	nvml_watch__tick(w->watch, START + 95 * S - 1);
	assert_string_equal(problem_of(w, 0), "");
	nvml_watch__tick(w->watch, START + 95 * S);
	nvml_watch__tick(w->watch, START + 130 * S);
	assert_string_equal(problem_of(w, 0), "the driver does not answer");
	assert_string_equal(problem_of(w, 1), "the driver does not answer");
	assert_int_equal(samples_of(w, 0), before);
	w->fake->device[1].hangs = false;
	await_problem(w, 1, "device: Insufficient Permissions");
	assert_string_equal(problem_of(w, 0), "");
	await_sample(w, 0, START + 131 * S);
}

static bool is_running_helper(int pid)
{
	char path[32], comm[32] = "", state = 'Z';
	_cleanup_fclose_ FILE *f = NULL;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	return f && fscanf(f, "%*d (%31[^)]) %c", comm, &state) == 2 && !strcmp(comm, "stakeout-nvml") &&
	       state != 'Z';
}

/* The helper of this process, whichever of its threads started it; 0: none. */
static pid_t running_helper(void)
{
	glob_t tasks;
	int pid = 0, found = 0;

	assert_int_equal(glob("/proc/self/task/*/children", 0, NULL, &tasks), 0);
	for (size_t i = 0; i < tasks.gl_pathc; i++) {
		_cleanup_fclose_ FILE *f = fopen(tasks.gl_pathv[i], "re");

		while (f && fscanf(f, "%d", &pid) == 1)
			found = is_running_helper(pid) ? pid : found;
	}
	globfree(&tasks);
	return found;
}

static void test_helper_stalls_once(void **state)
{
	struct world *w = *state;
	uint64_t began_ns;
	json_int_t before;
	pid_t first;

	assert_int_equal(setenv("STANDIN_NVML", "gpu=37", 1), 0);
	open_watch(w, w->library, w->helper);
	await_sample(w, 0, START + S);
	first = running_helper();
	assert_int_equal(kill(first, SIGSTOP), 0);
	nvml_watch__tick(w->watch, START + 20 * S); /* stalls */
	assert_non_null(strstr(problem_of(w, 0), "does not answer"));
	before = samples_of(w, 0);
	/* Not before its time, and nobody waits meanwhile. */
	began_ns = clock__now_ns();
	nvml_watch__tick(w->watch, START + 60 * S - 1);
	assert_int_equal(running_helper(), 0);
	nvml_watch__tick(w->watch, START + 60 * S);
	assert_in_range(clock__now_ns() - began_ns, 0, S);
	await_sample(w, 0, START + 61 * S);
	assert_string_equal(problem_of(w, 0), "");
	/* What was read before the stall still counts. */
	assert_int_equal(samples_of(w, 0), before + 1);
	assert_int_not_equal(running_helper(), first);
}

/* One that was killed and hangs in the driver looks like this: its parent cannot reap it. */
static pid_t hold(pid_t pid)
{
	int ready[2];
	char byte;
	pid_t tracer;

	assert_int_equal(pipe(ready), 0);
	tracer = fork();
	assert_true(tracer >= 0);
	if (tracer == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* also where a test fails */
		byte = ptrace(PTRACE_SEIZE, pid, NULL, NULL) ? 'n' : 'y';
		if (write(ready[1], &byte, 1) == 1)
			pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	if (byte == 'y')
		return tracer;
	kill(tracer, SIGKILL);
	waitpid(tracer, NULL, 0);
	return 0;
}

/* The helper of now is killed, and does not end before the returned process does; 0: not permitted here. */
static pid_t lose_helper(struct world *w, uint64_t at_ns)
{
	pid_t helper = running_helper(), tracer;

	assert_int_not_equal(helper, 0);
	tracer = hold(helper);
	if (!tracer)
		return 0;
	assert_int_equal(kill(helper, SIGKILL), 0);
	nvml_watch__tick(w->watch, at_ns);
	assert_non_null(strstr(problem_of(w, 0), "ended"));
	return tracer;
}

static void end(pid_t tracer)
{
	assert_int_equal(kill(tracer, SIGKILL), 0);
	assert_int_equal(waitpid(tracer, NULL, 0), tracer);
}

static void test_helpers_do_not_pile_up(void **state)
{
	struct world *w = *state;
	pid_t held[2];

	open_watch(w, w->library, w->helper);
	await_sample(w, 0, START + S);
	held[0] = lose_helper(w, START + 30 * S);
	if (!held[0])
		skip();
	await_sample(w, 0, START + 60 * S);
	held[1] = lose_helper(w, START + 90 * S);
	assert_int_not_equal(held[1], 0);
	nvml_watch__tick(w->watch, START + 120 * S);
	for (unsigned i = 0; i < 200 && !strstr(problem_of(w, 0), "have not ended"); i++)
		nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
	assert_non_null(strstr(problem_of(w, 0), "2 killed stakeout-nvml have not ended"));
	end(held[0]);
	await_sample(w, 0, START + 180 * S);
	assert_string_equal(problem_of(w, 0), "");
	end(held[1]);
}

/* The daemon ends while the driver takes its time. */
static void test_freed_during_an_attempt(void **state)
{
	struct world *w = *state;
	uint64_t began_ns;

	open_watch(w, w->path, NULL);
	install(w, 1);
	nvml_watch__tick(w->watch, START + 60 * S);
	began_ns = clock__now_ns();
	nvml_watch__free(TAKE_PTR(w->watch));
	assert_in_range(clock__now_ns() - began_ns, 0, S);
	for (unsigned i = 0; i < 6000 && w->fake->shutdowns == 0; i++)
		nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
	assert_int_equal(w->fake->starts, w->fake->shutdowns);
}

/* The other GPU's figures come again, and go on beyond the time of an attempt. */
static void expect_given_up(struct world *w, uint64_t at_ns)
{
	pid_t helper;

	await_sample(w, 0, at_ns);
	helper = running_helper();
	assert_string_equal(problem_of(w, 0), "");
	assert_non_null(strstr(problem_of(w, 1), "not asked for again"));
	await_sample(w, 0, at_ns + 70 * S);
	await_sample(w, 0, at_ns + 140 * S);
	assert_int_equal(running_helper(), helper);
}

static void test_retry_loses_the_helper(void **state)
{
	struct world *w = *state;

	open_watch(w, built("tests/unit/nvml_hangs_later.so", w->library), w->helper);
	await_sample(w, 0, START + S);
	await_problem(w, 1, "device: Insufficient Permissions");
	nvml_watch__tick(w->watch, START + 60 * S);
	await_problem(w, 0, "does not answer");
	expect_given_up(w, START + 120 * S);
}

static void test_open_loses_the_helper(void **state)
{
	struct world *w = *state;

	open_watch(w, built("tests/unit/nvml_hangs.so", w->library), w->helper);
	nvml_watch__tick(w->watch, START + S);
	assert_non_null(strstr(problem_of(w, 0), "does not answer"));
	assert_string_equal(problem_of(w, 1), "device: stakeout-nvml does not answer");
	nvml_watch__tick(w->watch, START + 60 * S);
	await_problem(w, 1, "not asked for again");
	nvml_watch__tick(w->watch, START + 61 * S);
	expect_given_up(w, START + 120 * S);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(library_comes_later),        TEST(driver_comes_later),     TEST(gpu_is_refused_at_first),
		TEST(helper_stalls_once),         TEST(helpers_do_not_pile_up), TEST(freed_during_an_attempt),
		TEST(gpu_hangs_when_asked_again), TEST(retry_loses_the_helper), TEST(open_loses_the_helper),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
