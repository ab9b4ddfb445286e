/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Programs are compiled, stripped and split by the toolchain; nm, objdump and dladdr are the referees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "tests/unit/elf_find.h"

static char dir[64];

static const char program[] =
	"#include <stdio.h>\n"
	"#include <stdlib.h>\n"
	"int alpha(int x) { return x * 3 + 1; }\n"
	"int __plain_alias(int x) __attribute__((alias(\"alpha\")));\n"
	"__attribute__((weak, alias(\"alpha\"))) int al(int x);\n"
	"static __attribute__((noinline)) int beta(int x) { return alpha(x) ^ atoi(\"7\"); }\n"
	"int a_much_longer_name(int x) { return x - 5; }\n"
	"int short_name(int x) __attribute__((alias(\"a_much_longer_name\")));\n"
	"__asm__(\".text\\n.globl sizeless\\nsizeless: nop; nop; nop; nop\\n\"\n"
	"        \".Lhidden: nop\\n\"\n"
	"        \".type outer,@function\\nouter: nop; nop; nop; nop\\n\"\n"
	"        \".type inner,@function\\ninner: nop; nop\\n.size inner, .-inner\\nlabel: nop; nop\\n\"\n"
	"        \".size outer, .-outer\\n\");\n"
	"int main(int argc, char **argv) { printf(\"%d\\n\", beta(argc) + short_name(argc)); return 0; }\n";

/* Runs a command in the test's folder. */
__attribute__((format(printf, 1, 2))) static void run(const char *format, ...)
{
	char command[2048];
	int at = snprintf(command, sizeof(command), "cd %s && ", dir);
	va_list ap;

	va_start(ap, format);
	at += vsnprintf(command + at, sizeof(command) - (size_t)at, format, ap);
	va_end(ap);
	assert_true(at < (int)sizeof(command));
	if (system(command) != 0)
		fail_msg("failed: %s", command);
}

static const char *in_dir(const char *name)
{
	static char path[2][256];
	static unsigned turn;

	turn = !turn;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", dir, name);
	return path[turn];
}

static struct elf_symbols *open_at(const char *file, const char *path, const char *root)
{
	_cleanup_close_ int fd = open(file, O_RDONLY | O_CLOEXEC);
	struct elf_symbols *symbols = NULL;
	struct so_error err = { "" };
	int r;

	assert_true(fd >= 0);
	r = elf_symbols__open(fd, path, root ? &(struct debug_root){ root, NULL, 0 } : NULL, &symbols, &err);
	if (r < 0)
		fail_msg("%s: %d %s", file, r, err.text);
	return symbols;
}

static struct elf_symbols *open_file(const char *name, const char *root)
{
	return open_at(in_dir(name), in_dir(name), root);
}

static int setup(void **state)
{
	_cleanup_fclose_ FILE *f = NULL;

	snprintf(dir, sizeof(dir), "/tmp/stakeout-elf-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	f = fopen(in_dir("prog.c"), "w");
	if (!f || fputs(program, f) == EOF || fflush(f) == EOF)
		return -1;
	run("gcc -O1 -fno-inline -Wl,--build-id -rdynamic -Wl,-z,lazy -o full prog.c");
	run("objcopy --only-keep-debug full full.debug && cp full stripped && strip stripped");
	return 0;
}

static int teardown(void **state)
{
	run("rm -rf %s", dir);
	return 0;
}

/* Whether nm lists the name at the address; its "@VERSION" does not count. */
static bool nm_has(const char *listing, uint64_t address, const char *name)
{
	_cleanup_fclose_ FILE *f = fopen(listing, "r");
	char line[4096], found[4096], type;
	uint64_t value;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNx64 " %c %4095s", &value, &type, found) != 3 || value != address)
			continue;
		found[strcspn(found, "@")] = '\0';
		if (strncmp(found, name, strcspn(name, "@")) == 0 && strlen(found) == strcspn(name, "@"))
			return true;
	}
	return false;
}

