/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The disassembler for x86-64, and room for one instruction, which its functions write to. */
#ifndef STAKEOUT_X86_DECODER_H
#define STAKEOUT_X86_DECODER_H

#include <capstone/capstone.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct x86_decoder {
	csh handle;    /* 0: closed */
	cs_insn *insn; /* with its details */
};

/* -ENOTSUP: the library has no x86; -ENOMEM. On failure there is nothing to close. */
int x86_decoder__open(struct x86_decoder *decoder);
void x86_decoder__close(struct x86_decoder *decoder);

static inline bool x86_is_among(unsigned id, const uint16_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}

/* Whether the number of an instruction, or of a register, is one of these. */
#define X86_IS(id, ...)                                                 \
	({                                                              \
		static const uint16_t _ids[] = { __VA_ARGS__ };         \
		x86_is_among((id), _ids, sizeof(_ids) / sizeof(*_ids)); \
	})

#endif
