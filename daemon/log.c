// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static bool quiet_;

void log__set_quiet(bool quiet)
{
	quiet_ = quiet;
}

/* One write() a line, so that lines of several threads do not mix; bytes that would move a terminal's cursor
 * are replaced. */
static void write_line(const char *fmt, va_list ap)
{
	char line[1024] = "stakeoutd: ";
	int start = 11, n = vsnprintf(line + start, sizeof(line) - start - 1, fmt, ap);

	if (n < 0)
		return;
	if (n > (int)sizeof(line) - start - 2)
		n = sizeof(line) - start - 2;
	for (int i = start; i < start + n; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	line[start + n] = '\n';
	if (write(STDERR_FILENO, line, start + n + 1) < 0)
		return; /* nowhere left to say so */
}

void log__info(const char *fmt, ...)
{
	va_list ap;

	if (quiet_)
		return;
	va_start(ap, fmt);
	write_line(fmt, ap);
	va_end(ap);
}

void log__error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	write_line(fmt, ap);
	va_end(ap);
}
