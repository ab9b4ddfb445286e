// SPDX-License-Identifier: GPL-2.0-or-later
/* CUDA functions in files that gcc and nvcc make, and in the toolkit's own libraries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/cuda/cuda_library.h"

#define _cleanup_library_ __attribute__((cleanup(cleanup__cuda_library)))

static char folder[] = "/tmp/stakeout-cuda-library-XXXXXX";

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

static const char runtime_source[] =
	"#define API __attribute__((visibility(\"default\")))\n"
	"extern int cudaStreamQuery(void *), puts(const char *);\n"
	"API int cudaMalloc(void **p, unsigned long n) { *p = (void *)n; return puts(\"malloc\"); }\n"
	"API int cudaFree(void *p) { return p != 0; }\n"
	"API int cudaFree_v3(void *p) __attribute__((alias(\"cudaFree\")));\n"
	"API int cudaFree_ptsz(void *p) __attribute__((alias(\"cudaFree\")));\n"
	"API int cudaMemcpyAsync(void *d, void *s, unsigned long n, int k, void *q)\n"
	"{ return k ? puts(\"copy\") + cudaStreamQuery(q) : (int)(n + (d > s)); }\n"
	"API int cudaMemcpyAsync_ptsz(void *d, void *s, unsigned long n, int k, void *q)\n"
	"{ volatile char b[9000]; b[n] = 1; return b[n] + puts(\"copy\") + k + (d > s) + (q != 0); }\n"
	"API int cudaEventRecord(void *e) { return e ? 3 : 4; }\n"
	"API int cudaEventSynchronize(void *) __attribute__((alias(\"cudaEventRecord\")));\n"
	"static int query(void *e) { return e == 0; }\n"
	"static void *choose(void) { return query; }\n"
	"API int cudaEventQuery(void *) __attribute__((ifunc(\"choose\")));\n"
	"API int xcudaHostAlloc(void) { return 1; }\n" /* whose end is the next one's name */
	"API int cudaHostAlloc(void **p, unsigned long n, unsigned f) { *p = 0; return n > f; }\n"
	"API int cudaMallocFoo(void) { return 2; }\n"
	"API int cudaGetDevice(int *d) { return *d; }\n"
	"API int cudaMemset = 5;\n" /* no function */
	"API void __cudaRegisterFunction(void **h, const char *f) { *h = (void *)f; }\n";

static const char driver_source[] =
	"int cuLaunchKernel(void *f, unsigned x) { return f != 0 && x; }\n"
	"int cuMemAlloc_v2(unsigned long *p, unsigned long n) { *p = n; return 0; }\n"
	"int cuMemAlloc(unsigned *p, unsigned n) { *p = n; return 1; }\n"
	"int cuModuleGetFunction(void **f, void *m, const char *n) { *f = m; return n == 0; }\n"
	"int cuInit(unsigned f) { return f; }\n";

static const char program_source[] =
	"int cudaMalloc(void **p, unsigned long n) __attribute__((visibility(\"hidden\")));\n"
	"int cudaMalloc(void **p, unsigned long n) { *p = (void *)n; return 0; }\n"
	"__attribute__((noinline)) static int cudaLaunchKernel(const void *f) { __asm__(\"\"); return f != 0; "
	"}\n"
	"#ifdef TEXT\n"
	"const char *volatile error = \"CUDA driver version is insufficient for CUDA runtime version\";\n"
	"#endif\n"
	"#ifdef FATBIN\n"
	"__attribute__((section(\".nv_fatbin\"))) const int fatbin = 1;\n"
	"#endif\n"
	"#ifdef IMPORT\n"
	"int cudaFree(void *);\n"
	"int main(int c, char **v) { return cudaFree(v); }\n"
	"#else\n"
	"int main(int c, char **v) { void *p; return cudaMalloc(&p, (unsigned long)c) + cudaLaunchKernel(v); "
	"}\n"
	"#endif\n";

