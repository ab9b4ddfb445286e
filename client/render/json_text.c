// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/render/json_text.h"

#include <string.h>

void json_text__write(FILE *out, const char *text, size_t n)
{
	putc_unlocked('"', out);
	for (size_t at = 0; at < n; at++) {
		unsigned char c = (unsigned char)text[at];

		if (n - at > 2 && (!memcmp(text + at, "\xe2\x80\xa8", 3) || !memcmp(text + at, "\xe2\x80\xa9", 3))) {
			fprintf(out, "\\u%x", 0x2028 + (text[at + 2] & 1));
			at += 2;
		} else if (c < 0x20 || strchr("\"\\<>&'", c)) {
			fprintf(out, "\\u%04x", c);
		} else {
			putc_unlocked(c, out);
		}
	}
	putc_unlocked('"', out);
}
