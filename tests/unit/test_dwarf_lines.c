// SPDX-License-Identifier: GPL-2.0-or-later
/* Against this very program, whose lines the compiler knows; and against elfutils' own eu-addr2line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/symbols/dwarf_lines.h"
#include "stakeout/short_path.h"
#include "tests/unit/here.h"

static struct dwarf_lines *open_path(const char *path)
{
	struct dwarf_lines *lines = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(dwarf_lines__open(fd, -1, &lines), 0);
	return lines;
}

static void check(const struct dwarf_frame *frame, const char *function, uint32_t line)
{
	assert_string_equal(frame->function, function);
	assert_string_equal(short_path(frame->file), "here.h");
	assert_int_equal(frame->line, line);
}

static void check_all(uintptr_t address, const char *outermost, uint32_t line)
{
	_cleanup_(dwarf_lines) struct dwarf_lines *lines = open_path("/proc/self/exe");
	struct dwarf_frame frames[8];

	assert_int_equal(dwarf_lines__find(lines, here__vaddr(address), frames, 8), 3);
	check(&frames[0], "here__innermost", HERE_INNERMOST_LINE);
	check(&frames[1], "here__middle", HERE_MIDDLE_LINE);
	check(&frames[2], outermost, line);
}

static void test_inlined(void **state)
{
	check_all(here__outer(), "here__outer", HERE_OUTER_LINE);
}

static void test_nested(void **state)
{
	check_all(here__around(), "nested", HERE_NESTED_LINE);
}

/* What elfutils before 0.189 cannot read. A file that is damaged anywhere is refused, or read. */
static void test_compressed_by_zstd(void **state)
{
	char path[] = "/tmp/stakeout-test-XXXXXX", command[256];
	int fd = mkstemp(path);
	struct dwarf_lines *lines = NULL;
	struct dwarf_frame frames[8];
	off_t size;

	assert_true(fd >= 0);
	snprintf(command, sizeof(command), "objcopy --compress-debug-sections=zstd /proc/%d/exe %s 2>/dev/null",
		 getpid(), path);
	if (system(command)) {
		unlink(path);
		skip();
	}
	close(fd);
	lines = open_path(path);
	assert_int_equal(dwarf_lines__find(lines, here__vaddr(here__outer()), frames, 8), 3);
	check(&frames[0], "here__innermost", HERE_INNERMOST_LINE);
	check(&frames[2], "here__outer", HERE_OUTER_LINE);
	dwarf_lines__free(TAKE_PTR(lines));

	fd = open(path, O_RDWR | O_CLOEXEC);
	unlink(path);
	size = lseek(fd, 0, SEEK_END);
	srandom(1);
	for (unsigned i = 0; i < 200; i++) {
		off_t at = i % 2 ? random() % size : size - 1 - random() % 4096;
		uint8_t was, now = (uint8_t)random();

		assert_int_equal(pread(fd, &was, 1, at), 1);
		assert_int_equal(pwrite(fd, &now, 1, at), 1);
		if (!dwarf_lines__open(dup(fd), -1, &lines))
			dwarf_lines__free(TAKE_PTR(lines));
		assert_int_equal(pwrite(fd, &was, 1, at), 1);
	}
	close(fd);
}

/* The function itself is always there; what there is no room for lies between. */
static void test_little_room(void **state)
{
	_cleanup_(dwarf_lines) struct dwarf_lines *lines = open_path("/proc/self/exe");
	struct dwarf_frame frames[2];

	assert_int_equal(dwarf_lines__find(lines, here__vaddr(here__outer()), frames, 2), 2);
	check(&frames[0], "here__innermost", HERE_INNERMOST_LINE);
	check(&frames[1], "here__outer", HERE_OUTER_LINE);
	assert_int_equal(dwarf_lines__find(lines, here__vaddr(here__outer()), frames, 1), 1);
	check(&frames[0], "here__outer", HERE_OUTER_LINE);
}

static void test_nothing_known(void **state)
{
	_cleanup_(dwarf_lines) struct dwarf_lines *lines = open_path("/proc/self/exe");
	static const uint64_t addresses[] = { 0, 1, 0x40, UINT64_MAX, 1ull << 63 };
	struct dwarf_frame frames[8];

	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++)
		assert_int_equal(dwarf_lines__find(lines, addresses[i], frames, 8), 0);
}

static void test_no_dwarf(void **state)
{
	struct dwarf_lines *lines;
	int fd = open("/dev/null", O_RDONLY);

	assert_int_equal(dwarf_lines__open(fd, -1, &lines), -EINVAL);
	/* Taken all the same. */
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

/* What eu-addr2line says of an address: "FUNCTION\nFILE:LINE\n" for each frame, innermost first. */
static void ask_elfutils(uint64_t address, char *out, size_t size)
{
	char command[128];
	FILE *pipe;
	size_t n;

	snprintf(command, sizeof(command), "eu-addr2line -i -f -e /proc/%d/exe 0x%lx", getpid(),
		 (unsigned long)address);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	n = fread(out, 1, size - 1, pipe);
	out[n] = '\0';
	assert_int_equal(pclose(pipe), 0);
}

/* Every frame's file and line, of addresses all over the program; functions' names are told in another form there. */
static void test_as_elfutils(void **state)
{
	_cleanup_(dwarf_lines) struct dwarf_lines *lines = open_path("/proc/self/exe");
	uint64_t low = here__vaddr((uintptr_t)dwarf_lines__open), address;
	char theirs[8192], ours[64], *line, *rest;
	unsigned known = 0, inlined = 0;
	struct dwarf_frame frames[32];
	size_t n;

	for (unsigned i = 0; i < 40; i++) {
		address = low + i * 61;
		n = dwarf_lines__find(lines, address, frames, 32);
		if (!n)
			continue;
		ask_elfutils(address, theirs, sizeof(theirs));
		rest = theirs;
		for (size_t j = 0; j < n; j++) {
			assert_non_null(strsep(&rest, "\n"));
			line = strsep(&rest, "\n");
			assert_non_null(line);
			snprintf(ours, sizeof(ours), "%s:%u", short_path(frames[j].file), frames[j].line);
			if (frames[j].line)
				assert_ptr_equal(strstr(short_path(line), ours), short_path(line));
		}
		assert_string_equal(rest, "");
		known++;
		inlined += n > 1;
	}
	assert_true(known > 20);
	assert_true(inlined > 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inlined),     cmocka_unit_test(test_compressed_by_zstd),
		cmocka_unit_test(test_little_room), cmocka_unit_test(test_nothing_known),
		cmocka_unit_test(test_no_dwarf),    cmocka_unit_test(test_as_elfutils),
		cmocka_unit_test(test_nested),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
