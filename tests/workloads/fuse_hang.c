// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Memory and files that never answer: fuse_hang FOLDER UID memory|file|map. Mounts a file system on FOLDER, as root,
 * which serves one file, "file". Nobody but the user UID can look at it, and with "file" and "map" everybody. Its pages
 * are never read, but for one with code. A child of that user's maps it as code, says "ready" and works on: with
 * "memory" in that page, in which code goes on behind its end; with "map" in memory without a file, and it is never
 * said whether the folder has a map of that. A line on standard input answers whatever was asked for; its end ends all.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_BYTES  4096
#define FILE_PAGES  16
#define FILE_NODE   2
#define WAITING_MAX 64

static int server;
static bool for_all, for_map, answers_all;
static struct fuse_read_in waiting[WAITING_MAX];
static uint64_t waiting_unique[WAITING_MAX];
static unsigned n_waiting;
static uint64_t looking_up[WAITING_MAX];
static unsigned n_looking_up;

/*
 * A function without unwind rules that calls another one for ever. What follows the call goes on, in a branch that is
 * not taken, in the page behind this one.
 */
static const uint8_t code[] = {
	0x55,                         /*    push %rbp      */
	0xbd, 1,    0,    0,    0,    /*    mov $1,%ebp    */
	0xe8, 8,    0,    0,    0,    /* 1: call 2f        */
	0x0f, 0x82, 0xef, 0x0f, 0, 0, /*    jc page 2      */
	0xeb, 0xf3,                   /*    jmp 1b         */
	0xb8, 0,    0,    0x10, 0,    /* 2: mov $1<<20,%eax */
	0xff, 0xc8,                   /* 3: dec %eax       */
	0x75, 0xfc,                   /*    jnz 3b         */
	0xf8,                         /*    clc            */
	0xc3,                         /*    ret            */
};

static void reply(uint64_t unique, int error, const void *data, size_t bytes)
{
	struct fuse_out_header head = { .len = (uint32_t)(sizeof(head) + bytes), .error = error, .unique = unique };
	char out[sizeof(head) + PAGE_BYTES];

	memcpy(out, &head, sizeof(head));
	if (bytes)
		memcpy(out + sizeof(head), data, bytes);
	if (write(server, out, sizeof(head) + bytes) < 0 && errno != ENOENT)
		_exit(3);
}

/* A file that others cannot open has number 0, as memory that is no file's: its code is read where it is mapped. */
static struct fuse_attr attributes(uint64_t node)
{
	bool file = node == FILE_NODE;

	return (struct fuse_attr){
		.ino = file ? for_all * 3 : 1,
		.size = file ? FILE_PAGES * PAGE_BYTES : 0,
		.mode = file ? S_IFREG | 0755 : S_IFDIR | 0755,
		.nlink = 1,
	};
}

static void answer_read(uint64_t unique, const struct fuse_read_in *in)
{
	char page[PAGE_BYTES] = "";

	if (in->offset == PAGE_BYTES)
		memcpy(page, code, sizeof(code));
	reply(unique, 0, page, in->size < sizeof(page) ? in->size : sizeof(page));
}

static void take_read(uint64_t unique, const struct fuse_read_in *in)
{
	if (in->offset == PAGE_BYTES || answers_all)
		answer_read(unique, in);
	else if (n_waiting < WAITING_MAX) {
		waiting[n_waiting] = *in;
		waiting_unique[n_waiting++] = unique;
	}
}

static void take_lookup(uint64_t unique, const char *name)
{
	if (for_map && !answers_all && !strncmp(name, "perf-", 5) && n_looking_up < WAITING_MAX)
		looking_up[n_looking_up++] = unique;
	else
		reply(unique, -ENOENT, NULL, 0);
}

static void initialize(uint64_t unique)
{
	struct fuse_init_out out = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = PAGE_BYTES };

	reply(unique, 0, &out, sizeof(out));
}

