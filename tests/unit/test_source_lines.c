// SPDX-License-Identifier: GPL-2.0-or-later
/* With the reader that the daemon starts, stakeoutd itself, and with programs that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/os/clock.h"
#include "daemon/symbols/source_lines.h"
#include "stakeout/short_path.h"
#include "tests/unit/here.h"

#define SECOND_NS 1000000000ull

/* A file that is opened by its path; opened counts how often. */
struct opened {
	const char *path;
	unsigned opened;
	bool slow; /* to open it takes much */
};

static int open_it(void *context, bool quick, int fds[2])
{
	struct opened *file = context;

	if (quick && file->slow)
		return -EAGAIN;
	file->opened++;
	fds[1] = -1;
	fds[0] = file->path ? open(file->path, O_RDONLY | O_CLOEXEC) : -1;
	return fds[0] < 0 ? -ENOENT : 0;
}

static struct source_frames found;

static int find(struct source_lines *lines, const struct source_file *file, struct opened *opened,
		uint64_t address)
{
	const struct source_opener opener = { open_it, opened, opened->path ?: "none", 0 };

	return source_lines__find(lines, file, &opener, address, clock__now_ns() + 60 * SECOND_NS, &found);
}

static struct source_lines *with_reader(void)
{
	const char *build = getenv("STAKEOUT_BUILD");
	char path[256];

	snprintf(path, sizeof(path), "%s/stakeoutd", build ?: "build");
	return source_lines__new(path, SECOND_NS);
}

static void check_here(void)
{
	assert_int_equal(found.n, 3);
	assert_string_equal(found.list[0].function, "here__innermost");
	assert_string_equal(found.list[2].function, "here__outer");
	assert_int_equal(found.list[0].line, HERE_INNERMOST_LINE);
	assert_int_equal(found.list[1].line, HERE_MIDDLE_LINE);
	assert_int_equal(found.list[2].line, HERE_OUTER_LINE);
	assert_string_equal(short_path(found.list[1].file), "here.h");
	/* What the compiler was told relatively is made absolute. */
	assert_int_equal(found.list[1].file[0], '/');
}

/* The only child of this process; 0: none. */
static pid_t reader_pid(void)
{
	char path[64], text[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	file = fopen(path, "r");
	assert_non_null(file);
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	return (pid_t)atoi(text);
}

static void test_found_and_kept(void **state)
{
	_cleanup_(source_lines) struct source_lines *lines = with_reader();
	struct opened opened = { .path = "/proc/self/exe" };
	const struct source_file file = { .inode = 1 };

	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(find(lines, &file, &opened, here__vaddr(here__outer())), 0);
		check_here();
	}
	assert_int_equal(find(lines, &file, &opened, 1), 0);
	assert_int_equal(found.n, 0);
	assert_int_equal(opened.opened, 1);
	assert_int_equal(source_lines__stats(lines).read, 2);
	assert_int_equal(source_lines__stats(lines).files, 1);
	assert_true(source_lines__stats(lines).cpu_ns > 0);
}

/* Nobody is started for files without lines. */
static void test_no_lines(void **state)
{
	_cleanup_(source_lines) struct source_lines *lines = with_reader();
	struct opened none = { .path = NULL };
	const struct source_file file = { .inode = 1 };

	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(find(lines, &file, &none, 4096 + i), 0);
		assert_int_equal(found.n, 0);
	}
	assert_int_equal(none.opened, 1);
	assert_int_equal(reader_pid(), 0);
}

