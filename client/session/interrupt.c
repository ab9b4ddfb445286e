// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/session/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#define MAX_PATHS 4

static volatile sig_atomic_t signals_;
/* Written by the main flow and read by the handler that interrupts it: each entry is replaced as a whole. */
static const char *_Atomic paths_[MAX_PATHS];
static void (*_Atomic on_abort_)(void);

/* unlink() and _exit() are async-signal-safe. A private daemon ends by itself when its client does. */
static void on_signal(int signo)
{
	void (*on_abort)(void) = atomic_load(&on_abort_);

	if (signals_++ == 0)
		return;
	if (on_abort)
		on_abort();
	for (size_t i = 0; i < MAX_PATHS; i++) {
		const char *path = atomic_load(&paths_[i]);

		if (path)
			unlink(path);
	}
	_exit(1);
}

void interrupt__install(void)
{
	struct sigaction action = { .sa_handler = on_signal }, before;

	/* No SA_RESTART: what waits shall look again. */
	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, SIGINT);
	sigaddset(&action.sa_mask, SIGTERM);
	sigaddset(&action.sa_mask, SIGHUP);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	/* nohup ignores it, for a command that is recorded as well. */
	if (!sigaction(SIGHUP, NULL, &before) && before.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &action, NULL);
}

bool interrupt__pending(void)
{
	return signals_ > 0;
}

void interrupt__sleep_ms(unsigned ms)
{
	const struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	nanosleep(&ts, NULL);
}

void interrupt__remove_on_abort(const char *path)
{
	for (size_t i = 0; i < MAX_PATHS; i++)
		if (!atomic_load(&paths_[i])) {
			atomic_store(&paths_[i], path);
			return;
		}
}

void interrupt__forget(const char *path)
{
	for (size_t i = 0; i < MAX_PATHS; i++)
		if (atomic_load(&paths_[i]) == path)
			atomic_store(&paths_[i], NULL);
}

void interrupt__call_on_abort(void (*function)(void))
{
	atomic_store(&on_abort_, function);
}
