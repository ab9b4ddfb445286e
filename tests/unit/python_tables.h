/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * _Py_DebugOffsets of CPython 3.13 and 3.14 as their headers lay them out, word by word, with the offsets of x86-64
 * builds where they are known; those that stakeout does not read are any.
 */
#ifndef STAKEOUT_TESTS_PYTHON_TABLES_H
#define STAKEOUT_TESTS_PYTHON_TABLES_H

#include <stdint.h>

#define PYTHON_TABLE_COOKIE 0x7970677562656478ull /* "xdebugpy" */

/* 3.13: Include/internal/pycore_runtime.h. */
static const uint64_t python_table_3_13[73] = {
	PYTHON_TABLE_COOKIE,
	0x030d00f0,
	0,
	/* runtime_state: size, finalizing, interpreters_head */
	283320,
	608,
	632,
	/* interpreter_state: size, id, next, threads_head, gc, imports_modules, sysdict, builtins, ceval_gil,
	   gil_runtime_state and in it enabled, locked, holder */
	194968,
	7272,
	7264,
	7344,
	7392,
	7640,
	7656,
	7664,
	16,
	7752,
	0,
	7768,
	7760,
	/*
	 * thread_state: size, prev, next, interp, current_frame, thread_id, native_thread_id, datastack_chunk, status
	 */
	304,
	0,
	8,
	16,
	72,
	152,
	160,
	232,
	32,
	/* interpreter_frame: size, previous, executable, instr_ptr, localsplus, owner */
	80,
	8,
	0,
	56,
	72,
	70,
	/* code_object: size, filename, name, qualname, linetable, firstlineno, argcount, localsplusnames,
	   localspluskinds, co_code_adaptive */
	208,
	112,
	120,
	128,
	136,
	68,
	52,
	96,
	104,
	200,
	/* pyobject; type_object: size, tp_name, tp_repr, tp_flags; tuple_object; list_object; dict_object */
	16,
	8,
	408,
	24,
	88,
	168,
	32,
	24,
	16,
	40,
	24,
	16,
	48,
	32,
	40,
	/* float_object; long_object; bytes_object: size, ob_size, ob_sval */
	24,
	16,
	32,
	16,
	24,
	40,
	16,
	32,
	/* unicode_object: size, state, length, asciiobject_size; gc */
	64,
	32,
	16,
	40,
	224,
	152,
};

/* 3.14: Include/internal/pycore_debug_offsets.h. */
static const uint64_t python_table_3_14[95] = {
	PYTHON_TABLE_COOKIE,
	0x030e00f0,
	0,
	/* runtime_state */
	351624,
	784,
	808,
	/*
	 * interpreter_state, with threads_main after threads_head, and code_object_generation, tlbc_generation at its
	 * end
	 */
	257272,
	7296,
	7288,
	7368,
	7376,
	7424,
	7680,
	7696,
	7704,
	16,
	7792,
	0,
	7808,
	7800,
	256000,
	0,
	/* thread_state */
	400,
	0,
	8,
	16,
	72,
	152,
	160,
	232,
	32,
	/* interpreter_frame, with stackpointer, tlbc_index at its end */
	88,
	8,
	0,
	56,
	80,
	74,
	64,
	0,
	/* code_object, with co_tlbc at its end */
	216,
	112,
	120,
	128,
	136,
	68,
	52,
	96,
	104,
	208,
	0,
	/* pyobject; type_object; tuple_object; list_object; set_object; dict_object */
	16,
	8,
	416,
	24,
	88,
	168,
	40,
	32,
	16,
	40,
	24,
	16,
	200,
	24,
	40,
	32,
	48,
	32,
	40,
	/* float_object; long_object; bytes_object */
	24,
	16,
	32,
	16,
	24,
	40,
	16,
	32,
	/* unicode_object; gc; gen_object; llist_node; debugger_support */
	64,
	32,
	16,
	40,
	224,
	152,
	160,
	24,
	72,
	71,
	0,
	8,
	24,
	300,
	300,
	0,
	8,
	512,
};

#endif