static int set_up(void **state)
{
	if (!mkdtemp(folder))
		return -1;
	write_source("runtime.c", runtime_source);
	write_source("driver.c", driver_source);
	write_source("program.c", program_source);
	run("gcc -w -fPIC -shared -o libshared.so runtime.c");
	return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int tear_down(void **state)
{
	return nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void read_path(const char *path, struct cuda_library *out)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct so_error err = { "" };

	assert_true(fd >= 0);
	if (cuda_library__read(fd, out, &err) < 0)
		fail_msg("%s: %s", path, err.text);
}

static void read_made(const char *name, struct cuda_library *out)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	read_path(path, out);
}

static const struct cuda_function *find(const struct cuda_library *library, const char *symbol)
{
	for (size_t i = 0; i < library->n_functions; i++)
		if (strcmp(library->functions[i].symbol, symbol) == 0)
			return &library->functions[i];
	fail_msg("no %s", symbol);
	return NULL;
}

static void check_order(const struct cuda_library *library)
{
	for (size_t i = 1; i < library->n_functions; i++)
		assert_true(library->functions[i - 1].vaddr < library->functions[i].vaddr);
}

/* The loader is the referee: its address of each symbol, and its copy of the code at the probe's place in the file. */
static void check_loaded(const struct cuda_library *library, const char *name)
{
	char path[PATH_MAX];
	_cleanup_close_ int fd = -1;
	struct link_map *map;
	void *handle;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!handle)
		fail_msg("%s", dlerror());
	assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
	for (size_t i = 0; i < library->n_functions; i++) {
		const struct cuda_function *f = &library->functions[i];
		const uint8_t *entry = dlsym(handle, f->symbol);
		uint8_t in_file;

		assert_non_null(entry);
		assert_int_equal((uintptr_t)entry - map->l_addr, f->vaddr);
		assert_int_equal(pread(fd, &in_file, 1, (off_t)f->offset), 1);
		assert_int_equal(in_file, entry[f->site.offset]);
		assert_true(f->site.instruction[0] != '\0' && f->site.why);
	}
	assert_int_equal(dlclose(handle), 0);
}

static void check_runtime(const struct cuda_library *library)
{
	static const char *const wanted[] = {
		"cudaMalloc",           "cudaFree",      "cudaMemcpyAsync",       "cudaMemcpyAsync_ptsz",
		"cudaEventSynchronize", "cudaHostAlloc", "__cudaRegisterFunction"
	};
	const struct cuda_function *f;

	assert_int_equal(library->kind, CUDA_LIBRARY_RUNTIME);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		find(library, wanted[i]);
	assert_int_equal(library->n_functions, sizeof(wanted) / sizeof(wanted[0]));
	check_order(library);

	f = find(library, "cudaFree");
	assert_string_equal(f->aliases, "cudaFree_v3 cudaFree_ptsz");
	assert_false(f->ambiguous);
	assert_int_equal(f->name.number, SO_CUDA_API_cudaFree);
	/* The one that is first in the list of calls, not in the alphabet. */
	f = find(library, "cudaEventSynchronize");
	assert_string_equal(f->aliases, "cudaEventRecord");
	assert_true(f->ambiguous);
	assert_int_equal(f->name.number, SO_CUDA_API_cudaEventSynchronize);
}

static void test_shared_runtime(void **state)
{
	static const char *const optimisation[] = { "-O0", "-O2" };
	static const char *const protection[] = { "full", "none" };
	char name[32];

	for (unsigned i = 0; i < 4; i++) {
		_cleanup_library_ struct cuda_library library = { 0 };
		bool endbr = i % 2 == 0;
		const struct cuda_function *f;

		snprintf(name, sizeof(name), "runtime%u.so", i);
		run("gcc -w -fPIC -shared %s -fcf-protection=%s -o %s runtime.c", optimisation[i / 2],
		    protection[i % 2], name);
		read_made(name, &library);
		check_loaded(&library, name);
		if (strcmp(optimisation[i / 2], "-O0") == 0) {
			f = find(&library, "cudaMalloc");
			assert_true(f->site.emulated);
			assert_int_equal(f->site.offset, endbr ? 4 : 0);
			assert_int_equal(f->offset, f->vaddr + f->site.offset);
		}
		check_runtime(&library);
		assert_string_equal(library.problem,
				    "indirect functions (IFUNC) are left out, such as cudaEventQuery");
	}
}