static void test_reader_is_confined(void **state)
{
	_cleanup_(source_lines) struct source_lines *lines = with_reader();
	struct opened opened = { .path = "/proc/self/exe" };
	const struct source_file file = { .inode = 1 };
	char path[64], line[128];
	bool none = false, filtered = false;
	FILE *status;

	assert_int_equal(find(lines, &file, &opened, here__vaddr(here__outer())), 0);
	snprintf(path, sizeof(path), "/proc/%d/status", reader_pid());
	status = fopen(path, "r");
	assert_non_null(status);
	while (fgets(line, sizeof(line), status)) {
		none |= !strcmp(line, "CapEff:\t0000000000000000\n");
		filtered |= !strcmp(line, "Seccomp:\t2\n");
	}
	fclose(status);
	assert_true(none);
	assert_true(filtered);
}

/* One that was killed while nobody asked costs nothing but another start. */
static void test_reader_killed(void **state)
{
	_cleanup_(source_lines) struct source_lines *lines = with_reader();
	struct opened opened = { .path = "/proc/self/exe" };
	const struct source_file file = { .inode = 1 };
	uint64_t here = here__vaddr(here__outer());
	siginfo_t ended;
	pid_t pid;

	assert_int_equal(find(lines, &file, &opened, here), 0);
	check_here();
	pid = reader_pid();
	kill(pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
	assert_int_equal(find(lines, &file, &opened, here + 1), 0);
	assert_true(found.n > 0);
	assert_int_equal(opened.opened, 2);
	assert_int_equal(source_lines__stats(lines).failed, 0);
}

/* More files than the reader keeps open: the ones that it closed are opened again. */
static void test_many_files(void **state)
{
	_cleanup_(source_lines) struct source_lines *lines = with_reader();
	struct opened opened = { .path = "/proc/self/exe" };
	struct source_file files[40] = { { 0 } };
	uint64_t here = here__vaddr(here__outer());

	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 40; i++) {
			files[i].inode = i;
			assert_int_equal(find(lines, &files[i], &opened, here + round), 0);
			assert_true(found.n > 0);
		}
	}
	assert_true(opened.opened > 40);
	assert_int_equal(source_lines__stats(lines).files, 40);
}

/* A reader that ends at once: the file has no lines from then on, and another file may be tried. */
static void test_reader_that_ends(void **state)
{
	_cleanup_(source_lines) struct source_lines *lines = source_lines__new("/bin/true", SECOND_NS);
	struct opened opened = { .path = "/proc/self/exe" }, other = { .path = "/proc/self/exe" };
	const struct source_file file = { .inode = 1 }, second = { .inode = 2 };

	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(find(lines, &file, &opened, 4096 + i), 0);
		assert_int_equal(found.n, 0);
	}
	assert_int_equal(find(lines, &second, &other, 4096), 0);
	assert_int_equal(found.n, 0);
	assert_int_equal(opened.opened, 1);
	assert_int_equal(other.opened, 1);
	assert_int_equal(source_lines__stats(lines).failed, 2);
}

static void test_no_reader(void **state)
{
	_cleanup_(source_lines) struct source_lines *lines =
		source_lines__new("/nonexistent/stakeoutd", SECOND_NS);
	struct opened opened = { .path = "/proc/self/exe" };
	const struct source_file file = { .inode = 1 };

	assert_int_equal(find(lines, &file, &opened, 4096), 0);
	assert_int_equal(found.n, 0);
	assert_int_equal(source_lines__stats(lines).failed, 0);
	assert_int_equal(source_lines__stats(lines).read, 0);
}

static void test_deadline(void **state)
{
	_cleanup_(source_lines) struct source_lines *lines = with_reader();
	struct opened opened = { .path = "/proc/self/exe" };
	const struct source_opener opener = { open_it, &opened, "this", 0 };
	const struct source_file file = { .inode = 1 };
	uint64_t here = here__vaddr(here__outer());

	assert_int_equal(source_lines__find(lines, &file, &opener, here, clock__now_ns(), &found), -ETIMEDOUT);
	assert_int_equal(opened.opened, 0);
	assert_int_equal(find(lines, &file, &opened, here), 0);
	/* What is known takes no time. */
	assert_int_equal(source_lines__find(lines, &file, &opener, here, 0, &found), 0);
	check_here();
}

