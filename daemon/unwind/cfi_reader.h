/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A cursor over foreign call-frame bytes. A read past the end returns false; the position means nothing then. */
#ifndef STAKEOUT_CFI_READER_H
#define STAKEOUT_CFI_READER_H

#include <dwarf.h>
#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cfi_reader {
	const uint8_t *at, *end;
};

static inline size_t cfi_reader__left(const struct cfi_reader *r)
{
	return (size_t)(r->end - r->at);
}

static inline bool cfi_reader__skip(struct cfi_reader *r, uint64_t n)
{
	if (n > cfi_reader__left(r))
		return false;
	r->at += n;
	return true;
}

/* An unsigned little-endian number of 1, 2, 4 or 8 bytes. */
static inline bool cfi_reader__fixed(struct cfi_reader *r, unsigned width, uint64_t *out)
{
	uint64_t v = 0;

	if (cfi_reader__left(r) < width)
		return false;
	memcpy(&v, r->at, width);
	r->at += width;
	*out = le64toh(v);
	return true;
}

/* Bits beyond the 64th must be zero, or the number is refused: nothing is cut off in silence. */
static inline bool cfi_reader__uleb(struct cfi_reader *r, uint64_t *out)
{
	uint64_t v = 0;

	for (unsigned shift = 0; r->at < r->end; shift += 7) {
		uint8_t byte = *r->at++;
		uint64_t bits = byte & 0x7f;

		if (shift < 64) {
			v |= bits << shift;
			if (shift > 57 && bits >> (64 - shift))
				return false;
		} else if (bits) {
			return false;
		}
		if (!(byte & 0x80)) {
			*out = v;
			return true;
		}
	}
	return false;
}

static inline bool cfi_reader__sleb(struct cfi_reader *r, int64_t *out)
{
	uint64_t v = 0;

	for (unsigned shift = 0; r->at < r->end && shift < 70; shift += 7) {
		uint8_t byte = *r->at++;

		if (shift < 64)
			v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		if (shift + 7 < 64 && byte & 0x40)
			v |= ~0ull << (shift + 7);
		*out = (int64_t)v;
		return true;
	}
	return false;
}

/*
 * A pointer in one of the DW_EH_PE_* forms (LSB Core, "DWARF Extensions"). place: the virtual address of the byte under
 * the cursor, for the pc-relative form; data: the base of the data-relative form, 0 when there is none. Indirect,
 * aligned, text- and function-relative pointers do not occur in linked x86-64 files and are refused.
 */
static inline bool cfi_reader__pointer(struct cfi_reader *r, uint8_t encoding, uint64_t place, uint64_t data,
				       uint64_t *out)
{
	uint64_t v, base;

	switch (encoding & 0xf0) {
	case DW_EH_PE_absptr:
		base = 0;
		break;
	case DW_EH_PE_pcrel:
		base = place;
		break;
	case DW_EH_PE_datarel:
		if (!data)
			return false;
		base = data;
		break;
	default:
		return false;
	}
	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		if (!cfi_reader__fixed(r, 8, &v))
			return false;
		break;
	case DW_EH_PE_udata4:
	case DW_EH_PE_sdata4:
		if (!cfi_reader__fixed(r, 4, &v))
			return false;
		if (encoding & 0x08)
			v = (uint64_t)(int64_t)(int32_t)v;
		break;
	case DW_EH_PE_udata2:
	case DW_EH_PE_sdata2:
		if (!cfi_reader__fixed(r, 2, &v))
			return false;
		if (encoding & 0x08)
			v = (uint64_t)(int64_t)(int16_t)v;
		break;
	case DW_EH_PE_uleb128:
		if (!cfi_reader__uleb(r, &v))
			return false;
		break;
	case DW_EH_PE_sleb128:
		if (!cfi_reader__sleb(r, (int64_t *)&v))
			return false;
		break;
	default:
		return false;
	}
	*out = base + v; /* wraps on purpose: offsets may be negative */
	return true;
}

#endif