/* Each sized function of nm's is found at its first and last byte, under a name nm has for that address. */
static unsigned compare_with_nm(struct elf_symbols *symbols, const char *listing)
{
	_cleanup_fclose_ FILE *f = fopen(listing, "r");
	char line[4096], type, name[4096];
	uint64_t value, size;
	unsigned n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		struct elf_symbol symbol;

		if (sscanf(line, "%" SCNx64 " %" SCNx64 " %c", &value, &size, &type) != 3 ||
		    !strchr("tTwWi", type))
			continue;
		assert_int_equal(elf_symbols__lookup(symbols, value, &symbol, name, sizeof(name)), 0);
		assert_int_equal(symbol.start, value);
		if (!nm_has(in_dir("names"), value, name))
			fail_msg("%" PRIx64 ": nm does not know %s", value, name);
		assert_int_equal(elf_symbols__lookup(symbols, value + size - 1, &symbol, name, sizeof(name)),
				 0);
		assert_true(symbol.start >= value && symbol.start < value + size);
		n++;
	}
	return n;
}

static void test_agrees_with_nm(void **state)
{
	static const char *const programs[] = { "full", "static", "nopie" };

	run("gcc -O1 -static -o static prog.c && gcc -O1 -no-pie -o nopie prog.c");
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		_cleanup_(elf_symbols) struct elf_symbols *symbols = open_file(programs[i], NULL);

		run("nm %s > names; nm -S --defined-only %s | grep -v ' [bBdDrRvV] ' > sized", programs[i],
		    programs[i]);
		assert_string_equal(symbols->source, "symtab");
		assert_true(compare_with_nm(symbols, in_dir("sized")) >= 4);
	}
}

static void test_agrees_with_nm_on_libraries(void **state)
{
	static const char *const anchors[] = { "malloc", "pow", "deflate", "lzma_code" };
	static const char *const files[] = { "libc.so.6", "libm.so.6", "libz.so.1", "liblzma.so.5" };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		void *library = dlopen(files[i], RTLD_NOW);
		Dl_info info;

		assert_non_null(library);
		assert_int_not_equal(dladdr(dlsym(library, anchors[i]), &info), 0);
		_cleanup_(elf_symbols) struct elf_symbols *symbols =
			open_at(info.dli_fname, info.dli_fname, NULL);

		run("nm -D %s > names; nm -DS --defined-only %s | grep -v ' [bBdDrRvV] ' > sized",
		    info.dli_fname, info.dli_fname);
		assert_string_equal(symbols->source, "dynsym");
		assert_true(compare_with_nm(symbols, in_dir("sized")) > 50);
		dlclose(library);
	}
}

static void test_agrees_with_dladdr(void **state)
{
	static const char *const names[] = { "qsort", "fopen", "getaddrinfo", "pthread_create", "realpath" };
	Dl_info info;

	assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "getaddrinfo"), &info), 0);
	_cleanup_(elf_symbols) struct elf_symbols *symbols = open_at(info.dli_fname, info.dli_fname, NULL);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct elf_symbol by_address, by_name;
		void *address = dlsym(RTLD_DEFAULT, names[i]);
		char name[256];
		Dl_info inside;

		assert_int_not_equal(dladdr((char *)address + 5, &inside), 0);
		assert_int_equal(elf_symbols__lookup(symbols,
						     (uint64_t)((char *)address - (char *)info.dli_fbase) + 5,
						     &by_address, name, sizeof(name)),
				 0);
		assert_int_equal(by_address.start, (char *)inside.dli_saddr - (char *)info.dli_fbase);
		assert_int_equal(elf_find(symbols, names[i], &by_name), 0);
		if (strcmp(names[i], "realpath") != 0) /* has an older version, which the name also means */
			assert_int_equal(by_name.start, by_address.start);
	}
}

static void expect(struct elf_symbols *symbols, uint64_t vaddr, const char *wanted)
{
	struct elf_symbol symbol;
	char name[256];

	if (elf_symbols__lookup(symbols, vaddr, &symbol, name, sizeof(name)) != 0)
		fail_msg("%" PRIx64 ": nothing found, not %s", vaddr, wanted);
	assert_string_equal(name, wanted);
}