/* What is asked and not waited for is found later. */
static void test_prepared(void **state)
{
	_cleanup_(source_lines) struct source_lines *lines = with_reader();
	struct opened opened = { .path = "/proc/self/exe" };
	const struct source_opener opener = { open_it, &opened, "this", 0 };
	const struct source_file file = { .inode = 1 }, other = { .inode = 2 };
	uint64_t here = here__vaddr(here__outer());

	assert_int_equal(source_lines__patience_ns(lines), SECOND_NS);
	source_lines__prepare(lines, &file, &opener);
	assert_int_equal(opened.opened, 1);
	/* What it answers may be heard whenever: the limit is for what does not come. */
	usleep(200000);
	source_lines__prepare(lines, &other, &opener);
	assert_int_equal(opened.opened, 2);
	usleep(200000);
	assert_int_equal(find(lines, &file, &opened, here), 0);
	check_here();
	assert_int_equal(find(lines, &other, &opened, here), 0);
	check_here();
	assert_int_equal(opened.opened, 2);
	assert_int_equal(source_lines__stats(lines).files, 2);
	assert_int_equal(source_lines__stats(lines).failed, 0);
}

/* What takes much is left to whoever asks for an address. */
static void test_prepared_quickly(void **state)
{
	_cleanup_(source_lines) struct source_lines *lines = with_reader();
	struct opened opened = { .path = "/proc/self/exe", .slow = true };
	const struct source_opener opener = { open_it, &opened, "this", 0 };
	const struct source_file file = { .inode = 1 };

	source_lines__prepare(lines, &file, &opener);
	assert_int_equal(opened.opened, 0);
	assert_int_equal(find(lines, &file, &opened, here__vaddr(here__outer())), 0);
	check_here();
}

/* A reader that says nothing: stopped. Nobody waits longer than they want to, and it goes on where it was. */
static void test_slow_reader(void **state)
{
	_cleanup_(source_lines) struct source_lines *lines = with_reader();
	struct opened opened = { .path = "/proc/self/exe" };
	const struct source_opener opener = { open_it, &opened, "this", 0 };
	const struct source_file file = { .inode = 1 };
	uint64_t here = here__vaddr(here__outer()), began_ns;

	assert_int_equal(find(lines, &file, &opened, here), 0);
	kill(reader_pid(), SIGSTOP);
	for (unsigned i = 1; i <= 3; i++) {
		began_ns = clock__now_ns();
		assert_int_equal(
			source_lines__find(lines, &file, &opener, here + i, began_ns + 50000000, &found),
			-ETIMEDOUT);
		assert_int_equal(found.n, 0);
		assert_true(clock__now_ns() - began_ns < SECOND_NS);
	}
	kill(reader_pid(), SIGCONT);
	/* An answer that has come is not too late, however long nobody asks for it. */
	usleep(SOURCE_FIND_LIMIT_NS / 1000 + 200000);
	for (unsigned i = 1; i <= 3; i++) {
		assert_int_equal(find(lines, &file, &opened, here + i), 0);
		assert_true(found.n > 0);
	}
	assert_int_equal(opened.opened, 1);
	assert_int_equal(source_lines__stats(lines).failed, 0);
}

/* How many children this process has, those of failed tests included; the last one is the youngest. */
static unsigned readers(pid_t *last)
{
	char path[64], text[256] = "", *save = NULL;
	unsigned n = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	file = fopen(path, "r");
	assert_non_null(file);
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	for (char *pid = strtok_r(text, " \n", &save); pid; pid = strtok_r(NULL, " \n", &save), n++)
		*last = (pid_t)atoi(pid);
	return n;
}

