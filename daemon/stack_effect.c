// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/stack_effect.h"
#include <errno.h>
int effect_reader__new(struct effect_reader **out) { *out = NULL; return 0; }
void effect_reader__free(struct effect_reader *reader) { }
int stack_effect__follow(struct effect_reader *reader, effect_read_fn read, void *context, uint64_t pc, uint64_t limit_low, uint64_t limit_high, struct effect_rows *out) { return -ENOENT; }
void effect_rows__release(struct effect_rows *rows) { }
