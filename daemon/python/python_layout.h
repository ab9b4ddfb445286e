/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where CPython keeps what stakeout reads, by version. 3.13 and later describe themselves (_Py_DebugOffsets); the
 * offsets of earlier ones are compiled in, x86-64 release builds, their sources named in python_layout.c. All in bytes.
 */
#ifndef STAKEOUT_PYTHON_LAYOUT_H
#define STAKEOUT_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stakeout/error.h"
#include "stakeout/python_abi.h"

/* PyCodeObject. */
struct python_code_layout {
	uint16_t argcount, kwonlyargcount, flags, firstlineno; /* int */
	uint16_t filename, name;                               /* PyObject *, str */
	uint16_t qualname;                                     /* the same; 0: this version has none (before 3.11) */
	uint16_t linetable;                                    /* PyObject *, bytes; co_lnotab before 3.10 */
	/* PyObject *, bytes: co_code before 3.11; 0: they lie in the object (walker.code_first) */
	uint16_t instructions;
};

/* PyASCIIObject and PyCompactUnicodeObject: str objects that name things are always compact. */
struct python_str_layout {
	uint16_t length;       /* Py_ssize_t, code points */
	uint16_t state;        /* the bit field: decode_state() in python_str.c reads it by version */
	uint16_t kind_bit;     /* in it, the lowest bit of `kind`: those of `interned` are below it */
	uint16_t ascii_data;   /* sizeof(PyASCIIObject) */
	uint16_t compact_data; /* sizeof(PyCompactUnicodeObject) */
};

/* PyBytesObject. */
struct python_bytes_layout {
	uint16_t size; /* Py_ssize_t, ob_size */
	uint16_t data;
};

/* How an object has its attributes (python_attributes.c says how each way works). */
enum python_attributes_way {
	PYTHON_ATTRIBUTES_DICT,     /* 3.8 to 3.10: a dict, or a row of values that shares its keys with others */
	PYTHON_ATTRIBUTES_POINTERS, /* 3.11: in front of the object a pointer to values, and one to a dict */
	PYTHON_ATTRIBUTES_TAGGED,   /* 3.12: in front of it one pointer; its lowest bit set: to values */
	PYTHON_ATTRIBUTES_INLINE,   /* 3.13 on: the values behind the object, but for such as have a dict */
};

struct python_attributes_layout {
	uint16_t way;         /* enum python_attributes_way */
	uint16_t cached_keys; /* PyHeapTypeObject: the keys of its objects' values; 0: they have none (before 3.11) */
	uint16_t dict_before; /* bytes before the object: pointer to its dict (3.11 on) */
};

struct python_layout {
	uint16_t version;   /* 0x030b for 3.11 */
	bool thread_local;  /* a thread's state is in a variable of its own, not under a pthread key (3.15) */
	bool free_threaded; /* Py_GIL_DISABLED: objects have a longer header, and two counts of references (3.13 on) */
	struct so_python walker; /* for the kernel side; gil and tss belong to a process and are 0 here */
	/* _PyRuntime */
	uint32_t runtime_interpreters_head;
	/* Py_tss_t: int, whether it was made; pthread_key_t. 0: not known (3.14), or there is none (3.15) */
	uint32_t runtime_autotss_key;
	/* The GIL. 0: each interpreter has its own (3.12 on), walker.interp_gil */
	uint32_t runtime_gil;
	/* int, 1 between the end of Py_Initialize() and Py_Finalize() */
	uint32_t runtime_initialized;
	/* PyInterpreterState, PyThreadState */
	uint32_t interp_next, interp_threads_head;
	uint16_t thread_prev, thread_next;
	uint16_t thread_native_id; /* 0: none (before 3.11) */
	uint16_t object_type;      /* PyObject: PyTypeObject *, its last field */
	uint16_t type_name;        /* PyTypeObject: const char * */
	uint16_t frame_locals;     /* of a frame: its local variables, PyObject *[]; 0: not known */
	struct python_code_layout code;
	struct python_str_layout str;
	struct python_bytes_layout bytes;
	struct python_attributes_layout attributes;
};

/* sizeof(PyObject), where the fields of an object begin. */
static inline uint16_t python_layout__header(const struct python_layout *layout)
{
	return (uint16_t)(layout->object_type + 8);
}

/* Minor versions that are supported. */
#define PYTHON_LAYOUT_OLDEST 0x0308u
#define PYTHON_LAYOUT_NEWEST 0x030fu

/* 0x0308 to 0x030c; NULL for any other version: later ones describe themselves (python_debug_offsets.h). */
const struct python_layout *python_layout__of_version(uint16_t version);

/*
 * version: as Py_Version, 0x030b07f0 for 3.11.7; the lower two bytes 0: not known. 0, or -ENOTSUP for a minor version
 * that is too old or too new and for pre-releases, whose structures still change; err names it.
 */
int python_layout__check_version(uint32_t version, struct so_error *err);

#endif
