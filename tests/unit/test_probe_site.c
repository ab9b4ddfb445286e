// SPDX-License-Identifier: GPL-2.0-or-later
/* Where probes go: in code by the byte, and in what gcc makes, where a breakpoint at the site is the referee. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "daemon/cuda/probe_site.h"

static char folder[] = "/tmp/stakeout-probe-site-XXXXXX";

static int make_decoder(void **state)
{
	return probe_decoder__new((struct probe_decoder **)state);
}

static int free_decoder(void **state)
{
	probe_decoder__free(*state);
	return 0;
}

#define CODE(text) text, sizeof(text) - 1
#define PART       false
#define WHOLE      true

static const struct {
	const char *what;
	const char *code;
	size_t size;
	bool whole;
	int result;
	uint32_t offset;
	bool emulated;
	const char *instruction; /* how it begins */
	const char *why;         /* words of it */
} table[] = {
	{ "a push at once", CODE("\x55\x48\x89\xe5\xc3"), PART, 0, 0, true, "push rbp",
	  "the first instruction" },
	{ "push with REX", CODE("\x41\x57\x41\x56\xc3"), PART, 0, 0, true, "push r15",
	  "the first instruction" },
	{ "push with a REX prefix that the kernel does not take", CODE("\x48\x55\xc3"), PART, 0, 0, false,
	  "push", "rsp or an argument changes" },
	{ "endbr64, push", CODE("\xf3\x0f\x1e\xfa\x55\x48\x89\xe5"), PART, 0, 4, true, "push rbp",
	  "until there" },
	{ "endbr64, push with REX", CODE("\xf3\x0f\x1e\xfa\x41\x54"), PART, 0, 4, true, "push r12",
	  "until there" },
	{ "sub rsp first", CODE("\x48\x83\xec\x08\x55\xc3"), PART, 0, 0, false, "sub rsp, 8",
	  "rsp or an argument" },
	{ "endbr64, sub rsp", CODE("\xf3\x0f\x1e\xfa\x48\x83\xec\x18\x53"), PART, 0, 0, false, "endbr64",
	  "rsp or an argument" },
	{ "mov of an argument away, then push", CODE("\x48\x89\xf8\x53\xc3"), PART, 0, 3, true, "push rbx",
	  "until there" },
	{ "lea, xor, test, then push", CODE("\x4c\x8d\x54\x24\x08\x31\xc0\x48\x85\xff\x41\x55"), PART, 0, 10,
	  true, "push r13", "until there" },
	{ "rdi clobbered before the push", CODE("\x48\x89\xf7\x53\xc3"), PART, 0, 0, false, "mov rdi, rsi",
	  "rsp or an argument" },
	{ "half of rsi clobbered", CODE("\x40\xb6\x01\x53\xc3"), PART, 0, 0, false, "mov sil, 1",
	  "rsp or an arg" },
	{ "edx clobbered", CODE("\x31\xd2\x53\xc3"), PART, 0, 0, false, "xor edx, edx", "rsp or an argument" },
	{ "cl clobbered", CODE("\xb1\x05\x53\xc3"), PART, 0, 0, false, "mov cl, 5", "rsp or an argument" },
	{ "ch clobbered", CODE("\xb5\x05\x53\xc3"), PART, 0, 0, false, "mov ch, 5", "rsp or an argument" },
	{ "r8 clobbered", CODE("\x4d\x31\xc0\x53\xc3"), PART, 0, 0, false, "xor r8, r8", "rsp or an argument" },
	{ "r9w clobbered", CODE("\x66\x45\x31\xc9\x53\xc3"), PART, 0, 0, false, "xor r9w, r9w",
	  "rsp or an argument" },
	{ "r10 is nobody's", CODE("\x4d\x31\xd2\x53\xc3"), PART, 0, 3, true, "push rbx", "until there" },
	{ "a store to the caller's memory", CODE("\x48\xc7\x07\x00\x00\x00\x00\x53"), PART, 0, 0, false,
	  "mov qword", "memory is written" },
	{ "a store below rsp", CODE("\x48\x89\x7c\x24\xf8\x53"), PART, 0, 0, false, "mov qword",
	  "memory is written" },
	{ "a locked store", CODE("\xf0\x48\x01\x37\x53"), PART, -ENOTSUP, 0, false, "", "" },
	{ "xchg writes both", CODE("\x48\x97\x53"), PART, 0, 0, false, "xchg", "unknown effect" },
	{ "pop", CODE("\x58\x50\xc3"), PART, 0, 0, false, "pop rax", "rsp or an argument" },
	{ "rep stos", CODE("\xf3\x48\xab\x53"), PART, 0, 0, false, "rep stosq", "unknown effect" },
	{ "a return at once", CODE("\xc3"), PART, 0, 0, false, "ret", "goes elsewhere" },
	{ "xor, return", CODE("\x31\xc0\xc3"), WHOLE, 0, 0, false, "xor eax, eax", "goes elsewhere" },
	{ "jmp rel32", CODE("\xe9\x00\x01\x00\x00"), PART, 0, 0, true, "jmp 0x", "alias or a thunk" },
	{ "jmp rel8", CODE("\xeb\x7e"), PART, 0, 0, true, "jmp 0x", "alias or a thunk" },
	{ "endbr64, bnd jmp", CODE("\xf3\x0f\x1e\xfa\xf2\xe9\x00\x01\x00\x00"), WHOLE, 0, 4, true, "bnd jmp",
	  "" },
	{ "jmp through memory", CODE("\xff\x25\x00\x01\x00\x00"), PART, 0, 0, false, "jmp qword",
	  "through a pointer" },
	{ "endbr64, jmp through memory", CODE("\xf3\x0f\x1e\xfa\xff\x25\x00\x01\x00\x00"), PART, 0, 0, false,
	  "endbr64", "through a pointer" },
	{ "a nop", CODE("\x90\x48\x83\xec\x08"), PART, 0, 0, true, "nop", "the first instruction" },
	{ "a nop of five bytes", CODE("\x0f\x1f\x44\x00\x00\x48\x83\xec\x08"), PART, 0, 0, false, "nop",
	  "since Linux" },
	{ "a nop of five bytes, then push", CODE("\x0f\x1f\x44\x00\x00\x55\xc3"), PART, 0, 5, true, "push",
	  "until" },
	{ "endbr64 and a nop of four bytes, which is the better",
	  CODE("\xf3\x0f\x1e\xfa\x0f\x1f\x40\x00\x48\x83\xec\x08"), WHOLE, 0, 4, false, "nop", "since Linux" },
	{ "a nop with a prefix that the kernel refuses, then push",
	  CODE("\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00\x53"), PART, 0, 10, true, "push", "until" },
	{ "66 90: refused by some kernels", CODE("\x66\x90\x53\xc3"), PART, 0, 2, true, "push rbx", "until" },
	{ "66 90, then nothing emulated", CODE("\x66\x90\x31\xc0\x48\x83\xec\x08\xc3"), WHOLE, 0, 2, false,
	  "xor eax, eax", "rsp or an argument" },
	{ "41 90 is xchg r8, rax, and kernels that take it for a nop would break it", CODE("\x41\x90\x53\xc3"),
	  PART, -ENOTSUP, 0, false, "", "" },
	{ "vzeroupper", CODE("\xc5\xf8\x77\x53\xc3"), PART, -ENOTSUP, 0, false, "", "" },
	{ "int3", CODE("\xcc\x53\xc3"), PART, -ENOTSUP, 0, false, "", "" },
	{ "hlt", CODE("\xf4\x53"), PART, -ENOTSUP, 0, false, "", "" },
	{ "int 0x80", CODE("\xcd\x80\xc3"), PART, -ENOTSUP, 0, false, "", "" },
	{ "mov to ss", CODE("\x8e\xd0\x53\xc3"), PART, -ENOTSUP, 0, false, "", "" },
	{ "syscall", CODE("\x0f\x05\x53\xc3"), PART, 0, 0, false, "syscall", "unknown effect" },
	{ "no instruction", CODE("\x06\x55"), PART, -EILSEQ, 0, false, "", "" },
	{ "cut in its first instruction", CODE("\x48"), PART, -EILSEQ, 0, false, "", "" },
	{ "nothing", CODE(""), WHOLE, -EILSEQ, 0, false, "", "" },
	{ "jcc after a test", CODE("\x48\x85\xff\x74\x03\x31\xc0\xc3\xc3"), WHOLE, 0, 3, true, "je 0x",
	  "until" },
	{ "wide jcc", CODE("\x48\x85\xff\x0f\x84\x03\x00\x00\x00\x31\xc0\xc3\xc3"), WHOLE, 0, 3, true, "je 0x",
	  "until" },
	{ "jcc with 0x66 is refused", CODE("\x66\x74\x03\x31\xc0\xc3\xc3\xc3"), WHOLE, -ENOTSUP, 0, false, "",
	  "" },
	{ "a call", CODE("\x31\xc0\xe8\x00\x01\x00\x00\xc3"), WHOLE, 0, 2, true, "call 0x", "until" },
	{ "a call, and what is behind is not known", CODE("\x31\xc0\xe8\x00\x01\x00\x00\xc3"), PART, 0, 0,
	  false, "xor eax", "lead back" },
	{ "a loop back to the call", CODE("\x31\xc0\xe8\x00\x01\x00\x00\x85\xc0\x75\xf7\xc3"), WHOLE, 0, 0,
	  false, "xor eax", "lead back" },
	{ "a loop back to the instruction behind the call",
	  CODE("\x31\xc0\xe8\x00\x01\x00\x00\x85\xc0\x75\xfc\xc3"), WHOLE, 0, 2, true, "call", "until" },
	{ "a wide loop back to the call",
	  CODE("\x31\xc0\xe8\x00\x01\x00\x00\x85\xc0\x0f\x85\xf3\xff\xff\xff\xc3"), WHOLE, 0, 0, false,
	  "xor eax", "lead back" },
	{ "loop instruction", CODE("\x31\xc0\xe8\x00\x01\x00\x00\xe2\xf9\xc3"), WHOLE, 0, 0, false, "xor",
	  "lead back" },
	{ "a loop to the second instruction, a push", CODE("\x31\xc0\x53\x5b\x85\xff\x75\xfa\xc3"), WHOLE, 0, 0,
	  false, "xor eax", "lead back" },
	{ "bytes of a constant that look like that loop", CODE("\x31\xc0\x53\xbb\x75\xfc\x00\x00\x5b\xc3"),
	  WHOLE, 0, 2, true, "push rbx", "until" },
	{ "the same, in front of bytes that are no code", CODE("\x31\xc0\x53\xbb\x75\xfc\x00\x00\x5b\xc3\x06"),
	  WHOLE, 0, 0, false, "xor eax", "lead back" },
	{ "an indirect jump may lead to a call", CODE("\x31\xc0\xe8\x00\x01\x00\x00\xff\xe0"), WHOLE, 0, 0,
	  false, "xor eax", "lead back" },
	{ "a driver's thunk: a state is compared, then it jumps through a pointer",
	  CODE("\x81\x3d\x3e\x93\x8d\x01\x78\x56\x34\x12\x74\x0c\xff\x25\xc6\x18\x7e\x01"
	       "\x66\x0f\x1f\x44\x00\x00\xb8\x04\x00\x00\x00\xc3"),
	  WHOLE, 0, 10, true, "je 0x", "until" },
	{ "the same with an argument widened in between",
	  CODE("\x81\x3d\x3e\x93\x8d\x01\x78\x56\x34\x12\x74\x09\x0f\xb7\xf6\xff\x25\xc6\x18\x7e\x01"
	       "\xb8\x04\x00\x00\x00\xc3"),
	  WHOLE, 0, 10, true, "je 0x", "until" },
	{ "a thunk that is not there as a whole",
	  CODE("\x81\x3d\x3e\x93\x8d\x01\x78\x56\x34\x12\x74\x0c\xff\x25\xc6\x18\x7e\x01"), PART, 0, 0, false,
	  "cmp", "lead back" },
	{ "a jump through a table of labels", CODE("\x85\xff\x74\x07\xff\x24\xfd\x00\x10\x00\x00\x31\xc0\xc3"),
	  WHOLE, 0, 0, false, "test edi", "lead back" },
	{ "and not to a push", CODE("\x31\xc0\x53\xff\xe0"), WHOLE, 0, 2, true, "push rbx", "until" },
	{ "a branch back to the entry", CODE("\x55\x5d\x85\xff\x75\xfa\xc3"), WHOLE, 0, 0, true, "push rbp",
	  "more than once" },
	{ "a recursive call is another call", CODE("\x55\xe8\xfa\xff\xff\xff\x5d\xc3"), WHOLE, 0, 0, true,
	  "push rbp", "the first instruction" },
	{ "stack protector, then push", CODE("\x64\x48\x8b\x04\x25\x28\x00\x00\x00\x53"), PART, 0, 9, true,
	  "push rbx", "until" },
	{ "too far",
	  CODE("\x48\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x48\xb8\x00\x00\x00\x00\x00\x00\x00\x00"
	       "\x48\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x48\xb8\x00\x00\x00\x00\x00\x00\x00\x00"
	       "\x48\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x48\xb8\x00\x00\x00\x00\x00\x00\x00\x00"
	       "\x48\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x53"),
	  WHOLE, 0, 0, false, "movabs rax, 0", "near the entry" },
};

