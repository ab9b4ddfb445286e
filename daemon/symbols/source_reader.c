// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/symbols/source_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/os/clock.h"
#include "daemon/symbols/dwarf_lines.h"
#include "daemon/os/log.h"

#define MAX_FILES    32             /* open at a time */
#define MUCH_BYTES   (256ull << 20) /* of memory: it is not kept for long */
#define ROOM_BYTES   (1ull << 30)   /* files are closed for more, but for one */
#define MOST_BYTES   (2ull << 30)   /* then the process has no more */
#define MUCH_IDLE_MS 20000          /* as long as it has much memory */
#define IDLE_MS      60000          /* without a request: all files are closed */
#define NICE         5
#define MS           1000000ull

struct open_file {
	uint32_t number; /* the daemon's */
	uint64_t used_ns;
	bool costly; /* to open */
	struct dwarf_lines *lines;
};

struct reader {
	struct open_file files[MAX_FILES];
	size_t n_files;
	uint64_t bytes; /* allocated, after the last request */
};

static uint64_t allocated_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* Memory and capabilities, and what system calls there are: those that libdw makes of files that are open. */

static void limit(int resource, uint64_t value)
{
	setrlimit(resource, &(struct rlimit){ value, value });
}

static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	syscall(SYS_capset, &header, none);
}

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* With this second argument alone; those of later lines are compared with the number again. */
#define ALLOW_WITH(call, argument)                                                                                 \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 4),                                                     \
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),                        \
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, argument, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), \
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))

static int forbid_calls(void)
{
	static struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(read),
		ALLOW(write),
		ALLOW(pread64),
		ALLOW(lseek),
		ALLOW(close),
		ALLOW(fstat),
		ALLOW(newfstatat),
		ALLOW_WITH(fcntl, F_GETFD),
		ALLOW_WITH(fcntl, F_GETFL),
		ALLOW(mmap),
		ALLOW(munmap),
		ALLOW(mprotect),
		ALLOW(mremap),
		ALLOW(madvise),
		ALLOW(brk),
		ALLOW(recvmsg),
		ALLOW(sendto),
		ALLOW(poll),
		ALLOW(futex),
		ALLOW(clock_gettime),
		ALLOW(alarm),
		ALLOW(setitimer),
		ALLOW(rt_sigprocmask),
		ALLOW(rt_sigreturn),
		ALLOW(restart_syscall),
		ALLOW(exit),
		ALLOW(exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	const struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0)
		       ? -errno
		       : 0;
}

static int confine(void)
{
	prctl(PR_SET_NAME, "stakeout-lines");
	prctl(PR_SET_DUMPABLE, 0);
	setpriority(PRIO_PROCESS, 0, NICE);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, 0);
	limit(RLIMIT_NOFILE, 2 * MAX_FILES + 16);
#ifndef __SANITIZE_ADDRESS__
	limit(RLIMIT_DATA, MOST_BYTES);
#endif
	drop_capabilities();
	return forbid_calls();
}

static void close_file(struct reader *reader, size_t at)
{
	dwarf_lines__free(reader->files[at].lines);
	reader->files[at] = reader->files[--reader->n_files];
}

/*
 * The one that was used longest ago of those that are opened again in no time, but for the one that is in use; of the
 * others if there is none, as long as there are two. SIZE_MAX: there is none to close.
 */
static size_t find_closable(const struct reader *reader)
{
	size_t oldest[2] = { SIZE_MAX, SIZE_MAX }, n[2] = { 0, 0 }, latest = 0;

	for (size_t i = 1; i < reader->n_files; i++) {
		if (reader->files[i].used_ns > reader->files[latest].used_ns)
			latest = i;
	}
	for (size_t i = 0; i < reader->n_files; i++) {
		const struct open_file *file = &reader->files[i];
		size_t *found = &oldest[file->costly];

		n[file->costly]++;
		if (i != latest && (*found == SIZE_MAX || file->used_ns < reader->files[*found].used_ns))
			*found = i;
	}
	return oldest[0] != SIZE_MAX ? oldest[0] : n[1] > 1 ? oldest[1] : SIZE_MAX;
}

static struct open_file *find_file(struct reader *reader, uint32_t number)
{
	for (size_t i = 0; i < reader->n_files; i++) {
		if (reader->files[i].number == number)
			return &reader->files[i];
	}
	return NULL;
}

/* A deleted file takes room on its disk as long as it is open. */
static void close_idle(struct reader *reader)
{
	uint64_t now_ns = clock__now_ns();

	for (size_t i = reader->n_files; i > 0; i--) {
		if (now_ns - reader->files[i - 1].used_ns > IDLE_MS * MS)
			close_file(reader, i - 1);
	}
}

static void make_room(struct reader *reader)
{
	uint64_t bytes = allocated_bytes();
	bool closed = false;
	size_t at;

	while (bytes > ROOM_BYTES && (at = find_closable(reader)) != SIZE_MAX) {
		close_file(reader, at);
		bytes = allocated_bytes();
		closed = true;
	}
	if (closed)
		malloc_trim(0);
	reader->bytes = bytes;
}

