/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names are any bytes. stakeout passes on valid UTF-8, which protobuf strings must be and terminals expect. */
#ifndef STAKEOUT_UTF8_H
#define STAKEOUT_UTF8_H

#include <stddef.h>

/* Bytes of the well-formed sequence at the start of text[0 … n-1] (The Unicode Standard, table 3-7); 0: none. */
static inline size_t utf8__sequence(const char *text, size_t n)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned char low = 0x80, high = 0xbf;
	size_t length;

	if (!n)
		return 0;
	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	length = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (n < length)
		return 0;
	/* The second byte excludes overlong forms, surrogates and what lies above U+10FFFF. */
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	if (s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return length;
}

#endif
