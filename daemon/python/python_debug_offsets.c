// SPDX-License-Identifier: GPL-2.0-or-later
/* Which word of the table is which: python_debug_table_internal.h. Here it is read, and what it says checked. */
#include "daemon/python/python_debug_offsets.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "daemon/python/python_debug_table_internal.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define COOKIE       "xdebugpy"
/* From here on there is no pthread key: thread-local variables of the interpreter have thread states. */
#define FIRST_THREAD_LOCAL 0x030f

/* struct _gil_runtime_state: behind interval, behind last_holder. Free-threaded, before all: enabled. */
#define GIL_HOLDER        8
#define GIL_LOCKED        16
#define GIL_ENABLED_BYTES 8
/* From co_names to co_linetable, co_version among them: what never changes in a code object. */
#define SUM_BEFORE_ARGCOUNT 20
#define SUM_WORDS           0x3fff
/* PyHeapTypeObject.ht_cached_keys behind the header (Include/cpython/object.h of 3.13 and 3.14). */
#define HEAP_TYPE_CACHED_KEYS 864
/* Before an object with a managed dict, the pointer to it. Free-threaded, no header of the collector's is between. */
#define MANAGED_DICT_BEFORE       24
#define FREE_THREADED_DICT_BEFORE 8
/* A str object's state: behind interned. */
#define KIND_BIT        2
#define LEAST_HEAP_TYPE 416 /* of a PyTypeObject alone */
#define MOST_HEAP_TYPE  4096

/* The sizes of the structures that are looked at. max: far above what they are. */
static const struct {
	const char *name;
	enum table_word size;
	uint32_t min, max;
} sections[] = {
	{ "runtime_state", W_RUNTIME, 1024, 64 << 20 }, { "interpreter_state", W_INTERPRETER, 1024, 64 << 20 },
	{ "thread_state", W_THREAD, 128, 16 << 10 },    { "interpreter_frame", W_FRAME, 64, 1024 },
	{ "code_object", W_CODE, 128, 2048 },           { "pyobject", W_OBJECT, 16, 64 },
	{ "bytes_object", W_BYTES_OBJECT, 24, 256 },    { "unicode_object", W_STR, 40, 256 },
};

/* The offsets that are used: each lies in its structure, at a multiple of its width, and apart from the others. */
static const struct {
	const char *name;
	enum table_word word, size;
	uint8_t width;
} fields[] = {
	{ "runtime_state.interpreters_head", W_INTERPRETERS_HEAD, W_RUNTIME, 8 },
	{ "interpreter_state.next", W_INTERPRETER_NEXT, W_INTERPRETER, 8 },
	{ "interpreter_state.threads_head", W_THREADS_HEAD, W_INTERPRETER, 8 },
	{ "interpreter_state.ceval_gil", W_CEVAL_GIL, W_INTERPRETER, 8 },
	{ "interpreter_state.gil_runtime_state_locked", W_LOCKED, W_INTERPRETER, 4 },
	{ "interpreter_state.gil_runtime_state_holder", W_HOLDER, W_INTERPRETER, 8 },
	{ "thread_state.prev", W_THREAD_PREV, W_THREAD, 8 },
	{ "thread_state.next", W_THREAD_NEXT, W_THREAD, 8 },
	{ "thread_state.interp", W_THREAD_INTERPRETER, W_THREAD, 8 },
	{ "thread_state.current_frame", W_CURRENT_FRAME, W_THREAD, 8 },
	{ "thread_state.thread_id", W_THREAD_ID, W_THREAD, 8 },
	{ "thread_state.native_thread_id", W_NATIVE_ID, W_THREAD, 8 },
	{ "interpreter_frame.previous", W_PREVIOUS, W_FRAME, 8 },
	{ "interpreter_frame.executable", W_EXECUTABLE, W_FRAME, 8 },
	{ "interpreter_frame.instr_ptr", W_INSTRUCTION, W_FRAME, 8 },
	{ "interpreter_frame.owner", W_OWNER, W_FRAME, 1 },
	{ "interpreter_frame.localsplus", W_LOCALS, W_FRAME, 8 },
	{ "code_object.filename", W_FILENAME, W_CODE, 8 },
	{ "code_object.name", W_NAME, W_CODE, 8 },
	{ "code_object.qualname", W_QUALNAME, W_CODE, 8 },
	{ "code_object.linetable", W_LINETABLE, W_CODE, 8 },
	{ "code_object.firstlineno", W_FIRSTLINENO, W_CODE, 4 },
	{ "code_object.argcount", W_ARGCOUNT, W_CODE, 4 },
	{ "code_object.co_code_adaptive", W_FIRST_INSTRUCTION, W_CODE, 2 },
	{ "pyobject.ob_type", W_OBJECT_TYPE, W_OBJECT, 8 },
	{ "bytes_object.ob_size", W_BYTES_SIZE, W_BYTES_OBJECT, 8 },
	{ "bytes_object.ob_sval", W_BYTES_DATA, W_BYTES_OBJECT, 1 },
	{ "unicode_object.state", W_STR_STATE, W_STR, 4 },
	{ "unicode_object.length", W_STR_LENGTH, W_STR, 8 },
};

