// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sources of the tables: offsetof() in x86-64 release builds, read from the DWARF of 3.8.18, 3.9.18, 3.10.13, 3.11.7
 * and 3.12.1, and tested with other patch releases of 3.11 and 3.12. Within a minor version these structures do not
 * change.
 *   _PyRuntimeState              Include/internal/pycore_runtime.h; in 3.8 pycore_pystate.h
 *   PyInterpreterState           Include/internal/pycore_interp.h; in 3.8 pycore_pystate.h
 *   struct _gil_runtime_state    Include/internal/pycore_gil.h
 *   PyThreadState, _PyCFrame     Include/cpython/pystate.h
 *   PyFrameObject                Include/cpython/frameobject.h; in 3.8 Include/frameobject.h
 *   _PyInterpreterFrame          Include/internal/pycore_frame.h, from 3.11 on
 *   PyObject, PyTypeObject       Include/object.h, Include/cpython/object.h (PyHeapTypeObject is there, too)
 *   PyCodeObject                 Include/cpython/code.h; in 3.8 Include/code.h
 *   PyASCIIObject, PyBytesObject Include/cpython/unicodeobject.h, Include/cpython/bytesobject.h
 */
#include "daemon/python/python_layout.h"

#include <errno.h>
#include <stdbool.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/*
 * Which words of a code object count: those that are set when the object is made and never after. Not those that hold a
 * counter, a cache or a list's head, such as co_warmup (3.11), co_weakreflist, co_extra.
 */
/* 3.8 to 3.10: all from co_argcount (16) to co_lnotab or co_linetable (120). */
#define SUM_FROM_ARGCOUNT  16
#define SUM_ALL            0x3fff
#define NAME_FROM_ARGCOUNT 12 /* the word of co_name */
/* 3.11: from co_names (32) to co_linetable (136), without co_flags, co_warmup and _co_linearray_entry_size (48). */
#define SUM_FROM_NAMES  32
#define SUM_IN_3_11     (SUM_ALL & ~(1 << 2))
#define NAME_FROM_NAMES 11
/* PyASCIIObject */
#define STR_HASH 24
/* 3.12: the same words. co_version (92), a number that no other code object of the process has had, is one of them. */
#define SUM_IN_3_12 SUM_ALL

/* PyObject, PyTypeObject */
#define OBJECT .object_type = 8, .type_name = 24
/* struct _gil_runtime_state */
#define GIL_FIELDS .gil_holder = 8, .gil_locked = 16
/* _PyRuntimeState: from ceval.gil to gilstate.tstate_current, the same in 3.8 to 3.11. */
#define GIL_TO_CURRENT 216

#define STR_BEFORE_3_12                                                                         \
	{                                                                                       \
		.length = 16, .state = 32, .kind_bit = 2, .ascii_data = 48, .compact_data = 72, \
	}
#define BYTES                           \
	{                               \
		.size = 16, .data = 32, \
	}

/* 3.8 to 3.10 differ in a few places. */
#define BEFORE_3_11(number, extra_flags, lasti, tss_key, gil, locals, cframe, back)                           \
	{                                                                                                     \
		.version = (number),                                                                        \
		.walker = {                                                                                 \
			.version = (number),                                                                \
			.flags = SO_PYTHON_LASTI | SO_PYTHON_GIL_RUNTIME | (extra_flags),                   \
			.entry = SO_PYTHON_ENTRY_ALL,                                                       \
			.thread_id = 176,                                                                   \
			.frame = 24,                                                                        \
			.interp = 16,                                                                       \
			.thread_cframe = (cframe),                                                          \
			.cframe_back = (back),                                                              \
			GIL_FIELDS,                                                                         \
			.gil_current = GIL_TO_CURRENT,                                                      \
			.frame_code = 32,                                                                   \
			.frame_back = 24,                                                                   \
			.frame_instruction = (lasti),                                                       \
			.frame_bytes = (lasti) + 4,                                                         \
			.code_sum = SUM_FROM_ARGCOUNT,                                                      \
			.sum_words = SUM_ALL,                                                               \
			.sum_name = NAME_FROM_ARGCOUNT,                                                     \
			.name_hash = STR_HASH,                                                              \
		},                                                                                          \
		.runtime_interpreters_head = 32,                                                            \
		.runtime_autotss_key = (tss_key),                                                           \
		.runtime_gil = (gil),                                                                       \
		.runtime_initialized = 12,                                                                       \
		.interp_next = 0,                                                                           \
		.interp_threads_head = 8,                                                                   \
		.thread_next = 8,                                                                           \
		OBJECT,                                                                           \
		.frame_locals = (locals),                                                                           \
		.code = {                                                                                   \
			.argcount = 16,                                                                     \
			.kwonlyargcount = 24,                                                               \
			.flags = 36,                                                                        \
			.firstlineno = 40,                                                                  \
			.filename = 104,                                                                    \
			.name = 112,                                                                        \
			.linetable = 120,                                                                   \
			.instructions = 48,                                                                 \
		},                                                                                          \
		.str = STR_BEFORE_3_12,                                                                     \
		.bytes = BYTES, \
	}

