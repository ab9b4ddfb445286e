// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/session/process_arguments.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stakeout/cleanup.h"
#include "stakeout/live_thread.h"
#include "stakeout/short_path.h"

/* fork() and munmap() of a large process hold the lock for some 100 ms. */
#define PATIENCE_MS 500

struct reading {
	pid_t pid;
	ssize_t n;
	size_t size;
	char text[];
};

static void *read_arguments(void *context)
{
	struct reading *r = context;
	_cleanup_close_ int fd = -1;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/cmdline", live_thread__of(r->pid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	r->n = fd < 0 ? 0 : read(fd, r->text, r->size);
	return NULL;
}

static struct timespec deadline(void)
{
	struct timespec at;

	clock_gettime(CLOCK_REALTIME, &at);
	at.tv_nsec += PATIENCE_MS * 1000000L;
	at.tv_sec += at.tv_nsec / 1000000000L;
	at.tv_nsec %= 1000000000L;
	return at;
}

/* A thread that hangs keeps what it reads into, and ends with the program. */
ssize_t process_arguments__read(pid_t pid, char *text, size_t size)
{
	struct reading *r = calloc(1, sizeof(*r) + size);
	struct timespec until = deadline();
	pthread_t thread;
	ssize_t n;

	text[0] = text[size - 1] = '\0';
	if (!r)
		return -ENOMEM;
	r->pid = pid;
	r->size = size - 1;
	if (pthread_create(&thread, NULL, read_arguments, r)) {
		free(r);
		return -ENOMEM;
	}
	if (pthread_timedjoin_np(thread, NULL, &until)) {
		pthread_detach(thread);
		return -EBUSY;
	}
	n = r->n > 0 ? r->n : 0;
	memcpy(text, r->text, (size_t)n);
	text[n] = '\0';
	free(r);
	return n;
}

void process_arguments__join(char *text, size_t n, size_t size)
{
	static const char more[] = "…";
	const bool cut = n == size - 1;

	for (size_t i = 0; i < n; i++) {
		if (!text[i])
			text[i] = ' ';
	}
	if (cut) {
		strcpy(text + size - sizeof(more), more);
		return;
	}
	while (n && text[n - 1] == ' ')
		text[--n] = '\0';
}

static bool is_one_of(const char *name, const char *const *names)
{
	while (*names && strcmp(name, *names))
		names++;
	return *names;
}

static bool is_launcher(const char *name)
{
	static const char *const names[] = {
		/* shells */
		"sh", "bash", "dash", "zsh", "ksh", "fish",
		/* what starts a job, or runs one command for something else */
		"make", "gmake", "ninja", "sudo", "timeout", "xargs", "parallel", "tini", "dumb-init", "docker-init",
		/* ranks */
		"mpirun", "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy", "orterun", "orted", "prterun", "prted", "srun",
		"slurmstepd", "torchrun", "accelerate", "deepspeed", "horovodrun", NULL
	};

	return is_one_of(name, names);
}

static bool is_launching_module(const char *module)
{
	static const char *const names[] = { "accelerate.commands.launch", "deepspeed.launcher.runner",
					     "deepspeed.launcher.launch", "horovod.runner", NULL };
	static const char torch[] = "torch.distributed.";

	return !strncmp(module, torch, sizeof(torch) - 1) || is_one_of(module, names);
}

/* What Python runs, of "[-u] [-X dev] -m MODULE, or SCRIPT"; NULL: neither. */
static const char *python_program(const char *at, const char *end, bool *module)
{
	bool value = false; /* of the option before */

	for (; at < end; at += strlen(at) + 1) {
		if (value) {
			value = false;
			continue;
		}
		*module = !strncmp(at, "-m", 2);
		if (*module)
			return at[2] ? at + 2 : at + 3 < end ? at + 3 : "";
		if (*at != '-')
			return at;
		if (!strncmp(at, "-c", 2))
			return NULL;
		value = !strcmp(at, "-X") || !strcmp(at, "-W");
	}
	return NULL;
}

static bool python_launches(const char *at, const char *end)
{
	bool module;
	const char *program = python_program(at, end, &module);

	if (!program)
		return false;
	return module ? is_launching_module(program) : is_launcher(short_path(program));
}

static bool is_interpreter(const char *name)
{
	static const char *const names[] = { "sh", "bash", "dash", "zsh", "ksh", "perl", "ruby", "node", NULL };

	return is_one_of(name, names);
}

/* A login shell's first word begins with '-'. */
static const char *program_name(const char *text)
{
	return short_path(*text == '-' ? text + 1 : text);
}

const char *process_arguments__script(const char *text, size_t n)
{
	const char *end = text + n, *second = n ? text + strlen(text) + 1 : end, *script = NULL;
	bool module = false;

	if (second >= end)
		return NULL;
	if (!strncmp(program_name(text), "python", 6))
		script = python_program(second, end, &module);
	else if (is_interpreter(program_name(text)) && *second != '-')
		script = second;
	if (script && !module)
		script = short_path(script);
	return script && *script ? script : NULL;
}

const char *process_arguments__name(const char *text, size_t n)
{
	const char *script = process_arguments__script(text, n);

	return script ? script : n ? program_name(text) : "";
}

bool process_arguments__are_of_launcher(const char *text, size_t n)
{
	const char *name, *end = text + n;

	if (!n)
		return false;
	name = program_name(text);
	if (!strncmp(name, "python", 6))
		return python_launches(text + strlen(text) + 1, end);
	/* "slurmstepd: [4711.0]" */
	return is_launcher(name) || !strncmp(name, "slurmstepd:", 11);
}
