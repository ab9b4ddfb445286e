// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/process_access.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/os/proc_file.h"
#include "stakeout/cleanup.h"
#include "stakeout/live_thread.h"

/* Capabilities stand behind the list of groups, of which there may be 65536 (NGROUPS_MAX). */
#define STATUS_BYTES (1u << 20)

/* Why nobody but root may look into a process. */
enum closed {
	CLOSED_NOT,
	CLOSED_UNKNOWN,
	CLOSED_IDS,
	CLOSED_CAPABILITIES,
	CLOSED_NAMESPACE,
	CLOSED_NOT_DUMPABLE,
};

static const char *const closed_words[] = {
	[CLOSED_UNKNOWN] = "has rights that cannot be read",
	[CLOSED_IDS] = "has rights of more than one user or group, as set-user-ID and set-group-ID programs have",
	[CLOSED_CAPABILITIES] = "has capabilities",
	[CLOSED_NAMESPACE] = "is in a user namespace of another user",
	[CLOSED_NOT_DUMPABLE] = "is not dumpable: its program has asked for that (prctl(2)), has rights of its own, or "
				"is not readable for its user",
};

struct identity {
	char comm[16];
	uid_t uid;
	gid_t gid;
	uint64_t capabilities; /* permitted ones */
	bool one_user;         /* real, effective, saved and file system's ids are equal */
};

/* Real, effective, saved, file system (proc(5)). */
static bool read_ids(const char *status, const char *key, unsigned *id, bool *one)
{
	const char *line = strstr(status, key);
	unsigned ids[4];

	if (!line || sscanf(line + strlen(key), " %u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]) != 4)
		return false;
	*id = ids[0];
	*one &= ids[0] == ids[1] && ids[0] == ids[2] && ids[0] == ids[3];
	return true;
}

static bool parse_identity(const char *status, struct identity *out)
{
	static const char key[] = "\nCapPrm:";
	const char *capabilities = strstr(status, key);

	out->one_user = true;
	snprintf(out->comm, sizeof(out->comm), "?");
	sscanf(status, "Name:\t%15[^\n]", out->comm); /* a name may be empty */
	return capabilities && sscanf(capabilities + sizeof(key) - 1, " %" SCNx64, &out->capabilities) == 1 &&
	       read_ids(status, "\nUid:", &out->uid, &out->one_user) &&
	       read_ids(status, "\nGid:", &out->gid, &out->one_user);
}

/* Before a thread is a zombie it lets its memory go (do_exit()), and looks like one that is not dumpable. */
static bool has_ended(const char *status)
{
	return strstr(status, "\nState:\tZ") || !strstr(status, "\nVmSize:");
}

/* 0: of this thread, which has not ended. */
static int read_status(pid_t thread, char *status)
{
	ssize_t n = proc_file__read(PROC_FILE_HERE, thread, "status", status, STATUS_BYTES);

	if (n < 0)
		return (int)n;
	return n && !has_ended(status) ? 0 : -ESRCH;
}

/* *thread: the one that was asked: a first thread that has ended says nothing of who may read the memory. */
static int read_identity(pid_t pid, pid_t *thread, struct identity *out)
{
	_cleanup_free_ char *status = malloc(STATUS_BYTES);
	int ret;

	*thread = live_thread__of(pid);
	ret = status ? read_status(*thread, status) : -ENOMEM;
	if (ret)
		return ret;
	return parse_identity(status, out) ? 0 : -EINVAL;
}

static bool same_file(int fd, const struct stat *b)
{
	struct stat a;

	return !fstat(fd, &a) && a.st_dev == b->st_dev && a.st_ino == b->st_ino;
}

/*
 * Who made the namespace below this one that the process is in, or in one below which: they have all capabilities
 * there. own: it is in this process's.
 */
static bool namespace_owner(pid_t pid, bool *own, uid_t *owner)
{
	_cleanup_close_ int fd = -1;
	struct stat here;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	*own = (fd < 0 && errno == ENOENT) || stat("/proc/self/ns/user", &here) || same_file(fd, &here);
	if (*own)
		return true;
	while (fd >= 0) {
		_cleanup_close_ int below = TAKE_FD(fd);

		fd = ioctl(below, NS_GET_PARENT);
		if (fd >= 0 && same_file(fd, &here))
			return !ioctl(below, NS_GET_OWNER_UID, owner);
	}
	return false;
}

/* Files below /proc/PID, but the folder itself, are root's where it is not dumpable. */
static bool owns_memory(pid_t thread, struct caller caller)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/maps", thread);
	return !stat(path, &st) && st.st_uid == caller.uid && st.st_gid == caller.gid;
}

static enum closed why_closed(pid_t thread, const struct identity *is)
{
	uid_t owner = 0;
	bool own;

	if (!is->one_user)
		return CLOSED_IDS;
	if (!namespace_owner(thread, &own, &owner) || (!own && owner != is->uid))
		return CLOSED_NAMESPACE;
	if (own && is->capabilities)
		return CLOSED_CAPABILITIES;
	if (!owns_memory(thread, (struct caller){ is->uid, is->gid }))
		return CLOSED_NOT_DUMPABLE;
	return CLOSED_NOT;
}

struct caller process_access__viewer(pid_t pid)
{
	struct identity is;
	pid_t thread;

	if (read_identity(pid, &thread, &is) || why_closed(thread, &is))
		return (struct caller){ 0 };
	return (struct caller){ is.uid, is.gid };
}

static int refuse(pid_t pid, const struct identity *is, const char *why, struct so_error *err)
{
	return so_err(err, -EPERM, "process %d (%s) %s: only root may profile it", pid, is->comm, why);
}

int process_access__check(pid_t pid, struct caller caller, struct so_error *err)
{
	struct identity is = { .comm = "?" };
	enum closed closed;
	pid_t thread;
	int ret;

	if (!caller.uid)
		return 0;
	ret = read_identity(pid, &thread, &is);
	if (ret == -ESRCH)
		return so_err(err, ret, "there is no process %d", pid);
	if (ret)
		return refuse(pid, &is, closed_words[CLOSED_UNKNOWN], err);
	if (is.uid != caller.uid)
		return refuse(pid, &is, "belongs to another user", err);
	closed = why_closed(thread, &is);
	/* It may have ended since it was asked. */
	if (closed == CLOSED_NOT_DUMPABLE && read_identity(thread, &thread, &is) == -ESRCH)
		return so_err(err, -ESRCH, "there is no process %d", pid);
	if (closed)
		return refuse(pid, &is, closed_words[closed], err);
	return is.gid == caller.gid ? 0 : refuse(pid, &is, "runs in another group than yours", err);
}

bool process_access__holds(pid_t pid, struct caller caller)
{
	return !caller.uid || owns_memory(live_thread__of(pid), caller);
}