static const struct python_layout layouts[] = {
	BEFORE_3_11(0x0308, SO_PYTHON_LASTI_BYTES, 104, 1392, 1152, 360, 0, 0),
	BEFORE_3_11(0x0309, SO_PYTHON_LASTI_BYTES, 104, 584, 352, 360, 0, 0),
	BEFORE_3_11(0x030a, 0, 96, 584, 352, 352, 48, 8),
	{
		.version = 0x030b,
		.walker = {
			.version = 0x030b,
			.flags = SO_PYTHON_CFRAME | SO_PYTHON_GIL_RUNTIME,
			.entry = SO_PYTHON_ENTRY_FLAG,
			.thread_id = 152,
			.frame = 56,
			.cframe_frame = 8,
			.interp = 16,
			.thread_cframe = 56,
			.cframe_back = 16,
			GIL_FIELDS,
			.gil_current = GIL_TO_CURRENT,
			.frame_code = 32,
			.frame_back = 48,
			.frame_instruction = 56, /* prev_instr */
			.frame_entry = 68, /* is_entry */
			.frame_bytes = 69,
			.code_first = 184,
			.code_sum = SUM_FROM_NAMES,
			.sum_words = SUM_IN_3_11,
			.sum_name = NAME_FROM_NAMES,
			.name_hash = STR_HASH,
		},
		.runtime_interpreters_head = 40,
		.runtime_autotss_key = 592,
		.runtime_gil = 360,
		.runtime_initialized = 16,
		.interp_next = 0,
		.interp_threads_head = 16,
		.thread_next = 8,
		OBJECT,
		.thread_native_id = 160,
		.frame_locals = 72,
		.code = {
			.argcount = 56,
			.kwonlyargcount = 64,
			.flags = 48,
			.firstlineno = 72,
			.filename = 112,
			.name = 120,
			.qualname = 128,
			.linetable = 136,
		},
		.str = STR_BEFORE_3_12,
		.bytes = BYTES,
		.attributes = { PYTHON_ATTRIBUTES_POINTERS, 872, 24 },
	},
	{
		.version = 0x030c,
		.walker = {
			.version = 0x030c,
			.flags = SO_PYTHON_CFRAME,
			.entry = SO_PYTHON_ENTRY_SHIM,
			.entry_owner = 3, /* FRAME_OWNED_BY_CSTACK, the last one of enum _frameowner */
			.thread_id = 136,
			.frame = 56,
			.cframe_frame = 0,
			.interp = 16,
			.thread_cframe = 56,
			.cframe_back = 8,
			.interp_gil = 384,
			GIL_FIELDS,
			.frame_code = 0,
			.frame_back = 8,
			.frame_instruction = 56, /* prev_instr */
			.frame_entry = 70, /* owner */
			.frame_bytes = 71,
			.code_first = 192,
			.code_sum = SUM_FROM_NAMES,
			.sum_words = SUM_IN_3_12,
		},
		.runtime_interpreters_head = 40,
		.runtime_autotss_key = 1544,
		.runtime_initialized = 16,
		.interp_next = 0,
		.interp_threads_head = 72,
		.thread_next = 8,
		OBJECT,
		.thread_native_id = 144,
		.frame_locals = 72,
		.code = {
			.argcount = 52,
			.kwonlyargcount = 60,
			.flags = 48,
			.firstlineno = 68,
			.filename = 112,
			.name = 120,
			.qualname = 128,
			.linetable = 136,
		},
		.str = { .length = 16, .state = 32, .kind_bit = 2, .ascii_data = 40, .compact_data = 56 },
		.bytes = BYTES,
		.attributes = { PYTHON_ATTRIBUTES_TAGGED, 880, 24 },
	},
};

const struct python_layout *python_layout__of_version(uint16_t version)
{
	for (size_t i = 0; i < COUNT(layouts); i++) {
		if (layouts[i].version == version)
			return &layouts[i];
	}
	return NULL;
}

/* "3.11.7", "3.15.0a2 (pre-release)", or "3.8" where the patch release is not known. */
static void version_text(uint32_t version, char *text, size_t size)
{
	unsigned major = version >> 24, minor = version >> 16 & 0xff, micro = version >> 8 & 0xff;
	unsigned level = version >> 4 & 0xf, serial = version & 0xf;

	if (!(version & 0xffff))
		snprintf(text, size, "%u.%u", major, minor);
	else if (level == 0xf)
		snprintf(text, size, "%u.%u.%u", major, minor, micro);
	else
		snprintf(text, size, "%u.%u.%u%s%u (pre-release)", major, minor, micro,
			 level == 0xa   ? "a"
			 : level == 0xb ? "b"
			 : level == 0xc ? "rc"
					: "-",
			 serial);
}

int python_layout__check_version(uint32_t version, struct so_error *err)
{
	char text[64];
	bool final = !(version & 0xffff) || (version >> 4 & 0xf) == 0xf;

	if (version >> 16 >= PYTHON_LAYOUT_OLDEST && version >> 16 <= PYTHON_LAYOUT_NEWEST && final)
		return 0;
	version_text(version, text, sizeof(text));
	return so_err(err, -ENOTSUP, "CPython %s is not supported: releases of 3.%u to 3.%u are", text,
		      PYTHON_LAYOUT_OLDEST & 0xff, PYTHON_LAYOUT_NEWEST & 0xff);
}
