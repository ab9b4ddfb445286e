// SPDX-License-Identifier: GPL-2.0-or-later
#include "page/flame_graph_page.h"

#include <string.h>

/* The assembler reads the file, by its path below the directory that the compiler runs in: the repository's. */
__asm__(".pushsection .rodata\n"
	"flame_graph_page_begin:\n"
	".incbin \"include/page/flamegraph.html\"\n"
	".byte 0\n"
	".popsection\n");

extern const char flame_graph_page_begin[];

#define PROFILE_MARK "@PROFILE@"

const char *flame_graph_page__text(void)
{
	return flame_graph_page_begin;
}

struct flame_graph_page flame_graph_page__get(void)
{
	const char *mark = strstr(flame_graph_page_begin, PROFILE_MARK), *after = mark + sizeof(PROFILE_MARK) - 1;

	return (struct flame_graph_page){ flame_graph_page_begin, after, (size_t)(mark - flame_graph_page_begin),
					  strlen(after) };
}
