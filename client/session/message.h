/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The client's words on standard error: whole lines, without bytes that steer a terminal. */
#ifndef STAKEOUT_CLIENT_MESSAGE_H
#define STAKEOUT_CLIENT_MESSAGE_H

/* What main() returns. */
enum exit_status {
	STATUS_DONE,
	STATUS_FAILED,
	STATUS_USAGE,
	STATUS_FAIL_RULE, /* a --fail-on is hit */
};

/* "stakeout: …"; an empty text prints nothing (a closed pipe needs no words). */
__attribute__((format(printf, 1, 2))) void message__error(const char *fmt, ...);
/* Without the name in front. */
__attribute__((format(printf, 1, 2))) void message__note(const char *fmt, ...);
/* Replaces the bytes below blank and DEL by '?', in place. */
void message__clean(char *text);

#endif
