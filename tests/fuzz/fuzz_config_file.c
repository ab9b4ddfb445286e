/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct daemon_options options = { .ready_fd = -1, .socket_mode = OPTIONS_MODE_UNSET };
	struct so_error err = { .text = "" };
	char *text = malloc(size + 1);
	int ret;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	ret = daemon_options__apply_config(text, size, "file", &options, &err);
	/* A failure has one line of words with the place, and no effect. */
	if (ret && (strncmp(err.text, "file:", 5) || strchr(err.text, '\n') || options.socket || options.cache_dir))
		__builtin_trap();
	if ((options.socket_mode > 0777 && options.socket_mode != OPTIONS_MODE_UNSET) ||
	    (options.socket && strlen(options.socket) > size))
		__builtin_trap();
	free(text);
	return 0;
}
