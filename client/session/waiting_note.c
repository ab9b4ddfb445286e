// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/session/waiting_note.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct waiting_note {
	pthread_t thread;
	sem_t end;
	char words[160];
};

/* Only this thread writes until it has ended. */
static void *show(void *context)
{
	struct waiting_note *note = context;
	struct timespec until;
	unsigned seconds = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	do {
		if (seconds)
			fprintf(stderr, "\r\033[K%s: %u s", note->words, seconds);
		else
			fprintf(stderr, "\r\033[K%s", note->words);
		seconds++;
		until.tv_sec++;
	} while (sem_timedwait(&note->end, &until) && (errno == ETIMEDOUT || errno == EINTR));
	fputs("\r\033[K", stderr);
	return NULL;
}

struct waiting_note *waiting_note__begin(const char *fmt, ...)
{
	struct waiting_note *note = isatty(STDERR_FILENO) ? calloc(1, sizeof(*note)) : NULL;
	sigset_t all, old;
	va_list ap;
	int ret;

	if (!note)
		return NULL;
	va_start(ap, fmt);
	vsnprintf(note->words, sizeof(note->words), fmt, ap);
	va_end(ap);
	sem_init(&note->end, 0, 0);
	/* Ctrl-C is for the thread that waits. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = pthread_create(&note->thread, NULL, show, note);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ret) {
		free(note);
		return NULL;
	}
	return note;
}

void waiting_note__end(struct waiting_note *note)
{
	if (!note)
		return;
	sem_post(&note->end);
	pthread_join(note->thread, NULL);
	sem_destroy(&note->end);
	free(note);
}
