// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/json_text.h"

#include <string.h>

#include "stakeout/cleanup.h"

json_t *json_text__new(const char *text)
{
	json_t *value = json_string(text);
	_cleanup_free_ char *copy = NULL;

	if (value)
		return value;
	copy = strdup(text);
	if (!copy)
		return NULL;
	for (char *p = copy; *p; p++)
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	return json_string(copy);
}
