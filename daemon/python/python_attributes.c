// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A dict has a table of keys, in the order in which they were set. Many objects of one class share a table: each has a
 * row of values of its own then, by the index of the key, and no dict until somebody asks for one. Where that row is
 * differs by version (enum python_attributes_way). Sources: Objects/dictobject.c of 3.8 to 3.10, of 3.11 on
 * Include/internal/pycore_dict.h and pycore_object.h; Include/cpython/dictobject.h.
 */
#include "daemon/python/python_attributes.h"

#include <errno.h>

#include "daemon/python/python_object.h"

/* PyTypeObject, behind the header that all objects have */
#define TYPE_BASICSIZE  16
#define TYPE_FLAGS      152
#define TYPE_DICTOFFSET 272
#define TYPE_BYTES      (TYPE_DICTOFFSET + 8)
/* Py_TPFLAGS_INLINE_VALUES (3.13), Py_TPFLAGS_MANAGED_DICT (3.11) */
#define INLINE_VALUES 0x4u
#define MANAGED_DICT  0x10u
/* In front of an object, in 3.11: a pointer to its values. */
#define VALUES_BEFORE 32
/* An object of a class whose values lie behind it has no fields of its own. */
#define MAX_BASICSIZE 4096
/* PyDictObject, behind the header */
#define DICT_KEYS   16
#define DICT_VALUES 24
#define DICT_BYTES  (DICT_VALUES + 8)
/* PyDictValues from 3.13 on: capacity, size, embedded, valid; the values. */
#define VALUES_VALID 3
#define VALUES_DATA  8

#define FIRST_3_11 0x030b
/* PyDictKeysObject up to 3.10 */
#define OLD_KEYS_SIZE    8
#define OLD_KEYS_ENTRIES 32
#define OLD_KEYS_BYTES   40
/* PyDictKeysObject from 3.11 on. A kind other than 0: entries have no hash, since all keys are str. */
#define KEYS_LOG_INDEX_BYTES 9
#define KEYS_KIND            10
#define KEYS_ENTRIES         24
#define KEYS_BYTES           32
#define MAX_LOG_INDEX_BYTES  16

#define ENTRY_WORDS 3 /* hash, key, value */

struct attributes {
	uint64_t entries;  /* address of the table's */
	unsigned n, words; /* words of each */
	unsigned key;      /* which of them is the key; the next one is the value, */
	uint64_t values;   /* unless they are here; 0: they are in the entries */
};

static int read_old_keys(const struct foreign_memory *memory, uint64_t keys, struct attributes *out)
{
	struct python_object object;
	uint64_t size, n;

	if (!python_object__read(memory, keys, OLD_KEYS_BYTES, &object))
		return -EFAULT;
	size = python_object__u64(&object, OLD_KEYS_SIZE);
	n = python_object__u64(&object, OLD_KEYS_ENTRIES);
	if (!size || size > UINT16_MAX || n > size)
		return -EFAULT;
	out->entries = keys + OLD_KEYS_BYTES + size * (size <= 0xff ? 1 : 2);
	out->n = n < PYTHON_MAX_ATTRIBUTES ? (unsigned)n : PYTHON_MAX_ATTRIBUTES;
	out->words = ENTRY_WORDS;
	out->key = 1;
	return 0;
}

static int read_keys(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t keys,
		     struct attributes *out)
{
	struct python_object object;
	unsigned log_bytes;
	uint64_t n;

	if (layout->version < FIRST_3_11)
		return read_old_keys(memory, keys, out);
	if (!python_object__read(memory, keys, KEYS_BYTES, &object))
		return -EFAULT;
	log_bytes = object.bytes[KEYS_LOG_INDEX_BYTES];
	n = python_object__u64(&object, KEYS_ENTRIES);
	if (log_bytes > MAX_LOG_INDEX_BYTES || n > 1ull << log_bytes)
		return -EFAULT;
	out->entries = keys + KEYS_BYTES + (1ull << log_bytes);
	out->n = n < PYTHON_MAX_ATTRIBUTES ? (unsigned)n : PYTHON_MAX_ATTRIBUTES;
	out->key = object.bytes[KEYS_KIND] ? 0 : 1;
	out->words = out->key + 2;
	return 0;
}

static int read_dict(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t dict,
		     struct attributes *out)
{
	size_t header = python_layout__header(layout);
	struct python_object object;
	int ret;