static void check(struct probe_decoder *decoder, size_t i)
{
	/* Exactly its size: a reader too far is seen by AddressSanitizer. */
	_cleanup_free_ uint8_t *bytes = malloc(table[i].size ? table[i].size : 1);
	struct probe_site site = { .offset = 99 };
	struct probe_code code = { bytes, table[i].size, 0x401000, table[i].whole, 0, false };
	int r;

	memcpy(bytes, table[i].code, table[i].size);
	r = probe_site__choose(decoder, &code, &site);
	if (r != table[i].result)
		fail_msg("%s: %d instead of %d", table[i].what, r, table[i].result);
	if (r < 0) {
		assert_int_equal(site.offset, 99);
		return;
	}
	if (site.offset != table[i].offset || site.emulated != table[i].emulated ||
	    strncmp(site.instruction, table[i].instruction, strlen(table[i].instruction)) != 0 ||
	    !strstr(site.why, table[i].why))
		fail_msg("%s: +%u %d '%s' because '%s'", table[i].what, site.offset, site.emulated,
			 site.instruction, site.why);
}

static void test_table(void **state)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		check(*state, i);
}

static void test_cut_anywhere(void **state)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		for (size_t size = 0; size < table[i].size; size++) {
			_cleanup_free_ uint8_t *bytes = malloc(size ? size : 1);
			struct probe_code code = { bytes, size, 0, false, 0, false };
			struct probe_site site;

			memcpy(bytes, table[i].code, size);
			if (probe_site__choose(*state, &code, &site) == 0)
				assert_true(site.offset < size);
		}
	}
}

