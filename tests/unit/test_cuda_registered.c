// SPDX-License-Identifier: GPL-2.0-or-later
/* What stripped files tell of their CUDA kernels: code that gcc makes of calls like nvcc's, and nvcc's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/symbols/cuda_registered.h"
#include "daemon/elf/elf_dynamic.h"
#include "tests/unit/elf_find.h"
#include "daemon/cuda/kernel_names.h"

#define _cleanup_registered_ __attribute__((cleanup(cleanup__cuda_registered)))
#define _cleanup_sections_   __attribute__((cleanup(cleanup__elf_sections)))

static char folder[] = "/tmp/stakeout-cuda-registered-XXXXXX";

static __attribute__((format(printf, 1, 2))) void run(const char *format, ...)
{
	char command[4096];
	int used = snprintf(command, sizeof(command), "cd %s && ", folder);
	va_list ap;

	va_start(ap, format);
	vsnprintf(command + used, sizeof(command) - (size_t)used, format, ap);
	va_end(ap);
	if (system(command) != 0)
		fail_msg("failed: %s", command);
}

static void write_source(const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int open_file(const char *name)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static int read_image(const struct elf_image *image, const struct elf_file *elf, bool names_wanted,
		      struct cuda_registered *out)
{
	_cleanup_sections_ struct elf_sections sections = { 0 };
	struct elf_symtab_location dynsym;
	int r = elf_sections__read(image, &sections);

	if (r == 0)
		r = elf_symtab__locate(image, &sections, SHT_DYNSYM, &dynsym);
	if (r == -ENOENT)
		r = elf_dynamic__locate(image, elf, &dynsym);
	return r ?: cuda_registered__read(image, elf, &sections, &dynsym, names_wanted, out);
}

static void read_file(const char *name, struct cuda_registered *out)
{
	_cleanup_close_ int fd = open_file(name);
	struct elf_image image;
	struct elf_file elf;

	assert_int_equal(elf_file__read(fd, &elf, NULL), 0);
	assert_int_equal(elf_image__of_file(fd, &image), 0);
	assert_int_equal(read_image(&image, &elf, true, out), 0);
	for (size_t i = 1; i < out->n_functions; i++)
		assert_true(out->functions[i - 1].start < out->functions[i].start);
	for (size_t i = 1; i < out->n_launches; i++)
		assert_true(out->launches[i - 1].return_address < out->launches[i].return_address);
}

static struct elf_symbols *open_symbols(const char *name)
{
	_cleanup_close_ int fd = open_file(name);
	struct elf_symbols *symbols = NULL;

	assert_int_equal(elf_symbols__open(fd, name, NULL, &symbols, NULL), 0);
	return symbols;
}

/* gcc. */

#define DECLARATIONS                                                                                           \
	"extern void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *,"         \
	" void *, void *, void *, int *);\n"                                                                   \
	"extern int __cudaGetKernel(void **, const void *);\n"                                                 \
	"extern int __cudaLaunchKernel(void *, long, long, long, long, void **, unsigned long, void *);\n"     \
	"extern int others(const char *);\n"                                                                   \
	"#define REGISTER(f, name) __cudaRegisterFunction(h, (const char *)(f), (char *)(name), name, -1, 0, " \
	"0, 0, 0, 0)\n"                                                                                        \
	"#define KERNEL(f, n) __attribute__((noinline)) int stub_##f(int x); \\\n"                             \
	" KIND __attribute__((noinline)) int f(int x) { return stub_##f(x + n) + n; } \\\n"                    \
	" static void *handle_##f; static int known_##f; \\\n"                                                 \
	" __attribute__((noinline)) int stub_##f(int x) { void *args[] = { &x }; \\\n"                         \
	" if (!known_##f) known_##f = !__cudaGetKernel(&handle_##f, (const void *)f); \\\n"                    \
	" return __cudaLaunchKernel(handle_##f, 1, 2, x, 4, args, 0, 0) + n; }\n"

static const char calls_source[] = DECLARATIONS "KERNEL(one, 1)\n"
						"KERNEL(two, 2)\n"
						"KERNEL(three, 3)\n"
						"__attribute__((constructor)) static void init(void)\n"
						"{\n"
						"	void **h = (void **)&handle_one;\n"
						"	REGISTER(one, \"_Z3onei\");\n"
						"	REGISTER(two, \"_Z3twoi\");\n"
						"	REGISTER(three, \"_ZN2ns5threeEi\");\n"
						"}\n"
						"int main(void) { return one(1) + two(2) + three(3); }\n";

