/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "daemon/os/proc_maps.h"

#define AUTO_MAPS __attribute__((cleanup(cleanup__proc_maps))) struct proc_maps

static void parse(const char *text, bool executable_only, struct proc_maps *maps)
{
	struct so_error err = { "" };

	if (proc_maps__parse(text, strlen(text), executable_only, maps, &err) != 0)
		fail_msg("%s", err.text);
}

static const char sample[] =
	"00400000-00452000 r-xp 00001000 fd:0b 173521      /usr/bin/a file with blanks\n"
	"00651000-00652000 r--p 00051000 fd:0b 173521      /usr/bin/a file with blanks\n"
	"00652000-00655000 rw-p 00000000 00:00 0 \n"
	"00e03000-00e24000 rw-p 00000000 00:00 0           [heap]\n"
	"7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n"
	"7f0000001000-7f0000003000 r-xs 00000000 00:05 18446744073709551615 /tmp/new\\012line \\040 (deleted)\n"
	"7ffc0000e000-7ffc00010000 r-xp 00000000 00:00 0   [stack]\n"
	"7ffc001fe000-7ffc00200000 r-xp 00000000 00:00 0   [vdso]\n"
	"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";

static void test_parse(void **state)
{
	AUTO_MAPS maps = { 0 };

	parse(sample, false, &maps);
	assert_int_equal(maps.n, 9);
	assert_int_equal(maps.maps[0].start, 0x400000);
	assert_int_equal(maps.maps[0].end, 0x452000);
	assert_int_equal(maps.maps[0].offset, 0x1000);
	assert_int_equal(maps.maps[0].dev_major, 0xfd);
	assert_int_equal(maps.maps[0].dev_minor, 0x0b);
	assert_int_equal(maps.maps[0].inode, 173521);
	assert_true(maps.maps[0].readable && !maps.maps[0].writable && maps.maps[0].executable);
	assert_false(maps.maps[0].shared || maps.maps[0].deleted);
	assert_string_equal(maps.maps[0].path, "/usr/bin/a file with blanks");
	assert_ptr_equal(maps.maps[0].path, maps.maps[1].path);
	assert_string_equal(maps.maps[2].path, "");
	assert_string_equal(maps.maps[3].path, "[heap]");
	/* Only newlines are escaped by the kernel: another backslash is the name's own. */
	assert_string_equal(maps.maps[5].path, "/tmp/new\nline \\040");
	assert_true(maps.maps[5].deleted && maps.maps[5].shared);
	assert_int_equal(maps.maps[5].inode, UINT64_MAX);
	assert_string_equal(maps.maps[8].path, "[vsyscall]");
}

static void test_executable_only(void **state)
{
	AUTO_MAPS maps = { 0 };

	parse(sample, true, &maps);
	assert_int_equal(maps.n, 6);
	for (size_t i = 0; i < maps.n; i++)
		assert_true(maps.maps[i].executable);
	assert_string_equal(maps.maps[0].path, "/usr/bin/a file with blanks");
	assert_string_equal(maps.maps[2].path, "/tmp/new\nline \\040");
}

static void test_find(void **state)
{
	AUTO_MAPS maps = { 0 }, none = { 0 };

	parse(sample, false, &maps);
	assert_ptr_equal(proc_maps__find(&maps, 0x400000), &maps.maps[0]);
	assert_ptr_equal(proc_maps__find(&maps, 0x451fff), &maps.maps[0]);
	assert_null(proc_maps__find(&maps, 0x452000));
	assert_null(proc_maps__find(&maps, 0x3fffff));
	assert_null(proc_maps__find(&maps, 0));
	assert_ptr_equal(proc_maps__find(&maps, 0x652000), &maps.maps[2]);
	assert_null(proc_maps__find(&maps, UINT64_MAX));
	parse("", false, &none);
	assert_int_equal(none.n, 0);
	assert_null(proc_maps__find(&none, 0x400000));
}

static void test_damage(void **state)
{
	static const char *const bad[] = {
		"x\n",
		"\n",
		"00400000-00452000\n",
		"00452000-00400000 r-xp 00000000 00:00 0\n",
		"00400000-00400000 r-xp 00000000 00:00 0\n",
		"00400000-10000000000000000 r-xp 00000000 00:00 0\n",
		"00400000-00452000 rrxp 00000000 00:00 0\n",
		"00400000-00452000 r-xq 00000000 00:00 0\n",
		"00400000-00452000 r-xp 00000000 00:00 12a\n",
		"00400000-00452000 r-xp 00000000 00:00 99999999999999999999\n",
		"00400000-00452000 r-xp 00000000 1ffffffff:00 0\n",
		"00400000-00452000 r-xp 00000000 00 0\n",
		"00400000 00452000 r-xp 00000000 00:00 0\n",
	};
	struct proc_maps maps = { .n = 99 };
	struct so_error err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (proc_maps__parse(bad[i], strlen(bad[i]), false, &maps, &err) != -EINVAL)
			fail_msg("taken: %s", bad[i]);
	}
	assert_int_equal(maps.n, 99);
}

static void test_order_is_restored(void **state)
{
	AUTO_MAPS maps = { 0 };

	parse("2000-3000 r-xp 0 00:00 0 b\n1000-2000 r-xp 0 00:00 0 a", false, &maps);
	assert_int_equal(maps.n, 2);
	assert_string_equal(maps.maps[0].path, "a");
	assert_string_equal(maps.maps[1].path, "b");
}

