/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Arrays that grow by half, with the multiplications checked. */
#ifndef STAKEOUT_ARRAY_H
#define STAKEOUT_ARRAY_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

/* Makes room for `need` elements of `size` bytes. Returns the array, moved perhaps, or NULL with all unchanged. */
static inline void *array__reserve(void *array, size_t *capacity, size_t need, size_t size)
{
	size_t larger, bytes;
	void *moved;

	if (array && need <= *capacity)
		return array;
	if (__builtin_add_overflow(*capacity, *capacity / 2 + 8, &larger))
		return NULL;
	if (larger < need)
		larger = need;
	if (__builtin_mul_overflow(larger, size, &bytes))
		return NULL;
	moved = realloc(array, bytes);
	if (moved)
		*capacity = larger;
	return moved;
}

/* 0 or -ENOMEM; `array` is an lvalue of pointer type, `capacity` a size_t. */
#define ARRAY_RESERVE(array, capacity, need)                                               \
	({                                                                                 \
		void *_a = array__reserve((array), &(capacity), (need), sizeof(*(array))); \
		if (_a)                                                                    \
			(array) = _a;                                                      \
		_a ? 0 : -ENOMEM;                                                          \
	})

/* How many elements of a sorted array come before a place: `before` says it of the element number `i`, of `n`. */
#define ARRAY_BEFORE(i, n, before)                            \
	({                                                    \
		size_t _low = 0, _high = (n);                 \
		while (_low < _high) {                        \
			size_t i = _low + (_high - _low) / 2; \
			if (before)                           \
				_low = i + 1;                 \
			else                                  \
				_high = i;                    \
		}                                             \
		_low;                                         \
	})

#endif
