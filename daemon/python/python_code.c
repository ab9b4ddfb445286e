/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/python/python_code.h"

#include <errno.h>
#include <string.h>

#include "daemon/python/python_lines.h"

#define MAX_OBJECT_BYTES 512u         /* all fields of an object that a layout may name lie in it */
#define MAX_USER_ADDRESS (1ull << 47) /* x86-64 */
#define MAX_ARGUMENTS    (1 << 20)    /* more are garbage */
#define MAX_STR_LENGTH   (1ll << 24)  /* code points; a longer name is garbage */
#define MAX_BYTES_LENGTH (1ll << 31)  /* bytes; a longer line table is garbage */
#define MAX_ESCAPE_BYTES 6            /* a lone surrogate as \uXXXX; UTF-8 needs 4 */
#define FIRST_3_12       0x030c

/* What objects begin with (PyObject, PyTypeObject; release builds with a GIL, 3.8 to 3.14): references, type, name. */
#define OB_REFCNT 0
#define OB_TYPE   8
#define TP_NAME   24

/* The first bytes of a foreign object, copied at once so that its fields belong together. */
struct object {
	uint8_t bytes[MAX_OBJECT_BYTES];
	size_t size;
};

/* size: up to the end of the last field that is wanted. Objects are aligned to their pointers and never at 0. */
static bool read_object(const struct foreign_memory *memory, uint64_t address, size_t size, struct object *object)
{
	if (!address || address % sizeof(void *) || address >= MAX_USER_ADDRESS || size > sizeof(object->bytes))
		return false;
	object->size = size;
	return foreign_memory__read(memory, address, object->bytes, size);
}

static uint64_t field_u64(const struct object *object, size_t at)
{
	uint64_t value;

	memcpy(&value, object->bytes + at, sizeof(value));
	return value;
}

