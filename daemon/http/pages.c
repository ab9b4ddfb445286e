// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/http/pages.h"

#include <microhttpd.h>
#include <string.h>

#include "page/flame_graph_page.h"

/* The assembler reads the file, by its path below the directory that the compiler runs in: the repository's. */
__asm__(".pushsection .rodata\n"
	"live_page_begin:\n"
	".incbin \"daemon/http/live.html\"\n"
	".byte 0\n"
	".popsection\n");

extern const char live_page_begin[];

/* A frame that the page makes itself (srcdoc) is bound by this as well, and by the flame graph's own policy. */
static const struct http_header headers[] = {
	{ "Content-Security-Policy", "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
				     "connect-src 'self'; img-src data:; frame-src 'self'; base-uri 'none'; "
				     "form-action 'none'; frame-ancestors 'none'" },
	{ "Referrer-Policy", "no-referrer" },
	{ "Cross-Origin-Opener-Policy", "same-origin" },
	{ "Cross-Origin-Resource-Policy", "same-origin" },
	{ 0 },
};

bool pages__get(const char *path, struct http_reply *reply)
{
	const char *text = NULL;

	if (!strcmp(path, "/"))
		text = live_page_begin;
	else if (!strcmp(path, "/flamegraph.html"))
		text = flame_graph_page__text();
	if (!text)
		return false;
	*reply = (struct http_reply){ .status = MHD_HTTP_OK,
				      .content_type = "text/html; charset=utf-8",
				      .more_headers = headers,
				      .text = text,
				      .body_bytes = strlen(text) };
	return true;
}
