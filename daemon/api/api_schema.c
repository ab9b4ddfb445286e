// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/api/api_schema.h"

#include <stddef.h>

/* The assembler reads the file, by its path below the directory that the compiler runs in: the repository's. */
__asm__(".pushsection .rodata\n"
	"api_schema_begin:\n"
	".incbin \"daemon/api/api_schema.json\"\n"
	"api_schema_end:\n"
	".popsection\n");

extern const char api_schema_begin[], api_schema_end[];

json_t *api_schema__json(void)
{
	size_t length = (size_t)(api_schema_end - api_schema_begin);
	json_t *schema = json_loadb(api_schema_begin, length, JSON_REJECT_DUPLICATES, NULL);

	json_object_set_new(json_object_get(schema, "info"), "version", json_string(STAKEOUT_VERSION));
	return schema;
}