/* Of nothing else, so that programs link. */
static const char runtime_source[] =
	"void __cudaRegisterFunction(void **a, const char *b) { (void)a; (void)b; }\n"
	"int __cudaGetKernel(void **a, const void *b) { *a = (void *)b; return 0; }\n"
	"int __cudaLaunchKernel(void *a) { return a != 0; }\n"
	"int others(const char *a) { return a != 0; }\n";

static void build(const char *source, const char *name, const char *flags)
{
	write_source("source.c", source);
	run("gcc -w -shared -fPIC -o librun.so runtime.c");
	run("gcc -w -O2 %s -o %s source.c -L. -lrun && strip -s -o %s.stripped %s", flags, name, name, name);
}

/* A function of the file that has all its symbols. */
static uint64_t address_of(const char *name, const char *function, uint64_t *size)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = open_symbols(name);
	struct elf_symbol symbol;

	if (elf_find(symbols, function, &symbol))
		fail_msg("no %s in %s", function, name);
	*size = symbol.size;
	return symbol.start;
}

static void check_function(const char *name, const char *function, const char *kernel)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = NULL;
	char stripped[64], found[256];
	struct elf_symbol symbol;
	uint64_t start, size;

	snprintf(stripped, sizeof(stripped), "%s.stripped", name);
	symbols = open_symbols(stripped);
	start = address_of(name, function, &size);
	if (elf_symbols__lookup(symbols, start + size - 1, &symbol, found, sizeof(found)))
		fail_msg("%s: no name of %s", name, function);
	assert_string_equal(found, kernel);
	assert_int_equal(symbol.start, start);
	assert_int_equal(symbol.size, size);
	assert_int_equal(elf_symbols__lookup(symbols, start, &symbol, found, sizeof(found)), 0);
	/* It is nobody's symbol. */
	assert_int_equal(elf_find(symbols, kernel, &symbol), -ENOENT);
	assert_int_equal(elf_symbols__functions(symbols, start, start + 1, &symbol, 1), 0);
}

/* Of all addresses of a stub, the one that its launch returns to gives the kernel's name, and no other. */
static void check_stub(const char *name, const char *stub, const char *kernel)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = NULL;
	char stripped[64], found[256] = "";
	struct elf_symbol symbol;
	uint64_t start, size;
	unsigned n = 0;

	snprintf(stripped, sizeof(stripped), "%s.stripped", name);
	symbols = open_symbols(stripped);
	start = address_of(name, stub, &size);
	for (uint64_t at = start; at <= start + size; at++)
		n += elf_symbols__launch(symbols, at, found, sizeof(found)) == 0;
	if (n != 1)
		fail_msg("%s: %u launches in %s", name, n, stub);
	assert_string_equal(found, kernel);
	/* No stack frame is called so. */
	assert_int_equal(elf_symbols__lookup(symbols, start, &symbol, found, sizeof(found)), -ENOENT);
}

static void test_calls_as_compilers_make_them(void **state)
{
	static const char *const flags[] = {
		"-DKIND=static",
		"-DKIND=static -fno-plt",
		"-DKIND=static -fcf-protection=full -Wl,-z,ibtplt",
		"-DKIND=static -fcf-protection=none -Wl,-z,now",
		"-DKIND=static -no-pie -fno-pie",
		"-DKIND=static -no-pie -fno-pie -fno-plt",
		"-DKIND=static -O0 -fno-omit-frame-pointer",
		"-DKIND=static -Os",
		"-DKIND=static -shared -fPIC -fvisibility=hidden",
		"-DKIND= -shared -fPIC -fvisibility=hidden -O3 -fno-plt",
		"-DKIND= -pie -fPIE -Wl,-z,lazy",
	};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		print_message("%s\n", flags[i]);
		build(calls_source, "calls", flags[i]);
		check_function("calls", "one", "_Z3onei");
		check_function("calls", "two", "_Z3twoi");
		check_function("calls", "three", "_ZN2ns5threeEi");
		check_stub("calls", "stub_one", "_Z3onei");
		check_stub("calls", "stub_two", "_Z3twoi");
		check_stub("calls", "stub_three", "_ZN2ns5threeEi");
	}
}

