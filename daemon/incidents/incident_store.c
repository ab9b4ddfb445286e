// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/incidents/incident_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/os/json_text.h"
#include "daemon/os/log.h"

#define NAME_BYTES 32

struct incident_store {
	int dir_fd;
	uint64_t max_bytes;
	struct incident list[INCIDENT_STORE_MAX]; /* by id */
	size_t n;
};

static void name_of(uint32_t id, const char *ending, char name[NAME_BYTES])
{
	snprintf(name, NAME_BYTES, "%u%s", id, ending);
}

json_t *incident__json(const struct incident *i)
{
	return json_pack("{s:I, s:I, s:i, s:o, s:I, s:f, s:I, s:s, s:i}", "id", (json_int_t)i->id, "time_ns",
			 (json_int_t)i->time_ns, "pid", (int)i->pid, "comm", json_text__new(i->comm), "uid",
			 (json_int_t)i->uid, "last_s", i->last_s, "bytes", (json_int_t)i->bytes, "why", i->why,
			 "left_out", (int)i->left_out);
}

static int from_json(const json_t *json, struct incident *out)
{
	json_int_t id, time_ns, uid, bytes;
	const char *comm, *why;
	int pid, left_out;

	if (json_unpack((json_t *)json, "{s:I, s:I, s:i, s:s, s:I, s:F, s:I, s:s, s:i}", "id", &id, "time_ns", &time_ns,
			"pid", &pid, "comm", &comm, "uid", &uid, "last_s", &out->last_s, "bytes", &bytes, "why", &why,
			"left_out", &left_out) ||
	    id < 1 || id >= UINT32_MAX || uid < 0 || uid > UINT32_MAX || bytes < 0)
		return -EINVAL;
	out->id = (uint32_t)id;
	out->time_ns = time_ns;
	out->pid = pid;
	out->uid = (uid_t)uid;
	out->bytes = (uint64_t)bytes;
	out->left_out = (unsigned)left_out;
	snprintf(out->comm, sizeof(out->comm), "%s", comm);
	snprintf(out->why, sizeof(out->why), "%s", why);
	return 0;
}

