/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions of libraries that the static programs do without (include/static/find_left_out). None is called by a
 * program that speaks plain HTTP; the few that are called when curl and libmicrohttpd start and end are in
 * include/static/left_out.c.
 */
#ifndef STAKEOUT_LEFT_OUT_H
#define STAKEOUT_LEFT_OUT_H

__attribute__((noreturn, cold)) void left_out(const char *name);

#define LEFT_OUT(name)                        \
	__attribute__((cold)) void name(void) \
	{                                     \
		left_out(#name);              \
	}

#endif