	if (!dict)
		return -ENOENT;
	if (!python_object__read(memory, dict, header + DICT_BYTES, &object))
		return -EFAULT;
	ret = read_keys(memory, layout, python_object__u64(&object, header + DICT_KEYS), out);
	out->values = python_object__u64(&object, header + DICT_VALUES);
	if (out->values && layout->attributes.way == PYTHON_ATTRIBUTES_INLINE)
		out->values += VALUES_DATA;
	return ret;
}

/* values: 0 where the object has a dict instead. */
static int find_values(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t object,
		       const struct python_object *type, uint64_t *values, uint64_t *dict)
{
	size_t header = python_layout__header(layout);
	uint64_t size = python_object__u64(type, header + TYPE_BASICSIZE);
	uint8_t valid;

	*values = 0;
	if (!foreign_memory__read(memory, object - layout->attributes.dict_before, dict, sizeof(*dict)))
		return -EFAULT;
	switch (layout->attributes.way) {
	case PYTHON_ATTRIBUTES_POINTERS:
		return foreign_memory__read(memory, object - VALUES_BEFORE, values, sizeof(*values)) ? 0 : -EFAULT;
	case PYTHON_ATTRIBUTES_TAGGED:
		*values = *dict & 1 ? *dict + 1 : 0;
		return 0;
	case PYTHON_ATTRIBUTES_INLINE:
		if (*dict || !(python_object__u64(type, header + TYPE_FLAGS) & INLINE_VALUES))
			return 0;
		if (size > MAX_BASICSIZE ||
		    !foreign_memory__read(memory, object + size + VALUES_VALID, &valid, sizeof(valid)) || valid != 1)
			return -EFAULT;
		*values = object + size + VALUES_DATA;
		return 0;
	default:
		return -EFAULT;
	}
}

static int read_managed(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t object,
			uint64_t type_address, const struct python_object *type, struct attributes *out)
{
	uint64_t values, dict, keys;
	int ret = find_values(memory, layout, object, type, &values, &dict);

	if (ret)
		return ret;
	if (!values)
		return read_dict(memory, layout, dict, out);
	keys = foreign_memory__u64(memory, type_address + layout->attributes.cached_keys);
	out->values = values;
	return read_keys(memory, layout, keys, out);
}

static int read_attributes(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t object,
			   struct attributes *out)
{
	uint64_t type_address = foreign_memory__u64(memory, object + layout->object_type);
	size_t header = python_layout__header(layout);
	struct python_object type;
	int64_t offset;

	if (!python_object__read(memory, type_address, header + TYPE_BYTES, &type))
		return -EFAULT;
	offset = (int64_t)python_object__u64(&type, header + TYPE_DICTOFFSET);
	if (offset > 0 && offset <= MAX_BASICSIZE)
		return read_dict(memory, layout, foreign_memory__u64(memory, object + (uint64_t)offset), out);
	if (!(python_object__u64(&type, header + TYPE_FLAGS) & MANAGED_DICT) || !layout->attributes.cached_keys)
		return -ENOENT;
	return read_managed(memory, layout, object, type_address, &type, out);
}

/* Whether the object is an ASCII str of that text. */
static bool is_name(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t address,
		    const char *name)
{
	size_t length = strlen(name);
	struct python_object object;

	return python_object__read(memory, address, layout->str.ascii_data + length + 1, &object) &&
	       python_object__u64(&object, layout->str.length) == length &&
	       !memcmp(object.bytes + layout->str.ascii_data, name, length + 1);
}

int python_attributes__find(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t object,
			    const char *name, uint64_t *value)
{
	uint64_t entries[PYTHON_MAX_ATTRIBUTES * ENTRY_WORDS], found = 0;
	struct attributes all = { 0 };
	int ret = read_attributes(memory, layout, object, &all);

	if (ret)
		return ret;
	if (!all.n)
		return -ENOENT;
	if (!foreign_memory__read(memory, all.entries, entries, (size_t)all.n * all.words * sizeof(entries[0])))
		return -EFAULT;
	for (unsigned i = 0; i < all.n; i++) {
		const uint64_t *entry = &entries[i * all.words];

		if (!is_name(memory, layout, entry[all.key], name))
			continue;
		found = all.values ? foreign_memory__u64(memory, all.values + 8ull * i) : entry[all.key + 1];
		break;
	}
	if (!found)
		return -ENOENT;
	*value = found;
	return 0;
}
