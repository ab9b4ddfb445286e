// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/session/message.h"

#include <stdarg.h>
#include <stdio.h>

void message__clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

static void print(const char *prefix, const char *fmt, va_list ap)
{
	char text[2048];

	vsnprintf(text, sizeof(text), fmt, ap);
	if (!text[0])
		return;
	message__clean(text);
	fprintf(stderr, "%s%s\n", prefix, text);
}

void message__error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print("stakeout: ", fmt, ap);
	va_end(ap);
}

void message__note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print("", fmt, ap);
	va_end(ap);
}