/* Their address is in the GOT, and .dynsym names them. */
static void test_exported_functions(void **state)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = NULL;
	_cleanup_registered_ struct cuda_registered found = { 0 };
	char name[64];
	struct elf_symbol symbol;
	uint64_t start, size, stub;

	build(calls_source, "exported", "-DKIND= -shared -fPIC");
	read_file("exported.stripped", &found);
	assert_int_equal(found.n_calls, 3);
	assert_int_equal(found.n_functions, 0);
	assert_int_equal(found.n_launches, 3);
	symbols = open_symbols("exported.stripped");
	start = address_of("exported", "two", &size);
	stub = address_of("exported", "stub_two", &size);
	assert_int_equal(elf_symbols__lookup(symbols, start, &symbol, name, sizeof(name)), 0);
	assert_string_equal(name, "two");
	for (size_t i = 0; i < 3; i++) {
		if (found.launches[i].return_address - stub > size)
			continue;
		assert_int_equal(found.launches[i].function, start);
		assert_int_equal(
			elf_symbols__launch(symbols, found.launches[i].return_address, name, sizeof(name)), 0);
		assert_string_equal(name, "two");
		return;
	}
	fail_msg("no launch in stub_two");
}

/* Both are stubs that became part of one function: which launch is whose is told by the variables. */
static void test_stubs_inlined_into_one_function(void **state)
{
	static const char source[] =
		DECLARATIONS "static __attribute__((noinline)) int one(int x) { return x + 1; }\n"
			     "static __attribute__((noinline)) int two(int x) { return x + 2; }\n"
			     "static void *a, *b, *c, *d;\n"
			     "#define ASK(v, f) __cudaGetKernel(&v, (const void *)f)\n"
			     "#define GO(v) __cudaLaunchKernel(v, 1, 2, 3, 4, 0, 0, 0)\n"
			     "__attribute__((constructor)) static void init(void)\n"
			     "{ void **h = &a; REGISTER(one, \"_Z3onei\"); REGISTER(two, \"_Z3twoi\"); }\n"
			     /* Of c and d it is not known which. */
			     "__attribute__((noinline)) void more(void *f) { ASK(c, two); others(0); ASK(d, "
			     "f); others(0); }\n"
			     "int main(int n, char **v)\n"
			     "{\n"
			     "	void *local = 0;\n"
			     "	if (!a) ASK(a, one);\n"
			     "	if (!b) ASK(b, two);\n"
			     "	others(v[0]);\n"
			     "	more(v);\n"
			     "	if (!c) ASK(c, one);\n"
			     "	if (!d) ASK(d, one);\n"
			     "	if (n > 5) ASK(local, one);\n"
			     "	GO(b); GO(a); GO(b); GO(c); GO(d); GO(local); return one(n) + two(n);\n"
			     "}\n";
	_cleanup_registered_ struct cuda_registered found = { 0 };
	uint64_t one, two, size;

	build(source, "inlined", "");
	read_file("inlined.stripped", &found);
	one = address_of("inlined", "one", &size);
	two = address_of("inlined", "two", &size);
	assert_int_equal(found.n_launches, 3);
	assert_int_equal(found.launches[0].function, two);
	assert_int_equal(found.launches[1].function, one);
	assert_int_equal(found.launches[2].function, two);
}

/* What is registered in assembly: `load` in place of the two loads. */
static size_t count_registered(const char *load, struct cuda_registered *out)
{
	char source[4096];

	snprintf(source, sizeof(source),
		 "__asm__(\".text\\nhost: .cfi_startproc\\nnop; nop; ret\\n.cfi_endproc\\n\"\n"
		 "\"bare: ret\\n\"\n"
		 "\".globl go\\ngo: push %%rbx\\n"
		 "%s\\ncall __cudaRegisterFunction@plt\\npop %%rbx; ret\\n\"\n"
		 "\".section .rodata\\nname: .string \\\"_Z4hostv\\\"\\nempty: .string \\\"\\\"\\n\"\n"
		 "\"binary: .string \\\"_Z\\\\x80v\\\"\\nlonger: .fill 4097, 1, 0x61; .byte 0\\n\"\n"
		 "\"longest: .fill 4096, 1, 0x61; .byte 0\\n\"\n"
		 "\".section .note.GNU-stack,\\\"\\\",@progbits\\n.text\");\n"
		 "int main(void) { return 0; }\n",
		 load);
	cuda_registered__release(out);
	build(source, "made", "");
	read_file("made.stripped", out);
	return out->n_functions;
}