static void test_optimised_away_prologues_have_reasons(void **state)
{
	_cleanup_library_ struct cuda_library library = { 0 };
	const struct cuda_function *f;

	run("gcc -w -fPIC -shared -O2 -fcf-protection=full -o reasons.so runtime.c");
	read_made("reasons.so", &library);
	f = find(&library, "cudaFree"); /* endbr64; xor eax, eax; test rdi, rdi; setne al; ret */
	assert_false(f->site.emulated);
	assert_non_null(strstr(f->site.why, "single-stepped"));
	f = find(&library, "cudaMemcpyAsync_ptsz"); /* a large frame */
	assert_non_null(f->site.why);
}

static void test_stripped_and_without_sections(void **state)
{
	_cleanup_library_ struct cuda_library stripped = { 0 }, bare = { 0 };
	char path[PATH_MAX];
	Elf64_Ehdr header;
	int fd;

	run("gcc -w -fPIC -shared -O1 -o full.so runtime.c && strip -o stripped.so full.so && cp stripped.so "
	    "bare.so");
	read_made("stripped.so", &stripped);
	check_runtime(&stripped);
	check_loaded(&stripped, "stripped.so");

	snprintf(path, sizeof(path), "%s/bare.so", folder);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &header, sizeof(header), 0), sizeof(header));
	header.e_shoff = 0;
	header.e_shnum = header.e_shstrndx = 0;
	assert_int_equal(pwrite(fd, &header, sizeof(header), 0), sizeof(header));
	close(fd);
	read_made("bare.so", &bare);
	check_runtime(&bare);
	check_loaded(&bare, "bare.so");
}

static void test_versioned_names(void **state)
{
	_cleanup_library_ struct cuda_library library = { 0 };
	const struct cuda_function *f;

	write_source("versions", "libcudart.so.12 { global: cuda*; __cuda*; local: *; };\n");
	run("gcc -w -fPIC -shared -O1 -Wl,--version-script=versions -o versioned.so runtime.c");
	read_made("versioned.so", &library);
	check_runtime(&library);
	f = find(&library, "cudaMalloc");
	assert_string_equal(f->aliases, ""); /* .symtab has it too, with its version */
}

static void test_static_runtime(void **state)
{
	_cleanup_library_ struct cuda_library library = { 0 };
	const struct cuda_function *f;

	run("gcc -w -O1 -no-pie -fcf-protection=full -o program program.c");
	read_made("program", &library);
	assert_int_equal(library.kind, CUDA_LIBRARY_RUNTIME_STATIC);
	assert_int_equal(library.n_functions, 2);
	find(&library, "cudaLaunchKernel");
	f = find(&library, "cudaMalloc");
	/* A program that is linked for a fixed address: that is no offset in the file. */
	assert_int_equal(f->vaddr + f->site.offset - f->offset, 0x400000);
	assert_string_equal(library.problem, "");
}

static void expect_stripped(const char *defines, bool problem)
{
	_cleanup_library_ struct cuda_library library = { 0 };

	run("gcc -w -O1 %s -Wl,--unresolved-symbols=ignore-all -s -o without program.c ./libshared.so",
	    defines);
	read_made("without", &library);
	assert_int_equal(library.kind, CUDA_LIBRARY_NONE);
	assert_int_equal(library.n_functions, 0);
	if (!library.problem[0] != !problem)
		fail_msg("%s: '%s'", defines, library.problem);
	if (problem)
		assert_non_null(strstr(library.problem, "without symbols"));
}