/* Takes the descriptors. */
static uint32_t open_file(struct reader *reader, uint32_t number, const int fds[2])
{
	struct open_file *known = find_file(reader, number);
	uint64_t began_ns = clock__read_ns(CLOCK_PROCESS_CPUTIME_ID);
	struct dwarf_lines *lines;
	bool costly;

	if (known)
		close_file(reader, (size_t)(known - reader->files));
	if (fds[0] < 0)
		return SOURCE_NOTHING;
	if (reader->n_files == MAX_FILES)
		close_file(reader, find_closable(reader));
	if (dwarf_lines__open(fds[0], fds[1], &lines))
		return SOURCE_NOTHING;
	costly = clock__read_ns(CLOCK_PROCESS_CPUTIME_ID) - began_ns > SOURCE_LONG_OPEN_NS;
	reader->files[reader->n_files++] = (struct open_file){ number, clock__now_ns(), costly, lines };
	return SOURCE_OK;
}

/* An answer in the making. */
struct message {
	size_t bytes;
	_Alignas(struct source_answer) unsigned char buffer[SOURCE_MAX_ANSWER];
};

static size_t append(struct message *message, const char *text, size_t most)
{
	size_t n = strnlen(text, most);

	memcpy(message->buffer + message->bytes, text, n);
	message->bytes += n;
	return n;
}

/* false: there is no room for it. */
static bool append_frame(struct message *message, const struct dwarf_frame *frame)
{
	struct source_answer_frame head = { .line = frame->line };
	size_t at = message->bytes, file_at;

	if (sizeof(message->buffer) - at < sizeof(head) + SOURCE_MAX_FUNCTION + SOURCE_MAX_FILE)
		return false;
	message->bytes += sizeof(head);
	head.function_bytes = (uint16_t)append(message, frame->function, SOURCE_MAX_FUNCTION);
	file_at = message->bytes;
	if (frame->directory[0]) {
		append(message, frame->directory, SOURCE_MAX_FILE - 1);
		append(message, "/", 1);
	}
	append(message, frame->file, SOURCE_MAX_FILE - (message->bytes - file_at));
	head.file_bytes = (uint16_t)(message->bytes - file_at);
	memcpy(message->buffer + at, &head, sizeof(head));
	return true;
}

/* Where the names are too long for one message, only the function itself is reported. */
static uint32_t append_frames(struct message *message, const struct dwarf_frame *frames, size_t n)
{
	size_t begin = message->bytes;

	for (size_t i = 0; i < n; i++) {
		if (append_frame(message, &frames[i]))
			continue;
		message->bytes = begin;
		append_frame(message, &frames[n - 1]);
		return 1;
	}
	return (uint32_t)n;
}

static void answer(struct reader *reader, const struct source_request *request, const int fds[2])
{
	static struct message message;
	struct source_answer head = { .status = SOURCE_OK };
	struct dwarf_frame frames[SOURCE_MAX_FRAMES];
	struct open_file *file;

	message.bytes = sizeof(head);
	if (request->kind == SOURCE_OPEN) {
		head.status = open_file(reader, request->file, fds);
	} else {
		file = find_file(reader, request->file);
		if (file) {
			size_t n = dwarf_lines__find(file->lines, request->address, frames, SOURCE_MAX_FRAMES);

			file->used_ns = clock__now_ns();
			head.n_frames = append_frames(&message, frames, n);
		} else {
			head.status = SOURCE_NOT_OPEN;
		}
	}
	make_room(reader);
	head.cpu_ns = clock__read_ns(CLOCK_PROCESS_CPUTIME_ID);
	head.bytes = reader->bytes;
	memcpy(message.buffer, &head, sizeof(head));
	if (send(STDIN_FILENO, message.buffer, message.bytes, MSG_NOSIGNAL) < 0)
		_exit(1);
}

/* The descriptors that came with a message; those beyond two are closed. */
static void take_descriptors(struct msghdr *message, int fds[2])
{
	size_t n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + CMSG_LEN(sizeof(int)) <= c->cmsg_len; at += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
			if (n < 2)
				fds[n++] = fd;
			else
				close(fd);
		}
	}
}

static void serve_one(struct reader *reader)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
	struct source_request request;
	struct iovec part = { &request, sizeof(request) };
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	int fds[2] = { -1, -1 };
	ssize_t n = recvmsg(STDIN_FILENO, &message, MSG_CMSG_CLOEXEC);

	if (n < 0 && errno == EINTR)
		return;
	if (n != sizeof(request))
		_exit(n ? 1 : 0);
	take_descriptors(&message, fds);
	alarm(SOURCE_MOST_S);
	close_idle(reader);
	answer(reader, &request, fds);
	alarm(0);
}

void source_reader__run(void)
{
	static struct reader reader;
	struct pollfd socket = { .fd = STDIN_FILENO, .events = POLLIN };
	int ret = confine();

	if (ret) {
		log__error("source lines are not read: the process that reads them cannot be confined: %s",
			   strerror(-ret));
		_exit(1);
	}
	for (;;) {
		int idle_ms = reader.bytes > MUCH_BYTES ? MUCH_IDLE_MS : IDLE_MS;
		int n = poll(&socket, 1, reader.n_files ? idle_ms : -1);

		if (n > 0) {
			serve_one(&reader);
			continue;
		}
		if (n < 0 && errno != EINTR)
			_exit(1);
		while (!n && reader.n_files)
			close_file(&reader, 0);
		if (!n)
			malloc_trim(0);
	}
}
