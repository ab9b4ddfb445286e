// SPDX-License-Identifier: GPL-2.0-or-later
/* What a baseline is of, and whether that can be compared. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "client/diff/baseline.h"
#include "profile/text.h"

void baseline_facts__clear(struct baseline_facts *f)
{
	free(f->cpu);
	free(f->gpu);
	free(f->kernel);
	free(f->version);
	free(f->saved);
	free(f->command);
	*f = (struct baseline_facts){ .cpu = NULL };
}

/* What stands behind "KEY : " in a file of such lines; "" where there is none. */
static char *value_of(const char *path, const char *key)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;

	while (file && getline(&line, &size, file) > 0) {
		char *colon = strchr(line, ':');

		if (strncmp(line, key, strlen(key)) || !colon)
			continue;
		colon++;
		colon += strspn(colon, " \t");
		colon[strcspn(colon, "\n")] = '\0';
		return strdup(colon);
	}
	return strdup("");
}

#define GPUS "/proc/driver/nvidia/gpus"

/* The NVIDIA driver's own words; those of the GPU whose bus address is the first. */
static char *gpu_name(void)
{
	char first[NAME_MAX + 1] = "", path[sizeof(GPUS) + NAME_MAX + sizeof("//information")];
	const struct dirent *entry;
	DIR *dir = opendir(GPUS);

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && (!first[0] || strcmp(entry->d_name, first) < 0))
			snprintf(first, sizeof(first), "%s", entry->d_name);
	if (dir)
		closedir(dir);
	snprintf(path, sizeof(path), GPUS "/%s/information", first);
	return first[0] ? value_of(path, "Model") : strdup("");
}

/* As a baseline that is read has it. */
static char *clean(const char *words)
{
	_cleanup_(text) struct text *text = &(struct text){ .length = 0 };

	return text__append_clean(text, words, ' ') ? NULL : strndup(text->bytes ?: "", text->length);
}

int baseline_facts__here(const char *command, struct baseline_facts *out)
{
	struct baseline_facts f = { .cpus = (unsigned)sysconf(_SC_NPROCESSORS_CONF) };
	time_t now = time(NULL);
	char saved[32] = "";
	struct utsname name;
	struct tm tm;

	if (gmtime_r(&now, &tm))
		strftime(saved, sizeof(saved), "%Y-%m-%dT%H:%M:%SZ", &tm);
	f.cpu = value_of("/proc/cpuinfo", "model name");
	f.gpu = gpu_name();
	f.kernel = strdup(uname(&name) ? "" : name.release);
	f.version = strdup(STAKEOUT_VERSION);
	f.saved = strdup(saved);
	f.command = clean(command ?: "");
	if (!f.cpu || !f.gpu || !f.kernel || !f.version || !f.saved || !f.command) {
		baseline_facts__clear(&f);
		return -ENOMEM;
	}
	*out = f;
	return 0;
}

static int check_machine(const struct baseline_facts *base, const struct baseline_facts *here, struct so_error *err)
{
	if (strcmp(base->cpu, here->cpu) || base->cpus != here->cpus)
		return so_err(err, -EINVAL, "the baseline is of another machine: %u × %.80s, here %u × %.80s",
			      base->cpus, base->cpu, here->cpus, here->cpu);
	if (strcmp(base->gpu, here->gpu))
		return so_err(err, -EINVAL, "the baseline is of a machine with another GPU: %.80s, here %.80s",
			      *base->gpu ? base->gpu : "none", *here->gpu ? here->gpu : "none");
	return 0;
}

int baseline__check(const struct baseline *b, const struct side *now, const struct baseline_facts *here,
		    struct so_error *err)
{
	int ret = check_machine(&b->facts, here, err);

	if (ret)
		return ret;
	if (strcmp(b->side->program, now->program))
		return so_err(err, -EINVAL, "the baseline is of another program: %.60s, and not %.60s",
			      b->side->program, now->program);
	if (*here->command && strcmp(b->facts.command, here->command))
		return so_err(err, -EINVAL, "the baseline is of another command: %.160s",
			      *b->facts.command ? b->facts.command : "none was given");
	if (b->unit == COMPARE_STEP && !(now->steps > 0))
		return so_err(
			err, -EINVAL,
			"the baseline is in time a step, and these files know no steps: record them with --timeline "
			"--step FUNCTION");
	return 0;
}
