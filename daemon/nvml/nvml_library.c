/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/nvml/nvml_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

/* The main program is the first that dl_iterate_phdr() tells of. */
static int find_interpreter(struct dl_phdr_info *info, size_t size, void *found)
{
	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_INTERP)
			*(bool *)found = true;
	return 1;
}

static bool linked_statically(void)
{
	bool found = false;

	dl_iterate_phdr(find_interpreter, &found);
	return !found;
}

static int resolve(struct nvml_library *library, const char *path, struct so_error *err)
{
	const char *missing = NULL;

	library->error_string = (const char *(*)(int))dlsym(library->dl, "nvmlErrorString");
#define X(member, optional, arguments, symbol)                          \
	library->member = (int(*) arguments)dlsym(library->dl, symbol); \
	if (!library->member && !(optional) && !missing)                \
		missing = symbol;
	NVML_FUNCTIONS(X)
#undef X
	if (missing)
		return so_err(err, -ENOSYS, "%s has no function %s: it is too old, or no NVML", path, missing);
	if (library->processes_v3)
		library->processes = library->processes_v3;
	else if (library->processes_v2)
		library->processes = library->processes_v2;
	return 0;
}

int nvml_library__load(struct nvml_library *library, const char *path, struct so_error *err)
{
	const char *why;
	int ret;

	*library = (struct nvml_library){ 0 };
	if (linked_statically())
		return so_err(err, -ENOTSUP,
			      "this stakeoutd is linked statically and cannot load %s; one that is linked "
			      "dynamically can",
			      path);
	library->dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library->dl) {
		why = dlerror();
		if (why && strncmp(why, path, strlen(path)) == 0 && strstr(why, "No such file"))
			return so_err(err, -ENOENT, "%s is not there: it comes with NVIDIA's driver", path);
		return so_err(err, -ELIBBAD, "%s cannot be loaded: %s", path, why ? why : "no reason given");
	}
	ret = resolve(library, path, err);
	if (ret < 0)
		nvml_library__unload(library);
	return ret;
}

void nvml_library__unload(struct nvml_library *library)
{
	if (library->dl)
		dlclose(library->dl);
	*library = (struct nvml_library){ 0 };
}

const char *nvml_library__words(const struct nvml_library *library, int code, char buffer[32])
{
	const char *text = library->error_string ? library->error_string(code) : NULL;

	if (text)
		return text;
	snprintf(buffer, 32, "error %d", code);
	return buffer;
}

int nvml_library__refused(const struct nvml_library *library, int code, const char *what, struct so_error *err)
{
	char buffer[32];
	int ret = -EIO;

	if (code == NVML_NO_PERMISSION)
		ret = -EACCES;
	else if (code == NVML_DRIVER_NOT_LOADED)
		ret = -ENODEV;
	return so_err(err, ret, "NVML %s: %s", what, nvml_library__words(library, code, buffer));
}

/* The last bytes of a structure are a PID's memory or an instance's number, never all NVML_UNTOUCHED. */
static bool touched(const unsigned char *infos, size_t from, size_t to)
{
	for (size_t at = from; at < to; at++)
		if (infos[at] != NVML_UNTOUCHED)
			return true;
	return false;
}

size_t nvml_library__process_info_size(const void *infos, unsigned n)
{
	if (touched(infos, (size_t)n * 24, (size_t)n * 32))
		return 32;
	return touched(infos, (size_t)n * 16, (size_t)n * 24) ? 24 : 16;
}
