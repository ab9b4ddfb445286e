// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/symbols/source_lines.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/os/clock.h"
#include "daemon/os/helper_process.h"
#include "daemon/os/log.h"
#include "daemon/os/u64_table.h"
#include "stakeout/abi.h"
#include "stakeout/array.h"
#include "stakeout/intern.h"

#define MS       1000000ull
#define RETRY_NS 60000000000ull /* after a reader that did not start */
#define BUSY_NS  (10 * MS)      /* until it is looked again whether a reader is free */

enum file_state {
	FILE_NEW,
	FILE_HAS_LINES,
	FILE_HAS_NONE, /* when it was looked at last */
	FILE_FAILED,   /* it cost a reader: never again */
};

/* What was found: strings are numbers in lines->strings. */
struct found_frame {
	uint32_t function, file, line;
};

struct found {
	uint64_t address;
	uint32_t file;            /* number */
	uint32_t first, n_frames; /* in lines->frames */
};

struct file {
	enum file_state state;
	uint64_t opened_ns;   /* when it was opened last, or found to have no lines; CLOCK_MONOTONIC */
	uint64_t open_cpu_ns; /* what that took */
};

/* A process that reads, of one user's files. Whoever speaks with it holds `lock`, and takes that of all within it. */
struct line_reader {
	pthread_mutex_t lock;
	uid_t uid;        /* whose; changed with both locks */
	uint64_t used_ns; /* last, with both locks; 0: never */
	uint64_t bytes;   /* of memory, when it last answered */
	struct helper_process process;
	int fd;
	uint64_t not_before_ns; /* when one may be started again */
	uint64_t cpu_ns;        /* of this one */
	/* What it was asked and nobody waited for. */
	struct {
		bool asked;
		uint32_t file;
		char path[256];
		uint32_t kind;
		uint64_t until_ns, asked_ns;
	} pending;
	_Alignas(struct source_answer) unsigned char answer[SOURCE_MAX_ANSWER];
};

struct source_lines {
	char *program;
	/*
	 * What was found, and the files' states. A file's number is its place in `files`, whose keys are source_file.
	 */
	pthread_mutex_t lock;
	struct intern strings;
	struct found *found;
	size_t n_found, cap_found;
	struct found_frame *frames;
	size_t n_frames, cap_frames;
	struct u64_table by_address; /* of a file's number and the address -> in found */
	struct intern file_keys;
	struct file *files; /* of SOURCE_MAX_FILES; a file's is for who has its user's reader */
	struct source_lines_stats stats;
	struct line_reader readers[SOURCE_MAX_READERS]; /* the first is root's */
	uint64_t patience_ns;
};

struct source_lines *source_lines__new(const char *program, uint64_t patience_ns)
{
	struct source_lines *lines = calloc(1, sizeof(*lines));

	if (!lines)
		return NULL;
	lines->patience_ns = patience_ns;
	pthread_mutex_init(&lines->lock, NULL);
	for (unsigned i = 0; i < SOURCE_MAX_READERS; i++) {
		lines->readers[i].fd = -1;
		pthread_mutex_init(&lines->readers[i].lock, NULL);
	}
	lines->program = strdup(program ?: "/proc/self/exe");
	lines->files = calloc(SOURCE_MAX_FILES, sizeof(*lines->files));
	if (!lines->program || !lines->files) {
		source_lines__free(lines);
		return NULL;
	}
	return lines;
}

static void forget_all(struct source_lines *lines)
{
	intern__clear(&lines->strings);
	u64_table__release(&lines->by_address);
	free(lines->found);
	free(lines->frames);
	lines->strings = (struct intern){ 0 };
	lines->found = NULL;
	lines->frames = NULL;
	lines->n_found = lines->cap_found = lines->n_frames = lines->cap_frames = 0;
}

static void end_reader(struct line_reader *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	r->cpu_ns = 0;
	r->pending.asked = false;
	__atomic_store_n(&r->bytes, 0, __ATOMIC_RELAXED);
	helper_process__end(&r->process);
}

void source_lines__free(struct source_lines *lines)
{
	if (!lines)
		return;
	for (unsigned i = 0; i < SOURCE_MAX_READERS; i++) {
		end_reader(&lines->readers[i]);
		pthread_mutex_destroy(&lines->readers[i].lock);
	}
	forget_all(lines);
	intern__clear(&lines->file_keys);
	free(lines->files);
	pthread_mutex_destroy(&lines->lock);
	free(lines->program);
	free(lines);
}

/* The reader. */

