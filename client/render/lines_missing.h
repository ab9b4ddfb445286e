/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is said where the daemon had no time to read source lines; whoever asks again later has them. */
#ifndef STAKEOUT_CLIENT_LINES_MISSING_H
#define STAKEOUT_CLIENT_LINES_MISSING_H

#include <inttypes.h>
#include <stdio.h>

#define LINES_MISSING_COMMENT    "lines-missing" /* of a profile: the number of addresses */
#define LINES_MISSING_TEXT_BYTES 160

/* n: 1 or more addresses. */
static inline const char *lines_missing__text(uint64_t n, char text[LINES_MISSING_TEXT_BYTES])
{
	snprintf(text, LINES_MISSING_TEXT_BYTES,
		 "source lines: %" PRIu64 " address%s of native code %s without, for want of time to read "
		 "their debug information",
		 n, n == 1 ? "" : "es", n == 1 ? "is" : "are");
	return text;
}

#endif
