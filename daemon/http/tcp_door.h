/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The daemon's listening TCP socket, which is opened only where it is asked for. */
#ifndef STAKEOUT_TCP_DOOR_H
#define STAKEOUT_TCP_DOOR_H

#include <stdbool.h>

#include "stakeout/error.h"

#define TCP_DOOR_NAME 64

/*
 * Binds and listens on "ADDRESS:PORT" or "[ADDRESS]:PORT" (IPv6); numbers only, no names are looked up. Port 0: one
 * that the kernel chooses. An address that other machines may reach (any but 127.0.0.0/8 and ::1) is refused with
 * -EPERM unless `anywhere`. -EINVAL: no such form; others from the kernel. *fd is the caller's; name: the address with
 * the port in use.
 */
int tcp_door__open(const char *text, bool anywhere, int *fd, char name[TCP_DOOR_NAME], struct so_error *err);

#endif
