// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/processes/process_labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/os/proc_file.h"
#include "stakeout/array.h"
#include "stakeout/cleanup.h"

#define CGROUP_BYTES        8192
#define CONTAINER_ID_DIGITS 64
#define POD_MIN_CHARS       32 /* of a static pod; else 36, a UUID */
#define POD_MAX_CHARS       36
#define MAX_RANK_DIGITS     9

/*
 * Who starts the job sets the variables of its own kind, and a job may be started within another's, as by srun: the
 * first kind with a rank is the innermost, and all is taken from it. PyTorch's torchrun; Open MPI's mpirun; MVAPICH2's;
 * Hydra, the mpiexec of MPICH and Intel MPI; Slurm's srun. Slurm sets PMI_RANK too, but no local rank with it. It gives
 * a batch script the numbers of a first task as well, which its launchers inherit; only tasks have a step.
 */
static const struct kind {
	const char *rank, *local_rank, *world_size;
	const char *needed; /* the others mean nothing without it; NULL: none */
} kinds[] = {
	{ "RANK", "LOCAL_RANK", "WORLD_SIZE", NULL },
	{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", NULL },
	{ "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE", NULL },
	{ "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALRANKID" },
	{ "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_STEP_ID" },
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

bool process_labels__any(const struct process_labels *l)
{
	return l->rank[0] || l->local_rank[0] || l->world_size[0] || l->container[0] || l->pod[0];
}

/* The value of NAME=VALUE, or NULL. */
static const char *value_of(const char *variable, const char *name)
{
	size_t n = strlen(name);

	return !strncmp(variable, name, n) && variable[n] == '=' ? variable + n + 1 : NULL;
}

static void take_number(const char *value, char out[12])
{
	size_t n;

	if (!value)
		return;
	n = strspn(value, "0123456789");
	if (!n || value[n])
		return;
	while (n > 1 && *value == '0') {
		value++;
		n--;
	}
	if (n <= MAX_RANK_DIGITS)
		memcpy(out, value, n + 1);
}

/* A name that stands there twice counts the first time, as for getenv(). */
static void take_first(const char *variable, const char *name, bool *seen, char out[12])
{
	const char *value = *seen ? NULL : value_of(variable, name);

	*seen |= value != NULL;
	take_number(value, out);
}

void process_labels__from_environ(const char *text, size_t n, struct process_labels *out)
{
	struct process_labels found[N_KINDS] = { 0 };
	bool seen[N_KINDS][3] = { 0 }, complete[N_KINDS] = { 0 };

	/* A variable that is cut off at the end says nothing. */
	for (const char *at = text, *end; at < text + n; at = end + 1) {
		end = memchr(at, '\0', (size_t)(text + n - at));
		if (!end)
			break;
		for (size_t i = 0; i < N_KINDS; i++) {
			take_first(at, kinds[i].rank, &seen[i][0], found[i].rank);
			take_first(at, kinds[i].local_rank, &seen[i][1], found[i].local_rank);
			take_first(at, kinds[i].world_size, &seen[i][2], found[i].world_size);
			complete[i] |= !kinds[i].needed || value_of(at, kinds[i].needed);
		}
	}
	for (size_t i = 0; i < N_KINDS; i++) {
		if (!found[i].rank[0] || !complete[i])
			continue;
		memcpy(out->rank, found[i].rank, sizeof(out->rank));
		memcpy(out->local_rank, found[i].local_rank, sizeof(out->local_rank));
		memcpy(out->world_size, found[i].world_size, sizeof(out->world_size));
		return;
	}
}

/* Where containers' runtimes put the id: "docker-ID.scope", "cri-containerd-ID.scope", "/docker/ID", "libpod-ID". */
static void find_container(const char *path, size_t length, char out[65])
{
	size_t n;

	for (size_t i = 0; i < length; i += n + 1) {
		n = strspn(path + i, "0123456789abcdef");
		if (n == CONTAINER_ID_DIGITS && i + n <= length) {
			/* The innermost one. */
			memcpy(out, path + i, n);
			out[n] = '\0';
		}
	}
}

/*
 * "…-pod3f2a_….slice" of the systemd driver, ".../pod3f2a-…/" of the other; only below a group that says kubepods, or
 * one that cannot be seen.
 */
static void find_pod(const char *path, size_t length, char out[37])
{
	for (size_t i = 0; i + 3 < length; i++) {
		size_t n;

		if (strncmp(path + i, "pod", 3) != 0 || (i && path[i - 1] != '-' && path[i - 1] != '/'))
			continue;
		n = strspn(path + i + 3, "0123456789abcdef-_");
		if (n < POD_MIN_CHARS || n > POD_MAX_CHARS || i + 3 + n > length)
			continue;
		memset(out, 0, POD_MAX_CHARS + 1); /* an outer one may be longer */
		for (size_t j = 0; j < n; j++)
			out[j] = path[i + 3 + j] == '_' ? '-' : path[i + 3 + j];
	}
}

/* Below what pods are looked for. From a control group namespace the group of another is "/../../pod3f2a-…/ID". */
static const char *find_pods(const char *line, size_t length)
{
	const char *pods = memmem(line, length, "kubepods", strlen("kubepods"));

	return pods ?: memmem(line, length, ":/../", strlen(":/../"));
}

void process_labels__from_cgroup(const char *text, struct process_labels *out)
{
	for (const char *line = text; *line;) {
		size_t length = strcspn(line, "\n");
		const char *pods = find_pods(line, length);

		/* CRI-O's monitor has a group of its own, named by its container. */
		if (!memmem(line, length, "conmon", strlen("conmon")))
			find_container(line, length, out->container);
		if (pods)
			find_pod(pods, length - (size_t)(pods - line), out->pod);
		line += length + (line[length] == '\n');
	}
}

void process_labels__read(pid_t pid, struct process_labels *out)
{
	_cleanup_free_ char *text = malloc(PROCESS_LABELS_ENVIRON_BYTES + 1);
	struct process_labels labels = { .rank = "" };
	ssize_t n;

	if (text) {
		n = proc_file__read(PROC_FILE_HERE, pid, "environ", text, PROCESS_LABELS_ENVIRON_BYTES + 1);
		process_labels__from_environ(text, n > 0 ? (size_t)n : 0, &labels);
		n = proc_file__read(PROC_FILE_HERE, pid, "cgroup", text, CGROUP_BYTES);
		process_labels__from_cgroup(n > 0 ? text : "", &labels);
	}
	*out = labels;
}

/* Where the process is, or would be. */
static size_t place_of(const struct process_label_table *t, pid_t tgid)
{
	return ARRAY_BEFORE(i, t->n_processes, t->processes[i].tgid < tgid);
}

static bool is_at(const struct process_label_table *t, size_t at, pid_t tgid)
{
	return at < t->n_processes && t->processes[at].tgid == tgid;
}

/* PROCESS_LABELS_NONE: no memory, or no room. */
static uint32_t intern_set(struct process_label_table *t, const struct process_labels *labels)
{
	/* Neighbours were started together: the newest first. */
	for (size_t i = t->n_sets; i-- > 0;) {
		if (!memcmp(&t->sets[i], labels, sizeof(*labels)))
			return (uint32_t)i;
	}
	if (t->n_sets == PROCESS_LABELS_MAX_SETS || ARRAY_RESERVE(t->sets, t->sets_capacity, t->n_sets + 1))
		return PROCESS_LABELS_NONE;
	t->sets[t->n_sets] = *labels;
	return (uint32_t)t->n_sets++;
}

static void put(struct process_label_table *t, pid_t tgid, uint32_t set)
{
	size_t at = place_of(t, tgid);

	if (!is_at(t, at, tgid)) {
		if (t->n_processes == PROCESS_LABELS_MAX_PROCESSES ||
		    ARRAY_RESERVE(t->processes, t->processes_capacity, t->n_processes + 1))
			return;
		memmove(&t->processes[at + 1], &t->processes[at], (t->n_processes - at) * sizeof(*t->processes));
		t->processes[at].tgid = tgid;
		t->n_processes++;
	}
	t->processes[at].set = set;
}

static void drop(struct process_label_table *t, pid_t tgid)
{
	size_t at = place_of(t, tgid);

	if (!is_at(t, at, tgid))
		return;
	t->n_processes--;
	memmove(&t->processes[at], &t->processes[at + 1], (t->n_processes - at) * sizeof(*t->processes));
}

void process_label_table__set(struct process_label_table *t, pid_t tgid, const struct process_labels *labels)
{
	uint32_t set = process_labels__any(labels) ? intern_set(t, labels) : PROCESS_LABELS_NONE;

	if (set == PROCESS_LABELS_NONE)
		drop(t, tgid);
	else
		put(t, tgid, set);
}

void process_label_table__inherit(struct process_label_table *t, pid_t child, pid_t parent)
{
	uint32_t set = process_label_table__find(t, parent);

	/* The number may have been another process's before. */
	if (set == PROCESS_LABELS_NONE)
		drop(t, child);
	else
		put(t, child, set);
}

void process_label_table__keep(struct process_label_table *t, bool (*wanted)(void *context, pid_t tgid), void *context)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n_processes; i++) {
		if (wanted(context, t->processes[i].tgid))
			t->processes[n++] = t->processes[i];
	}
	t->n_processes = n;
}