static int start_reader(const struct source_lines *lines, struct line_reader *r)
{
	uint64_t now_ns = clock__now_ns();
	int pair[2], ret;

	if (now_ns < r->not_before_ns)
		return -ENOTSUP;
	ret = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) ? -errno : 0;
	if (!ret) {
		ret = helper_process__start(&r->process, lines->program, SOURCE_READER_ARGUMENT, pair[1]);
		close(pair[1]);
		if (ret)
			close(pair[0]);
	}
	if (ret) {
		r->not_before_ns = now_ns + RETRY_NS;
		log__error("no process that reads source lines: %s", strerror(-ret));
		return -ENOTSUP;
	}
	r->fd = pair[0];
	return 0;
}

/* A reader that is idle says nothing: what can be read is its end. */
static bool runs(const struct line_reader *r)
{
	struct pollfd fd = { .fd = r->fd, .events = POLLIN };

	return r->fd >= 0 && poll(&fd, 1, 0) == 0;
}

static int send_request(const struct line_reader *r, const struct source_request *request, const int fds[2])
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = { 0 };
	struct iovec part = { (void *)request, sizeof(*request) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	size_t n = !fds ? 0 : fds[1] < 0 ? 1 : 2;

	if (n) {
		struct cmsghdr *head = (struct cmsghdr *)control;

		message.msg_control = control;
		message.msg_controllen = CMSG_SPACE(n * sizeof(int));
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(head), fds, n * sizeof(int));
	}
	return sendmsg(r->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(*request) ? 0 : -EPIPE;
}

/* What is there is taken, however late it is. */
static ssize_t receive(struct line_reader *r, uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd fd = { .fd = r->fd, .events = POLLIN };
		uint64_t now_ns = clock__now_ns();
		int wait_ms = now_ns < deadline_ns ? (int)((deadline_ns - now_ns) / MS) + 1 : 0;

		if (poll(&fd, 1, wait_ms) > 0)
			return recv(r->fd, r->answer, sizeof(r->answer), MSG_DONTWAIT);
		if (!wait_ms)
			return -ETIMEDOUT;
	}
}

/* Whether the names of the answer lie in it. */
static bool is_sound(const unsigned char *bytes, size_t n)
{
	struct source_answer head;
	size_t at = sizeof(head);

	if (n < sizeof(head))
		return false;
	memcpy(&head, bytes, sizeof(head));
	if (head.n_frames > SOURCE_MAX_FRAMES)
		return false;
	for (uint32_t i = 0; i < head.n_frames; i++) {
		struct source_answer_frame frame;

		if (n - at < sizeof(frame))
			return false;
		memcpy(&frame, bytes + at, sizeof(frame));
		at += sizeof(frame);
		if (frame.function_bytes > SOURCE_MAX_FUNCTION || frame.file_bytes > SOURCE_MAX_FILE ||
		    n - at < (size_t)frame.function_bytes + frame.file_bytes)
			return false;
		at += (size_t)frame.function_bytes + frame.file_bytes;
	}
	return at == n;
}

/* Returns the CPU time that the answer took. */
static uint64_t note_use(struct source_lines *lines, struct line_reader *r, const struct source_answer *head)
{
	uint64_t took_ns = head->cpu_ns > r->cpu_ns ? head->cpu_ns - r->cpu_ns : 0;

	pthread_mutex_lock(&lines->lock);
	lines->stats.cpu_ns += took_ns;
	r->bytes = head->bytes;
	pthread_mutex_unlock(&lines->lock);
	r->cpu_ns = head->cpu_ns;
	return took_ns;
}

/* Only who holds the lock of its user's reader changes a file's state, and may read it without `lock`. */
static void set_state(struct source_lines *lines, uint32_t number, enum file_state state)
{
	struct file *file;

	pthread_mutex_lock(&lines->lock);
	file = &lines->files[number];
	lines->stats.files += state == FILE_HAS_LINES;
	lines->stats.files -= file->state == FILE_HAS_LINES;
	file->state = state;
	file->opened_ns = clock__now_ns();
	pthread_mutex_unlock(&lines->lock);
}

/* Ends a reader that did not survive what was pending, or took too long. Its file is not opened again. */
static void give_up(struct source_lines *lines, struct line_reader *r, int error)
{
	log__error("source lines of %s are not read: the process that read them %s", r->pending.path,
		   error == -ETIMEDOUT ? "took too long" : "ended");
	set_state(lines, r->pending.file, FILE_FAILED);
	pthread_mutex_lock(&lines->lock);
	lines->stats.failed++;
	pthread_mutex_unlock(&lines->lock);
	end_reader(r);
}