static void test_read(void **state)
{
	AUTO_MAPS maps = { 0 };
	const struct proc_map *map;
	struct so_error err;
	pid_t child;

	assert_int_equal(proc_maps__read(getpid(), false, &maps, &err), 0);
	map = proc_maps__find(&maps, (uint64_t)(uintptr_t)&test_read);
	assert_non_null(map);
	assert_true(map->executable && strstr(map->path, "test_proc_maps") != NULL);
	map = proc_maps__find(&maps, (uint64_t)(uintptr_t)&err);
	assert_non_null(map);
	assert_true(map->writable);
	proc_maps__release(&maps);

	child = fork();
	if (child == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)child, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	assert_int_equal(proc_maps__read(child, false, &maps, &err), 0);
	assert_int_equal(maps.n, 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(proc_maps__read(child, false, &maps, &err), -ESRCH);
}

/* Maps a file's first page, executable, and finds the mapping. */
static void map_file(const char *path, struct proc_maps *maps, struct proc_map *out)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	const struct proc_map *found;
	void *address;

	assert_true(fd >= 0);
	address = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (address == MAP_FAILED && errno == EPERM)
		skip(); /* a filesystem mounted noexec */
	assert_ptr_not_equal(address, MAP_FAILED);
	assert_int_equal(proc_maps__read(getpid(), true, maps, NULL), 0);
	found = proc_maps__find(maps, (uint64_t)(uintptr_t)address);
	assert_non_null(found);
	*out = *found;
}

static void write_file(const char *path, const char *text)
{
	_cleanup_fclose_ FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
}

static void expect_content(int fd, const char *text)
{
	char found[32] = "";

	assert_true(fd >= 0);
	assert_true(pread(fd, found, sizeof(found) - 1, 0) >= 0);
	assert_string_equal(found, text);
	close(fd);
}

static void test_open_replaced_file(void **state)
{
	char path[] = "/tmp/stakeout-maps\nXXXXXX", other[64];
	AUTO_MAPS maps = { 0 }, after = { 0 };
	const struct proc_map *now;
	struct proc_map map;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	write_file(path, "old");
	map_file(path, &maps, &map);
	assert_string_equal(map.path, path);
	assert_false(map.deleted);
	expect_content(proc_maps__open_file(getpid(), &map), "old");

	snprintf(other, sizeof(other), "%s.new", path);
	write_file(other, "new");
	assert_int_equal(rename(other, path), 0);
	assert_int_equal(proc_maps__read(getpid(), true, &after, NULL), 0);
	now = proc_maps__find(&after, map.start);
	assert_non_null(now);
	assert_true(now->deleted);
	assert_string_equal(now->path, path);
	fd = proc_maps__open_file(getpid(), now);
	unlink(path);
	munmap((void *)(uintptr_t)map.start, 4096);
	if (geteuid() != 0) {
		/* map_files needs a capability; the file at the path is another, so there is no answer. */
		assert_int_equal(fd, -ESTALE);
		skip();
	}
	expect_content(fd, "old");
}

/* A process maps one file, and another one when its mapping is opened. */
static void test_open_other_file(void **state)
{
	char path[] = "/tmp/stakeout-mapsXXXXXX", other[] = "/tmp/stakeout-mapsXXXXXX";
	AUTO_MAPS maps = { 0 };
	struct proc_map map;
	int fd;

	if (geteuid() != 0)
		skip(); /* map_files needs a capability */
	close(mkstemp(path));
	write_file(path, "listed");
	map_file(path, &maps, &map);
	fd = mkstemp(other);
	assert_int_equal(write(fd, "other", 5), 5);
	assert_ptr_equal(mmap((void *)(uintptr_t)map.start, map.end - map.start, PROT_READ | PROT_EXEC,
			      MAP_PRIVATE | MAP_FIXED, fd, 0),
			 (void *)(uintptr_t)map.start);
	close(fd);
	/* Its name leads to it still. */
	expect_content(proc_maps__open_file(getpid(), &map), "listed");
	unlink(path);
	assert_int_equal(proc_maps__open_file(getpid(), &map), -ESTALE);
	unlink(other);
	munmap((void *)(uintptr_t)map.start, 4096);
}

/* Without map_files the path serves, if it is still the same file. */
static void test_open_by_path(void **state)
{
	char path[] = "/tmp/stakeout-mapsXXXXXX";
	AUTO_MAPS maps = { 0 };
	struct proc_map map;
	struct stat st;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	write_file(path, "text");
	map_file(path, &maps, &map);
	munmap((void *)(uintptr_t)map.start, 4096); /* and with it the entry in map_files */
	assert_int_equal(stat(path, &st), 0);
	if (st.st_ino != map.inode)
		skip(); /* a layered filesystem names the file otherwise in the map */
	expect_content(proc_maps__open_file(getpid(), &map), "text");
	map.inode++;
	assert_int_equal(proc_maps__open_file(getpid(), &map), -ESTALE);
	map.inode--;
	map.dev_minor++;
	assert_int_equal(proc_maps__open_file(getpid(), &map), -ESTALE);
	map.dev_minor--;
	unlink(path);
	assert_int_equal(proc_maps__open_file(getpid(), &map), -ENOENT);
}

static void test_open_nothing(void **state)
{
	struct proc_map anonymous = { .start = 0x1000, .end = 0x2000, .path = "" };
	struct proc_map vdso = { .start = 0x1000, .end = 0x2000, .path = "[vdso]" };

	assert_int_equal(proc_maps__open_file(getpid(), &anonymous), -ENOENT);
	assert_int_equal(proc_maps__open_file(getpid(), &vdso), -ENOENT);
	vdso.inode = 7;
	assert_int_equal(proc_maps__open_file(getpid(), &vdso), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_executable_only),
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_order_is_restored),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_open_replaced_file),
		cmocka_unit_test(test_open_other_file),
		cmocka_unit_test(test_open_by_path),
		cmocka_unit_test(test_open_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