static void test_stripped_static_runtime_is_told(void **state)
{
	expect_stripped("-DFATBIN -DTEXT", true);
	expect_stripped("-DFATBIN", false); /* kernels that the driver loads */
	expect_stripped("-DTEXT", false);   /* a text alone proves nothing */
	expect_stripped("", false);
	expect_stripped("-DFATBIN -DTEXT -DIMPORT", false); /* uses a shared runtime */
}

static void test_driver(void **state)
{
	_cleanup_library_ struct cuda_library library = { 0 };
	const struct cuda_function *f;

	run("gcc -w -fPIC -shared -O1 -o libdriver.so driver.c");
	read_made("libdriver.so", &library);
	assert_int_equal(library.kind, CUDA_LIBRARY_DRIVER);
	assert_int_equal(library.n_functions, 4);
	assert_int_equal(find(&library, "cuMemAlloc_v2")->name.number, SO_CUDA_API_cuMemAlloc);
	assert_int_equal(find(&library, "cuMemAlloc")->name.number, SO_CUDA_API_cuMemAlloc);
	f = find(&library, "cuModuleGetFunction");
	assert_int_equal(f->name.type, CUDA_NAME_NAMER);
	assert_int_equal(f->name.number, SO_CUDA_NAMER_cuModuleGetFunction);
	check_loaded(&library, "libdriver.so");
}

static void test_files_without(void **state)
{
	_cleanup_library_ struct cuda_library program = { 0 }, user = { 0 };
	struct cuda_library untouched = { .n_functions = 77 };
	struct so_error err = { "" };
	_cleanup_close_ int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	/* A program that only calls CUDA. */
	run("gcc -w -O1 -DIMPORT -Wl,--unresolved-symbols=ignore-all -o user program.c ./libshared.so && strip "
	    "user");
	read_made("user", &user);
	assert_int_equal(user.n_functions, 0);
	assert_int_equal(user.kind, CUDA_LIBRARY_NONE);
	read_path("/proc/self/exe", &program);
	assert_int_equal(program.n_functions, 0);
	assert_string_equal(program.problem, "");
	assert_int_equal(cuda_library__read(fd, &untouched, &err), -ENOEXEC);
	assert_true(err.text[0] != '\0');
	assert_int_equal(cuda_library__read_memory("text", 4, &untouched, &err), -ENOEXEC);
	assert_int_equal(untouched.n_functions, 77);
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* A file cut anywhere, and one with damaged bytes: an error or an answer within the file. */
static void test_damage(void **state)
{
	char path[PATH_MAX];
	_cleanup_free_ uint8_t *bytes = NULL;
	uint32_t seed = 1;
	unsigned ok = 0, failed = 0;
	struct stat st;
	FILE *file;
	size_t size;

	run("gcc -w -fPIC -shared -O1 -nostdlib -Wl,--unresolved-symbols=ignore-all -Wl,-z,noseparate-code -o "
	    "damage.so "
	    "runtime.c");
	snprintf(path, sizeof(path), "%s/damage.so", folder);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fstat(fileno(file), &st), 0);
	size = (size_t)st.st_size;
	bytes = malloc(size);
	assert_int_equal(fread(bytes, 1, size, file), size);
	fclose(file);
	for (unsigned i = 0; i < 3000; i++) {
		size_t n = i % 3 == 0 ? next_random(&seed) % size : size;
		_cleanup_free_ uint8_t *copy = malloc(n + 1);
		_cleanup_library_ struct cuda_library library = { 0 };
		struct so_error err = { "" };

		memcpy(copy, bytes, n);
		for (unsigned k = 0; i % 3 && k < 1 + i % 7; k++)
			copy[next_random(&seed) % (k % 2 ? n : 0x400)] = (uint8_t)next_random(&seed);
		if (cuda_library__read_memory(copy, n, &library, &err) < 0) {
			assert_true(err.text[0] != '\0');
			failed++;
			continue;
		}
		ok += library.n_functions > 0;
		check_order(&library);
		for (size_t f = 0; f < library.n_functions; f++)
			assert_true(library.functions[f].offset < n);
	}
	assert_true(ok > 100 && failed > 100);
}

