// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/os/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool quiet_;

void log__set_quiet(bool quiet)
{
	quiet_ = quiet;
}

enum level {
	LEVEL_ERROR = 3, /* syslog(3)'s numbers */
	LEVEL_INFO = 6,
};

/* Whether standard error is the journal's own: $JOURNAL_STREAM, systemd.exec(5). */
static bool is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && !fstat(STDERR_FILENO, &st) &&
	       st.st_dev == device && st.st_ino == inode;
}

/* The journal takes a line's level from its beginning (sd-daemon(3)), and names the service by itself. */
static int write_start(char *line, size_t size, enum level level)
{
	bool journal = is_journal();
	int n = journal ? snprintf(line, size, "<%d>", level) : 0;

	return n + (journal && !quiet_ ? 0 : snprintf(line + n, size - n, "stakeoutd: "));
}

/* One write() a line, so that lines of several threads do not mix; bytes that would move a terminal's cursor
 * are replaced. */
static void write_line(enum level level, const char *fmt, va_list ap)
{
	char line[1024];
	int start = write_start(line, sizeof(line), level);
	int n = vsnprintf(line + start, sizeof(line) - start - 1, fmt, ap);

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
	write_line(LEVEL_INFO, fmt, ap);
	va_end(ap);
}

void log__error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	write_line(LEVEL_ERROR, fmt, ap);
	va_end(ap);
}
