/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A function that saves all callee-saved registers, a frame larger than a window of the unwinder, two exits. */
#include <stdlib.h>
#include <string.h>

#define FRAME __attribute__((noipa))

FRAME long leaf(long x)
{
	return x * 3;
}

FRAME long saves_all(long a, long b, long c, long d, long e, long f)
{
	char room[3000];
	long g = leaf(a), h = leaf(b);

	if (g == h)
		return c;
	memset(room, (int)g, sizeof(room));
	for (int i = 0; i < 2; i++)
		a += leaf(a + b * c - d * e + f) + g * h + room[leaf(i) & 1023];
	return a + b + c + d + e + f + g + h;
}

FRAME long middle(long x)
{
	return saves_all(x, 2, 3, 4, 5, 6) + saves_all(7, 7, 3, 4, 5, 6);
}

int main(int argc, char **argv __attribute__((unused)))
{
	return (int)(middle(argc) & 1);
}
