// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/unwind/x86_decoder.h"

#include <errno.h>

int x86_decoder__open(struct x86_decoder *d)
{
	int ret = -ENOTSUP;

	*d = (struct x86_decoder){ 0 };
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &d->handle)) {
		d->handle = 0;
		return ret;
	}
	if (!cs_option(d->handle, CS_OPT_DETAIL, CS_OPT_ON)) {
		d->insn = cs_malloc(d->handle);
		ret = d->insn ? 0 : -ENOMEM;
	}
	if (ret)
		x86_decoder__close(d);
	return ret;
}

void x86_decoder__close(struct x86_decoder *d)
{
	if (d->insn)
		cs_free(d->insn, 1);
	if (d->handle)
		cs_close(&d->handle);
	*d = (struct x86_decoder){ 0 };
}