static void note_opened(struct source_lines *lines, struct line_reader *r, const struct source_answer *head,
			uint64_t took_ns)
{
	struct file *file = &lines->files[r->pending.file];

	if (r->pending.kind != SOURCE_OPEN)
		return;
	set_state(lines, r->pending.file, head->status == SOURCE_OK ? FILE_HAS_LINES : FILE_HAS_NONE);
	file->open_cpu_ns = took_ns;
}

/*
 * Waits for the answer to what is pending, which is in r->answer then. 0; -EPIPE: the reader has ended, or was
 * ended;
 * -EAGAIN: nothing is pending; -ETIMEDOUT: there is none by the deadline, and it is pending still.
 */
static int await(struct source_lines *lines, struct line_reader *r, uint64_t deadline_ns, struct source_answer *head)
{
	uint64_t until_ns = deadline_ns < r->pending.until_ns ? deadline_ns : r->pending.until_ns;
	ssize_t n;

	if (!r->pending.asked)
		return -EAGAIN;
	n = receive(r, until_ns);
	if (n == -ETIMEDOUT && until_ns < r->pending.until_ns)
		return -ETIMEDOUT;
	if (n <= 0 || !is_sound(r->answer, (size_t)n)) {
		give_up(lines, r, n == -ETIMEDOUT ? -ETIMEDOUT : -EPIPE);
		return -EPIPE;
	}
	memcpy(head, r->answer, sizeof(*head));
	r->pending.asked = false;
	note_opened(lines, r, head, note_use(lines, r, head));
	return 0;
}

/* Asks, so that it is pending. The reader runs, and nothing else is pending. */
static int ask(struct source_lines *lines, struct line_reader *r, const char *path,
	       const struct source_request *request, const int fds[2])
{
	uint64_t limit_ns = request->kind == SOURCE_OPEN ? SOURCE_OPEN_LIMIT_NS : SOURCE_FIND_LIMIT_NS;

	r->pending.asked = true;
	r->pending.kind = request->kind;
	r->pending.file = request->file;
	r->pending.asked_ns = clock__now_ns();
	r->pending.until_ns = r->pending.asked_ns + limit_ns;
	snprintf(r->pending.path, sizeof(r->pending.path), "%s", path);
	if (!send_request(r, request, fds))
		return 0;
	give_up(lines, r, -EPIPE);
	return -EPIPE;
}

/* Nothing is to be had of it. A debug file may be installed while the daemon runs. */
static bool is_without(const struct file *file)
{
	return file->state == FILE_FAILED ||
	       (file->state == FILE_HAS_NONE && clock__now_ns() - file->opened_ns < SOURCE_AGAIN_NS);
}

/* Whether the reader had to close it, and opening it again would take more than a percent of a CPU. */
static bool is_too_soon(const struct file *file)
{
	return file->open_cpu_ns > SOURCE_LONG_OPEN_NS &&
	       clock__now_ns() - file->opened_ns < file->open_cpu_ns * SOURCE_OPEN_INTERVAL;
}

/* 0: asked; -ENODATA: the file has no lines; -ENOTSUP: there is no reader; -ETIMEDOUT, -EAGAIN: later. */
static int ask_to_open(struct source_lines *lines, struct line_reader *r, uint32_t number,
		       const struct source_opener *opener, bool quick)
{
	const struct source_request request = { SOURCE_OPEN, number, 0 };
	int fds[2] = { -1, -1 }, ret;

	if (is_too_soon(&lines->files[number]))
		return -ETIMEDOUT;
	ret = opener->open(opener->context, quick, fds);
	if (ret == -EAGAIN)
		return ret;
	if (ret) {
		set_state(lines, number, FILE_HAS_NONE);
		return -ENODATA;
	}
	if (!runs(r))
		end_reader(r);
	ret = r->fd >= 0 ? 0 : start_reader(lines, r);
	if (!ret)
		ret = ask(lines, r, opener->path, &request, fds) ? -ENODATA : 0;
	close(fds[0]);
	if (fds[1] >= 0)
		close(fds[1]);
	return ret;
}