static void test_choice(void **state)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = open_file("full", NULL);
	struct elf_symbol symbol, untouched = { 1, 2 };
	char name[4] = "";

	/* Global before weak, then fewest underscores: not "al", not "__plain_alias". */
	assert_int_equal(elf_find(symbols, "__plain_alias", &symbol), 0);
	expect(symbols, symbol.start, "alpha");
	assert_int_equal(elf_find(symbols, "al", &symbol), 0);
	expect(symbols, symbol.start + 1, "alpha");
	/* Then the shortest. */
	assert_int_equal(elf_find(symbols, "a_much_longer_name", &symbol), 0);
	expect(symbols, symbol.start, "short_name");
	/* A local function is found, too. */
	assert_int_equal(elf_find(symbols, "beta", &symbol), 0);
	expect(symbols, symbol.start, "beta");
	assert_true(symbol.size > 0);
	/* The name is cut to its buffer. */
	assert_int_equal(elf_symbols__lookup(symbols, symbol.start, &symbol, name, sizeof(name)), 0);
	assert_string_equal(name, "bet");

	assert_int_equal(elf_find(symbols, "bet", &untouched), -ENOENT);
	assert_int_equal(elf_find(symbols, "eta", &untouched), -ENOENT);
	assert_int_equal(elf_find(symbols, "beta_", &untouched), -ENOENT);
	assert_int_equal(elf_find(symbols, "", &untouched), -ENOENT);
	assert_int_equal(elf_find(symbols, "printf", &untouched), -ENOENT);
	assert_int_equal(elf_symbols__lookup(symbols, 1, &untouched, name, sizeof(name)), -ENOENT);
	assert_int_equal(elf_symbols__lookup(symbols, UINT64_MAX, &untouched, name, sizeof(name)), -ENOENT);
	assert_int_equal(untouched.start, 1);
	assert_int_equal(untouched.size, 2);
	assert_string_equal(name, "bet");
}

/* Sized ones only, by rising address, one for an address, and the bounds hold. */
static void test_functions_of_a_range(void **state)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = open_file("full", NULL);
	struct elf_symbol all[64], some[64], alpha, named;
	size_t n = elf_symbols__functions(symbols, 0, UINT64_MAX, all, 64), at;
	const char *inside[] = { "alpha", "beta", "short_name", "main", "outer", "inner" };

	assert_true(n > 6 && n < 64);
	for (size_t i = 0; i < n; i++) {
		assert_true(all[i].size > 0);
		assert_true(!i || all[i].start > all[i - 1].start);
	}
	for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++) {
		assert_int_equal(elf_find(symbols, inside[i], &named), 0);
		for (at = 0; at < n && all[at].start != named.start; at++)
			;
		assert_true(at < n);
	}
	assert_int_equal(elf_find(symbols, "sizeless", &named), 0);
	for (at = 0; at < n; at++)
		assert_int_not_equal(all[at].start, named.start);

	assert_int_equal(elf_find(symbols, "alpha", &alpha), 0);
	assert_int_equal(elf_symbols__functions(symbols, alpha.start, alpha.start + 1, some, 64), 1);
	assert_int_equal(some[0].start, alpha.start);
	assert_int_equal(some[0].size, alpha.size);
	assert_int_equal(elf_symbols__functions(symbols, alpha.start + 1, alpha.start + 1, some, 64), 0);
	for (at = 0; all[at].start != alpha.start; at++)
		;
	assert_int_equal(elf_symbols__functions(symbols, alpha.start + 1, UINT64_MAX, some, 64), n - at - 1);
	assert_int_equal(elf_symbols__functions(symbols, 0, UINT64_MAX, some, 3), 3);
	assert_memory_equal(some, all, 3 * sizeof(all[0]));
}

static void test_labels_without_size_and_nesting(void **state)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = open_file("full", NULL);
	struct elf_symbol symbol, outer;

	assert_int_equal(elf_find(symbols, "sizeless", &symbol), 0);
	assert_int_equal(symbol.size, 0);
	assert_int_equal(elf_find(symbols, "outer", &outer), 0);
	assert_int_equal(outer.start, symbol.start + 5);
	/* Up to the next symbol; the assembler's own label ".Lhidden" is none. */
	expect(symbols, symbol.start + 4, "sizeless");
	expect(symbols, outer.start, "outer");
	expect(symbols, outer.start + 3, "outer");
	expect(symbols, outer.start + 4, "inner");
	expect(symbols, outer.start + 5, "inner");
	/* Behind the inner function the outer one goes on; a label without a size does not hide it. */
	expect(symbols, outer.start + 6, "outer");
	expect(symbols, outer.start + 7, "outer");
}

/* objdump labels PLT stubs by an analysis of its own. */
static void compare_plt(const char *name)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = open_file(name, NULL);
	_cleanup_fclose_ FILE *f = NULL;
	char line[1024], label[512];
	uint64_t address;
	unsigned n = 0;

	run("objdump -d %s | grep '@plt>:$' > plt", name);
	f = fopen(in_dir("plt"), "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		assert_int_equal(sscanf(line, "%" SCNx64 " <%511[^>]>", &address, label), 2);
		expect(symbols, address, label);
		expect(symbols, address + 5, label);
		n++;
	}
	assert_true(n >= 2);
}

