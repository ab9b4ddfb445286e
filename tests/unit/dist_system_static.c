/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Linked statically with include/static/system.c: prints what it finds of the user and the group that are named. */
#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <netdb.h>
#include <pwd.h>
#include <stdio.h>

#define MAX_GROUPS 64

int main(int argc, char **argv)
{
	struct passwd *user = argc > 2 ? getpwnam(argv[1]) : NULL;
	int user_errno = errno, n = MAX_GROUPS;
	struct group *group = argc > 2 ? getgrnam(argv[2]) : NULL;
	struct addrinfo *found;
	gid_t groups[MAX_GROUPS];
	char small[4];
	struct passwd entry, *none = &entry;

	if (user)
		printf("user %s %u %u %s\n", user->pw_name, user->pw_uid, user->pw_gid,
		       getpwuid(user->pw_uid)->pw_dir);
	else
		printf("no user %d\n", user_errno);
	if (group)
		printf("group %s %u %s\n", group->gr_name, group->gr_gid, getgrgid(group->gr_gid)->gr_name);
	else
		printf("no group\n");
	if (user && getgrouplist(user->pw_name, user->pw_gid, groups, &n) >= 0)
		for (int i = 0; i < n; i++)
			printf("in %u\n", groups[i]);
	if (user && getpwuid_r(user->pw_uid, &entry, small, sizeof(small), &none) == ERANGE && !none)
		printf("small buffer\n");
	if (getaddrinfo("localhost", "80", NULL, &found) && !dlopen("libc.so.6", RTLD_NOW))
		printf("nothing loaded\n");
	return 0;
}
