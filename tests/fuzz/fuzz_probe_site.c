// SPDX-License-Identifier: GPL-2.0-or-later
/* A place for a probe in whatever bytes are taken for a function; the first says whether they are all of it. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cuda/probe_site.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the kernel emulates, written down once more. */
static int may_be_emulated(const uint8_t *at, size_t left)
{
	if (left > 1 && (*at == 0x41 || *at == 0xf2)) {
		at++;
		left--;
	}
	return (*at >= 0x50 && *at <= 0x57) || *at == 0x90 || (*at >= 0x70 && *at <= 0x7f) || *at == 0xe8 ||
	       *at == 0xe9 || *at == 0xeb || (left > 1 && *at == 0x0f && at[1] >= 0x80 && at[1] <= 0x8f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct probe_decoder *decoder;
	struct probe_site site = { 0 }, again = { 0 };
	struct probe_code code;
	int r;

	if (!decoder && probe_decoder__new(&decoder) < 0)
		abort();
	if (size < 1)
		return 0;
	code = (struct probe_code){ data + 1, size - 1, 0x401000, data[0] & 1, data[0] >> 5, data[0] >> 4 & 1 };
	r = probe_site__choose(decoder, &code, &site);
	if (r != probe_site__choose(decoder, &code, &again) || memcmp(&site, &again, sizeof(site)) != 0)
		abort();
	if (r < 0) {
		if (r != -EILSEQ && r != -ENOTSUP)
			abort();
		return 0;
	}
	if (site.offset >= code.size || !site.why || !site.instruction[0])
		abort();
	if (site.emulated && !may_be_emulated(code.bytes + site.offset, code.size - site.offset))
		abort();
	return 0;
}