static void test_plt(void **state)
{
	run("gcc -O1 -fcf-protection=none -Wl,-z,lazy -o plt-lazy prog.c && strip plt-lazy");
	compare_plt("plt-lazy");
	run("gcc -O1 -fcf-protection=none -Wl,-z,now -o plt-now prog.c");
	compare_plt("plt-now");
	run("gcc -O1 -fcf-protection=full -Wl,-z,ibtplt -Wl,-z,lazy -o plt-ibt prog.c && strip plt-ibt");
	compare_plt("plt-ibt");
	run("printf '#include <stdlib.h>\\nvoid *p(void) { return (void *)atoi; }\\n"
	    "int q(char *s) { return atoi(s) + (int)(long)getenv(s); }\\n' > got.c");
	run("gcc -O1 -fPIC -shared -fcf-protection=none -o plt-got got.c && strip plt-got");
	run("readelf -SW plt-got | grep -q plt.got");
	compare_plt("plt-got");
	run("gcc -O1 -fPIC -shared -fcf-protection=full -Wl,-z,ibtplt -o plt-got-ibt got.c && strip "
	    "plt-got-ibt");
	compare_plt("plt-got-ibt");
}

static void test_stripped(void **state)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = open_file("stripped", in_dir("no-such-root"));
	struct elf_symbol symbol;

	assert_string_equal(symbols->source, "dynsym");
	assert_int_equal(elf_find(symbols, "alpha", &symbol), 0);
	expect(symbols, symbol.start, "alpha");
	assert_int_equal(elf_find(symbols, "beta", &symbol), -ENOENT);
}

static void expect_debug_file(const char *file, const char *path, const char *root, bool found)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = open_at(in_dir(file), path, root);
	struct elf_symbol symbol;

	assert_string_equal(symbols->source, found ? "debug-file" : "dynsym");
	assert_int_equal(elf_find(symbols, "beta", &symbol), found ? 0 : -ENOENT);
	if (found)
		expect(symbols, symbol.start, "beta");
	/* Either way the exported names are there. */
	assert_int_equal(elf_find(symbols, "alpha", &symbol), 0);
	expect(symbols, symbol.start, "alpha");
}

static void test_debug_file_by_build_id(void **state)
{
	run("id=$(readelf -n full | sed -n 's/.*Build ID: //p') && "
	    "b=root/usr/lib/debug/.build-id/${id%%${id#??}} &&"
	    " mkdir -p $b && cp full.debug $b/${id#??}.debug && echo $b/${id#??}.debug > where");
	expect_debug_file("stripped", "/somewhere/stripped", in_dir("root"), true);
	expect_debug_file("stripped", NULL, in_dir("root"), true);
	expect_debug_file("stripped", "/somewhere/stripped", NULL, false);
	/* As Fedora has it: a link, absolute within its root. */
	run("w=$(cat where) && mv $w root/moved && ln -s /moved $w");
	expect_debug_file("stripped", "/somewhere/stripped", in_dir("root"), true);
	/* A file with another build-id is not taken, nor is a FIFO waited for. */
	run("printf 'int main(void) { return 3; }' |"
	    " gcc -Wl,--build-id -x c -o other - && cp other root/moved");
	expect_debug_file("stripped", "/somewhere/stripped", in_dir("root"), false);
	run("rm root/moved && mkfifo root/moved");
	expect_debug_file("stripped", "/somewhere/stripped", in_dir("root"), false);
}

static void test_debug_file_by_link(void **state)
{
	run("gcc -O1 -fno-inline -Wl,--build-id=none -rdynamic -o bare prog.c && objcopy --only-keep-debug "
	    "bare "
	    "bare.debug &&"
	    " strip -o linked bare && objcopy --add-gnu-debuglink=bare.debug linked");
	run("mkdir -p r/opt/app/.debug r/usr/lib/debug/opt/app");
	expect_debug_file("linked", "/opt/app/linked", in_dir("r"), false);
	run("cp bare.debug r/opt/app/");
	expect_debug_file("linked", "/opt/app/linked", in_dir("r"), true);
	expect_debug_file("linked", "relative/linked", in_dir("r"), false);
	run("mv r/opt/app/bare.debug r/opt/app/.debug/");
	expect_debug_file("linked", "/opt/app/linked", in_dir("r"), true);
	run("mv r/opt/app/.debug/bare.debug r/usr/lib/debug/opt/app/");
	expect_debug_file("linked", "/opt/app/linked", in_dir("r"), true);
	/* One byte more and the checksum is another. */
	run("printf x >> r/usr/lib/debug/opt/app/bare.debug");
	expect_debug_file("linked", "/opt/app/linked", in_dir("r"), false);
}

