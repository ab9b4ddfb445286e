#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""C source of a stand-in for cuBLAS, cuBLASLt or cuDNN: a function for each symbol of that library that other libraries want.

Usage: stubs.py LIBRARY SOURCE MAP FILE…    (LIBRARY as its symbols are versioned: libcublas.so.12; SOURCE, MAP: written)
Each returns 0 and does nothing, but: what creates something gives a handle, and what multiplies matrices launches a kernel
through the driver, as these libraries do.
"""
import re
import subprocess
import sys

HEAD = """/* made by stubs.py */
#include <stddef.h>
#include <string.h>

extern int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
extern int cuModuleLoadData(void **, const void *);
extern int cuModuleGetFunction(void **, void *, const char *);

static __attribute__((unused)) int multiply(const char *name)
{
	static void *module, *function;
	int r = 0;

	if (!function) {
		r = cuModuleLoadData(&module, "");
		r = r ? r : cuModuleGetFunction(&function, module, name);
	}
	return r ? r : cuLaunchKernel(function, 8, 4, 1, 128, 1, 1, 0, NULL, NULL, NULL);
}

"""


def symbols(library, files):
    found = set()
    for path in files:
        listed = subprocess.run(["nm", "-D", "--undefined-only", path], stdout=subprocess.PIPE, check=True, text=True).stdout
        found.update(re.findall(rf"(\w+)@{re.escape(library)}$", listed, re.M))
    return sorted(found)


def function(name):
    if name.endswith("GetVersion") and name.startswith("cudnn"):
        return f"size_t {name}(void) {{ return 90000; }}"
    if name == "cudnnGetProperty":
        return f"int {name}(int which, int *out) {{ *out = which ? 0 : 9; return 0; }}"
    if name.endswith("ErrorString") or name.endswith("StatusString") or name.endswith("StatusName"):
        return f'const char *{name}(int code) {{ return "said by the stand-in"; }}'
    if name == "cublasLtMatmulAlgoGetHeuristic":
        return (f"int {name}(void *h, void *d, void *a, void *b, void *c, void *e, void *p, int n, void *results, int *found)\n"
                "{ memset(results, 0, 80); *found = 1; return 0; }")
    if re.search(r"Create(_v2)?$|CreateDescriptor$|Create\w*Descriptor$", name):
        return f"int {name}(void **out) {{ *out = (void *)0x5150; return 0; }}"
    if re.search(r"gemm|Gemm|LtMatmul$", name):
        return f'int {name}(void) {{ return multiply("standin_gemm_{name}"); }}'
    return f"int {name}(void) {{ return 0; }}"


def main():
    library, source, version_map, *files = sys.argv[1:]
    with open(source, "w", encoding="utf-8") as f:
        f.write(HEAD + "\n".join(function(name) for name in symbols(library, files)) + "\n")
    with open(version_map, "w", encoding="utf-8") as f:
        f.write(f"{library} {{ global: {library.removeprefix('lib').split('.')[0]}*; local: *; }};\n")


main()