/*
 * Functions of seven arguments, all needed: six in registers and one on the stack. Some begin with a test that returns
 * early, with a call, or with a loop.
 */
static const char source[] =
	"#define ARGS long a, long b, long c, long d, long e, long f, long g\n"
	"#define SUM (a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * f + 13 * g)\n"
	"extern long helper(long);\n"
	"long helper(long x) { static long sum; return sum += x; }\n"
	"long plain(ARGS) { return SUM; }\n"
	"long early(ARGS) { if (a == 1) return SUM; return helper(b) + SUM - helper(c); }\n"
	"long calls(ARGS) { long s = SUM; for (long i = 0; i < 3; i++) s += helper(s) * 0; return s; }\n"
	"long loops(ARGS) { long s = 0; do s += SUM; while (++b < 5); return s - s + helper(c) * 0; }\n"
	"long tail(ARGS) { return plain(a, b, c, d, e, f, g); }\n"
	"long self(ARGS) { if (a < 3) return SUM; volatile char big[4096]; big[a] = 1; return big[a] + SUM; }\n"
	"long switches(ARGS) { switch (a) { case 0: return helper(b) * 0 + c; case 1: return b; case 2: return "
	"helper(c)"
	" * 0 + d; case 3: return e; case 4: return f; case 5: return helper(g) * 0; default: return 7; } }\n"
	"long inner(ARGS) { void *t[] = { &&x, &&y, &&z }; x: a += helper(b) * 0; y: if (a++ < 5) goto *t[a % "
	"2];"
	" z: return SUM; }\n";