static bool check_sizes(const uint64_t *words, struct so_error *err)
{
	for (size_t i = 0; i < COUNT(sections); i++) {
		uint64_t size = words[sections[i].size];

		if (size < sections[i].min || size > sections[i].max || size % 8) {
			so_err(err, -EINVAL, "damaged _Py_DebugOffsets: %s.size is %#llx", sections[i].name,
			       (unsigned long long)size);
			return false;
		}
	}
	return true;
}

static bool check_fields(const uint64_t *words, struct so_error *err)
{
	for (size_t i = 0; i < COUNT(fields); i++) {
		uint64_t at = words[fields[i].word];

		if (at >= words[fields[i].size] || fields[i].width > words[fields[i].size] - at ||
		    at % fields[i].width) {
			so_err(err, -EINVAL, "damaged _Py_DebugOffsets: %s is %#llx", fields[i].name,
			       (unsigned long long)at);
			return false;
		}
		for (size_t k = 0; k < i; k++) {
			uint64_t other = words[fields[k].word];

			if (fields[k].size == fields[i].size && at < other + fields[k].width &&
			    other < at + fields[i].width) {
				so_err(err, -EINVAL, "damaged _Py_DebugOffsets: %s and %s overlap", fields[k].name,
				       fields[i].name);
				return false;
			}
		}
	}
	return true;
}

/*
 * What the table does not tell is known by its place beside what it does: co_flags and co_kwonlyargcount around
 * co_argcount, the words of the checksum, the data of a str object that is not ASCII. So the fields that are described
 * must stand as in _PyCode_DEF (Include/cpython/code.h, the same in 3.13 to 3.15). So must those of objects that each
 * CPython has had alike since 3.3, and the GIL's, whose structure the table places in the interpreter state.
 */
static bool check_neighbours(const struct table_format *format, bool free_threaded, const uint64_t *words,
			     struct so_error *err)
{
	uint64_t argcount = words[W_ARGCOUNT], object = words[W_OBJECT];
	uint64_t enabled_bytes = free_threaded ? GIL_ENABLED_BYTES : 0;
	const char *what = NULL;

	if (words[W_INTERPRETERS_HEAD] < format->n * 8u + 5 * 4)
		what = "runtime_state";
	else if (words[W_HOLDER] - words[W_GIL] != enabled_bytes + GIL_HOLDER ||
		 words[W_LOCKED] - words[W_GIL] != enabled_bytes + GIL_LOCKED || words[W_CEVAL_GIL] > UINT16_MAX)
		what = "interpreter_state";
	else if (words[W_OWNER] >= SO_PYTHON_FRAME_BYTES || words[W_INSTRUCTION] > SO_PYTHON_FRAME_BYTES - 8 ||
		 words[W_PREVIOUS] > SO_PYTHON_FRAME_BYTES - 8 || words[W_EXECUTABLE] > SO_PYTHON_FRAME_BYTES - 8)
		what = "interpreter_frame";
	else if (argcount != object + 36 || words[W_FIRSTLINENO] != argcount + 16 ||
		 words[W_FILENAME] != argcount + 60 || words[W_NAME] != argcount + 68 ||
		 words[W_QUALNAME] != argcount + 76 || words[W_LINETABLE] != argcount + 84 ||
		 words[W_FIRST_INSTRUCTION] < argcount + 92)
		what = "code_object";
	else if (object != (free_threaded ? 32 : 16) || words[W_OBJECT_TYPE] != object - 8 ||
		 words[W_TYPE_NAME] != object + 8)
		what = "pyobject";
	else if (words[W_BYTES_SIZE] != object || words[W_BYTES_DATA] != object + 16)
		what = "bytes_object";
	else if (words[W_STR_LENGTH] != object || words[W_STR_STATE] != object + 16 ||
		 words[W_ASCII_DATA] != object + 24 || words[W_STR] < object + 40)
		what = "unicode_object";
	if (what)
		so_err(err, -EINVAL, "_Py_DebugOffsets of an unknown layout: %s", what);
	return !what;
}

