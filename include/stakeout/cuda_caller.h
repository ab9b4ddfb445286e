/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who calls CUDA, among native frames: not what nvcc and CUDA's headers put between the caller and the library, which
 * is in the caller's own file. A kernel is launched by a host function of its own name, which calls "__device_stub__"
 * with its mangled name behind (of a template by way of "__wrapper__device_stub_" and its plain name), which calls
 * the library, by "__cudaLaunchKernel_helper" in nvcc 13; templates of cuda_runtime.h (cudaMalloc<float>) call the
 * function of the same name. As seen in code of nvcc 13 with debug information.
 */
#ifndef STAKEOUT_CUDA_CALLER_H
#define STAKEOUT_CUDA_CALLER_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "stakeout/short_path.h"

static inline bool cuda_caller__is_stub(const char *function)
{
	return strstr(function, "__device_stub_");
}

/* Where a name's last part begins, which may have namespaces, template arguments and parameters; its length into *n. */
static inline const char *cuda_caller__base(const char *function, size_t *n)
{
	const char *base = function;
	unsigned depth = 0;

	for (const char *p = function; *p && !(*p == '(' && p[1] != 'a'); p++) {
		depth += *p == '<';
		depth -= *p == '>' && depth;
		if (!depth && p[0] == ':' && p[1] == ':')
			base = p + 2;
	}
	*n = strcspn(base, "<(");
	return base;
}

/*
 * Whether the function is the host function of the kernel that the stub launches. Where the former ended in a jump, the
 * caller is.
 */
static inline bool cuda_caller__is_kernel(const char *function, const char *stub)
{
	char mangled[256], plain[256];
	size_t n;
	const char *base = cuda_caller__base(function, &n);

	if (!n || n > 200)
		return false;
	snprintf(mangled, sizeof(mangled), "%zu%.*s", n, (int)n, base);
	snprintf(plain, sizeof(plain), "__device_stub_%.*s", (int)n, base);
	for (const char *at = strstr(stub, mangled); at; at = strstr(at + 1, mangled)) {
		/* "1f" is not in "11fill". */
		if (at == stub || at[-1] < '0' || at[-1] > '9')
			return true;
	}
	return strstr(stub, plain);
}

/* function: for people or as the linker knows it; file: of its source, "" when unknown. */
static inline bool cuda_caller__is_cuda(const char *function, const char *file)
{
	const char *base = short_path(file);

	return cuda_caller__is_stub(function) || !strcmp(function, "__cudaLaunchKernel_helper") ||
	       !strcmp(base, "cuda_runtime.h") || !strcmp(base, "cuda_runtime_api.h");
}

#endif
