/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every refusal for want of rights is counted, and said in one line of the log; of many in a short time only the first,
 * and then how many more. Thread-safe.
 */
#ifndef STAKEOUT_DENIALS_H
#define STAKEOUT_DENIALS_H

#include <stdint.h>
#include <sys/types.h>

#define DENIALS_NO_UID ((uid_t)-1)

struct denial {
	uid_t uid;        /* of the peer; DENIALS_NO_UID: it came over TCP */
	pid_t pid;        /* of the peer when it connected, in the daemon's namespace; 0: not known */
	const char *from; /* its address, where it came over TCP; NULL: not known */
	const char *method;
	const char *path; /* any bytes, as all of these texts */
	const char *why;
};

void denials__add(const struct denial *denial);
/* Says how many were left out so far. */
void denials__flush(void);
/*
 * A descriptor that is readable a second after lines were first left out: denials__flush(). -1: none. The module's own.
 */
int denials__timer_fd(void);
/* Since the start. */
uint64_t denials__count(void);

#endif
