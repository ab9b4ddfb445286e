/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * In place of those functions of glibc that load shared objects at run time. In a static program these would be the
 * node's: of another glibc than the one linked here, and loaded into one process with it. The linker takes what is
 * defined here before it looks into libc.a. Users and groups are those of /etc/passwd and /etc/group, hosts have no
 * names.
 */
#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "stakeout/cleanup.h"

/* Shared objects: none. NVIDIA's library has its own program (daemon/nvml/helper/), SQLite's extensions are unused. */

void *dlopen(const char *path, int flags)
{
	return NULL;
}

void *dlsym(void *restrict handle, const char *restrict name)
{
	return NULL;
}

int dlclose(void *handle)
{
	return -1;
}

char *dlerror(void)
{
	return "this program is linked statically";
}

/* Hosts: curl would ask for them; the client has Unix sockets only. */

int getaddrinfo(const char *restrict node, const char *restrict service, const struct addrinfo *restrict hints,
		struct addrinfo **restrict found)
{
	return EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *found)
{
}

/*
 * Users and groups. As glibc's functions: 0 with *found NULL where there is none, ERANGE where `buffer` is too
 * small. A line that does not fit ends the search also where a later one would have matched.
 */
#define LOOK_UP(path, read_entry, matches)                                        \
	({                                                                        \
		_cleanup_fclose_ FILE *_f = fopen(path, "re");                    \
		int _r = _f ? 0 : errno;                                          \
                                                                                  \
		*found = NULL;                                                    \
		while (!_r && !(_r = read_entry(_f, entry, buffer, size, found))) \
			if (matches)                                              \
				break;                                            \
		if (_r)                                                           \
			*found = NULL;                                            \
		_r == ENOENT ? 0 : _r;                                            \
	})

int getpwnam_r(const char *restrict name, struct passwd *restrict entry, char *restrict buffer, size_t size,
	       struct passwd **restrict found)
{
	return LOOK_UP("/etc/passwd", fgetpwent_r, strcmp(entry->pw_name, name) == 0);
}

int getpwuid_r(uid_t uid, struct passwd *restrict entry, char *restrict buffer, size_t size,
	       struct passwd **restrict found)
{
	return LOOK_UP("/etc/passwd", fgetpwent_r, entry->pw_uid == uid);
}

int getgrnam_r(const char *restrict name, struct group *restrict entry, char *restrict buffer, size_t size,
	       struct group **restrict found)
{
	return LOOK_UP("/etc/group", fgetgrent_r, strcmp(entry->gr_name, name) == 0);
}

int getgrgid_r(gid_t gid, struct group *restrict entry, char *restrict buffer, size_t size,
	       struct group **restrict found)
{
	return LOOK_UP("/etc/group", fgetgrent_r, entry->gr_gid == gid);
}

#define ENTRY_BYTES 65536 /* of a line: a group's may list many members */

/* As glibc's: the answer lies in static memory until the next call; errno is 0 where there is no such entry. */
#define STATIC_ANSWER(type, function, key)                                         \
	({                                                                         \
		static char _buffer[ENTRY_BYTES];                                  \
		static struct type _entry;                                         \
		struct type *_found;                                               \
                                                                                   \
		errno = function(key, &_entry, _buffer, sizeof(_buffer), &_found); \
		_found;                                                            \
	})

struct passwd *getpwnam(const char *name)
{
	return STATIC_ANSWER(passwd, getpwnam_r, name);
}

struct passwd *getpwuid(uid_t uid)
{
	return STATIC_ANSWER(passwd, getpwuid_r, uid);
}

struct group *getgrnam(const char *name)
{
	return STATIC_ANSWER(group, getgrnam_r, name);
}

struct group *getgrgid(gid_t gid)
{
	return STATIC_ANSWER(group, getgrgid_r, gid);
}

/* The groups in /etc/group that list the user, and `group` first; more than fit: -1, and *n is how many there are. */
int getgrouplist(const char *user, gid_t group, gid_t *groups, int *n)
{
	_cleanup_fclose_ FILE *f = fopen("/etc/group", "re");
	static char buffer[ENTRY_BYTES];
	struct group entry, *found;
	int room = *n, count = 0;

	if (count++ < room)
		groups[0] = group;
	while (f && !fgetgrent_r(f, &entry, buffer, sizeof(buffer), &found)) {
		bool member = false;

		for (char **name = found->gr_mem; *name && !member; name++)
			member = strcmp(*name, user) == 0;
		if (!member || found->gr_gid == group)
			continue;
		if (count < room)
			groups[count] = found->gr_gid;
		count++;
	}
	*n = count;
	return count <= room ? count : -1;
}
