// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/privileges.h"

#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT(capability) (1ull << (capability))

/* Newer than some distributions' headers. */
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif
#ifndef CAP_BPF
#define CAP_BPF 39
#endif
#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

/* In the order of their use. */
static const struct {
	unsigned number;
	const char *name;
	const char *use;
	bool part_of_admin; /* before it existed, CAP_SYS_ADMIN was needed for this */
} used[] = {
	{ CAP_BPF, "CAP_BPF", "maps and probes of eBPF", true },
	{ CAP_PERFMON, "CAP_PERFMON", "clock events and probes", true },
	{ CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "mappings and memory of other users' processes", false },
	{ CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", "files through the mappings of processes", true },
	{ CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "programs and symbols that only other users may read", false },
	{ CAP_SYSLOG, "CAP_SYSLOG", "addresses of kernel symbols", false },
};

#define N_USED (sizeof(used) / sizeof(used[0]))

struct sets {
	struct __user_cap_data_struct of[2]; /* bits 0 to 31, 32 to 63 */
};

/* glibc has no wrapper for these two. */
static int get(struct sets *sets)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };

	return syscall(SYS_capget, &header, sets->of) ? -errno : 0;
}

static int set_to(uint64_t permitted, uint64_t effective)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct sets sets = { 0 };

	for (unsigned i = 0; i < 2; i++) {
		sets.of[i].permitted = (uint32_t)(permitted >> 32 * i);
		sets.of[i].effective = (uint32_t)(effective >> 32 * i);
	}
	return syscall(SYS_capset, &header, sets.of) ? -errno : 0;
}

static uint64_t permitted(const struct sets *sets)
{
	return sets->of[0].permitted | (uint64_t)sets->of[1].permitted << 32;
}

static uint64_t effective(const struct sets *sets)
{
	return sets->of[0].effective | (uint64_t)sets->of[1].effective << 32;
}

uint64_t privileges__now(void)
{
	struct sets sets;

	return get(&sets) ? 0 : effective(&sets);
}

static unsigned last_capability(void)
{
	unsigned last = 0;

	while (last < 63 && prctl(PR_CAPBSET_READ, last + 1, 0, 0, 0) >= 0)
		last++;
	return last;
}

uint64_t privileges__wanted(uint64_t all, unsigned last)
{
	uint64_t keep = 0;

	for (size_t i = 0; i < N_USED; i++) {
		bool known = used[i].number <= last;

		if (known && all & BIT(used[i].number))
			keep |= BIT(used[i].number);
		else if (used[i].part_of_admin)
			keep |= all & BIT(CAP_SYS_ADMIN);
	}
	return keep;
}

/* A thread that runs already would keep all it has. */
static int check_alone(struct so_error *err)
{
	unsigned n = 0;
	struct dirent *entry;
	DIR *dir = opendir("/proc/self/task");

	while (dir && (entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return n > 1 ? so_err(err, -EBUSY, "cannot give up capabilities: %u threads run already", n) : 0;
}

/* Some kernels ask for CAP_SYS_ADMIN instead of CAP_PERFMON (Debian's 5.10, perf_event_paranoid 3): tried. */
static bool do_events_need_admin(const struct sets *sets, uint64_t keep)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_period = 1000000000,
					.disabled = 1 };
	bool need;
	int fd;

	if (!(permitted(sets) & ~keep & BIT(CAP_SYS_ADMIN)) || set_to(permitted(sets), keep))
		return false;
	fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	need = fd < 0 && (errno == EACCES || errno == EPERM);
	if (fd >= 0)
		close(fd);
	set_to(permitted(sets), effective(sets));
	return need;
}

static void drop_bounding(uint64_t keep, unsigned last)
{
	for (unsigned i = 0; i <= last; i++)
		if (!(keep & BIT(i)) && prctl(PR_CAPBSET_DROP, i, 0, 0, 0))
			return; /* no CAP_SETPCAP */
}