static void answer(const struct fuse_in_header *in, const void *body)
{
	struct fuse_entry_out entry = { .nodeid = FILE_NODE, .entry_valid = 1000, .attr_valid = 1000 };
	struct fuse_attr_out attr = { .attr_valid = 1000, .attr = attributes(in->nodeid) };
	struct fuse_open_out opened = { .open_flags = FOPEN_KEEP_CACHE };

	entry.attr = attributes(FILE_NODE);
	if (in->opcode == FUSE_INIT)
		initialize(in->unique);
	else if (in->opcode == FUSE_LOOKUP && !strcmp(body, "file"))
		reply(in->unique, 0, &entry, sizeof(entry));
	else if (in->opcode == FUSE_LOOKUP)
		take_lookup(in->unique, body);
	else if (in->opcode == FUSE_GETATTR)
		reply(in->unique, 0, &attr, sizeof(attr));
	else if (in->opcode == FUSE_OPEN)
		reply(in->unique, 0, &opened, sizeof(opened));
	else if (in->opcode == FUSE_READ)
		take_read(in->unique, body);
	else if (in->opcode == FUSE_RELEASE || in->opcode == FUSE_FLUSH)
		reply(in->unique, 0, NULL, 0);
	else if (in->opcode != FUSE_FORGET && in->opcode != FUSE_BATCH_FORGET && in->opcode != FUSE_INTERRUPT)
		reply(in->unique, -ENOSYS, NULL, 0);
}

static void take_request(void)
{
	static char request[FUSE_MIN_READ_BUFFER + 4 * PAGE_BYTES];
	const struct fuse_in_header *in = (const void *)request;

	if (read(server, request, sizeof(request)) < (ssize_t)sizeof(*in))
		return;
	answer(in, request + sizeof(*in));
}

static void serve(const char *folder)
{
	struct pollfd fds[2] = { { server, POLLIN, 0 }, { STDIN_FILENO, POLLIN, 0 } };
	char line[64];

	for (;;) {
		if (poll(fds, 2, -1) < 0)
			break;
		if (fds[0].revents)
			take_request();
		if (!fds[1].revents)
			continue;
		if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
			break;
		answers_all = true;
		while (n_waiting--)
			answer_read(waiting_unique[n_waiting], &waiting[n_waiting]);
		n_waiting = 0;
		while (n_looking_up)
			reply(looking_up[--n_looking_up], -ENOENT, NULL, 0);
	}
	umount2(folder, MNT_DETACH);
}

static char *map(int fd)
{
	void *pages = mmap(NULL, 4 * PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	if (pages == MAP_FAILED)
		_exit(4);
	return pages;
}

static char *map_code(void)
{
	char *pages =
		mmap(NULL, 4 * PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		_exit(4);
	memcpy(pages + PAGE_BYTES, code, sizeof(code));
	return pages;
}

static void burn(void)
{
	static volatile unsigned long turns;

	for (;;)
		turns = turns * 3 + 1;
}

static void target(const char *folder, uid_t uid)
{
	void (*run)(void) = burn;
	char path[256];
	char *pages;
	int fd;

	prctl(PR_SET_NAME, "hanging");
	snprintf(path, sizeof(path), "%s/file", folder);
	if (setgid(uid) || setuid(uid) || prctl(PR_SET_DUMPABLE, 1) || prctl(PR_SET_PDEATHSIG, SIGKILL))
		_exit(5);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		_exit(6);
	pages = (for_map ? map_code() : map(fd)) + PAGE_BYTES;
	if (!for_all || for_map)
		memcpy(&run, &pages, sizeof(run));
	if (write(STDOUT_FILENO, "ready\n", 6) < 0)
		_exit(7);
	run();
}

int main(int argc, char **argv)
{
	char options[128];
	pid_t child;

	if (argc != 4)
		return 1;
	for_map = !strcmp(argv[3], "map");
	for_all = for_map || !strcmp(argv[3], "file");
	server = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%s,group_id=%s%s", server, argv[2], argv[2],
		 for_all ? ",allow_other" : "");
	if (server < 0 || mount("hang", argv[1], "fuse", MS_NOSUID | MS_NODEV, options)) {
		puts("no");
		return 2;
	}
	child = fork();
	if (!child) {
		close(server);
		target(argv[1], (uid_t)atoi(argv[2]));
	}
	serve(argv[1]);
	return 0;
}