uint32_t process_label_table__find(const struct process_label_table *t, pid_t tgid)
{
	size_t at;

	if (!t)
		return PROCESS_LABELS_NONE;
	at = place_of(t, tgid);
	return is_at(t, at, tgid) ? t->processes[at].set : PROCESS_LABELS_NONE;
}

struct process_labels process_label_table__get(const struct process_label_table *t, pid_t tgid)
{
	uint32_t set = process_label_table__find(t, tgid);

	return set == PROCESS_LABELS_NONE ? (struct process_labels){ .rank = "" } : t->sets[set];
}

void process_label_table__copy(const struct process_label_table *from, struct process_label_table *to)
{
	struct process_label_table copy = { 0 };

	if (!from->n_processes)
		return;
	if (ARRAY_RESERVE(copy.sets, copy.sets_capacity, from->n_sets) ||
	    ARRAY_RESERVE(copy.processes, copy.processes_capacity, from->n_processes)) {
		process_label_table__release(&copy);
		return;
	}
	memcpy(copy.sets, from->sets, from->n_sets * sizeof(*copy.sets));
	memcpy(copy.processes, from->processes, from->n_processes * sizeof(*copy.processes));
	copy.n_sets = from->n_sets;
	copy.n_processes = from->n_processes;
	*to = copy;
}

void process_label_table__release(struct process_label_table *t)
{
	free(t->sets);
	free(t->processes);
	*t = (struct process_label_table){ 0 };
}