int privileges__drop(struct so_error *err)
{
	unsigned last = last_capability();
	struct sets sets;
	uint64_t keep;
	int ret = check_alone(err);

	if (ret)
		return ret;
	ret = get(&sets);
	if (ret)
		return so_err(err, ret, "cannot read the capabilities: %s", strerror(-ret));
	keep = privileges__wanted(permitted(&sets), last);
	if (do_events_need_admin(&sets, keep))
		keep |= BIT(CAP_SYS_ADMIN);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return so_err(err, -errno, "cannot set no_new_privs: %s", strerror(errno));
	/* Needs CAP_SETPCAP, so before the others go. */
	drop_bounding(keep, last);
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
		return so_err(err, -errno, "cannot clear the ambient capabilities: %s", strerror(errno));
	ret = set_to(keep, keep);
	return ret ? so_err(err, ret, "cannot give up capabilities: %s", strerror(-ret)) : 0;
}

/* Only those that can be kept have names here. */
static const char *name_of(unsigned number)
{
	for (size_t i = 0; i < N_USED; i++)
		if (used[i].number == number)
			return used[i].name;
	return number == CAP_SYS_ADMIN ? "CAP_SYS_ADMIN" : NULL;
}

static void add_name(char text[PRIVILEGES_TEXT], unsigned number)
{
	size_t n = strlen(text);
	const char *name = name_of(number);

	if (name)
		snprintf(text + n, PRIVILEGES_TEXT - n, "%s%s", n ? ", " : "", name);
	else
		snprintf(text + n, PRIVILEGES_TEXT - n, "%scapability %u", n ? ", " : "", number);
}

void privileges__names(uint64_t set, char text[PRIVILEGES_TEXT])
{
	text[0] = '\0';
	for (unsigned i = 0; i < 64; i++)
		if (set & BIT(i))
			add_name(text, i);
	if (!text[0])
		snprintf(text, PRIVILEGES_TEXT, "none");
}

/* CAP_SYS_ADMIN includes those that are parts of it. */
static bool lacks(uint64_t now, size_t i)
{
	return !(now & BIT(used[i].number)) && !(used[i].part_of_admin && now & BIT(CAP_SYS_ADMIN));
}

const char *privileges__missing(char text[PRIVILEGES_TEXT])
{
	uint64_t now = privileges__now();

	text[0] = '\0';
	for (size_t i = 0; i < N_USED; i++)
		if (lacks(now, i))
			add_name(text, used[i].number);
	return text;
}

const char *privileges__why(char text[PRIVILEGES_TEXT])
{
	if (!privileges__missing(text)[0])
		snprintf(text, PRIVILEGES_TEXT, "none that it uses; a security module or seccomp may forbid it");
	return text;
}

static json_t *names_json(uint64_t set)
{
	json_t *all = json_array();
	char name[PRIVILEGES_TEXT];

	for (unsigned i = 0; i < 64; i++)
		if (set & BIT(i)) {
			name[0] = '\0';
			add_name(name, i);
			json_array_append_new(all, json_string(name));
		}
	return all;
}

static json_t *missing_json(uint64_t now)
{
	json_t *all = json_array();

	for (size_t i = 0; i < N_USED; i++)
		if (lacks(now, i))
			json_array_append_new(all, json_pack("{s:s, s:s}", "name", used[i].name, "for", used[i].use));
	return all;
}

static uint64_t bounding_set(void)
{
	uint64_t set = 0;

	for (unsigned i = 0; i < 64; i++)
		if (prctl(PR_CAPBSET_READ, i, 0, 0, 0) == 1)
			set |= BIT(i);
	return set;
}

json_t *privileges__json(void)
{
	uint64_t now = privileges__now();

	return json_pack("{s:o, s:o, s:o, s:b}", "kept", names_json(now), "missing", missing_json(now), "bounding",
			 names_json(bounding_set()), "no_new_privs", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
}