static const char *const functions[] = {
	"plain", "early", "calls", "loops", "tail", "self", "switches", "inner"
};

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

/* The referee's state: what the handler of the breakpoint saw. */
static struct {
	uint8_t *site, original;
	unsigned hits;
	greg_t rsp, args[6];
	long stack[2]; /* return address and seventh argument */
} seen;

static void on_trap(int signal, siginfo_t *info, void *context)
{
	static const int order[6] = { REG_RDI, REG_RSI, REG_RDX, REG_RCX, REG_R8, REG_R9 };
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

	if (*seen.site == 0xcc) { /* at the site: step over the instruction itself */
		seen.hits++;
		for (int i = 0; i < 6; i++)
			seen.args[i] = regs[order[i]];
		seen.rsp = regs[REG_RSP];
		memcpy(seen.stack, (void *)regs[REG_RSP], sizeof(seen.stack));
		*seen.site = seen.original;
		regs[REG_RIP] = (greg_t)seen.site;
		regs[REG_EFL] |= 0x100;
	} else {
		*seen.site = 0xcc;
		regs[REG_EFL] &= ~0x100;
	}
}

typedef long function_of_seven(long, long, long, long, long, long, long);

/* All calls come from here: from one place, and with one stack pointer. */
static __attribute__((noinline)) void call(function_of_seven *function, long a)
{
	volatile long result = function(a, 12, 13, 14, 15, 16, 17 + a);

	(void)result;
}

