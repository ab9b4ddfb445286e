/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The words that profiles and figures have for what became of samples. */
#ifndef STAKEOUT_ENGINE_WORDS_H
#define STAKEOUT_ENGINE_WORDS_H

#include "stakeout/sampler_abi.h"

static const char *const truncation_words[] = {
#define X(name, word, why) [SO_TRUNC_##name] = word,
	SO_TRUNCATIONS(X)
#undef X
};

static const char *const loss_words[] = {
#define X(name, word, why) [SO_LOSS_##name] = word,
	SO_LOSSES(X)
#undef X
};

static const char *const python_words[] = {
#define X(name, word, why) [SO_PYTHON_STATE_##name] = word,
	SO_PYTHON_STATES(X)
#undef X
};

#endif