static bool has_probe(const struct cuda_library *library, const char *symbol)
{
	size_t n = strlen(symbol);

	for (size_t i = 0; i < library->n_functions; i++) {
		const char *alias = library->functions[i].aliases;

		if (strcmp(library->functions[i].symbol, symbol) == 0)
			return true;
		while ((alias = strstr(alias, symbol)) && alias[n] && alias[n] != ' ')
			alias += n;
		if (alias)
			return true;
	}
	return false;
}

/* By what their names begin with: calls that copy, set, allocate, release, launch, wait or capture. */
static bool is_of_a_family(const char *symbol)
{
	static const char *const families[] = {
		"cudaMemcpy",
		"cudaMemset",
		"cudaMemPrefetch",
		"cudaMemDiscardAndPrefetch",
		"cudaThreadSynchronize",
		"cudaMalloc",
		"cudaFree",
		"cudaHostAlloc",
		"cudaHostRegister",
		"cudaHostUnregister",
		"cudaLaunchKernel",
		"cudaLaunchCoop",
		"cudaGraphLaunch",
		"cudaGraphInstantiate",
		"cudaGraphUpload",
		"cudaGraphExecUpdate",
		"cudaDeviceSynchronize",
		"cudaStreamSynchronize",
		"cudaStreamWait",
		"cudaStreamQuery",
		"cudaStreamBeginCap",
		"cudaStreamEndCap",
		"cudaEventRecord",
		"cudaEventQuery",
		"cudaEventSynchronize",
		"cuMemcpy",
		"cuMemsetD",
		"cuMemPrefetch",
		"cuMemDiscardAndPrefetch",
		"cuMemRetain",
		"cuMemAlloc",
		"cuMemFree",
		"cuMemHostAlloc",
		"cuMemHostRegister",
		"cuMemHostUnregister",
		"cuMemCreate",
		"cuMemRelease",
		"cuMemMap",
		"cuMemUnmap",
		"cuMemSetAccess",
		"cuMemAddress",
		"cuArrayCreate",
		"cuArray3DCreate",
		"cuArrayDestroy",
		"cuMipmappedArrayCr",
		"cuMipmappedArrayDe",
		"cuLaunchKernel",
		"cuLaunchCoop",
		"cuGraphLaunch",
		"cuGraphInstantiate",
		"cuGraphUpload",
		"cuGraphExecUpdate",
		"cuCtxSynchronize",
		"cuStreamSynchronize",
		"cuStreamWaitEvent",
		"cuStreamQuery",
		"cuStreamBeginCap",
		"cuStreamEndCap",
		"cuEventRecord",
		"cuEventQuery",
		"cuEventSynchronize",
	};

	if (strncmp(symbol, "cuMemMapArrayAsync", 18) == 0) /* of arrays with holes, which nobody trains with */
		return false;
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (strncmp(symbol, families[i], strlen(families[i])) == 0)
			return true;
	return false;
}

/* What the library exports of these families is on the list, whatever its ending. */
static void check_names(const char *path, const struct cuda_library *library)
{
	char command[PATH_MAX + 100], symbol[256];
	unsigned ours = 0;
	FILE *symbols;

	snprintf(command, sizeof(command), "nm -D --defined-only '%s' | sed 's/.* //; s/@.*//'", path);
	symbols = popen(command, "r");
	assert_non_null(symbols);
	while (fscanf(symbols, "%255s", symbol) == 1) {
		if (!is_of_a_family(symbol))
			continue;
		ours++;
		if (!has_probe(library, symbol))
			fail_msg("%s of %s has no probe", symbol, path);
	}
	assert_int_equal(pclose(symbols), 0);
	assert_true(ours > 100);
}

