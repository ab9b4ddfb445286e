/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Compiles only if the stand-ins' declarations agree with the toolkit's own headers: see `make cuda-signatures`. */
#include "driver_symbols.h"
#include "runtime_symbols.h"

#define X(symbol, api, shape) cu_##shape symbol;
STANDIN_DRIVER_SYMBOLS(X)
#undef X
#define X(symbol, api, shape, ending) cudart_##shape symbol;
STANDIN_RUNTIME_SYMBOLS(X)
#undef X
