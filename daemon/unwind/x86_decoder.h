/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The disassembler for x86-64, and room for one instruction, which its functions write to. */
#ifndef STAKEOUT_X86_DECODER_H
#define STAKEOUT_X86_DECODER_H

#include <capstone/capstone.h>

struct x86_decoder {
	csh handle;    /* 0: closed */
	cs_insn *insn; /* with its details */
};

/* -ENOTSUP: the library has no x86; -ENOMEM. On failure there is nothing to close. */
int x86_decoder__open(struct x86_decoder *decoder);
void x86_decoder__close(struct x86_decoder *decoder);

#endif
