/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Instead of the shipped rules, whose patterns take a second to compile with AddressSanitizer, for each input. */
#ifndef STAKEOUT_FUZZ_FEW_CATEGORIES_H
#define STAKEOUT_FUZZ_FEW_CATEGORIES_H

#include "profile/category_rules.h"

const char category_shipped_text[] = "[logging]\n"
				     "file = /logging/[a-z_]+[.]py$\n"
				     "frame = ^log\n"
				     "[locks]\n"
				     "kind = mechanism\n"
				     "kernel = ^futex\n"
				     "gil = released\n"
				     "[memory copies]\n"
				     "kind = mechanism\n"
				     "leaf-frame = ^memcpy\n"
				     "leaf-library = libc\n";

#endif