static void test_what_is_no_registration(void **state)
{
	static const struct {
		const char *load;
		size_t n;
	} cases[] = {
		{ "lea host(%rip),%rsi; lea name(%rip),%rcx", 1 },
		{ "lea name(%rip),%rdx; lea host(%rip),%rsi; mov %rdx,%rcx", 1 },
		{ "lea name(%rip),%r12; push %r12; mov %r12,%rcx; lea host(%rip),%rbx; mov %rbx,%rsi", 1 },
		{ "lea longest(%rip),%rcx; lea host(%rip),%rsi", 1 },
		{ "lea longer(%rip),%rcx; lea host(%rip),%rsi", 0 },
		{ "lea empty(%rip),%rcx; lea host(%rip),%rsi", 0 },
		{ "lea binary(%rip),%rcx; lea host(%rip),%rsi", 0 },
		{ "lea name(%rip),%rcx; lea name(%rip),%rsi", 0 }, /* no code */
		{ "lea name(%rip),%rcx; lea host(%rip),%rsi; mov %rax,%rsi", 0 },
		{ "lea name(%rip),%rcx; lea host(%rip),%rsi; inc %rcx", 0 },
		{ "lea name(%rip),%rcx; lea host(%rip),%rsi; mov %eax,%esi", 0 },
		{ "lea name(%rip),%rcx; lea host(%rip),%rsi; pop %rcx", 0 },
		{ "lea name(%rip),%rcx; lea host(%rip),%rsi; xor %ecx,%ecx", 0 },
		{ "lea name(%rip),%rcx; lea host(%rip),%rsi; xchg %rcx,%rax", 0 },
		{ "lea name(%rip),%rcx; lea host(%rip),%rsi; rep stosb", 0 },
		{ "lea name(%rip),%rcx; lea host(%rip),%rsi; cmove %rax,%rsi", 0 },
		{ "lea name(%rip),%rcx; lea host(%rip),%rsi; mov $7,%cl", 0 },
		{ "lea name(%rip),%rcx; lea host(%rip),%rsi; call others@plt", 0 },
		{ "lea name(%rip),%rcx; lea host(%rip),%rsi; jmp 1f; 1:", 0 },
		{ "lea name(%rip),%rcx; lea host(%rip),%rsi; ud2", 0 },
		{ "lea name(%rip),%rcx; lea host(%rip),%rsi; .byte 0x48", 0 }, /* no call then */
		{ "lea name(%rip),%rcx; .fill 100, 1, 0x90; lea host(%rip),%rsi", 1 },
		{ "lea name(%rip),%rcx; .fill 200, 1, 0x90; lea host(%rip),%rsi", 0 },
	};
	_cleanup_registered_ struct cuda_registered found = { 0 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (count_registered(cases[i].load, &found) != cases[i].n)
			fail_msg("%s: %zu", cases[i].load, found.n_functions);
	}
	/* Without an FDE only the address itself has the name. */
	assert_int_equal(count_registered(cases[0].load, &found), 1);
	assert_int_equal(found.functions[0].extent, 3);
	assert_int_equal(count_registered("lea bare(%rip),%rsi; lea name(%rip),%rcx", &found), 1);
	assert_int_equal(found.functions[0].extent, 1);
}

/* Equal code that a linker made one: both names are said of it. The same said twice is no matter. */
static void test_two_names_for_one_function(void **state)
{
	static const char twice[] =
		"lea name(%rip),%rcx; lea host(%rip),%rsi; call __cudaRegisterFunction@plt; "
		"lea name(%rip),%rcx; lea host(%rip),%rsi";
	static const char two[] = "lea name(%rip),%rcx; lea host(%rip),%rsi; call __cudaRegisterFunction@plt; "
				  "lea longest(%rip),%rcx; lea host(%rip),%rsi";
	_cleanup_registered_ struct cuda_registered found = { 0 };

	assert_int_equal(count_registered(twice, &found), 1);
	assert_int_equal(found.n_calls, 2);
	assert_int_equal(count_registered(two, &found), 0);
	assert_int_equal(found.n_calls, 2);
}