/* Every call of the list that the library exports has a probe, emulated or with the reason why not. */
static void check_toolkit(const char *path)
{
	_cleanup_library_ struct cuda_library library = { 0 };
	void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	unsigned exported = 0, emulated = 0;
	struct link_map *map;

	if (!handle)
		fail_msg("%s", dlerror());
	assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
	read_path(path, &library);
	assert_string_equal(library.problem, "");
	check_order(&library);
	for (unsigned api = 0; api < SO_CUDA_API_COUNT; api++) {
		const char *symbol = cuda_names__api(api);
		void *entry = dlsym(handle, symbol);
		Dl_info info;

		/* dlsym() also looks into what the library needs. */
		if (!entry || !dladdr(entry, &info) || (uintptr_t)info.dli_fbase != map->l_addr)
			continue;
		exported++;
		assert_int_equal(find(&library, symbol)->vaddr, (uintptr_t)entry - map->l_addr);
		assert_int_equal(find(&library, symbol)->name.number, api);
	}
	for (size_t i = 0; i < library.n_functions; i++) {
		const struct cuda_function *f = &library.functions[i];

		emulated += f->site.emulated;
		if (!f->site.emulated)
			print_message("%s: %s\n", f->symbol, f->site.why);
		assert_true(f->site.emulated || strstr(f->site.why, "single-stepped"));
	}
	print_message("%s: kind %d, %u calls of the list exported, %zu functions, %u emulated\n", path,
		      (int)library.kind, exported, library.n_functions, emulated);
	assert_true(exported > 0);
	check_names(path, &library);
	dlclose(handle);
}

static void test_toolkit(void **state)
{
	static const char *const patterns[] = { "/usr/local/cuda*/lib64/libcudart.so.*",
						"/usr/lib/x86_64-linux-gnu/libcudart.so.*",
						"/usr/local/cuda*/lib64/stubs/libcuda.so" };
	glob_t found = { 0 };

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		glob(patterns[i], i ? GLOB_APPEND : 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc; i++)
		check_toolkit(found.gl_pathv[i]);
	if (found.gl_pathc == 0) {
		print_message("no CUDA toolkit here\n");
		globfree(&found);
		skip();
	}
	globfree(&found);
}

static void test_statically_linked_toolkit(void **state)
{
	static const char nvcc[] = "/usr/local/cuda/bin/nvcc";
	_cleanup_library_ struct cuda_library library = { 0 }, stripped = { 0 };
	unsigned emulated = 0;

	if (access(nvcc, X_OK) != 0) {
		print_message("no nvcc here\n");
		skip();
	}
	write_source("kernel.cu",
		     "__global__ void k(int *p) { *p = 1; }\n"
		     "int main() { int *p; cudaMalloc(&p, 4); k<<<1, 1>>>(p); return cudaFree(p); }\n");
	run("%s -cudart static -o kernel kernel.cu && strip -o kernel.stripped kernel", nvcc);
	read_made("kernel", &library);
	assert_int_equal(library.kind, CUDA_LIBRARY_RUNTIME_STATIC);
	assert_string_equal(library.problem, "");
	find(&library, "cudaLaunchKernel");
	find(&library, "cudaMalloc");
	find(&library, "__cudaRegisterFunction");
	for (size_t i = 0; i < library.n_functions; i++)
		emulated += library.functions[i].site.emulated;
	print_message("static runtime: %zu functions, %u emulated\n", library.n_functions, emulated);
	read_made("kernel.stripped", &stripped);
	assert_int_equal(stripped.n_functions, 0);
	assert_non_null(strstr(stripped.problem, "without symbols"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared_runtime),
		cmocka_unit_test(test_optimised_away_prologues_have_reasons),
		cmocka_unit_test(test_stripped_and_without_sections),
		cmocka_unit_test(test_versioned_names),
		cmocka_unit_test(test_static_runtime),
		cmocka_unit_test(test_stripped_static_runtime_is_told),
		cmocka_unit_test(test_driver),
		cmocka_unit_test(test_files_without),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_toolkit),
		cmocka_unit_test(test_statically_linked_toolkit),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
