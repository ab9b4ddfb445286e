/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Line format, from the kernel's m_show(): "NAME BYTES USERS USED_BY STATE ADDRESS" and perhaps "(TAINTS)". */
#include "daemon/symbols/kernel_modules.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "stakeout/abi.h"
#include "stakeout/array.h"

#define MAX_MODULES 65536

static uint64_t hash_of(uint64_t hash, const struct kernel_module *m)
{
	for (const char *p = m->name; *p; p++)
		hash = so_mix(hash, (unsigned char)*p);
	return so_mix(so_mix(hash, m->address), m->bytes);
}

/* Users come and go all the time and change no symbol: they are passed over. */
static int add_line(struct kernel_modules *modules, const char *line)
{
	struct kernel_module m;

	if (sscanf(line, "%63s %" SCNu64 " %*s %*s %*s %" SCNx64, m.name, &m.bytes, &m.address) != 3)
		return 0;
	if (modules->n == MAX_MODULES)
		return -EFBIG;
	if (ARRAY_RESERVE(modules->list, modules->room, modules->n + 1))
		return -ENOMEM;
	modules->list[modules->n++] = m;
	modules->hash = hash_of(modules->hash, &m);
	return 0;
}

int kernel_modules__read(const char *path, struct kernel_modules *out)
{
	_cleanup_(kernel_modules) struct kernel_modules modules = { .hash = 1 };
	_cleanup_fclose_ FILE *f = fopen(path ?: "/proc/modules", "re");
	_cleanup_free_ char *line = NULL;
	size_t room = 0;
	int ret = f ? 0 : -errno;

	while (!ret && getline(&line, &room, f) > 0)
		ret = add_line(&modules, line);
	if (!ret && ferror(f))
		ret = -EIO;
	if (ret)
		return ret;
	*out = modules;
	modules = (struct kernel_modules){ 0 };
	return 0;
}

const struct kernel_module *kernel_modules__find(const struct kernel_modules *modules, const char *name, size_t length)
{
	for (size_t i = 0; i < modules->n; i++) {
		if (!strncmp(modules->list[i].name, name, length) && !modules->list[i].name[length])
			return &modules->list[i];
	}
	return NULL;
}

void kernel_modules__release(struct kernel_modules *modules)
{
	free(modules->list);
	*modules = (struct kernel_modules){ 0 };
}
