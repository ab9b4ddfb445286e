// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/render/html_page.h"

#include <string.h>

/* The assembler reads the file, by its path below the directory that the compiler runs in: the repository's. */
__asm__(".pushsection .rodata\n"
	"html_page_begin:\n"
	".incbin \"client/render/flamegraph.html\"\n"
	".byte 0\n"
	".popsection\n");

extern const char html_page_begin[];

#define PROFILE_MARK "@PROFILE@"

struct html_page html_page__get(void)
{
	const char *mark = strstr(html_page_begin, PROFILE_MARK), *after = mark + sizeof(PROFILE_MARK) - 1;

	return (struct html_page){ html_page_begin, after, (size_t)(mark - html_page_begin), strlen(after) };
}