/* Up to the end of the last field that the walker reads. */
static uint16_t frame_bytes(const uint64_t *words)
{
	uint64_t end = words[W_OWNER] + 1;

	for (enum table_word i = W_PREVIOUS; i <= W_INSTRUCTION; i++) {
		if (words[i] + 8 > end)
			end = words[i] + 8;
	}
	return (uint16_t)end;
}

static struct python_layout layout_from_table(const struct table_format *format, const uint64_t *words,
					      uint16_t cached_keys)
{
	uint16_t argcount = (uint16_t)words[W_ARGCOUNT];

	return (struct python_layout){
		.version = format->version,
		.thread_local = format->version >= FIRST_THREAD_LOCAL,
		.walker = {
			.version = format->version,
			.flags = format->flags,
			.entry = SO_PYTHON_ENTRY_SHIM,
			.entry_owner = format->entry_owner,
			.thread_id = (uint16_t)words[W_THREAD_ID],
			.frame = (uint16_t)words[W_CURRENT_FRAME],
			.interp = (uint16_t)words[W_THREAD_INTERPRETER],
			.interp_gil = (uint16_t)words[W_CEVAL_GIL],
			.gil_holder = (uint16_t)(words[W_HOLDER] - words[W_GIL]),
			.gil_locked = (uint16_t)(words[W_LOCKED] - words[W_GIL]),
			.frame_code = (uint16_t)words[W_EXECUTABLE],
			.frame_back = (uint16_t)words[W_PREVIOUS],
			.frame_instruction = (uint16_t)words[W_INSTRUCTION],
			.frame_entry = (uint16_t)words[W_OWNER],
			.frame_bytes = frame_bytes(words),
			.code_first = (uint16_t)words[W_FIRST_INSTRUCTION],
			.code_sum = (uint16_t)(argcount - SUM_BEFORE_ARGCOUNT),
			.sum_words = SUM_WORDS,
		},
		.runtime_interpreters_head = (uint32_t)words[W_INTERPRETERS_HEAD],
		.runtime_autotss_key = format->autotss_key,
		/* Behind the table: _initialized, preinitializing, preinitialized, core_initialized, initialized. */
		.runtime_initialized = format->n * 8u + 4 * 4,
		.interp_next = (uint32_t)words[W_INTERPRETER_NEXT],
		.interp_threads_head = (uint32_t)words[W_THREADS_HEAD],
		.thread_prev = (uint16_t)words[W_THREAD_PREV],
		.thread_next = (uint16_t)words[W_THREAD_NEXT],
		.thread_native_id = (uint16_t)words[W_NATIVE_ID],
		.object_type = (uint16_t)words[W_OBJECT_TYPE],
		.type_name = (uint16_t)words[W_TYPE_NAME],
		.frame_locals = (uint16_t)words[W_LOCALS],
		.code = {
			.argcount = argcount,
			.kwonlyargcount = (uint16_t)(argcount + 8),
			.flags = (uint16_t)(argcount - 4),
			.firstlineno = (uint16_t)words[W_FIRSTLINENO],
			.filename = (uint16_t)words[W_FILENAME],
			.name = (uint16_t)words[W_NAME],
			.qualname = (uint16_t)words[W_QUALNAME],
			.linetable = (uint16_t)words[W_LINETABLE],
		},
		.str = {
			.length = (uint16_t)words[W_STR_LENGTH],
			.state = (uint16_t)words[W_STR_STATE],
			.kind_bit = KIND_BIT,
			.ascii_data = (uint16_t)words[W_ASCII_DATA],
			.compact_data = (uint16_t)(words[W_ASCII_DATA] + 16), /* utf8_length, utf8 */
		},
		.bytes = {
			.size = (uint16_t)words[W_BYTES_SIZE],
			.data = (uint16_t)words[W_BYTES_DATA],
		},
		.attributes = { PYTHON_ATTRIBUTES_INLINE, cached_keys, MANAGED_DICT_BEFORE },
	};
}

