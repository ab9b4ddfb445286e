/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Work in signal handlers. Usage: signals MODE [seconds]
 *   normal  a timer interrupts the main loop anywhere; the handler runs on the same stack
 *   alt     the same with the handler on an alternate stack
 *   stay    the handler, on the same stack, runs until the time is over
 *   stay-alt  the same on an alternate stack
 */
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "work.h"

static volatile uint64_t handled;
static double deadline;
static int stay;

FRAME uint64_t handler_leaf(uint64_t x)
{
	return work__mix(x, 200000);
}

FRAME uint64_t handler_work(uint64_t x)
{
	uint64_t value = handler_leaf(x) + 1;

	while (stay && work__now_s() < deadline)
		value = handler_leaf(x) + 1;
	return value + 1;
}

static void on_signal(int sig)
{
	handled = handler_work((uint64_t)sig);
}

FRAME uint64_t main_leaf(uint64_t x)
{
	return work__mix(x, 10000) + 1;
}

FRAME uint64_t main_loop(void)
{
	uint64_t first = 0;

	while (work__now_s() < deadline)
		work__same(&first, main_leaf(3) + 1);
	return first;
}

FRAME uint64_t stay_in_handler(void)
{
	raise(SIGALRM);
	return main_leaf(3) + 1;
}

static int install(int flags)
{
	static char stack[1 << 16];
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags | SA_RESTART };

	if (flags & SA_ONSTACK && sigaltstack(&alternate, NULL))
		return -1;
	return sigaction(SIGALRM, &action, NULL);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "normal";
	struct itimerval every = { { 0, 2000 }, { 0, 2000 } }, never = { { 0, 0 }, { 0, 0 } };
	uint64_t first;

	stay = strncmp(mode, "stay", 4) == 0;
	deadline = work__deadline_s(argc, argv, 2, 10);
	if (install(strstr(mode, "alt") ? SA_ONSTACK : 0)) {
		perror("signals");
		return 1;
	}
	work__ready();
	if (stay)
		return work__done(stay_in_handler() + handled);
	setitimer(ITIMER_REAL, &every, NULL);
	first = main_loop();
	setitimer(ITIMER_REAL, &never, NULL);
	return work__done(first + handled);
}
