/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <dlfcn.h>
#include <pthread.h>

#include "runtime_state.h"
#include "standin.h"

/* What truth calls this runtime. */
#ifndef STANDIN_IMAGE
#define STANDIN_IMAGE "libcudart.so.12"
#endif

struct runtime_driver runtime_driver;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool loaded;

static bool find(void *library, const char *name, void *out)
{
	void *found = dlsym(library, name);

	if (found)
		*(void **)out = found;
	return found;
}

/* Stays loaded, as NVIDIA's does; so is found again by its name. */
static void load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	const struct standin_core *(*core)(void);

	if (!library || !find(library, "standin_core", &core))
		return;
#define X(symbol, ...)                                       \
	if (!find(library, #symbol, &runtime_driver.symbol)) \
		return;
	STANDIN_DRIVER_SYMBOLS(X)
	STANDIN_DRIVER_MORE(X)
#undef X
	runtime_driver.core = core();
	runtime_driver.image = runtime_driver.core->add_image(STANDIN_IMAGE);
	runtime_driver.cuInit(0);
	loaded = true;
}

const struct runtime_driver *runtime__load(void)
{
	pthread_once(&once, load);
	return loaded ? &runtime_driver : NULL;
}

STANDIN_ENTRY void standin_truth_print(FILE *f)
{
	if (runtime__load())
		runtime_driver.core->print(f);
}