static uint32_t field_u32(const struct object *object, size_t at)
{
	uint32_t value;

	memcpy(&value, object->bytes + at, sizeof(value));
	return value;
}

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
 * The state, from its lowest bit (CPython's Include/cpython/unicodeobject.h; the same in 3.14 with a GIL): interned:2,
 * kind:3, compact:1, ascii:1, and then ready:1 up to 3.11, statically_allocated:1 since 3.12. The bits above are
 * padding that nobody writes.
 */
static bool decode_state(uint32_t state, uint16_t version, struct str_header *out)
{
	bool compact = state >> 5 & 1;

	out->kind = state >> 2 & 7;
	out->ascii = state >> 6 & 1;
	if (!compact || (out->kind != 1 && out->kind != 2 && out->kind != 4) || (out->ascii && out->kind != 1))
		return false;
	/* Before 3.12 there are three states of being interned, and a compact str is always ready. */
	return version >= FIRST_3_12 || ((state & 3) != 3 && state >> 7 & 1);
}

static bool read_str_header(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t address,
			    struct str_header *out)
{
	const struct python_str_layout *str = &layout->str;
	struct object object;
	int64_t length;

	if (!read_object(memory, address, max_size(str->length + 8u, str->state + 4u), &object))
		return false;
	length = (int64_t)field_u64(&object, str->length);
	if (length < 0 || length > MAX_STR_LENGTH)
		return false;
	if (!decode_state(field_u32(&object, str->state), layout->version, out))
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

static int read_str(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t address,
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

static int read_linetable(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t address,
			  struct python_code *code)
{
	_cleanup_free_ uint8_t *table = NULL;
	struct object object;
	int64_t size;

	if (!read_object(memory, address, layout->bytes.size + 8u, &object))
		return -EFAULT;
	size = (int64_t)field_u64(&object, layout->bytes.size);
	if (size < 0 || size > MAX_BYTES_LENGTH)
		return -EFAULT;
	if (size == 0 || size > PYTHON_LINETABLE_MAX_BYTES)
		return 0;
	table = malloc((size_t)size);
	if (!table)
		return -ENOMEM;
	if (!foreign_memory__read(memory, address + layout->bytes.data, table, (size_t)size))
		return -EFAULT;
	code->linetable = TAKE_PTR(table);
	code->linetable_bytes = (size_t)size;
	return 0;
}

/* How much of a code object is looked at. */
static size_t code_size(const struct python_layout *layout)
{
	const struct python_code_layout *code = &layout->code;
	size_t size = layout->walker.code_sum + SO_PYTHON_SUM_WORDS * sizeof(uint64_t);

	size = max_size(size, max_size(code->argcount + 4u, code->kwonlyargcount + 4u));
	size = max_size(size, max_size(code->flags + 4u, code->firstlineno + 4u));
	size = max_size(size, max_size(code->filename + 8u, code->name + 8u));
	return max_size(size, max_size(code->qualname + 8u, code->linetable + 8u));
}

static uint64_t object_sum(const struct foreign_memory *memory, const struct object *object,
			   const struct python_layout *layout)
{
	const struct so_python *walker = &layout->walker;
	__u64 words[SO_PYTHON_SUM_WORDS];
	uint64_t sum;

	memcpy(words, object->bytes + walker->code_sum, sizeof(words));
	sum = so_python_sum(words, walker->sum_words);
	if (!walker->name_hash)
		return sum;
	return so_mix(sum, foreign_memory__u64(memory, so_python_name(words, walker) + walker->name_hash));
}

bool python_code__sum(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t address,
		      uint64_t *sum)
{
	struct object object;

	if (!read_object(memory, address, code_size(layout), &object))
		return false;
	*sum = object_sum(memory, &object, layout);
	return true;
}

static bool is_plausible(const struct object *object, const struct python_code_layout *layout)
{
	return field_u32(object, layout->argcount) <= MAX_ARGUMENTS &&
	       field_u32(object, layout->kwonlyargcount) <= MAX_ARGUMENTS &&
	       (int32_t)field_u32(object, layout->firstlineno) >= 0 && (int32_t)field_u32(object, layout->flags) >= 0;
}

/* What the code object's pointers lead to. */
static int read_parts(const struct foreign_memory *memory, const struct python_layout *layout,
		      const struct object *object, struct python_code *code)
{
	const struct python_code_layout *at = &layout->code;
	int ret;

	if (!is_plausible(object, at))
		return -EFAULT;
	code->first_line = (int)field_u32(object, at->firstlineno);
	ret = read_str(memory, layout, field_u64(object, at->qualname ? at->qualname : at->name), &code->name);
	ret = ret ?: read_str(memory, layout, field_u64(object, at->filename), &code->filename);
	ret = ret ?: read_linetable(memory, layout, field_u64(object, at->linetable), code);
	return ret;
}

/*
 * A freed object keeps most of its bytes, also those of the checksum, while its names are already somebody else's. But
 * its count of references went to 0, and the allocators put a link to the next free piece there. A live count fits 32
 * bits; of the bits above, 3.14 keeps flags in the upper 16, and a link to anything beyond 4 GiB has some of the lower.
 */
static bool is_alive(const struct object *object)
{
	return field_u32(object, OB_REFCNT) != 0 && (field_u32(object, OB_REFCNT + 4) & 0xffff) == 0;
}

/* Whether its type is called "code", as only one is. */
static bool is_code(const struct foreign_memory *memory, const struct object *object)
{
	struct object type;
	char name[sizeof("code")];

	return read_object(memory, field_u64(object, OB_TYPE), TP_NAME + 8, &type) &&
	       foreign_memory__read(memory, field_u64(&type, TP_NAME), name, sizeof(name)) &&
	       memcmp(name, "code", sizeof(name)) == 0;
}

/* Whether it is the same object as before, and lives. */
static int check_still_there(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t address,
			     const struct object *before, uint64_t sum)
{
	struct object now;

	if (!read_object(memory, address, code_size(layout), &now))
		return -EFAULT;
	if (!is_alive(&now) || field_u64(&now, OB_TYPE) != field_u64(before, OB_TYPE) ||
	    object_sum(memory, &now, layout) != sum)
		return -ESTALE;
	return 0;
}

int python_code__read(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t address,
		      uint64_t sum, struct python_code **out)
{
	_cleanup_(python_code) struct python_code *code = calloc(1, sizeof(*code));
	struct object before;
	int ret;

	if (!code)
		return -ENOMEM;
	if (!read_object(memory, address, code_size(layout), &before))
		return -EFAULT;
	code->sum = object_sum(memory, &before, layout);
	if (sum != 0 && sum != code->sum)
		return -ESTALE;
	if (!is_code(memory, &before))
		return -EFAULT;
	ret = read_parts(memory, layout, &before, code);
	if (ret == -ENOMEM)
		return ret;
	/*
	 * If it still lives now, then so did its names when they were read. Twice: an object that was just made at the
	 * same place is alive some 50 ns before it has fields of its own, and until then has those of the freed one.
	 */
	for (unsigned i = 0; i < 2; i++) {
		int still = check_still_there(memory, layout, address, &before, code->sum);

		if (still < 0)
			return still;
	}
	if (ret < 0)
		return ret;
	*out = TAKE_PTR(code);
	return 0;
}

int python_code__line(const struct python_code *code, uint16_t version, uint32_t instruction)
{
	if (!code->linetable || instruction >= SO_PYTHON_NO_INSTRUCTION)
		return code->first_line;
	return python_lines__find(version, code->linetable, code->linetable_bytes, code->first_line, instruction);
}

size_t python_code__bytes(const struct python_code *code)
{
	return sizeof(*code) + strlen(code->name) + 1 + strlen(code->filename) + 1 + code->linetable_bytes;
}

void python_code__free(struct python_code *code)
{
	if (!code)
		return;
	free(code->name);
	free(code->filename);
	free(code->linetable);
	free(code);
}