/* file: a number; one that had taken long to open is not opened again at once, so tests take another one. */
static int find_of(struct source_lines *lines, uid_t uid, unsigned file, uint64_t address, uint64_t wait_ns)
{
	struct opened opened = { .path = "/proc/self/exe" };
	const struct source_opener opener = { open_it, &opened, "this", uid };
	const struct source_file key = { .dev = file, .inode = 1 + uid };

	return source_lines__find(lines, &key, &opener, address, clock__now_ns() + wait_ns, &found);
}

/* One user's file keeps its reader busy for ever: others have their lines, root among them. */
static void test_one_stalls(void **state)
{
	_cleanup_(source_lines) struct source_lines *lines = with_reader();
	uint64_t here = here__vaddr(here__outer());
	pid_t stalled = 0, other = 0;
	unsigned before = readers(&other);

	assert_int_equal(find_of(lines, 1, 0, here, 60 * SECOND_NS), 0);
	assert_int_equal(readers(&stalled), before + 1);
	kill(stalled, SIGSTOP);
	assert_int_equal(find_of(lines, 1, 0, here + 1, SECOND_NS / 20), -ETIMEDOUT);
	for (uid_t uid = 0; uid <= 2; uid += 2) {
		assert_int_equal(find_of(lines, uid, 0, here, 60 * SECOND_NS), 0);
		check_here();
	}
	assert_int_equal(readers(&other), before + 3);
	kill(stalled, SIGCONT);
	assert_int_equal(find_of(lines, 1, 0, here + 1, 60 * SECOND_NS), 0);
	assert_true(found.n > 0);
	assert_int_equal(source_lines__stats(lines).failed, 0);
}

/* One user's file ends its reader: the others' go on. */
static void test_one_crashes(void **state)
{
	_cleanup_(source_lines) struct source_lines *lines = with_reader();
	uint64_t here = here__vaddr(here__outer());
	pid_t kept = 0, killed = 0;
	unsigned before = readers(&kept);

	assert_int_equal(find_of(lines, 2, 0, here, 60 * SECOND_NS), 0);
	assert_int_equal(readers(&kept), before + 1);
	assert_int_equal(find_of(lines, 1, 0, here, 60 * SECOND_NS), 0);
	assert_int_equal(readers(&killed), before + 2);
	kill(killed, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)killed, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	assert_int_equal(find_of(lines, 1, 1, here, 60 * SECOND_NS), 0);
	check_here();
	assert_int_equal(find_of(lines, 2, 0, here + 1, 60 * SECOND_NS), 0);
	assert_true(found.n > 0);
	assert_int_equal(kill(kept, 0), 0);
	assert_int_equal(source_lines__stats(lines).failed, 0);
}

/* There are no more than so many: the one that was used longest ago makes place, and never root's. */
static void test_readers_are_bounded(void **state)
{
	_cleanup_(source_lines) struct source_lines *lines = with_reader();
	uint64_t here = here__vaddr(here__outer());
	pid_t root = 0, last;
	unsigned before = readers(&root);

	assert_int_equal(find_of(lines, 0, 0, here, 60 * SECOND_NS), 0);
	assert_int_equal(readers(&root), before + 1);
	for (uid_t uid = 1; uid <= 2 * SOURCE_MAX_READERS; uid++) {
		assert_int_equal(find_of(lines, uid, 0, here, 60 * SECOND_NS), 0);
		check_here();
		assert_true(readers(&last) <= before + SOURCE_MAX_READERS);
	}
	assert_int_equal(readers(&last), before + SOURCE_MAX_READERS);
	assert_int_equal(kill(root, 0), 0);
	/* What is known is so without a reader; for what is not, the user gets one again. */
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(find_of(lines, 1, i, here, 60 * SECOND_NS), 0);
		check_here();
	}
	assert_int_equal(readers(&last), before + SOURCE_MAX_READERS);
	assert_int_equal(source_lines__stats(lines).failed, 0);
}