static void test_mini_debuginfo(void **state)
{
	run("objcopy --strip-debug --keep-file-symbols full.debug mini && xz -k mini &&"
	    " objcopy --add-section .gnu_debugdata=mini.xz stripped with-mini");
	_cleanup_(elf_symbols) struct elf_symbols *symbols = open_file("with-mini", in_dir("no-such-root"));
	struct elf_symbol symbol;

	assert_string_equal(symbols->source, "debugdata");
	assert_int_equal(elf_find(symbols, "beta", &symbol), 0);
	expect(symbols, symbol.start, "beta");
	run("nm full > names; nm -S --defined-only full | grep -v ' [bBdDrRvV] ' > sized");
	assert_true(compare_with_nm(symbols, in_dir("sized")) >= 4);
	/* A damaged one is passed over. */
	run("head -c 200 mini.xz > cut.xz && objcopy --add-section .gnu_debugdata=cut.xz stripped with-cut");
	expect_debug_file("with-cut", "/x/with-cut", NULL, false);
	run("head -c 5000000 /dev/zero | xz > zero.xz && objcopy --add-section .gnu_debugdata=zero.xz stripped "
	    "z");
	expect_debug_file("z", "/x/z", NULL, false);
}

static char *slurp(const char *path, size_t *size)
{
	_cleanup_fclose_ FILE *f = fopen(path, "r");
	struct stat st;
	char *bytes;

	assert_non_null(f);
	assert_int_equal(fstat(fileno(f), &st), 0);
	bytes = malloc((size_t)st.st_size);
	assert_non_null(bytes);
	assert_int_equal(fread(bytes, 1, (size_t)st.st_size, f), (size_t)st.st_size);
	*size = (size_t)st.st_size;
	return bytes;
}

static void without_section_headers(const char *hash_style)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = NULL;
	_cleanup_free_ char *bytes = NULL;
	struct elf_symbol symbol, whole;
	Elf64_Ehdr *header;
	size_t size;

	run("gcc -O1 -fno-inline -rdynamic -Wl,--hash-style=%s -o hashed prog.c", hash_style);
	bytes = slurp(in_dir("hashed"), &size);
	header = (Elf64_Ehdr *)bytes;
	header->e_shoff = 0;
	header->e_shnum = header->e_shstrndx = 0;
	assert_int_equal(elf_symbols__open_memory(bytes, size, &symbols, NULL), 0);
	assert_string_equal(symbols->source, "dynsym");

	_cleanup_(elf_symbols) struct elf_symbols *referee = open_file("hashed", NULL);
	static const char *const names[] = { "alpha", "main", "short_name", "sizeless", "al" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(elf_find(symbols, names[i], &symbol), 0);
		assert_int_equal(elf_find(referee, names[i], &whole), 0);
		assert_int_equal(symbol.start, whole.start);
		assert_int_equal(symbol.size, whole.size);
	}
	expect(symbols, symbol.start, "alpha");
	assert_int_equal(elf_find(symbols, "beta", &symbol), -ENOENT);
}

static void test_no_section_headers(void **state)
{
	without_section_headers("gnu");
	without_section_headers("sysv");
}

static void test_vdso(void **state)
{
	const char *image = (const char *)getauxval(AT_SYSINFO_EHDR);
	_cleanup_(elf_symbols) struct elf_symbols *symbols = NULL;
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
	struct elf_symbol symbol;

	if (!image)
		skip();
	assert_int_equal(elf_symbols__open_memory(image, header->e_shoff + header->e_shnum * sizeof(Elf64_Shdr),
						  &symbols, NULL),
			 0);
	assert_int_equal(elf_find(symbols, "__vdso_clock_gettime", &symbol), 0);
	expect(symbols, symbol.start, "__vdso_clock_gettime");
}