/* 0 and the answer in r->answer; -ENODATA: nothing is known; -ENOTSUP: there is no reader; -ETIMEDOUT: later. */
static int read_address(struct source_lines *lines, struct line_reader *r, uint32_t number,
			const struct source_opener *opener, uint64_t address, uint64_t deadline_ns)
{
	const struct source_request request = { SOURCE_FIND, number, address };
	struct source_answer head = { .status = SOURCE_NOT_OPEN };
	int ret = await(lines, r, deadline_ns, &head);

	if (ret == -ETIMEDOUT)
		return ret;
	/* A reader that has ended has no open files, and one may have closed this one. */
	for (unsigned tries = 0; tries < 2; tries++) {
		if (lines->files[number].state == FILE_HAS_LINES && runs(r)) {
			ret = ask(lines, r, opener->path, &request, NULL) ?: await(lines, r, deadline_ns, &head);
			if (ret)
				return ret == -ETIMEDOUT ? ret : -ENODATA;
			if (head.status != SOURCE_NOT_OPEN)
				return 0;
		}
		if (is_without(&lines->files[number]))
			return -ENODATA;
		ret = ask_to_open(lines, r, number, opener, false) ?: await(lines, r, deadline_ns, &head);
		if (ret)
			return ret == -EPIPE ? -ENODATA : ret;
	}
	/* Opened twice, and not open: nothing that another try would mend. */
	return -ENODATA;
}

/* What was found. Under `lock`. */

static uint64_t key_of(uint32_t file, uint64_t address)
{
	return so_mix(so_mix(0, file), address);
}

static const struct found *look_up(const struct source_lines *lines, uint32_t file, uint64_t address)
{
	uint32_t at;

	if (!u64_table__get(&lines->by_address, key_of(file, address), &at))
		return NULL;
	return lines->found[at].file == file && lines->found[at].address == address ? &lines->found[at] : NULL;
}

static const char *put(struct source_frames *out, size_t *used, const char *text)
{
	size_t n = strlen(text) + 1;
	char *at = out->names + *used;

	if (n > sizeof(out->names) - *used)
		return "";
	*used += n;
	return memcpy(at, text, n);
}

static void copy_out(const struct source_lines *lines, const struct found *found, struct source_frames *out)
{
	size_t used = 0;

	out->n = found->n_frames;
	for (uint32_t i = 0; i < found->n_frames; i++) {
		const struct found_frame *frame = &lines->frames[found->first + i];

		out->list[i].function = put(out, &used, intern__key(&lines->strings, frame->function));
		out->list[i].file = put(out, &used, intern__key(&lines->strings, frame->file));
		out->list[i].line = frame->line;
	}
}

static int intern_text(struct source_lines *lines, const unsigned char *bytes, size_t n, uint32_t *number)
{
	char text[SOURCE_MAX_FUNCTION + 1];
	int ret;

	/* A NUL within would end it for everybody else. */
	n = strnlen((const char *)bytes, n);
	memcpy(text, bytes, n);
	text[n] = '\0';
	ret = intern__add(&lines->strings, text, n + 1, number);
	return ret < 0 ? ret : 0;
}

/* Keeps the answer's frames; *n_frames is how many there are. */
static int keep_frames(struct source_lines *lines, const unsigned char *answer_bytes, uint32_t *n_frames)
{
	const unsigned char *at = answer_bytes + sizeof(struct source_answer);
	struct source_answer head;

	memcpy(&head, answer_bytes, sizeof(head));
	*n_frames = head.n_frames;
	if (ARRAY_RESERVE(lines->frames, lines->cap_frames, lines->n_frames + head.n_frames))
		return -ENOMEM;
	for (uint32_t i = 0; i < head.n_frames; i++) {
		struct found_frame *frame = &lines->frames[lines->n_frames];
		struct source_answer_frame answer;

		memcpy(&answer, at, sizeof(answer));
		at += sizeof(answer);
		if (intern_text(lines, at, answer.function_bytes, &frame->function) ||
		    intern_text(lines, at + answer.function_bytes, answer.file_bytes, &frame->file))
			return -ENOMEM;
		at += (size_t)answer.function_bytes + answer.file_bytes;
		frame->line = answer.line;
		lines->n_frames++;
	}
	return 0;
}

static size_t kept_bytes(const struct source_lines *lines)
{
	return lines->strings.bytes_capacity + lines->cap_frames * sizeof(*lines->frames) +
	       lines->cap_found * sizeof(*lines->found) +
	       lines->by_address.capacity * sizeof(*lines->by_address.entries);
}

