// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/python/python_str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/python/python_object.h"

#define MAX_STR_LENGTH   (1ll << 24) /* code points; a longer name is garbage */
#define MAX_ESCAPE_BYTES 6           /* a lone surrogate as \uXXXX; UTF-8 needs 4 */
#define FIRST_3_12       0x030c

static size_t max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* PyASCIIObject's and PyCompactUnicodeObject's fields. */
struct str_header {
	size_t length; /* code points */
	unsigned kind; /* bytes of each: 1, 2 or 4 */
	bool ascii;
	uint16_t data; /* where they begin */
};

/*
 * The state, from its lowest bit (CPython's Include/cpython/unicodeobject.h): interned:2, a byte where 3.14 and later
 * are free-threaded; kind:3, compact:1, ascii:1, and then ready:1 up to 3.11, statically_allocated:1 since 3.12. The
 * bits above are padding that nobody writes.
 */
static bool decode_state(uint32_t state, const struct python_layout *layout, struct str_header *out)
{
	uint32_t bits = state >> layout->str.kind_bit;
	bool compact = bits >> 3 & 1;

	out->kind = bits & 7;
	out->ascii = bits >> 4 & 1;
	if (!compact || (out->kind != 1 && out->kind != 2 && out->kind != 4) || (out->ascii && out->kind != 1))
		return false;
	/* Before 3.12 there are three states of being interned, and a compact str is always ready. */
	return layout->version >= FIRST_3_12 || ((state & 3) != 3 && bits >> 5 & 1);
}

static bool read_str_header(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t address,
			    struct str_header *out)
{
	const struct python_str_layout *str = &layout->str;
	struct python_object object;
	int64_t length;

	if (!python_object__read(memory, address, max_size(str->length + 8u, str->state + 4u), &object))
		return false;
	length = (int64_t)python_object__u64(&object, str->length);
	if (length < 0 || length > MAX_STR_LENGTH)
		return false;
	if (!decode_state(python_object__u32(&object, str->state), layout, out))
		return false;
	out->length = (size_t)length;
	out->data = out->ascii ? str->ascii_data : str->compact_data;
	return true;
}

static uint32_t code_point(const uint8_t *data, unsigned kind, size_t i)
{
	uint16_t two;
	uint32_t four;

	switch (kind) {
	case 1:
		return data[i];
	case 2:
		memcpy(&two, data + 2 * i, sizeof(two));
		return two;
	default:
		memcpy(&four, data + 4 * i, sizeof(four));
		return four;
	}
}

/* Whether a terminal or a reader of lines would do something else than show it: C0, DEL, C1, the two separators. */
static bool is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029;
}

/* As UTF-8, at most MAX_ESCAPE_BYTES; a lone surrogate (os.fsdecode()), which UTF-8 lacks, as Python's repr() does. */
static unsigned encode(uint32_t c, char *out)
{
	static const char hex[] = "0123456789abcdef";

	if (is_control(c))
		c = '?';
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c >= 0xd800 && c < 0xe000) {
		memcpy(out, "\\ud", 3);
		for (unsigned i = 0; i < 3; i++)
			out[3 + i] = hex[c >> (8 - 4 * i) & 15];
		return 6;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* -EFAULT for what no str of this kind can hold. */
static int to_utf8(const uint8_t *data, size_t n, const struct str_header *header, char **out)
{
	char name[PYTHON_NAME_MAX_BYTES + 1];
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t c = code_point(data, header->kind, i);
		char encoded[MAX_ESCAPE_BYTES];
		unsigned bytes;

		if (c > 0x10ffff || (header->ascii && c > 0x7f))
			return -EFAULT;
		bytes = encode(c, encoded);
		if (used + bytes > PYTHON_NAME_MAX_BYTES)
			break;
		memcpy(name + used, encoded, bytes);
		used += bytes;
	}
	name[used] = '\0';
	*out = strdup(name);
	return *out ? 0 : -ENOMEM;
}

int python_str__read(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t address,
		     char **out)
{
	uint8_t data[4 * PYTHON_NAME_MAX_BYTES]; /* a code point makes a byte or more, so this is enough */
	struct str_header header;
	size_t n;

	if (!read_str_header(memory, layout, address, &header))
		return -EFAULT;
	n = header.length < PYTHON_NAME_MAX_BYTES ? header.length : PYTHON_NAME_MAX_BYTES;
	if (n > 0 && !foreign_memory__read(memory, address + header.data, data, n * header.kind))
		return -EFAULT;
	return to_utf8(data, n, &header, out);
}