/* Under another name first, so that a name means a whole file. */
static int write_file(int dir_fd, const char *name, const void *bytes, size_t length)
{
	char other[NAME_BYTES + 4];
	const char *at = bytes;
	int fd, ret = 0;

	snprintf(other, sizeof(other), "%s.new", name);
	fd = openat(dir_fd, other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	for (ssize_t n; !ret && length; at += n, length -= (size_t)n) {
		n = write(fd, at, length);
		if (n < 0) {
			n = 0;
			ret = errno == EINTR ? 0 : -errno;
		}
	}
	if (!ret && fsync(fd))
		ret = -errno;
	close(fd);
	if (!ret && renameat(dir_fd, other, dir_fd, name))
		ret = -errno;
	if (ret)
		unlinkat(dir_fd, other, 0);
	return ret;
}

static void remove_files(struct incident_store *s, uint32_t id)
{
	char name[NAME_BYTES];

	/* What is said of it first: without that its profile is not listed. */
	name_of(id, ".json", name);
	unlinkat(s->dir_fd, name, 0);
	name_of(id, ".pb.gz", name);
	unlinkat(s->dir_fd, name, 0);
}

static void remove_at(struct incident_store *s, size_t at)
{
	remove_files(s, s->list[at].id);
	memmove(&s->list[at], &s->list[at + 1], (s->n - at - 1) * sizeof(*s->list));
	s->n--;
}

/* Whose: a user's by number, or one of these. */
#define USERS_BUT_ROOT ((int64_t)-1)
#define EVERYONE       ((int64_t)-2)

static bool belongs_to(const struct incident *i, int64_t who)
{
	return who == EVERYONE || (who == USERS_BUT_ROOT ? i->uid != 0 : i->uid == who);
}

struct share {
	uint64_t incidents, bytes;
};

static struct share share_of(const struct incident_store *s, int64_t who)
{
	struct share share = { 0 };

	for (size_t i = 0; i < s->n; i++) {
		if (!belongs_to(&s->list[i], who))
			continue;
		share.incidents++;
		share.bytes += s->list[i].bytes;
	}
	return share;
}

/* The oldest of whoever among them has most: of incidents, or of bytes. */
static void remove_oldest(struct incident_store *s, int64_t who, bool by_number)
{
	uint64_t most = 0;
	size_t victim = 0;

	for (size_t i = 0; i < s->n; i++) {
		struct share share = share_of(s, s->list[i].uid);
		uint64_t has = by_number ? share.incidents : share.bytes + 1;

		if (belongs_to(&s->list[i], who) && has > most) {
			victim = i;
			most = has;
		}
	}
	remove_at(s, victim);
}

/* Until a further one of that length fits in their part of the room. */
static void make_room(struct incident_store *s, int64_t who, unsigned part, uint64_t length)
{
	for (;;) {
		struct share share = share_of(s, who);
		bool too_many = share.incidents >= INCIDENT_STORE_MAX / part;

		if (!share.incidents || (!too_many && share.bytes + length <= s->max_bytes / part))
			return;
		remove_oldest(s, who, too_many);
	}
}

static int compare(const void *a, const void *b)
{
	const struct incident *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static int read_all(int dir_fd, const char *name, uint8_t **out, size_t *length)
{
	_cleanup_close_ int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_free_ uint8_t *bytes = NULL;
	struct stat st;
	size_t done = 0;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	bytes = malloc((size_t)st.st_size + 1);
	if (!bytes)
		return -ENOMEM;
	while (done < (size_t)st.st_size) {
		ssize_t n = read(fd, bytes + done, (size_t)st.st_size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		done += (size_t)n;
	}
	*out = TAKE_PTR(bytes);
	*length = done;
	return 0;
}

/* One that was listed, if its profile is there and as long as it was. */
static bool load(struct incident_store *s, const char *name, struct incident *out)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	char profile[NAME_BYTES];
	struct stat st;
	size_t length;
	json_t *json;
	int ret = read_all(s->dir_fd, name, &bytes, &length);

	if (ret)
		return false;
	json = json_loadb((char *)bytes, length, 0, NULL);
	ret = json ? from_json(json, out) : -EINVAL;
	json_decref(json);
	if (ret)
		return false;
	name_of(out->id, ".pb.gz", profile);
	return !fstatat(s->dir_fd, profile, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
	       (uint64_t)st.st_size == out->bytes;
}

static bool is_listed(const struct incident_store *s, const char *name)
{
	char *end;
	unsigned long id = strtoul(name, &end, 10);

	for (size_t i = 0; i < s->n; i++)
		if (s->list[i].id == id)
			return !strcmp(end, ".json") || !strcmp(end, ".pb.gz");
	return false;
}

/* Of others' making there is nothing in the directory, but for what begins otherwise than with a number. */
static void remove_strays(struct incident_store *s, DIR *dir)
{
	const struct dirent *entry;

	rewinddir(dir);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9' && !is_listed(s, entry->d_name))
			unlinkat(s->dir_fd, entry->d_name, 0);
}

static int load_all(struct incident_store *s)
{
	int fd = fcntl(s->dir_fd, F_DUPFD_CLOEXEC, 0);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		cleanup__close(&fd);
		return -ENOMEM;
	}
	while ((entry = readdir(dir)) && s->n < INCIDENT_STORE_MAX) {
		size_t n = strlen(entry->d_name);

		if (n > 5 && !strcmp(entry->d_name + n - 5, ".json") && load(s, entry->d_name, &s->list[s->n]))
			s->n++;
	}
	qsort(s->list, s->n, sizeof(*s->list), compare);
	remove_strays(s, dir);
	closedir(dir);
	return 0;
}

int incident_store__open(const char *dir, uint64_t max_bytes, struct incident_store **out, struct so_error *err)
{
	_cleanup_(incident_store) struct incident_store *s = calloc(1, sizeof(*s));
	int ret = 0;

	if (!s)
		return so_err(err, -ENOMEM, "out of memory");
	s->max_bytes = max_bytes ?: INCIDENT_STORE_DEFAULT_BYTES;
	s->dir_fd = -1;
	if (mkdir(dir, 0700) && errno != EEXIST)
		ret = -errno;
	else if ((s->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)) < 0)
		ret = -errno;
	ret = ret ?: load_all(s);
	if (ret)
		return so_err(err, ret, "cannot keep incidents in %s: %s", dir, strerror(-ret));
	*out = TAKE_PTR(s);
	return 0;
}

void incident_store__close(struct incident_store *s)
{
	if (!s)
		return;
	cleanup__close(&s->dir_fd);
	free(s);
}

static int write_both(struct incident_store *s, const struct incident *incident, const void *profile, size_t length)
{
	char name[NAME_BYTES];
	json_t *json = incident__json(incident);
	_cleanup_free_ char *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
	int ret = text ? 0 : -ENOMEM;

	json_decref(json);
	name_of(incident->id, ".pb.gz", name);
	ret = ret ?: write_file(s->dir_fd, name, profile, length);
	name_of(incident->id, ".json", name);
	ret = ret ?: write_file(s->dir_fd, name, text, text ? strlen(text) : 0);
	if (!ret && fsync(s->dir_fd))
		ret = -errno;
	if (ret)
		remove_files(s, incident->id);
	return ret;
}

int incident_store__add(struct incident_store *s, struct incident *incident, const void *profile, size_t length,
			struct so_error *err)
{
	int ret;

	if (length > s->max_bytes / INCIDENT_STORE_USER_PART)
		return so_err(err, -EFBIG, "%zu bytes are more than a quarter of the room for incidents", length);
	if (incident->uid) {
		make_room(s, incident->uid, INCIDENT_STORE_USER_PART, length);
		make_room(s, USERS_BUT_ROOT, INCIDENT_STORE_USERS_PART, length);
	}
	make_room(s, EVERYONE, 1, length);
	incident->id = s->n ? s->list[s->n - 1].id + 1 : 1;
	incident->bytes = length;
	ret = write_both(s, incident, profile, length);
	if (ret)
		return so_err(err, ret, "cannot write an incident: %s", strerror(-ret));
	s->list[s->n++] = *incident;
	return 0;
}

const struct incident *incident_store__list(struct incident_store *s, size_t *n)
{
	*n = s->n;
	return s->list;
}

static size_t find(const struct incident_store *s, uint32_t id)
{
	size_t at = 0;

	while (at < s->n && s->list[at].id != id)
		at++;
	return at;
}

int incident_store__read(struct incident_store *s, uint32_t id, uint8_t **out, size_t *length, struct so_error *err)
{
	char name[NAME_BYTES];
	int ret;

	if (find(s, id) == s->n)
		return so_err(err, -ENOENT, "there is no incident %u", id);
	name_of(id, ".pb.gz", name);
	ret = read_all(s->dir_fd, name, out, length);
	return ret ? so_err(err, ret, "cannot read incident %u: %s", id, strerror(-ret)) : 0;
}

int incident_store__remove(struct incident_store *s, uint32_t id, struct so_error *err)
{
	size_t at = find(s, id);

	if (at == s->n)
		return so_err(err, -ENOENT, "there is no incident %u", id);
	remove_at(s, at);
	return 0;
}
