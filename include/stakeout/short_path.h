/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How files are called in frames. */
#ifndef STAKEOUT_SHORT_PATH_H
#define STAKEOUT_SHORT_PATH_H

#include <string.h>

/* The last part of a path, within it. */
static inline const char *short_path(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Of a Python file. "__init__.py" says nothing without its package: "logging/__init__.py". */
static inline const char *short_path__python(const char *path)
{
	const char *name = short_path(path);

	if (name - path < 2 || (strcmp(name, "__init__.py") && strcmp(name, "__main__.py")))
		return name;
	for (name--; name > path && name[-1] != '/';)
		name--;
	return name;
}

#endif