/* The code is read in pieces: calls are found, and found once, where these meet. */
static void test_calls_where_pieces_meet(void **state)
{
	_cleanup_registered_ struct cuda_registered found = { 0 };
	char load[512];

	for (unsigned fill = 262144 - 8300; fill < 262144; fill += 4150) {
		snprintf(load, sizeof(load),
			 ".fill %u, 1, 0x90; .rept 400; lea name(%%rip),%%rcx; lea host(%%rip),%%rsi; "
			 "call __cudaRegisterFunction@plt; .endr; lea name(%%rip),%%rcx; lea host(%%rip),%%rsi",
			 fill);
		assert_int_equal(count_registered(load, &found), 1);
		assert_int_equal(found.n_calls, 401);
	}
}

static void test_files_without_kernels(void **state)
{
	_cleanup_registered_ struct cuda_registered found = { 0 };

	build("int main(void) { return others(\"x\"); }\n", "none",
	      "-Dothers=__cudaGetDevice -Wl,-z,undefs "
	      "-Wl,--unresolved-symbols=ignore-all");
	read_file("none.stripped", &found);
	assert_int_equal(found.n_calls + found.n_functions + found.n_launches, 0);
}

/* Section headers removed, and cut at every place. */
static void test_damaged_files(void **state)
{
	_cleanup_registered_ struct cuda_registered found = { 0 };
	_cleanup_close_ int fd = -1;
	_cleanup_free_ uint8_t *bytes = NULL;
	struct elf_image image;
	struct elf_file elf;
	struct stat st;

	build(calls_source, "calls", "-DKIND=static -fcf-protection=full -Wl,-z,ibtplt");
	fd = open_file("calls.stripped");
	assert_int_equal(fstat(fd, &st), 0);
	bytes = malloc((size_t)st.st_size);
	assert_int_equal(pread(fd, bytes, (size_t)st.st_size, 0), st.st_size);
	((Elf64_Ehdr *)bytes)->e_shoff = 0;
	((Elf64_Ehdr *)bytes)->e_shnum = 0;
	image = elf_image__of_memory(bytes, (size_t)st.st_size);
	assert_int_equal(elf_file__read_memory(bytes, (size_t)st.st_size, &elf, NULL), 0);
	assert_int_equal(read_image(&image, &elf, true, &found), 0);
	assert_int_equal(found.n_functions, 3);
	assert_int_equal(found.n_launches, 3);
	assert_true(found.functions[0].extent > 1);
	cuda_registered__release(&found);
	assert_int_equal(read_image(&image, &elf, false, &found), 0);
	assert_int_equal(found.n_functions, 0);
	assert_int_equal(found.n_launches, 3);
	for (size_t size = 0; size < (size_t)st.st_size; size += 61) {
		_cleanup_registered_ struct cuda_registered cut = { 0 };

		image = elf_image__of_memory(bytes, size);
		read_image(&image, &elf, true, &cut);
		assert_true(cut.n_functions <= 3 && cut.n_launches <= 3);
	}
}

/* nvcc. */

static const char nvcc[] = "/usr/local/cuda/bin/nvcc";

static const char kernels_source[] =
	"__global__ void plain(float *x) { x[threadIdx.x] += 1; }\n"
	"static __global__ void of_file(float *x, int n) { x[n] += 2; }\n"
	"namespace { __global__ void unnamed(double *x) { *x = 3; } }\n"
	"template <typename T, int N> __global__ void made(T *x) { x[N] = N; }\n"
	"namespace { template <typename T> __global__ void unnamed_made(T *x) { x[1] = 9; } }\n"
	"namespace ns { struct s { int i[9]; }; }\n"
	"__global__ void many(float a, ns::s b, int c, double d, float *e) { e[c] = a + d + b.i[c]; }\n"
	"__device__ int variable; __constant__ float constant[4];\n"
	"extern void other(float *);\n"
	"int main() {\n"
	"  float *p = nullptr;\n"
	"  plain<<<1,1>>>(p); of_file<<<1,2>>>(p, 3); unnamed<<<1,1>>>((double *)p);\n"
	"  made<float,1><<<1,1>>>(p); made<double,2><<<1,1>>>((double *)p); made<int,3><<<1,1>>>((int *)p);\n"
	"  unnamed_made<float><<<1,1>>>(p); unnamed_made<char><<<2,1>>>((char *)p);\n"
	"  many<<<1,1>>>(1, ns::s(), 2, 3, p); other(p);\n"
	"}\n";