static void try_image(const char *bytes, size_t size)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = NULL;
	struct elf_symbol symbol;
	char name[64];
	int r = elf_symbols__open_memory(bytes, size, &symbols, NULL);

	if (r < 0) {
		assert_null(symbols);
		assert_true(r == -EINVAL || r == -ENOEXEC);
		return;
	}
	for (uint64_t vaddr = 0; vaddr < 0x5000; vaddr += 64)
		elf_symbols__lookup(symbols, vaddr, &symbol, name, sizeof(name));
	elf_find(symbols, "alpha", &symbol);
}

static void test_damage(void **state)
{
	_cleanup_free_ char *bytes = NULL;
	struct elf_symbols *symbols = NULL;
	size_t size;
	unsigned seed = 1;

	bytes = slurp(in_dir("full"), &size);
	assert_int_equal(elf_symbols__open_memory(bytes, size / 2, &symbols, NULL), -EINVAL);
	assert_int_equal(elf_symbols__open_memory(bytes, 20, &symbols, NULL), -EINVAL);
	assert_int_equal(elf_symbols__open_memory("#!/bin/sh\n", 10, &symbols, NULL), -ENOEXEC);
	assert_int_equal(elf_symbols__open_memory("", 0, &symbols, NULL), -ENOEXEC);
	for (size_t cut = 0; cut < size; cut += 97)
		try_image(bytes, cut);
	for (unsigned i = 0; i < 3000; i++) {
		/* Aim at the headers at both ends, where a change has consequences. */
		size_t at = rand_r(&seed) % 2 ? (size_t)rand_r(&seed) % 1024
					      : size - 1 - (size_t)rand_r(&seed) % 3000;
		char kept = bytes[at];

		bytes[at] = (char)rand_r(&seed);
		try_image(bytes, size);
		bytes[at] = kept;
	}
}

static void test_file_cut_while_in_use(void **state)
{
	run("cp full shrinking");
	_cleanup_(elf_symbols) struct elf_symbols *symbols = open_file("shrinking", NULL);
	struct elf_symbol symbol, found = { 0 };
	char name[64] = "before";

	assert_int_equal(elf_find(symbols, "alpha", &symbol), 0);
	assert_int_equal(truncate(in_dir("shrinking"), 100), 0);
	assert_int_equal(elf_symbols__lookup(symbols, symbol.start, &found, name, sizeof(name)), -ENOENT);
	assert_string_equal(name, "before");
	assert_int_equal(found.start, 0);
}

static void test_not_a_regular_file(void **state)
{
	_cleanup_close_ int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC),
			    folder = open("/", O_RDONLY | O_CLOEXEC);
	struct elf_symbols *symbols = NULL;
	struct so_error err;

	assert_int_equal(elf_symbols__open(fd, "/dev/zero", NULL, &symbols, &err), -ENOEXEC);
	assert_int_equal(elf_symbols__open(folder, "/", NULL, &symbols, &err), -ENOEXEC);
	assert_int_equal(elf_symbols__open(-1, "nothing", NULL, &symbols, &err), -EBADF);
	assert_null(symbols);
}

static void test_size_in_memory(void **state)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = open_at("/proc/self/exe", "/proc/self/exe", NULL);
	size_t n = symbols->symtab.n;

	assert_true(n > 10);
	assert_int_equal(sizeof(*symbols->symtab.entries), 24);
	assert_true((symbols->symtab.room - n) * 24 + sizeof(*symbols) +
			    symbols->n_launches * sizeof(*symbols->launches) + symbols->memory_size +
			    symbols->mini_names_size <
		    4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_agrees_with_nm),
		cmocka_unit_test(test_agrees_with_nm_on_libraries),
		cmocka_unit_test(test_agrees_with_dladdr),
		cmocka_unit_test(test_choice),
		cmocka_unit_test(test_functions_of_a_range),
		cmocka_unit_test(test_labels_without_size_and_nesting),
		cmocka_unit_test(test_plt),
		cmocka_unit_test(test_stripped),
		cmocka_unit_test(test_debug_file_by_build_id),
		cmocka_unit_test(test_debug_file_by_link),
		cmocka_unit_test(test_mini_debuginfo),
		cmocka_unit_test(test_no_section_headers),
		cmocka_unit_test(test_vdso),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_file_cut_while_in_use),
		cmocka_unit_test(test_not_a_regular_file),
		cmocka_unit_test(test_size_in_memory),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
