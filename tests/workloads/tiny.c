/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A shared library of functions so small that calling them through the PLT is most of the work. */
#include <stdint.h>

uint64_t tiny_rotate(uint64_t x);
uint64_t tiny_add(uint64_t x);

uint64_t tiny_rotate(uint64_t x)
{
	return x << 7 | x >> 57;
}

uint64_t tiny_add(uint64_t x)
{
	return x + 0x9e3779b97f4a7c15u;
}