static void arm(uint8_t *site)
{
	uintptr_t page = (uintptr_t)site & ~4095ul;

	assert_int_equal(mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	memset(&seen, 0, sizeof(seen));
	seen.site = site;
	seen.original = *site;
	*site = 0xcc;
}

static void check_function(struct probe_decoder *decoder, void *library, const char *name, const char *flags,
			   unsigned *later)
{
	uint8_t *entry = dlsym(library, name);
	Dl_info info;
	const Elf64_Sym *symbol;
	struct probe_site site;
	struct probe_code code = { .bytes = entry, .address = (uintptr_t)entry, .whole = true };
	greg_t rsp = 0;
	long caller = 0;

	assert_non_null(entry);
	assert_true(dladdr1(entry, &info, (void **)&symbol, RTLD_DL_SYMENT) != 0);
	code.size = symbol->st_size;
	assert_int_equal(probe_site__choose(decoder, &code, &site), 0);
	*later += site.offset > 0;
	arm(entry + site.offset);
	for (long a = 0; a < 8; a++) {
		call((function_of_seven *)(void *)entry, a);
		if (seen.hits != (unsigned)a + 1)
			fail_msg("%s %s: +%u %s hit %u times in %ld calls", name, flags, site.offset,
				 site.instruction, seen.hits, a + 1);
		assert_int_equal(seen.args[0], a);
		for (int i = 1; i < 6; i++)
			assert_int_equal(seen.args[i], 11 + i);
		assert_int_equal(seen.stack[1], 17 + a);
		if (a == 0) {
			rsp = seen.rsp;
			caller = seen.stack[0];
		}
		assert_int_equal(seen.rsp, rsp);
		assert_int_equal(seen.stack[0], caller);
	}
	*seen.site = seen.original;
}

static __attribute__((format(printf, 1, 2))) void run(const char *format, ...)
{
	char command[2048];
	va_list ap;

	va_start(ap, format);
	vsnprintf(command, sizeof(command), format, ap);
	va_end(ap);
	if (system(command) != 0)
		fail_msg("failed: %s", command);
}

/* A breakpoint at the site is hit once for each call, with registers and stack as the caller left them. */
static void test_compiled(void **state)
{
	static const char *const flags[] = { "-O0",
					     "-O1",
					     "-O2",
					     "-O3",
					     "-Os",
					     "-O2 -fno-omit-frame-pointer",
					     "-O2 -fstack-protector-all",
					     "-O2 -fpatchable-function-entry=2" };
	static const char *const protection[] = { "full", "none" };
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO }, before;
	char path[PATH_MAX];
	unsigned later = 0;
	FILE *file;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/source.c", folder);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(source, file) >= 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(sigaction(SIGTRAP, &action, &before), 0);
	for (size_t i = 0; i < 2 * sizeof(flags) / sizeof(flags[0]); i++) {
		void *library;

		run("gcc -w -fPIC -shared -fcf-protection=%s %s -o %s/%zu.so %s", protection[i % 2],
		    flags[i / 2], folder, i, path);
		snprintf(path, sizeof(path), "%s/%zu.so", folder, i);
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!library)
			fail_msg("%s", dlerror());
		for (size_t f = 0; f < sizeof(functions) / sizeof(functions[0]); f++)
			check_function(*state, library, functions[f], flags[i / 2], &later);
		assert_int_equal(dlclose(library), 0);
		snprintf(path, sizeof(path), "%s/source.c", folder);
	}
	assert_true(later > 0);
	assert_int_equal(sigaction(SIGTRAP, &before, NULL), 0);
	assert_int_equal(nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* mov rdx, rdi; push rbx: of a function with one argument rdx says nothing. */
static void test_arguments(void **state)
{
	static const uint8_t bytes[] = "\x48\x89\xfa\x53\x5b\xc3";
	_cleanup_(probe_decoder) struct probe_decoder *decoder = NULL;
	struct probe_code code = { bytes, sizeof(bytes) - 1, 0, true, 0, false };
	struct probe_site site;

	assert_int_equal(probe_decoder__new(&decoder), 0);
	for (unsigned arguments = 0; arguments <= 6; arguments++) {
		bool beyond = arguments == 1 || arguments == 2;

		code.arguments = arguments;
		assert_int_equal(probe_site__choose(decoder, &code, &site), 0);
		assert_int_equal(site.offset, beyond ? 3 : 0);
		assert_int_equal(site.emulated, beyond);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_compiled),
	};

	return cmocka_run_group_tests(tests, make_decoder, free_decoder);
}
