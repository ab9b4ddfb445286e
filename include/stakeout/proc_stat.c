// SPDX-License-Identifier: GPL-2.0-or-later
#include "stakeout/proc_stat.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define PF_KTHREAD 0x00200000 /* include/linux/sched.h */

/* By their numbers in man 5 proc; all behind the state are numbers. */
enum {
	FIELD_PPID = 4,
	FIELD_FLAGS = 9,
	FIELD_USER = 14,
	FIELD_SYSTEM = 15,
	FIELD_THREADS = 20,
	FIELD_START = 22,
	FIELD_STACK = 28,
	FIELD_ARGUMENTS = 48
};

static bool read_fields(const char *text, uint64_t fields[FIELD_ARGUMENTS + 1])
{
	char *end;

	for (unsigned i = FIELD_PPID; i <= FIELD_ARGUMENTS; i++) {
		fields[i] = strtoull(text, &end, 10);
		if (end == text)
			return false;
		text = end;
	}
	return true;
}

bool proc_stat__parse(const char *text, struct proc_stat *out)
{
	/* The name stands in parentheses and may itself hold any character, so the last parenthesis ends it. */
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	uint64_t fields[FIELD_ARGUMENTS + 1];
	struct proc_stat s = { .comm = "" };
	size_t n;

	if (!open || !close || close < open || close[1] != ' ' || !close[2] || !read_fields(close + 3, fields))
		return false;
	n = (size_t)(close - open) - 1;
	memcpy(s.comm, open + 1, n < sizeof(s.comm) ? n : sizeof(s.comm) - 1);
	s.state = close[2];
	s.ppid = (pid_t)fields[FIELD_PPID];
	s.kernel_thread = fields[FIELD_FLAGS] & PF_KTHREAD;
	s.threads = fields[FIELD_THREADS];
	s.ended = s.state == 'X' || (s.state == 'Z' && s.threads <= 1);
	s.cpu_ticks = fields[FIELD_USER] + fields[FIELD_SYSTEM];
	s.start_ticks = fields[FIELD_START];
	s.stack_at = fields[FIELD_STACK];
	s.arguments_at = fields[FIELD_ARGUMENTS];
	*out = s;
	return true;
}
