/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Readable names from C++ (Itanium ABI), Rust (legacy and v0) and D mangled ones, through libiberty. */
#ifndef STAKEOUT_DEMANGLE_H
#define STAKEOUT_DEMANGLE_H

/*
 * Returns a malloc'ed readable name, or a copy of the name itself when it is not mangled or cannot be
 * demangled. Suffixes such as "@plt", "@@GLIBC_2.2.5", ".cold", ".part.0", ".isra.0", ".llvm.123" do not stand
 * in the way; symbol versions ("@…", "@@…") are dropped, "@plt" is kept, clone suffixes of a mangled name are
 * kept as " [clone .cold]". Function parameters are left out ("ns::f" rather than "ns::f(int)"; those of a
 * thunk's target and of an enclosing function stay), template arguments kept. A result longer than 4096 bytes
 * is cut with "...". NULL: out of memory.
 */
char *demangle(const char *name);

#endif
