/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Linked statically: tries to load the library that it is given, and prints what comes of it. */
#include "daemon/nvml/nvml_library.h"

int main(int argc, char **argv)
{
	struct nvml_library library;
	struct so_error err = { "" };
	int r = argc == 2 ? nvml_library__load(&library, argv[1], &err) : 0;

	printf("%d %s\n", r, err.text);
	return 0;
}
