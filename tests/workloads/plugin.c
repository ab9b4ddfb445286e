/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The library that dlopener loads a second after its start. */
#include "work.h"

uint64_t plugin_run(double deadline);

FRAME static uint64_t plugin_burn(uint64_t x)
{
	return work__mix(x, 20000) + 1;
}

uint64_t plugin_run(double deadline)
{
	uint64_t first = 0;

	while (work__now_s() < deadline)
		work__same(&first, plugin_burn(17));
	return first;
}
