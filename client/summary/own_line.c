// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/summary/own_line.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "profile/waiting_modules.h"
#include "stakeout/short_path.h"

/* Where Python keeps what is installed, and code that no file has ("<frozen importlib._bootstrap>"). */
static bool is_installed(const char *filename)
{
	static const char *const folders[] = { "/site-packages/", "/dist-packages/", "/lib/python3" };

	if (*filename == '<')
		return true;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (strstr(filename, folders[i]))
			return true;
	return false;
}

bool is_own_python(const struct profile_line *line)
{
	return line->python && *line->filename && !is_installed(line->filename);
}

/* A script's frame, named by its just-in-time compiler: neither Node's own nor of an installed package. */
static bool is_own_script(const struct profile_line *line)
{
	return !line->python && !*line->mapping && *line->filename == '/' && !strstr(line->filename, "/node_modules/");
}

bool is_own_code(const struct profile_line *line)
{
	return is_own_python(line) || is_own_script(line);
}

static bool is_system_library(const char *mapping)
{
	static const char *const names[] = { "libc.so",      "libc-2.", "libpthread", "ld-linux", "libm.so",
					     "libstdc++.so", "libgcc",  "libgomp.so", "ld-musl",  "[" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(short_path(mapping), names[i], strlen(names[i])))
			return true;
	return false;
}

const char *waited_file(const struct profile_line *line)
{
	return !*line->mapping && !strncmp(line->function, "[file ", 6) ? line->function + 1 : NULL;
}

static bool is_of_threading(const struct profile_line *line)
{
	return line->python && !strcmp(short_path(line->filename), "threading.py");
}

size_t thread_role(const struct profile *profile, const struct profile_sample *sample)
{
	bool thread = false;

	for (size_t i = sample->n_lines; i-- > 0;) {
		const struct profile_line *line = &profile->lines[sample->lines[i]];

		if (is_of_threading(line))
			thread |= strstr(line->function, "_bootstrap") != NULL;
		else if (line->python)
			return thread ? sample->lines[i] : SIZE_MAX;
	}
	return SIZE_MAX;
}

size_t own_line(const struct profile *profile, const struct profile_sample *sample)
{
	size_t python = SIZE_MAX, module = SIZE_MAX, native = SIZE_MAX, nameless = SIZE_MAX, user = SIZE_MAX;

	for (size_t i = 0; i < sample->n_lines; i++) {
		const struct profile_line *line = &profile->lines[sample->lines[i]];

		if (line->kernel || waited_file(line))
			continue;
		if (user == SIZE_MAX)
			user = sample->lines[i];
		if (is_own_code(line))
			return sample->lines[i];
		/* A frame that could not be read is nobody's line. */
		if (line->python && !*line->filename)
			continue;
		if (line->python && python == SIZE_MAX && !is_waiting_module(line->filename))
			python = sample->lines[i];
		if (line->python && module == SIZE_MAX)
			module = sample->lines[i];
		if (line->python || !*line->mapping || is_system_library(line->mapping))
			continue;
		if (frame_text__is_unnamed(line))
			nameless = nameless == SIZE_MAX ? sample->lines[i] : nameless;
		else if (native == SIZE_MAX)
			native = sample->lines[i];
	}
	if (python != SIZE_MAX)
		return python;
	if (module != SIZE_MAX)
		return module;
	if (native != SIZE_MAX)
		return native;
	if (nameless != SIZE_MAX)
		return nameless;
	if (user != SIZE_MAX)
		return user;
	return sample->n_lines ? sample->lines[0] : SIZE_MAX;
}

static bool is_cuda_call(const struct profile_line *line)
{
	return !line->kernel && !strncmp(short_path(line->mapping), "libcuda", strlen("libcuda")) &&
	       !strncmp(line->function, "cu", 2);
}

/* Calls that return when the GPU has come to them. */
static bool waits_for_gpu(const char *call)
{
	return strstr(call, "Synchronize") || (strstr(call, "Memcpy") && !strstr(call, "Async"));
}

const char *own_line__gpu_wait(const struct profile *profile, const struct profile_sample *sample)
{
	bool waiting = sample->state && !strcmp(sample->state, "gpu");

	for (size_t i = sample->n_lines; i-- > 0;) {
		const struct profile_line *line = &profile->lines[sample->lines[i]];

		if (is_cuda_call(line) && (waiting || waits_for_gpu(line->function)))
			return line->function;
	}
	return NULL;
}

static int add_file(const char *file, struct text *text)
{
	char words[512];

	snprintf(words, sizeof(words), "%.*s", (int)strlen(file) - 1, file);
	return frame_text__between(", ", words, "", text);
}

int own_line__text(const struct profile *profile, const struct profile_sample *sample, struct text *text)
{
	size_t line = own_line(profile, sample);
	const struct profile_line *at = line == SIZE_MAX ? NULL : &profile->lines[line];
	const char *file = sample->n_lines ? waited_file(&profile->lines[sample->lines[0]]) : NULL;
	const char *call = own_line__gpu_wait(profile, sample);
	int ret = !at ? 0 : at->python ? frame_text__folded(at, false, text) : frame_text__line(at, text);

	if (!ret && call)
		ret = frame_text__between(", ", call, "", text);
	return ret || !file ? ret : add_file(file, text);
}