/* answer: it holds the frames; NULL: there are none. NULL: out of memory. */
static const struct found *keep(struct source_lines *lines, uint32_t file, uint64_t address,
				const unsigned char *answer)
{
	struct found found = { .address = address, .file = file };

	if (kept_bytes(lines) > SOURCE_MEMORY_BYTES)
		forget_all(lines);
	found.first = (uint32_t)lines->n_frames;
	if ((answer && keep_frames(lines, answer, &found.n_frames)) ||
	    ARRAY_RESERVE(lines->found, lines->cap_found, lines->n_found + 1) ||
	    u64_table__set(&lines->by_address, key_of(file, address), (uint32_t)lines->n_found)) {
		lines->n_frames = found.first;
		return NULL;
	}
	lines->found[lines->n_found] = found;
	return &lines->found[lines->n_found++];
}

/*
 * With all readers' locks, or none is taken: what they have open keeps a number that means another file then. own: the
 * one whose lock is held. False: another one is in use.
 */
static bool forget_files(struct source_lines *lines, const struct line_reader *own)
{
	unsigned n;

	for (n = 0; n < SOURCE_MAX_READERS; n++)
		if (&lines->readers[n] != own && pthread_mutex_trylock(&lines->readers[n].lock))
			break;
	if (n == SOURCE_MAX_READERS) {
		for (unsigned i = 0; i < n; i++)
			end_reader(&lines->readers[i]);
		forget_all(lines);
		intern__clear(&lines->file_keys);
		lines->file_keys = (struct intern){ 0 };
		lines->stats.files = 0;
	}
	for (unsigned i = 0; i < n; i++)
		if (&lines->readers[i] != own)
			pthread_mutex_unlock(&lines->readers[i].lock);
	return n == SOURCE_MAX_READERS;
}

/* The file's number; -ENOMEM, -EBUSY: there are too many files, and they cannot be forgotten now. */
static int give_number(struct source_lines *lines, const struct line_reader *r, const struct source_file *file,
		       uint32_t *number)
{
	int ret = 0;

	pthread_mutex_lock(&lines->lock);
	if (lines->file_keys.n_keys >= SOURCE_MAX_FILES && !forget_files(lines, r))
		ret = -EBUSY;
	ret = ret ?: intern__add(&lines->file_keys, file, sizeof(*file), number);
	if (ret > 0)
		lines->files[*number] = (struct file){ .state = FILE_NEW };
	pthread_mutex_unlock(&lines->lock);
	return ret < 0 ? ret : 0;
}

/* Whether nothing has to be read: *out is what is known. */
static bool is_known(struct source_lines *lines, const struct source_file *file, uint64_t address,
		     struct source_frames *out)
{
	const struct found *found = NULL;
	bool known = false;
	uint32_t number;

	pthread_mutex_lock(&lines->lock);
	out->n = 0;
	if (intern__find(&lines->file_keys, file, sizeof(*file), &number)) {
		known = is_without(&lines->files[number]);
		found = known ? NULL : look_up(lines, number, address);
	}
	if (found)
		copy_out(lines, found, out);
	pthread_mutex_unlock(&lines->lock);
	return known || found;
}

/* The reader of the user, or NULL. Under `lock`. */
static struct line_reader *reader_of(struct source_lines *lines, uid_t uid)
{
	for (unsigned i = 0; i < SOURCE_MAX_READERS; i++)
		if (lines->readers[i].uid == uid)
			return &lines->readers[i];
	return NULL;
}

/* Whether nobody loses by its end but who has kept it busy for long. With its lock. */
static bool may_end(const struct line_reader *r)
{
	return !r->pending.asked || clock__now_ns() - r->pending.asked_ns > SOURCE_FIND_LIMIT_NS;
}

/* The one that was used longest ago of those that nobody uses, and locks it; NULL: none. Under `lock`. */
static struct line_reader *lock_oldest(struct source_lines *lines)
{
	struct line_reader *oldest = NULL;

	for (unsigned i = 1; i < SOURCE_MAX_READERS; i++) {
		struct line_reader *r = &lines->readers[i];

		if ((oldest && r->used_ns >= oldest->used_ns) || pthread_mutex_trylock(&r->lock))
			continue;
		if (!may_end(r)) {
			pthread_mutex_unlock(&r->lock);
			continue;
		}
		if (oldest)
			pthread_mutex_unlock(&oldest->lock);
		oldest = r;
	}
	return oldest;
}

/* Locks one that becomes this user's. NULL: another thread has made one the user's meanwhile, or all are in use. */
static struct line_reader *take_reader(struct source_lines *lines, uid_t uid)
{
	struct line_reader *r = NULL;

