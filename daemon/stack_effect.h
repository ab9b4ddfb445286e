/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef STAKEOUT_STACK_EFFECT_H
#define STAKEOUT_STACK_EFFECT_H
#include <stddef.h>
#include <stdint.h>
#include "stakeout/abi.h"
struct effect_row { uint64_t address; uint32_t length; struct so_unwind_rule rule; };
struct effect_rows { struct effect_row *rows; size_t n; };
typedef size_t (*effect_read_fn)(void *context, uint64_t address, void *buf, size_t size);
struct effect_reader;
int effect_reader__new(struct effect_reader **out);
void effect_reader__free(struct effect_reader *reader);
int stack_effect__follow(struct effect_reader *reader, effect_read_fn read, void *context, uint64_t pc, uint64_t limit_low, uint64_t limit_high, struct effect_rows *out);
void effect_rows__release(struct effect_rows *rows);
#endif
