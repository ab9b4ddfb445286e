// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/file_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/os/proc_file.h"

#define STATUS_BYTES 16384 /* that of a process in thousands of groups is cut */

bool file_reader__parse(const char *status, struct file_reader *out)
{
	const char *uid = strstr(status, "\nUid:"), *gid = strstr(status, "\nGid:");
	const char *groups = strstr(status, "\nGroups:"), *at;
	struct file_reader reader = { 0 };
	char *end;

	if (!uid || !gid || sscanf(uid + strlen("\nUid:"), "%u", &reader.uid) != 1 ||
	    sscanf(gid + strlen("\nGid:"), "%u", &reader.gid) != 1)
		return false;
	at = groups ? groups + strlen("\nGroups:") : "";
	while (reader.n_groups < FILE_READER_MAX_GROUPS) {
		at += strspn(at, " \t");
		if (*at < '0' || *at > '9')
			break;
		reader.groups[reader.n_groups++] = (gid_t)strtoul(at, &end, 10);
		at = end;
	}
	*out = reader;
	return true;
}

int file_reader__of(pid_t pid, struct file_reader *out)
{
	char text[STATUS_BYTES];
	ssize_t n = proc_file__read(PROC_FILE_HERE, pid, "status", text, sizeof(text));

	if (n < 0)
		return (int)n;
	return file_reader__parse(text, out) ? 0 : -ESRCH;
}

static bool is_member(const struct file_reader *reader, gid_t gid)
{
	bool found = reader->gid == gid;

	for (unsigned i = 0; i < reader->n_groups; i++)
		found |= reader->groups[i] == gid;
	return found;
}

bool file_reader__may_read(const struct file_reader *reader, const struct stat *st)
{
	if (!reader->uid)
		return true;
	if (st->st_uid == reader->uid)
		return st->st_mode & S_IRUSR;
	if (is_member(reader, st->st_gid))
		return st->st_mode & S_IRGRP;
	return st->st_mode & S_IROTH;
}
