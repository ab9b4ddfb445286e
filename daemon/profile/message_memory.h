/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory for one decoded protobuf message after the other. A message is many small pieces that live equally long: they
 * are cut from chunks, which the next message uses again. A limit keeps a hostile message, two bytes of which make some
 * seventy in memory, in bounds.
 */
#ifndef STAKEOUT_MESSAGE_MEMORY_H
#define STAKEOUT_MESSAGE_MEMORY_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

struct message_memory;

/* NULL: out of memory. */
struct message_memory *message_memory__new(void);
/* Takes everything back, and sets the limit for a message of so many bytes. */
void message_memory__begin(struct message_memory *memory, size_t message_bytes);
/* Pieces need not be freed. */
ProtobufCAllocator *message_memory__allocator(struct message_memory *memory);
/* Since message_memory__begin(): 0, -EFBIG (the limit) or -ENOMEM. */
int message_memory__error(const struct message_memory *memory);
void message_memory__free(struct message_memory *memory);

#endif
