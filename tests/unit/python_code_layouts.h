/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Layouts for code objects made by hand, where there is no process that could tell its own. */
#ifndef STAKEOUT_TESTS_PYTHON_CODE_LAYOUTS_H
#define STAKEOUT_TESTS_PYTHON_CODE_LAYOUTS_H

#include "daemon/python/python_layout.h"

/* 3.13 and 3.14 keep code, str and bytes objects where 3.12 does. */
static inline struct python_layout python_code_layout_of(unsigned minor)
{
	struct python_layout layout =
		*python_layout__of_version((uint16_t)(0x0300 | (minor < 12 ? minor : 12)));

	layout.version = (uint16_t)(0x0300 | minor);
	return layout;
}

#endif
