// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/memory/alloc_functions.h"

#include <stdlib.h>
#include <string.h>

#define F(symbol, shape, kind)                                                 \
	{                                                                      \
		symbol, SO_ALLOC_##shape, SO_ALLOC_##kind, false, false, false \
	}
#define CPP(symbol, shape)                                                    \
	{                                                                     \
		symbol, SO_ALLOC_##shape, SO_ALLOC_MALLOC, true, false, false \
	}
#define CPP_THROWS(symbol, shape)                                            \
	{                                                                    \
		symbol, SO_ALLOC_##shape, SO_ALLOC_MALLOC, true, false, true \
	}
#define THROWS(symbol, shape, kind)                                           \
	{                                                                     \
		symbol, SO_ALLOC_##shape, SO_ALLOC_##kind, false, false, true \
	}
#define PYTHON(symbol, shape, kind)                                           \
	{                                                                     \
		symbol, SO_ALLOC_##shape, SO_ALLOC_##kind, false, true, false \
	}

/*
 * Sorted by strcmp(). Left out are functions that call one of these for all that they allocate, as reallocarray of the
 * C library.
 */
static const struct alloc_function functions[] = {
	PYTHON("PyMem_Calloc", ARRAY, PY_MEMORY),
	PYTHON("PyMem_Free", FREE, PY_MEMORY),
	PYTHON("PyMem_Malloc", SIZE, PY_MEMORY),
	PYTHON("PyMem_Realloc", RESIZE, PY_MEMORY),
	PYTHON("PyObject_Calloc", ARRAY, PY_OBJECT),
	PYTHON("PyObject_Free", FREE, PY_OBJECT),
	PYTHON("PyObject_Malloc", SIZE, PY_OBJECT),
	PYTHON("PyObject_Realloc", RESIZE, PY_OBJECT),
	CPP("_ZdaPv", FREE),
	CPP("_ZdaPvRKSt9nothrow_t", FREE),
	CPP("_ZdaPvSt11align_val_t", FREE),
	CPP("_ZdaPvSt11align_val_tRKSt9nothrow_t", FREE),
	CPP("_ZdaPvm", FREE),
	CPP("_ZdaPvmSt11align_val_t", FREE),
	CPP("_ZdlPv", FREE),
	CPP("_ZdlPvRKSt9nothrow_t", FREE),
	CPP("_ZdlPvSt11align_val_t", FREE),
	CPP("_ZdlPvSt11align_val_tRKSt9nothrow_t", FREE),
	CPP("_ZdlPvm", FREE),
	CPP("_ZdlPvmSt11align_val_t", FREE),
	CPP_THROWS("_Znam", SIZE),
	CPP("_ZnamRKSt9nothrow_t", SIZE),
	CPP_THROWS("_ZnamSt11align_val_t", SIZE),
	CPP("_ZnamSt11align_val_tRKSt9nothrow_t", SIZE),
	CPP_THROWS("_Znwm", SIZE),
	CPP("_ZnwmRKSt9nothrow_t", SIZE),
	CPP_THROWS("_ZnwmSt11align_val_t", SIZE),
	CPP("_ZnwmSt11align_val_tRKSt9nothrow_t", SIZE),
	F("aligned_alloc", ALIGNED, MALLOC),
	F("calloc", ARRAY, MALLOC),
	F("cfree", FREE, MALLOC),
	F("dallocx", FREE, JEMALLOC),
	F("free", FREE, MALLOC),
	F("je_aligned_alloc", ALIGNED, JEMALLOC),
	F("je_calloc", ARRAY, JEMALLOC),
	F("je_dallocx", FREE, JEMALLOC),
	F("je_free", FREE, JEMALLOC),
	F("je_malloc", SIZE, JEMALLOC),
	F("je_mallocx", SIZE, JEMALLOC),
	F("je_memalign", ALIGNED, JEMALLOC),
	F("je_posix_memalign", TO_PLACE, JEMALLOC),
	F("je_rallocx", RESIZE, JEMALLOC),
	F("je_realloc", RESIZE, JEMALLOC),
	F("je_sdallocx", FREE, JEMALLOC),
	F("malloc", SIZE, MALLOC),
	F("mallocx", SIZE, JEMALLOC),
	F("memalign", ALIGNED, MALLOC),
	F("mi_aligned_alloc", ALIGNED, MIMALLOC),
	F("mi_calloc", ARRAY, MIMALLOC),
	F("mi_free", FREE, MIMALLOC),
	F("mi_free_aligned", FREE, MIMALLOC),
	F("mi_free_size", FREE, MIMALLOC),
	F("mi_malloc", SIZE, MIMALLOC),
	F("mi_malloc_aligned", SIZE, MIMALLOC),
	F("mi_malloc_small", SIZE, MIMALLOC),
	F("mi_memalign", ALIGNED, MIMALLOC),
	THROWS("mi_new", SIZE, MIMALLOC),
	F("mi_new_nothrow", SIZE, MIMALLOC),
	F("mi_posix_memalign", TO_PLACE, MIMALLOC),
	F("mi_realloc", RESIZE, MIMALLOC),
	F("mi_zalloc", SIZE, MIMALLOC),
	F("posix_memalign", TO_PLACE, MALLOC),
	F("rallocx", RESIZE, JEMALLOC),
	F("realloc", RESIZE, MALLOC),
	F("sdallocx", FREE, JEMALLOC),
	F("tc_calloc", ARRAY, TCMALLOC),
	F("tc_delete", FREE, TCMALLOC),
	F("tc_deletearray", FREE, TCMALLOC),
	F("tc_free", FREE, TCMALLOC),
	F("tc_malloc", SIZE, TCMALLOC),
	F("tc_memalign", ALIGNED, TCMALLOC),
	THROWS("tc_new", SIZE, TCMALLOC),
	THROWS("tc_newarray", SIZE, TCMALLOC),
	F("tc_posix_memalign", TO_PLACE, TCMALLOC),
	F("tc_realloc", RESIZE, TCMALLOC),
	F("valloc", SIZE, MALLOC),
};

static int compare(const void *a, const void *b)
{
	const struct alloc_function *function = b;

	return strcmp(a, function->symbol);
}

const struct alloc_function *alloc_functions__find(const char *symbol)
{
	return bsearch(symbol, functions, sizeof(functions) / sizeof(functions[0]), sizeof(functions[0]), compare);
}

enum so_alloc_kind alloc_functions__library(const char *symbol)
{
	if (!strcmp(symbol, "mallctl") || !strcmp(symbol, "je_mallctl"))
		return SO_ALLOC_JEMALLOC;
	if (!strcmp(symbol, "tc_malloc"))
		return SO_ALLOC_TCMALLOC;
	if (!strcmp(symbol, "mi_malloc"))
		return SO_ALLOC_MIMALLOC;
	return SO_ALLOC_MALLOC;
}

const char *alloc_functions__kind_word(enum so_alloc_kind kind)
{
	static const char *const words[SO_ALLOC_N_KINDS] = {
#define X(name, word) [SO_ALLOC_##name] = (word),
		SO_ALLOC_KINDS(X)
#undef X
	};

	return kind < SO_ALLOC_N_KINDS ? words[kind] : "?";
}
