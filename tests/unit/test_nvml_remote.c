/* SPDX-License-Identifier: GPL-2.0-or-later */
/* NVML through the helper: the answers of the stand-in library, and helpers that are no help. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/os/clock.h"
#include "daemon/nvml/nvml.h"
#include "daemon/nvml/nvml_remote.h"
#include "daemon/nvml/helper/protocol.h"

/* A file of the build folder, seen from this program in tests/unit/. */
static const char *built(const char *name, char path[PATH_MAX + 64])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);

	assert_true(n > 0);
	path[n] = '\0';
	strcpy(strrchr(path, '/') + 1, "../../");
	return strcat(path, name);
}

static void load(struct nvml_library *library, const char *script)
{
	char helper[PATH_MAX + 64], standin[PATH_MAX + 64];
	struct so_error err = { "" };

	assert_int_equal(setenv("STANDIN_NVML", script, 1), 0);
	if (nvml_remote__load(library, built("dist/stakeout-nvml", helper),
			      built("workloads/cuda/plain/libnvidia-ml.so.1", standin), &err))
		fail_msg("%s", err.text);
}

static void test_answers(void **state)
{
	static char infos[4 * NVML_PROCESS_INFO_MAX_BYTES];
	struct nvml_utilisation utilisation;
	struct nvml_process_sample samples[4];
	struct nvml_process_info info;
	struct nvml_library library;
	struct nvml_memory memory;
	char text[NVML_TEXT_BYTES];
	nvml_device device;
	unsigned n = 0;

	load(&library,
	     "count=2,gpu=37,mem=12,used=100,total=1000,pid=70/71,proc=30/7,procused=5/6,fail=uuid:3");
	assert_int_not_equal(library.utilisation((nvml_device)(uintptr_t)1, &utilisation), 0); /* before init */
	assert_int_equal(library.init(), 0);
	assert_int_equal(library.driver_version(text, sizeof(text)), 0);
	assert_string_equal(text, "575.57.08");
	assert_int_equal(library.count(&n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(library.handle(2, &device), 2); /* NVML_ERROR_INVALID_ARGUMENT */
	assert_int_equal(library.handle(0, &device), 0);
	assert_int_equal(library.name(device, text, sizeof(text)), 0);
	assert_string_equal(text, "Stand-in GPU");
	assert_int_equal(library.name(device, text, 6), 0);
	assert_string_equal(text, "Stand");
	assert_int_equal(library.uuid(device, text, sizeof(text)), 3);
	assert_int_equal(library.utilisation(device, &utilisation), 0);
	assert_int_equal(utilisation.gpu, 37);
	assert_int_equal(utilisation.memory, 12);
	assert_int_equal(library.memory(device, &memory), 0);
	assert_int_equal(memory.used, 100ull << 20);
	n = 4;
	assert_int_equal(library.process_samples(device, samples, &n, 0), 0);
	assert_int_equal(n, 2);
	assert_int_equal(samples[1].pid, 71);
	assert_int_equal(samples[1].sm, 7);
	n = 1;
	assert_int_equal(library.process_samples(device, samples, &n, 0), NVML_INSUFFICIENT_SIZE);
	assert_int_equal(n, 2);
	n = 4;
	memset(infos, NVML_UNTOUCHED, sizeof(infos));
	assert_int_equal(library.processes(device, &n, infos), 0);
	assert_int_equal(n, 2);
	memcpy(&info, infos + 24, sizeof(info)); /* the stand-in writes structures of 24 bytes */
	assert_int_equal(info.pid, 71);
	assert_int_equal(info.bytes, 6ull << 20);
	assert_string_equal(library.error_string(9), "Driver Not Loaded");
	assert_int_equal(library.shutdown(), 0);
	nvml_remote__unload();
}

static void test_devices_beyond(void **state)
{
	struct nvml_utilisation utilisation;
	struct nvml_library library;

	/* A number that no caller here passes on: the helper ends rather than look beyond its table. */
	load(&library, "");
	assert_int_equal(library.init(), 0);
	assert_int_equal(library.utilisation((nvml_device)(uintptr_t)(NVML_MAX_DEVICES + 1), &utilisation),
			 NVML_REMOTE_GONE);
	nvml_remote__unload();
}

static void test_library_is_refused(void **state)
{
	struct nvml_library library = { .dl = &library };
	char helper[PATH_MAX + 64];
	struct so_error err;

	built("dist/stakeout-nvml", helper);
	assert_int_equal(nvml_remote__load(&library, helper, "libnone.so.1", &err), -ENOENT);
	assert_non_null(strstr(err.text, "libnone.so.1 is not there"));
	assert_int_equal(nvml_remote__load(&library, helper, "/proc/self/maps", &err), -ELIBBAD);
	assert_int_equal(nvml_remote__load(&library, helper, "libc.so.6", &err), -ENOSYS);
	assert_ptr_equal(library.dl, &library);
	nvml_remote__unload();
}

static void test_one_at_a_time(void **state)
{
	struct nvml_library library, second;
	struct so_error err;

	load(&library, "");
	assert_int_equal(nvml_remote__load(&second, "/bin/cat", "x", &err), -EBUSY);
	assert_int_equal(library.init(), 0);
	nvml_remote__unload();
	nvml_remote__unload();
	assert_int_equal(library.init(), NVML_REMOTE_GONE);
	load(&library, "");
	assert_int_equal(library.init(), 0);
	nvml_remote__unload();
}

/* A helper that is this shell script. */
static int load_script(const char *text, struct so_error *err)
{
	char path[] = "/tmp/stakeout-nvml-XXXXXX";
	struct nvml_library library;
	int fd = mkstemp(path), r;

	assert_true(fd >= 0);
	assert_true(dprintf(fd, "#!/bin/sh\n%s\n", text) > 0);
	assert_int_equal(fchmod(fd, 0700), 0);
	close(fd);
	r = nvml_remote__load(&library, path, "x", err);
	unlink(path);
	nvml_remote__unload();
	return r;
}

static void test_helpers_that_are_none(void **state)
{
	struct nvml_library library;
	struct so_error err;

	assert_int_equal(nvml_remote__load(&library, "/nonexistent/helper", "x", &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "/nonexistent/helper"));
	/* Beside this program there is none. */
	assert_int_equal(nvml_remote__load(&library, NULL, "x", &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "/" NVML_HELPER ", "));
	assert_int_equal(load_script("exit 0", &err), -EIO);
	assert_non_null(strstr(err.text, "ended"));
	assert_int_equal(load_script("head -c 24 >/dev/null; head -c 24 /dev/zero >&0; sleep 60", &err), -EIO);
	assert_non_null(strstr(err.text, "another build"));
	/* The right beginning, and more bytes than are taken. */
	assert_int_equal(load_script("head -c 24 >/dev/null;"
				     "printf "
				     "'\\001\\000vn\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\377\\377\\377\\377\\0"
				     "\\0\\0\\0' >&0;"
				     "sleep 60",
				     &err),
			 -EIO);
	assert_non_null(strstr(err.text, "another build"));
	/* An error in words that are no words. */
	assert_int_equal(load_script("head -c 24 >/dev/null;"
				     "printf "
				     "'\\001\\000vn\\0\\0\\0\\0\\376\\377\\377\\377\\0\\0\\0\\0\\3\\0\\0\\0\\0"
				     "\\0\\0\\0a\\nb' >&0;"
				     "sleep 60",
				     &err),
			 -ENOENT);
	assert_string_equal(err.text, "a?b");
}

static void test_library_ends_the_helper(void **state)
{
	char path[] = "/tmp/stakeout-nvml-XXXXXX", script[64];
	struct nvml_utilisation utilisation;
	struct nvml_library library;
	nvml_device device;
	int fd = mkstemp(path);

	snprintf(script, sizeof(script), "@%s", path);
	load(&library, script);
	assert_int_equal(library.init(), 0);
	assert_int_equal(library.handle(0, &device), 0);
	assert_int_equal(library.utilisation(device, &utilisation), 0);
	assert_int_equal(write(fd, "bogus", 5), 5);
	assert_int_equal(library.utilisation(device, &utilisation), NVML_REMOTE_GONE);
	assert_int_equal(library.shutdown(), NVML_REMOTE_GONE);
	assert_string_equal(library.error_string(NVML_REMOTE_GONE), "stakeout-nvml ended");
	close(fd);
	unlink(path);
	nvml_remote__unload();
}

static pid_t only_child(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/thread-self/children", "re");
	int pid = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%d", &pid), 1);
	return pid;
}

static void test_helper_hangs(void **state)
{
	struct nvml_library library;
	uint64_t began_ns;
	unsigned n;
	pid_t pid;

	load(&library, "");
	assert_int_equal(library.init(), 0);
	pid = only_child();
	assert_int_equal(kill(pid, SIGSTOP), 0);
	began_ns = clock__now_ns();
	assert_int_equal(library.count(&n), NVML_REMOTE_GONE);
	assert_in_range(clock__now_ns() - began_ns, NVML_CALL_LIMIT_S * 1000000000ull,
			(NVML_CALL_LIMIT_S + 5) * 1000000000ull);
	assert_string_equal(library.error_string(NVML_REMOTE_GONE), "stakeout-nvml does not answer");
	assert_int_equal(kill(pid, 0), -1); /* killed and reaped */
	began_ns = clock__now_ns();
	assert_int_equal(library.count(&n), NVML_REMOTE_GONE);
	assert_in_range(clock__now_ns() - began_ns, 0, 500000000);
	nvml_remote__unload();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_devices_beyond),
		cmocka_unit_test(test_library_is_refused),
		cmocka_unit_test(test_one_at_a_time),
		cmocka_unit_test(test_helpers_that_are_none),
		cmocka_unit_test(test_library_ends_the_helper),
		cmocka_unit_test(test_helper_hangs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