	pthread_mutex_lock(&lines->lock);
	if (!reader_of(lines, uid))
		r = lock_oldest(lines);
	if (r)
		r->uid = uid;
	pthread_mutex_unlock(&lines->lock);
	if (r)
		end_reader(r);
	return r;
}

static struct line_reader *find_reader(struct source_lines *lines, uid_t uid)
{
	struct line_reader *r;

	pthread_mutex_lock(&lines->lock);
	r = reader_of(lines, uid);
	pthread_mutex_unlock(&lines->lock);
	return r;
}

static bool lock_until(struct line_reader *r, uint64_t deadline_ns)
{
	struct timespec until = { (time_t)(deadline_ns / 1000000000ull), (long)(deadline_ns % 1000000000ull) };

	return !pthread_mutex_clocklock(&r->lock, CLOCK_MONOTONIC, &until);
}

/* The user's reader with its lock; NULL: not by then. One that is free is had at any deadline. */
static struct line_reader *lock_reader(struct source_lines *lines, uid_t uid, uint64_t deadline_ns)
{
	struct line_reader *r;

	do {
		r = find_reader(lines, uid);
		if (!r) {
			r = take_reader(lines, uid);
			if (r)
				return r;
			if (clock__now_ns() < deadline_ns)
				nanosleep(&(struct timespec){ 0, BUSY_NS }, NULL);
			continue;
		}
		if (!lock_until(r, deadline_ns))
			return NULL;
		/* It may have become another user's before it was locked. */
		if (r->uid == uid)
			return r;
		pthread_mutex_unlock(&r->lock);
	} while (clock__now_ns() < deadline_ns);
	return NULL;
}

static void unlock_reader(struct source_lines *lines, struct line_reader *r)
{
	pthread_mutex_lock(&lines->lock);
	r->used_ns = clock__now_ns();
	pthread_mutex_unlock(&lines->lock);
	pthread_mutex_unlock(&r->lock);
}

/* With the reader's lock. */
static int read_and_keep(struct source_lines *lines, struct line_reader *r, const struct source_file *file,
			 const struct source_opener *opener, uint64_t address, uint64_t deadline_ns,
			 struct source_frames *out)
{
	const struct found *found;
	uint32_t number;
	int ret = give_number(lines, r, file, &number);

	if (ret)
		return 0;
	ret = read_address(lines, r, number, opener, address, deadline_ns);
	pthread_mutex_lock(&lines->lock);
	lines->stats.read += !ret;
	/* Not what may come later: without a reader, or without lines. */
	found = lines->files[number].state == FILE_HAS_LINES && (!ret || ret == -ENODATA)
			? keep(lines, number, address, ret ? NULL : r->answer)
			: NULL;
	if (found)
		copy_out(lines, found, out);
	pthread_mutex_unlock(&lines->lock);
	return ret == -ETIMEDOUT ? ret : 0;
}

int source_lines__find(struct source_lines *lines, const struct source_file *file, const struct source_opener *opener,
		       uint64_t address, uint64_t deadline_ns, struct source_frames *out)
{
	struct line_reader *r;
	int ret = 0;

	if (is_known(lines, file, address, out))
		return 0;
	r = clock__now_ns() < deadline_ns ? lock_reader(lines, opener->uid, deadline_ns) : NULL;
	if (!r)
		return -ETIMEDOUT;
	/* Another thread may have asked meanwhile. */
	if (!is_known(lines, file, address, out))
		ret = read_and_keep(lines, r, file, opener, address, deadline_ns, out);
	unlock_reader(lines, r);
	return ret;
}

void source_lines__prepare(struct source_lines *lines, const struct source_file *file,
			   const struct source_opener *opener)
{
	struct line_reader *r = lock_reader(lines, opener->uid, 0);
	struct source_answer head;
	uint32_t number;

	if (!r)
		return;
	if (!give_number(lines, r, file, &number) && lines->files[number].state == FILE_NEW &&
	    await(lines, r, 0, &head) != -ETIMEDOUT && lines->files[number].state == FILE_NEW)
		ask_to_open(lines, r, number, opener, true);
	unlock_reader(lines, r);
}

uint64_t source_lines__patience_ns(const struct source_lines *lines)
{
	return lines->patience_ns;
}

struct source_lines_stats source_lines__stats(struct source_lines *lines)
{
	struct source_lines_stats stats;

	pthread_mutex_lock(&lines->lock);
	stats = lines->stats;
	for (unsigned i = 0; i < SOURCE_MAX_READERS; i++)
		stats.bytes += __atomic_load_n(&lines->readers[i].bytes, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&lines->lock);
	return stats;
}
