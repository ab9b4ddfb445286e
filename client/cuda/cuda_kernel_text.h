/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A kernel's name as a person reads it: demangled names of templates are up to thousands of characters long. */
#ifndef STAKEOUT_CLIENT_CUDA_KERNEL_TEXT_H
#define STAKEOUT_CLIENT_CUDA_KERNEL_TEXT_H

#include <stdbool.h>

/*
 * Malloc'ed; NULL: out of memory. `name` is demangled, valid UTF-8. It loses, in this order and whatever its length:
 * "void" and the parameters; "(anonymous namespace)::"; of template arguments the namespaces and the suffixes of
 * numbers; of nvcc's wrapper of a lambda (__nv_hdl_wrapper_t, __nv_dl_tag: crt/host_runtime.h, nvfunctional) all but
 * the function that the lambda is in, which reads "{lambda in NAME}". Then, as long as it has more than `columns`
 * characters, its namespace, and its template arguments, the innermost first: "<…>", or the lambda that was among them.
 * It may be longer in the end. 0 columns: none of these. *shortened tells whether anything is gone.
 */
char *cuda_kernel_text__of(const char *name, unsigned columns, bool *shortened);

#endif