static void *ask_often(void *context)
{
	struct source_lines *lines = context;
	struct opened opened = { .path = "/proc/self/exe" };
	static uid_t users;
	const uid_t uid = __atomic_fetch_add(&users, 1, __ATOMIC_RELAXED) / 2;
	const struct source_opener opener = { open_it, &opened, "this", uid };
	struct source_frames *mine = malloc(sizeof(*mine));
	const struct source_file file = { .inode = (uintptr_t)mine };

	for (unsigned i = 0; mine && i < 200; i++) {
		if (source_lines__find(lines, &file, &opener, here__vaddr(here__outer()) + i % 50,
				       clock__now_ns() + 60 * SECOND_NS, mine) ||
		    (i % 50 == 0 && mine->n != 3))
			abort();
	}
	free(mine);
	return NULL;
}

static void test_threads(void **state)
{
	_cleanup_(source_lines) struct source_lines *lines = with_reader();
	pthread_t threads[4];

	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_often, lines), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(source_lines__stats(lines).failed, 0);
}

/* This program with so many bytes changed in its debug information. */
static void damage(const char *path, unsigned seed)
{
	static unsigned char bytes[8u << 20];
	int in = open("/proc/self/exe", O_RDONLY), out = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
	ssize_t n = read(in, bytes, sizeof(bytes));

	assert_true(n > 0 && (size_t)n < sizeof(bytes));
	srandom(seed);
	/* Debug information makes up the latter part of a program. */
	for (unsigned i = 0; i < 1 + seed * 16; i++)
		bytes[n / 4 + random() % (n * 3 / 4)] = (unsigned char)random();
	assert_int_equal(write(out, bytes, (size_t)n), n);
	close(in);
	close(out);
}

/* Whatever comes of it, it comes in time, and the next file has its lines. */
static void test_damaged(void **state)
{
	_cleanup_(source_lines) struct source_lines *lines = with_reader();
	struct opened good = { .path = "/proc/self/exe" }, bad;
	const struct source_file good_file = { .inode = 1 };
	uint64_t here = here__vaddr(here__outer());
	char path[] = "/tmp/stakeout-damaged-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	for (unsigned seed = 0; seed < 60; seed++) {
		const struct source_file file = { .inode = 2, .changed_ns = seed };

		bad = (struct opened){ .path = path };
		damage(path, seed);
		for (unsigned i = 0; i < 50; i++)
			assert_int_equal(find(lines, &file, &bad, here - 100 + i * 8), 0);
		assert_int_equal(find(lines, &good_file, &good, here), 0);
		check_here();
	}
	unlink(path);
}

/* What was mapped is gone: the reader ends, and nothing else. */
static void test_cut_while_open(void **state)
{
	_cleanup_(source_lines) struct source_lines *lines = with_reader();
	struct opened good = { .path = "/proc/self/exe" }, cut;
	const struct source_file file = { .inode = 1 }, good_file = { .inode = 2 };
	uint64_t here = here__vaddr(here__outer());
	char path[] = "/tmp/stakeout-cut-XXXXXX";
	int fd = mkstemp(path);

	close(fd);
	damage(path, 0);
	cut = (struct opened){ .path = path };
	assert_int_equal(find(lines, &file, &cut, 4096), 0);
	assert_int_equal(truncate(path, 4096), 0);
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(find(lines, &file, &cut, here + i), 0);
	assert_int_equal(find(lines, &good_file, &good, here), 0);
	check_here();
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found_and_kept),
		cmocka_unit_test(test_no_lines),
		cmocka_unit_test(test_reader_is_confined),
		cmocka_unit_test(test_reader_killed),
		cmocka_unit_test(test_many_files),
		cmocka_unit_test(test_reader_that_ends),
		cmocka_unit_test(test_no_reader),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_prepared),
		cmocka_unit_test(test_prepared_quickly),
		cmocka_unit_test(test_slow_reader),
		cmocka_unit_test(test_one_stalls),
		cmocka_unit_test(test_one_crashes),
		cmocka_unit_test(test_readers_are_bounded),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_cut_while_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