static const char more_source[] = "static __global__ void of_file(float *x, int n) { x[n] += 5; }\n"
				  "template <typename T> __global__ void only(T x) { (void)x; }\n"
				  "void other(float *p) { of_file<<<1,2>>>(p, 3); only<int><<<1,1>>>(3); }\n";
enum { N_KERNELS = 11 };

static char *readable(const char *symbol)
{
	char *name = kernel_names__readable(symbol, false);

	assert_non_null(name);
	return name;
}

/* All that the stripped file tells is what the symbols of the whole one say. */
static void compare(const char *name, bool stubs_stay)
{
	_cleanup_(elf_symbols) struct elf_symbols *whole = open_symbols(name), *stripped = NULL;
	_cleanup_registered_ struct cuda_registered found = { 0 };
	char path[64], expected[4096], told[4096];
	struct elf_symbol symbol, of_stripped;

	snprintf(path, sizeof(path), "%s.stripped", name);
	stripped = open_symbols(path);
	read_file(path, &found);
	assert_int_equal(found.n_calls, N_KERNELS);
	assert_int_equal(found.n_functions, N_KERNELS);
	assert_true(found.n_launches >= N_KERNELS);
	for (size_t i = 0; i < found.n_functions; i++) {
		uint64_t start = found.functions[i].start;
		_cleanup_free_ char *x = NULL, *y = NULL;

		assert_int_equal(elf_symbols__lookup(whole, start, &symbol, expected, sizeof(expected)), 0);
		assert_int_equal(elf_symbols__lookup(stripped, start, &of_stripped, told, sizeof(told)), 0);
		assert_int_equal(symbol.start, start);
		assert_int_equal(of_stripped.start, start);
		assert_int_equal(of_stripped.size, symbol.size);
		x = readable(expected);
		y = readable(told);
		assert_string_equal(x, y);
	}
	for (size_t i = 0; i < found.n_launches; i++) {
		uint64_t at = found.launches[i].return_address;
		_cleanup_free_ char *x = NULL, *y = NULL;

		assert_int_equal(elf_symbols__launch(stripped, at, told, sizeof(told)), 0);
		/* With symbols it is the same kernel, called by its host function's symbol. */
		assert_int_equal(elf_symbols__launch(whole, at, expected, sizeof(expected)), 0);
		x = readable(expected);
		y = readable(told);
		assert_string_equal(x, y);
		assert_int_equal(elf_symbols__lookup(whole, at - 1, &symbol, expected, sizeof(expected)), 0);
		if (!strstr(expected, "__device_stub_")) {
			assert_false(stubs_stay);
			continue;
		}
		free(x);
		x = readable(expected);
		assert_string_equal(x, y);
	}
}

static void test_what_nvcc_makes(void **state)
{
	static const struct {
		const char *flags;
		bool stubs_stay;
	} builds[] = {
		{ "-O2", true },
		{ "-O2 -Xcompiler -no-pie,-fno-pie -Xlinker -no-pie", true },
		{ "-O2 -Xcompiler -fcf-protection=full,-fno-plt", true },
		{ "-O3 -shared -Xcompiler -fPIC", false },
	};

	if (access(nvcc, X_OK) != 0) {
		print_message("no nvcc here\n");
		skip();
	}
	write_source("kernels.cu", kernels_source);
	write_source("more.cu", more_source);
	for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++) {
		print_message("%s\n", builds[i].flags);
		run("%s -cudart shared %s -o made kernels.cu more.cu && strip -s -o made.stripped made", nvcc,
		    builds[i].flags);
		compare("made", builds[i].stubs_stay);
	}
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int set_up(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	write_source("runtime.c", runtime_source);
	return 0;
}

static int tear_down(void **state)
{
	return nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls_as_compilers_make_them),
		cmocka_unit_test(test_exported_functions),
		cmocka_unit_test(test_stubs_inlined_into_one_function),
		cmocka_unit_test(test_what_is_no_registration),
		cmocka_unit_test(test_two_names_for_one_function),
		cmocka_unit_test(test_calls_where_pieces_meet),
		cmocka_unit_test(test_files_without_kernels),
		cmocka_unit_test(test_damaged_files),
		cmocka_unit_test(test_what_nvcc_makes),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