/* What Py_GIL_DISABLED adds (pycore_gil.h, pycore_interpframe_structs.h, pycore_code.h, unicodeobject.h). */
static bool add_free_threaded(const struct table_format *format, const uint64_t *raw, const uint64_t *words,
			      struct python_layout *layout, struct so_error *err)
{
	const char *what = NULL;

	layout->free_threaded = true;
	layout->walker.flags |= SO_PYTHON_FREE_THREADED;
	layout->walker.gil_enabled = (uint16_t)raw[format->gil_enabled_at];
	layout->str.kind_bit = format->kind_bit;
	layout->attributes.dict_before = FREE_THREADED_DICT_BEFORE;
	if (raw[format->gil_enabled_at])
		what = "interpreter_state.gil_runtime_state_enabled";
	if (format->frame_copy_at) {
		uint64_t in_frame = raw[format->frame_copy_at], in_code = raw[format->code_copies_at];

		if (in_frame + 4 != words[W_OWNER] - 2 || in_frame % 4)
			what = "interpreter_frame.tlbc_index";
		else if (in_code + 8 != words[W_FIRST_INSTRUCTION] || in_code % 8)
			what = "code_object.co_tlbc";
		layout->walker.flags |= SO_PYTHON_COPIES;
		layout->walker.frame_copy = (uint16_t)in_frame;
		layout->walker.code_copies = (uint16_t)in_code;
	}
	if (what)
		so_err(err, -EINVAL, "_Py_DebugOffsets of an unknown layout: %s", what);
	return !what;
}

int python_debug_offsets__read(const void *bytes, size_t n, struct python_layout *out, struct so_error *err)
{
	const struct table_format *format = NULL;
	uint64_t raw[PYTHON_DEBUG_OFFSETS_BYTES / 8] = { 0 }, words[N_WORDS], cached_keys;
	struct python_layout layout;
	int ret;

	memcpy(raw, bytes, n < sizeof(raw) ? n : sizeof(raw));
	if (n < N_FIXED * 8 || memcmp(raw, COOKIE, 8) != 0 || raw[VERSION_AT] > UINT32_MAX || raw[FREE_THREADED_AT] > 1)
		return so_err(err, -EINVAL, "no _Py_DebugOffsets where _PyRuntime should begin with them");
	ret = python_layout__check_version((uint32_t)raw[VERSION_AT], err);
	if (ret < 0)
		return ret;
	for (size_t i = 0; i < COUNT(formats); i++) {
		if (formats[i].version == raw[VERSION_AT] >> 16)
			format = &formats[i];
	}
	if (!format || n < format->n * 8u)
		return so_err(err, -EINVAL, "damaged _Py_DebugOffsets: version is %#llx",
			      (unsigned long long)raw[VERSION_AT]);
	for (size_t i = 0; i < N_WORDS; i++)
		words[i] = raw[format->at[i]];
	if (!check_sizes(words, err) || !check_fields(words, err) ||
	    !check_neighbours(format, raw[FREE_THREADED_AT], words, err))
		return -EINVAL;
	cached_keys = format->cached_keys_at ? raw[format->cached_keys_at] : words[W_OBJECT] + HEAP_TYPE_CACHED_KEYS;
	if (cached_keys < LEAST_HEAP_TYPE || cached_keys > MOST_HEAP_TYPE || cached_keys % 8)
		return so_err(err, -EINVAL, "damaged _Py_DebugOffsets: heap_type_object.ht_cached_keys is %#llx",
			      (unsigned long long)cached_keys);
	layout = layout_from_table(format, words, (uint16_t)cached_keys);
	if (raw[FREE_THREADED_AT] && !add_free_threaded(format, raw, words, &layout, err))
		return -EINVAL;
	*out = layout;
	return 0;
}

uint32_t python_debug_offsets__version(const void *bytes, size_t n)
{
	uint64_t words[2];

	if (n < sizeof(words))
		return 0;
	memcpy(words, bytes, sizeof(words));
	return memcmp(words, COOKIE, 8) == 0 && words[1] <= UINT32_MAX ? (uint32_t)words[1] : 0;
}
