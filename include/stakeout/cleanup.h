/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ownership that can be checked within one function: a variable declared with one of these attributes is
 * released when it goes out of scope; TAKE_PTR and TAKE_FD hand its value on and leave an empty one behind.
 */
#ifndef STAKEOUT_CLEANUP_H
#define STAKEOUT_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup__free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup__close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup__fclose(FILE **f)
{
	if (*f)
		fclose(*f);
}

/* Declares a function cleanup__NAME() for pointers of type T, released by FUNC when not NULL. */
#define CLEANUP_DEFINE(T, name, func)            \
	static inline void cleanup__##name(T *p) \
	{                                        \
		if (*p)                          \
			func(*p);                \
	}

/* The same for the variable itself, a structure say, released by FUNC in any case. */
#define CLEANUP_DEFINE_OF(T, name, func)         \
	static inline void cleanup__##name(T *p) \
	{                                        \
		func(p);                         \
	}

#define _cleanup_(name)  __attribute__((cleanup(cleanup__##name)))
#define _cleanup_free_   _cleanup_(free)
#define _cleanup_close_  _cleanup_(close)
#define _cleanup_fclose_ _cleanup_(fclose)

#define TAKE_PTR(p)                     \
	({                              \
		__typeof__(p) _v = (p); \
		(p) = NULL;             \
		_v;                     \
	})

#define TAKE_FD(fd)          \
	({                   \
		int _v = fd; \
		(fd) = -1;   \
		_v;          \
	})

#endif
