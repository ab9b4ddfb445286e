/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/python/python_code.h"

#include <errno.h>
#include <string.h>

#include "daemon/python/python_lines.h"
#include "daemon/python/python_object.h"
#include "daemon/python/python_str.h"

#define MAX_ARGUMENTS    (1 << 20)   /* more are garbage */
#define MAX_BYTES_LENGTH (1ll << 31) /* bytes; a longer line table is garbage */

/* What objects begin with (PyObject of release builds, Include/object.h, refcount.h): references. */
#define OB_REFCNT 0
/* Free-threaded: those of the thread that made it, uint32_t; those of the others, below which are two flags. */
#define OB_REF_LOCAL     12
#define OB_REF_SHARED    16
#define REF_SHARED_SHIFT 2

static size_t max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

static int read_linetable(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t address,
			  struct python_code *code)
{
	_cleanup_free_ uint8_t *table = NULL;
	struct python_object object;
	int64_t size;

	if (!python_object__read(memory, address, layout->bytes.size + 8u, &object))
		return -EFAULT;
	size = (int64_t)python_object__u64(&object, layout->bytes.size);
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
	size = max_size(size, code->instructions + 8u);
	return max_size(size, max_size(code->qualname + 8u, code->linetable + 8u));
}

static uint64_t object_sum(const struct foreign_memory *memory, const struct python_object *object,
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
	struct python_object object;

	if (!python_object__read(memory, address, code_size(layout), &object))
		return false;
	*sum = object_sum(memory, &object, layout);
	return true;
}

static bool is_plausible(const struct python_object *object, const struct python_code_layout *layout)
{
	return python_object__u32(object, layout->argcount) <= MAX_ARGUMENTS &&
	       python_object__u32(object, layout->kwonlyargcount) <= MAX_ARGUMENTS &&
	       (int32_t)python_object__u32(object, layout->firstlineno) >= 0 &&
	       (int32_t)python_object__u32(object, layout->flags) >= 0;
}

/* What the code object's pointers lead to. */
static int read_parts(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t address,
		      const struct python_object *object, struct python_code *code)
{
	const struct python_code_layout *at = &layout->code;
	int ret;

	if (!is_plausible(object, at))
		return -EFAULT;
	if (at->instructions)
		code->instructions = python_object__u64(object, at->instructions) + layout->bytes.data;
	else if (layout->walker.code_first && !(layout->walker.flags & SO_PYTHON_COPIES))
		code->instructions = address + layout->walker.code_first;
	code->first_line = (int)python_object__u32(object, at->firstlineno);
	ret = python_str__read(memory, layout, python_object__u64(object, at->qualname ? at->qualname : at->name),
			       &code->name);
	ret = ret ?: python_str__read(memory, layout, python_object__u64(object, at->filename), &code->filename);
	ret = ret ?: read_linetable(memory, layout, python_object__u64(object, at->linetable), code);
	return ret;
}

/*
 * A freed object keeps most of its bytes, also those of the checksum, while its names are already somebody else's. But
 * its count of references went to 0, and the allocators put a link to the next free piece there. A live count fits 32
 * bits; of the bits above, 3.14 keeps flags in the upper 16, and a link to anything beyond 4 GiB has some of the lower.
 */
static bool is_alive(const struct python_object *object, const struct python_layout *layout)
{
	/* Both counts are 0 of a freed object. The link is in the word before them. */
	if (layout->free_threaded)
		return python_object__u32(object, OB_REF_LOCAL) != 0 ||
		       python_object__u64(object, OB_REF_SHARED) >> REF_SHARED_SHIFT != 0;
	return python_object__u32(object, OB_REFCNT) != 0 && (python_object__u32(object, OB_REFCNT + 4) & 0xffff) == 0;
}

/* Whether its type is called "code", as only one is. */
static bool is_code(const struct foreign_memory *memory, const struct python_layout *layout,
		    const struct python_object *object)
{
	struct python_object type;
	char name[sizeof("code")];

	return python_object__read(memory, python_object__u64(object, layout->object_type), layout->type_name + 8u,
				   &type) &&
	       foreign_memory__read(memory, python_object__u64(&type, layout->type_name), name, sizeof(name)) &&
	       memcmp(name, "code", sizeof(name)) == 0;
}

/* Whether it is the same object as before, and lives. */
static int check_still_there(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t address,
			     const struct python_object *before, uint64_t sum)
{
	struct python_object now;

	if (!python_object__read(memory, address, code_size(layout), &now))
		return -EFAULT;
	if (!is_alive(&now, layout) ||
	    python_object__u64(&now, layout->object_type) != python_object__u64(before, layout->object_type) ||
	    object_sum(memory, &now, layout) != sum)
		return -ESTALE;
	return 0;
}

int python_code__read(const struct foreign_memory *memory, const struct python_layout *layout, uint64_t address,
		      uint64_t sum, struct python_code **out)
{
	_cleanup_(python_code) struct python_code *code = calloc(1, sizeof(*code));
	struct python_object before;
	int ret;

	if (!code)
		return -ENOMEM;
	if (!python_object__read(memory, address, code_size(layout), &before))
		return -EFAULT;
	code->sum = object_sum(memory, &before, layout);
	if (sum != 0 && sum != code->sum)
		return -ESTALE;
	if (!is_code(memory, layout, &before))
		return -EFAULT;
	ret = read_parts(memory, layout, address, &before, code);
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
