/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls into the C library that go through much of its code, for stepping through: one function a topic. */
#include <locale.h>
#include <math.h>
#include <regex.h>
#include <search.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FRAME __attribute__((noipa))

static volatile unsigned long sink;
static jmp_buf back;

FRAME static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

FRAME void sort(void)
{
	int numbers[24];

	for (int i = 0; i < 24; i++)
		numbers[i] = (i * 7919) % 101;
	qsort(numbers, 24, sizeof(numbers[0]), compare);
	sink += (unsigned long)numbers[3];
}

FRAME void print(void)
{
	char text[128];

	snprintf(text, sizeof(text), "%d %s %.3f %#llx %10ld|%-5s", 42, "words", 3.25, 0x1234567890ull, -7l,
		 "ab");
	sink += strlen(text);
	printf("%s\n", text);
	fflush(stdout);
}

FRAME void match(void)
{
	regex_t re;
	regmatch_t m[3];

	if (regcomp(&re, "^([a-z]+)-(x|yz)*[0-9]{2}$", REG_EXTENDED))
		return;
	sink += (unsigned long)regexec(&re, "stake-xyzx42", 3, m, 0);
	regfree(&re);
}

FRAME void allocate(void)
{
	void *p[16];

	for (unsigned i = 0; i < 16; i++)
		p[i] = malloc(24 + i * i * 300);
	for (unsigned i = 0; i < 16; i++)
		p[i] = realloc(p[i], 5000 - i * 200);
	for (unsigned i = 0; i < 16; i++)
		free(p[(i * 5) % 16]);
}

FRAME void times(void)
{
	time_t t = 1700000000;
	struct tm tm;
	char text[64];

	sink += strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %A", gmtime_r(&t, &tm));
	sink += (unsigned long)time(NULL);
}

FRAME void numbers(void)
{
	sink += strtoul("123456789", NULL, 10) + (unsigned long)strtod("2.718281828e3", NULL);
	sink += (unsigned long)(sin((double)sink) * 100 + pow(1.5, (double)(sink % 7)));
}

FRAME void strings(void)
{
	char a[300], b[300];

	memset(a, 'a', sizeof(a));
	a[299] = 0;
	memcpy(b, a, sizeof(b));
	memmove(b + 1, b, 200);
	sink += (unsigned long)strcmp(a, b) + strlen(b) + (unsigned long)(strstr(b, "aab") != NULL) +
		(unsigned long)(memchr(a, 'b', sizeof(a)) != NULL);
}

static void on_signal(int sig)
{
	sink += (unsigned long)sig;
	sort();
}

FRAME void interrupt(void)
{
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
}

FRAME static void leap(int depth)
{
	volatile char room[40];

	room[0] = (char)depth;
	if (depth)
		leap(depth - 1);
	else if (sink)
		longjmp(back, 1);
	sink += (unsigned long)room[0];
}

FRAME void jump(void)
{
	if (!setjmp(back))
		leap(5);
}

/* A stack-realigned function with a frame of changing size. */
FRAME void realign(unsigned bytes)
{
	volatile long lanes[8] __attribute__((aligned(64)));
	volatile char more[bytes];

	more[0] = 1;
	lanes[0] = more[0];
	sort();
	sink += (unsigned long)(lanes[0] + more[0]);
}

int main(void)
{
	setlocale(LC_ALL, "C");
	sort();
	print();
	match();
	allocate();
	times();
	numbers();
	strings();
	interrupt();
	jump();
	realign(72);
	return 0;
}
