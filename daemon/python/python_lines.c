/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/python/python_lines.h"

#include <limits.h>
#include <stdbool.h>

#define CODE_UNIT_BYTES 2
#define NO_LINE         (-128) /* 3.10, in place of a line's difference */

/* Kinds of location entries, 3.11 and later; 0 to 9 have only columns, 15 has nothing. */
enum {
	LOCATION_ONE_LINE = 10, /* to 12: the line's difference is 0 to 2 */
	LOCATION_NO_COLUMNS = 13,
	LOCATION_LONG = 14,
};

/* A place in a table, and what it means for the instructions from there on. */
struct cursor {
	const uint8_t *at, *end;
	uint64_t covered; /* instructions, in the table's unit, up to here */
	int64_t line;     /* the running one: at most 2^20 entries of 32 bits come together, so it cannot overflow */
	int64_t last;     /* the last one that an instruction had */
};

/* Pairs of bytes: the difference of the address in bytes, then that of the line, which begins at the new address. */
static int64_t find_in_lnotab(struct cursor *c, uint64_t wanted)
{
	for (; c->end - c->at >= 2; c->at += 2) {
		c->covered += c->at[0];
		if (c->covered > wanted)
			break;
		c->line += (int8_t)c->at[1];
	}
	return c->line;
}

/* Pairs of bytes: the line's difference holds for the bytes of code that the pair covers. */
static int64_t find_in_pairs(struct cursor *c, uint64_t wanted, int64_t first_line)
{
	for (; c->end - c->at >= 2; c->at += 2) {
		int8_t difference = (int8_t)c->at[1];

		if (difference != NO_LINE)
			c->line += difference;
		if (difference != NO_LINE && c->at[0] > 0)
			c->last = c->line;
		c->covered += c->at[0];
		if (c->covered > wanted)
			return c->last;
	}
	return first_line;
}

/* 6 bits a byte, the lowest first; bit 6: more follow. False when it does not end, or not within 32 bits. */
static bool take_varint(struct cursor *c, uint32_t *out)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 36 && c->at < c->end && !(*c->at & 0x80); shift += 6) {
		uint8_t byte = *c->at++;

		value |= (uint64_t)(byte & 0x3f) << shift;
		if (!(byte & 0x40)) {
			*out = (uint32_t)value;
			return value <= UINT32_MAX;
		}
	}
	return false;
}

/* The sign is the lowest bit. */
static bool take_signed(struct cursor *c, int64_t *out)
{
	uint32_t value;

	if (!take_varint(c, &value))
		return false;
	*out = value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
	return true;
}

/* The first byte: 1, four bits of kind, three bits of instructions covered, less one. The next has bit 7 set again. */
static int64_t find_in_locations(struct cursor *c, uint64_t wanted, int64_t first_line)
{
	while (c->at < c->end && *c->at & 0x80) {
		uint8_t byte = *c->at++, kind = byte >> 3 & 15;
		int64_t difference = 0;

		if ((kind == LOCATION_NO_COLUMNS || kind == LOCATION_LONG) && !take_signed(c, &difference))
			return first_line;
		if (kind >= LOCATION_ONE_LINE && kind < LOCATION_NO_COLUMNS)
			difference = kind - LOCATION_ONE_LINE;
		/* An entry without a location leaves the line as it was, and so gets that of the one before it. */
		c->line += difference;
		c->covered += (byte & 7) + 1u;
		if (c->covered > wanted)
			return c->line;
		while (c->at < c->end && !(*c->at & 0x80)) /* last line, columns */
			c->at++;
	}
	return first_line;
}

int python_lines__find(uint16_t version, const uint8_t *table, size_t bytes, int first_line, uint32_t instruction)
{
	struct cursor c = { .at = table, .end = table + bytes, .line = first_line, .last = first_line };
	int64_t line;

	if (version < 0x030a)
		line = find_in_lnotab(&c, (uint64_t)instruction * CODE_UNIT_BYTES);
	else if (version == 0x030a)
		line = find_in_pairs(&c, (uint64_t)instruction * CODE_UNIT_BYTES, first_line);
	else
		line = find_in_locations(&c, instruction, first_line);
	return line < 0 || line > INT_MAX ? first_line : (int)line;
}
