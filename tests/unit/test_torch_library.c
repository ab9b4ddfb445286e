// SPDX-License-Identifier: GPL-2.0-or-later
/* PyTorch's libc10: which of its forms is known, and where the probes go, of stand-ins and of Debian's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/cuda/torch_library.h"

static void paths(void **state)
{
	assert_true(torch_library__may_be("/usr/lib/x86_64-linux-gnu/libc10.so.1.13.0"));
	assert_true(torch_library__may_be("/venv/lib/python3.11/site-packages/torch/lib/libc10.so"));
	assert_true(torch_library__may_be("/srv/libc10-8b1c9fd4.so"));
	assert_false(torch_library__may_be("/venv/torch/lib/libc10_cuda.so"));
	assert_false(torch_library__may_be("/usr/lib/libc.so.6"));
	assert_false(torch_library__may_be("/srv/libc10-notes.txt"));
	assert_false(torch_library__may_be(""));
}

static void symbols(void **state)
{
	static const struct {
		const char *symbol;
		enum torch_library_kind kind;
		bool refused;
	} cases[] = {
		{ "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE", TORCH_LIBRARY_KNOWN, false },
		{ "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", TORCH_LIBRARY_KNOWN, false },
		{ "_ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE", TORCH_LIBRARY_OLD, false },
		{ "_ZN3c1027reportMemoryUsageToProfilerEPvlmmmNS_6DeviceE", TORCH_LIBRARY_OTHER, false },
		{ "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceEi", TORCH_LIBRARY_OTHER, false },
		{ "_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE", TORCH_LIBRARY_KNOWN, true },
		{ "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE", TORCH_LIBRARY_KNOWN, true },
		{ "_ZN3c1027reportOutOfMemoryToProfilerElNS_6DeviceE", TORCH_LIBRARY_OTHER, true },
		{ "_ZN3c1022memoryProfilingEnabledEv", TORCH_LIBRARY_NONE, false },
		{ "", TORCH_LIBRARY_NONE, false },
	};
	bool refused;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(torch_library__kind(cases[i].symbol, &refused), cases[i].kind);
		assert_int_equal(refused, cases[i].refused);
	}
}

/* This program is in tests/unit of the build. */
static void workload(char path[4096], const char *folder)
{
	char here[2048];
	ssize_t n = readlink("/proc/self/exe", here, sizeof(here) - 1);

	assert_true(n > 0);
	here[n] = '\0';
	*strrchr(here, '/') = '\0';
	snprintf(path, 4096, "%s/../../workloads/%s/libc10.so", here, folder);
}

static int read_file(const char *path, struct torch_library *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret;

	assert_true(fd >= 0);
	ret = torch_library__read(fd, out, NULL);
	close(fd);
	return ret;
}

/* Where a probe goes is an instruction that the kernel emulates: push. */
static void assert_push(const char *path, uint64_t offset)
{
	uint8_t code[2] = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(offset > 0);
	assert_int_equal(pread(fd, code, sizeof(code), (off_t)offset), sizeof(code));
	close(fd);
	assert_true((code[0] & 0xf8) == 0x50 || (code[0] == 0x41 && (code[1] & 0xf8) == 0x50));
}

static void standins(void **state)
{
	struct torch_library library = { .kind = TORCH_LIBRARY_NONE };
	char path[4096];

	workload(path, "torch");
	assert_int_equal(read_file(path, &library), 0);
	assert_int_equal(library.kind, TORCH_LIBRARY_KNOWN);
	assert_push(path, library.memory);
	assert_push(path, library.refused);
	workload(path, "torch_old");
	assert_int_equal(read_file(path, &library), 0);
	assert_int_equal(library.kind, TORCH_LIBRARY_OLD);
	assert_int_equal(library.memory, 0);
	assert_int_equal(library.refused, 0);
}

static void true_one(void **state)
{
	struct torch_library library = { .kind = TORCH_LIBRARY_NONE };
	glob_t found;

	if (glob("/usr/lib/*/libc10.so.*", 0, NULL, &found)) {
		print_message("skipped: Debian's libtorch is not installed\n");
		skip();
	}
	assert_int_equal(read_file(found.gl_pathv[0], &library), 0);
	assert_int_equal(library.kind, TORCH_LIBRARY_KNOWN);
	assert_push(found.gl_pathv[0], library.memory);
	assert_push(found.gl_pathv[0], library.refused);
	globfree(&found);
}

/* Cut anywhere, or with bytes of another file: an error or no function, and no crash. */
static void damaged(void **state)
{
	char path[4096], cut[] = "/tmp/stakeout-torch-library-XXXXXX";
	static uint8_t bytes[1 << 16];
	struct torch_library library;
	int from, to = mkstemp(cut);
	ssize_t size;

	assert_true(to >= 0);
	workload(path, "torch");
	from = open(path, O_RDONLY | O_CLOEXEC);
	size = read(from, bytes, sizeof(bytes));
	assert_true(size > 4096);
	assert_int_equal(pwrite(to, bytes, (size_t)size, 0), size);
	for (ssize_t at = size; at > 0; at -= size / 97) {
		assert_int_equal(ftruncate(to, at), 0);
		torch_library__read(to, &library, NULL);
	}
	srandom(5);
	for (unsigned round = 0; round < 300; round++) {
		assert_int_equal(pwrite(to, bytes, (size_t)size, 0), size);
		for (unsigned i = 0; i < 20; i++) {
			uint8_t byte = (uint8_t)random();

			assert_int_equal(pwrite(to, &byte, 1, random() % size), 1);
		}
		torch_library__read(to, &library, NULL);
	}
	assert_int_equal(ftruncate(to, 0), 0);
	assert_int_equal(torch_library__read(to, &library, NULL), -ENOEXEC);
	close(from);
	close(to);
	unlink(cut);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths),    cmocka_unit_test(symbols), cmocka_unit_test(standins),
		cmocka_unit_test(true_one), cmocka_unit_test(damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
