// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Rules from machine code alone against the same file's .eh_frame: at random instructions of this system's own
 * libraries, what was followed may say less, never something else. A CFA given by another register than .eh_frame's is
 * as right and cannot be compared without a process; it is counted. With file names it prints the counts, for code
 * limited to the function, for the whole text, and for what lies between the entries.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "daemon/unwind/cfi_entries.h"
#include "daemon/unwind/eh_frame.h"
#include "daemon/unwind/stack_effect.h"
#include "daemon/unwind/unwind_table.h"

#define MAX_TOLD 4
#define N_TEST   1500
#define N_NAMED  10000

struct file {
	const char *path;
	const uint8_t *image;
	size_t size;
	struct eh_frame eh;
	struct cfi_entries entries;
	struct unwind_table *table;
	bool *undescribed; /* for each entry: see find_undescribed() */
};

struct counts {
	uint64_t asked, answered, rows;
	uint64_t same, other_kind, wrong_cfa, outermost;
	uint64_t save_same, save_other_kind, save_lost, save_wrong;
	double us;
};

static uint64_t random_state = 88172645463325252ull;

static uint64_t random_u64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Text by virtual address, through the program headers. */
static size_t read_text(void *context, uint64_t address, void *buf, size_t size)
{
	const struct file *f = context;
	const Elf64_Ehdr *ehdr = (const void *)f->image;
	const Elf64_Phdr *phdr = (const void *)(f->image + ehdr->e_phoff);

	for (unsigned i = 0; i < ehdr->e_phnum; i++) {
		uint64_t at = address - phdr[i].p_vaddr;

		if (phdr[i].p_type != PT_LOAD || !(phdr[i].p_flags & PF_X) || at >= phdr[i].p_filesz)
			continue;
		if (size > phdr[i].p_filesz - at)
			size = phdr[i].p_filesz - at;
		memcpy(buf, f->image + phdr[i].p_offset + at, size);
		return size;
	}
	return 0;
}

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static bool decode_at(struct file *f, struct stack_decoder *decoder, uint64_t address, struct stack_insn *insn)
{
	uint8_t code[STACK_INSN_MAX_BYTES];
	size_t n = read_text(f, address, code, sizeof(code));

	return !stack_decoder__decode(decoder, code, n, address, insn);
}

/* Alignment behind a jump or a return, which is never executed; compilers do not describe it. */
static bool is_padding(struct file *f, uint64_t address)
{
	uint8_t code[STACK_INSN_MAX_BYTES] = { 0 };
	size_t n = read_text(f, address, code, sizeof(code)), at = 0;

	while (at + 1 < n && (code[at] == 0x66 || code[at] == 0x2e))
		at++;
	return code[at] == 0x90 || (code[at] == 0x0f && code[at + 1] == 0x1f);
}

/* An instruction of the function, about evenly chosen; 0 for none: padding, or code not understood up to there. */
static uint64_t random_instruction(struct file *f, struct stack_decoder *decoder, const struct cfi_fde *fde)
{
	uint64_t wanted = fde->start + random_u64() % fde->length, address = fde->start;
	bool dead = false;
	struct stack_insn insn;

	while (decode_at(f, decoder, address, &insn)) {
		dead = dead && is_padding(f, address);
		if (address + insn.length > wanted)
			return dead ? 0 : address;
		dead = dead || insn.flow >= STACK_FLOW_JUMP;
		address += insn.length;
	}
	return 0;
}

/*
 * Assembly that pushes and pops while its entry in .eh_frame claims the CFA to be rsp + 8 all the time (the __mpn_
 * functions of glibc): there the referee is wrong.
 */
static bool is_undescribed(struct file *f, struct stack_decoder *decoder, const struct cfi_fde *fde)
{
	uint64_t end = fde->start + fde->length, address = fde->start;
	const struct so_unwind_rule *rule = unwind_table__lookup(f->table, address);
	struct stack_insn insn;

	if (!rule || rule->cfa_kind != SO_CFA_REG || rule->cfa_reg != SO_REG_RSP || rule->cfa_off != 8)
		return false;
	for (; address < end; address += 8)
		if (unwind_table__lookup(f->table, address) != rule)
			return false;
	for (address = fde->start; address < end; address += insn.length) {
		if (!decode_at(f, decoder, address, &insn))
			return true;
		if (insn.op == STACK_OP_PUSH || insn.op == STACK_OP_POP)
			return true;
		if (insn.op == STACK_OP_LEA && insn.reg == SO_REG_RSP)
			return true;
	}
	return false;
}

static void find_undescribed(struct file *f)
{
	_cleanup_(stack_decoder) struct stack_decoder *decoder = NULL;

	assert_int_equal(stack_decoder__new(&decoder), 0);
	f->undescribed = calloc(f->entries.n_fdes, sizeof(*f->undescribed));
	assert_non_null(f->undescribed);
	for (uint32_t i = 0; i < f->entries.n_fdes; i++)
		f->undescribed[i] = is_undescribed(f, decoder, &f->entries.fdes[i]);
}

static bool open_file(const char *path, struct file *f)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct so_error err;
	struct stat st;

	memset(f, 0, sizeof(*f));
	f->path = path;
	if (fd < 0)
		return false;
	assert_int_equal(fstat(fd, &st), 0);
	f->size = (size_t)st.st_size;
	f->image = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(f->image, MAP_FAILED);
	assert_int_equal(eh_frame__read(fd, &f->eh, &err), 0);
	assert_int_equal(cfi_entries__read(&f->eh, &f->entries), 0);
	assert_int_equal(unwind_table__compile(fd, &f->table, &err), 0);
	find_undescribed(f);
	return true;
}

static void close_file(struct file *f)
{
	free(f->undescribed);
	unwind_table__free(f->table);
	cfi_entries__release(&f->entries);
	eh_frame__release(&f->eh);
	munmap((void *)f->image, f->size);
}

static const struct cfi_fde *find_fde(const struct file *f, uint64_t address)
{
	uint32_t lo = 0, hi = f->entries.n_fdes;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (f->entries.fdes[mid].start <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo || address - f->entries.fdes[lo - 1].start >= f->entries.fdes[lo - 1].length)
		return NULL;
	return &f->entries.fdes[lo - 1];
}

static void tell(const struct file *f, const char *what, uint64_t pc, uint64_t address,
		 const struct so_unwind_rule *ours, const struct so_unwind_rule *theirs)
{
	print_error("%s: %s at 0x%" PRIx64 " from 0x%" PRIx64
		    ": kind %u reg %u %+d %+d rbp %u %+d rbx %u %+d, .eh_frame: "
		    "kind %u reg %u %+d %+d rbp %u %+d rbx %u %+d\n",
		    f->path, what, address, pc, ours->cfa_kind, ours->cfa_reg, ours->cfa_off, ours->cfa_off2,
		    ours->saves & 15, ours->rbp_off, ours->saves >> 4, ours->rbx_off, theirs->cfa_kind,
		    theirs->cfa_reg, theirs->cfa_off, theirs->cfa_off2, theirs->saves & 15, theirs->rbp_off,
		    theirs->saves >> 4, theirs->rbx_off);
}

/* Unchanged since the call and saved by a push are both right for a while, so only two places can disagree. */
static bool compare_save(struct counts *c, unsigned ours, int16_t our_off, unsigned theirs, int16_t their_off)
{
	if (ours == SO_SAVE_UNDEFINED)
		c->save_lost += theirs != SO_SAVE_UNDEFINED;
	else if (ours != theirs)
		c->save_other_kind++;
	else if (our_off != their_off)
		return false;
	else
		c->save_same++;
	return true;
}

static void compare_rule(struct counts *c, const struct file *f, uint64_t pc, uint64_t address,
			 const struct so_unwind_rule *ours)
{
	const struct so_unwind_rule *theirs = unwind_table__lookup(f->table, address);
	const struct cfi_fde *fde = find_fde(f, address);

	if (!fde || f->undescribed[fde - f->entries.fdes])
		return;
	if (!theirs || theirs->cfa_kind == SO_CFA_PLT || theirs->cfa_kind == SO_CFA_UNSUPPORTED)
		return;
	if (theirs->cfa_kind == SO_CFA_END || theirs->cfa_kind == SO_CFA_SIGNAL) {
		c->outermost++;
		return;
	}
	if (ours->cfa_kind != theirs->cfa_kind || ours->cfa_reg != theirs->cfa_reg ||
	    (ours->cfa_kind == SO_CFA_DEREF && ours->cfa_off != theirs->cfa_off)) {
		c->other_kind++;
		return;
	}
	if (ours->cfa_off != theirs->cfa_off || ours->cfa_off2 != theirs->cfa_off2 || ours->ra != theirs->ra) {
		if (c->wrong_cfa++ < MAX_TOLD)
			tell(f, "other CFA", pc, address, ours, theirs);
		return;
	}
	c->same++;
	if (!compare_save(c, ours->saves & 15, ours->rbp_off, theirs->saves & 15, theirs->rbp_off) ||
	    !compare_save(c, ours->saves >> 4, ours->rbx_off, theirs->saves >> 4, theirs->rbx_off)) {
		if (c->save_wrong++ < MAX_TOLD)
			tell(f, "other save", pc, address, ours, theirs);
	}
}

static void compare_at(struct counts *c, struct file *f, struct effect_reader *reader, uint64_t pc,
		       uint64_t low, uint64_t high)
{
	_cleanup_(effect_rows) struct effect_rows *owner = NULL;
	struct effect_rows rows = { 0 };
	double start = now_us();
	int err = stack_effect__follow(reader, read_text, f, pc, low, high, &rows);

	owner = &rows;
	c->asked++;
	c->us += now_us() - start;
	if (err) {
		assert_int_equal(err, -ENOENT);
		assert_int_equal(rows.n, 0);
		return;
	}
	c->answered++;
	c->rows += rows.n;
	assert_non_null(effect_rows__find(&rows, pc));
	for (size_t i = 0; i < rows.n; i++)
		compare_rule(c, f, pc, rows.rows[i].address, &rows.rows[i].rule);
}

/* The function in which the byte number `at` of all functions lies. */
static const struct cfi_fde *pick(const struct cfi_fde *fdes, uint64_t at)
{
	while (at >= fdes->length)
		at -= fdes++->length;
	return fdes;
}

/*
 * Whether an entry describes a function from its entry on. In a part that a compiler put elsewhere (.cold) a frame is
 * set up already, and a jump back into the function's middle looks like a call of another one at its end: nobody asks
 * about such a part by itself.
 */
static bool is_function(const struct file *f, const struct cfi_fde *fde)
{
	const struct so_unwind_rule *rule = unwind_table__lookup(f->table, fde->start);

	return rule && rule->cfa_kind == SO_CFA_REG && rule->cfa_reg == SO_REG_RSP && rule->cfa_off == 8;
}

/* At most `n` instructions, in functions chosen by their size. */
static void compare_file(struct file *f, unsigned n, bool whole_text, struct counts *c)
{
	_cleanup_(effect_reader) struct effect_reader *reader = NULL;
	_cleanup_(stack_decoder) struct stack_decoder *decoder = NULL;
	uint64_t total = 0;

	memset(c, 0, sizeof(*c));
	assert_int_equal(effect_reader__new(&reader), 0);
	assert_int_equal(stack_decoder__new(&decoder), 0);
	for (uint32_t i = 0; i < f->entries.n_fdes; i++)
		total += f->entries.fdes[i].length;
	while (n--) {
		const struct cfi_fde *fde = pick(f->entries.fdes, random_u64() % total);
		uint64_t pc = f->undescribed[fde - f->entries.fdes] ? 0 : random_instruction(f, decoder, fde);
		if (!pc || (!whole_text && !is_function(f, fde)))
			continue;
		if (!whole_text) {
			compare_at(c, f, reader, pc, fde->start, fde->start + fde->length);
			continue;
		}
		for (size_t i = 0; i < f->eh.n_text; i++)
			if (pc >= f->eh.text[i].start && pc < f->eh.text[i].end)
				compare_at(c, f, reader, pc, f->eh.text[i].start, f->eh.text[i].end);
	}
}

static void print_counts(const struct file *f, const char *what, const struct counts *c)
{
	double compared = (double)(c->same + c->wrong_cfa + c->other_kind);

	print_message("%s, %s: %" PRIu64
		      " asked, answered %.1f %%, %.1f us and %.1f rules each; %.0f rules compared: CFA "
		      "same %.2f %%, by another register %.2f %%, wrong %" PRIu64
		      ", where .eh_frame says outermost %" PRIu64 "; saves: same %" PRIu64
		      ", of another kind %" PRIu64 ", lost %" PRIu64 ", wrong %" PRIu64 "\n",
		      f->path, what, c->asked, 100.0 * (double)c->answered / (double)(c->asked + !c->asked),
		      c->us / (double)(c->asked + !c->asked),
		      (double)c->rows / (double)(c->answered + !c->answered), compared,
		      100 * (double)c->same / (compared + !compared),
		      100 * (double)c->other_kind / (compared + !compared), c->wrong_cfa, c->outermost,
		      c->save_same, c->save_other_kind, c->save_lost, c->save_wrong);
}

/* Text between the entries, longer than alignment: code without unwind information. */
static struct cfi_fde *find_gaps(struct file *f, uint32_t *n)
{
	struct cfi_fde *gaps = calloc(f->entries.n_fdes, sizeof(*gaps));

	assert_non_null(gaps);
	*n = 0;
	for (uint32_t i = 0; i + 1 < f->entries.n_fdes; i++) {
		uint64_t start = f->entries.fdes[i].start + f->entries.fdes[i].length;
		uint64_t end = f->entries.fdes[i + 1].start;

		if (!eh_frame__covers(&f->eh, start, end) || end - start > UINT32_MAX)
			continue;
		while (start < end && is_padding(f, start))
			start += 1;
		start = (start + 15) & ~15ull;
		if (end > start + 64)
			gaps[(*n)++] = (struct cfi_fde){ .start = start, .length = (uint32_t)(end - start) };
	}
	return gaps;
}

/* How much is answered where nothing can be compared. */
static void ask_gaps(struct file *f, unsigned n, struct counts *c)
{
	_cleanup_(effect_reader) struct effect_reader *reader = NULL;
	_cleanup_(stack_decoder) struct stack_decoder *decoder = NULL;
	_cleanup_free_ struct cfi_fde *gaps = NULL;
	uint64_t total = 0;
	uint32_t n_gaps;

	memset(c, 0, sizeof(*c));
	gaps = find_gaps(f, &n_gaps);
	assert_int_equal(effect_reader__new(&reader), 0);
	assert_int_equal(stack_decoder__new(&decoder), 0);
	for (uint32_t i = 0; i < n_gaps; i++)
		total += gaps[i].length;
	while (total && n--) {
		const struct cfi_fde *gap = pick(gaps, random_u64() % total);
		uint64_t pc = random_instruction(f, decoder, gap);

		if (pc)
			compare_at(c, f, reader, pc, gap->start, gap->start + gap->length);
	}
	print_message("%s: %u gaps of %" PRIu64 " bytes\n", f->path, n_gaps, total);
}

static int run_named(int n, char **paths)
{
	struct counts c;
	struct file f;

	for (int i = 0; i < n; i++) {
		if (!open_file(paths[i], &f)) {
			fprintf(stderr, "%s: %s\n", paths[i], strerror(errno));
			return 1;
		}
		compare_file(&f, N_NAMED, false, &c);
		print_counts(&f, "function", &c);
		compare_file(&f, N_NAMED, true, &c);
		print_counts(&f, "whole text", &c);
		ask_gaps(&f, N_NAMED, &c);
		print_counts(&f, "without entries", &c);
		close_file(&f);
	}
	return 0;
}

/*
 * What a function's own code says must not contradict .eh_frame anywhere; `least` percent of the questions must get an
 * answer. libcrypto's entries are not trusted: those of its multi-block SHA code are wrong about rbp and rbx, those of
 * its x25519 code about the return.
 */
static void check_file(const char *path, unsigned least, bool trusted)
{
	struct counts c;
	struct file f;

	if (!open_file(path, &f))
		skip();
	compare_file(&f, N_TEST, false, &c);
	print_counts(&f, "function", &c);
	close_file(&f);
	assert_int_equal(c.outermost, 0);
	assert_true(c.wrong_cfa <= (trusted ? 0 : c.same / 1000));
	assert_true(c.save_wrong <= (trusted ? 0 : c.save_same / 100));
	assert_true(c.asked > N_TEST / 2);
	assert_true(c.answered * 100 >= c.asked * least);
	assert_true(c.same > c.answered);
	assert_true(c.save_same > c.save_lost * 20);
}

#define LIB "/lib/x86_64-linux-gnu/"
#define FILES(X)                                             \
	X(libc, LIB "libc.so.6", 85, true)                   \
	X(libm, LIB "libm.so.6", 85, true)                   \
	X(ld, LIB "ld-linux-x86-64.so.2", 80, true)          \
	X(libcrypto, "/usr" LIB "libcrypto.so.3", 80, false) \
	X(libstdcxx, "/usr" LIB "libstdc++.so.6", 75, true)  \
	X(python, "/usr/bin/python3", 55, true)              \
	X(bash, "/bin/bash", 80, true)                       \
	X(gdb, "/usr/bin/gdb", 75, true)
#define FILE_TEST(name, path, least, trust)     \
	static void test_##name(void **state)   \
	{                                       \
		check_file(path, least, trust); \
	}
#define FILE_ENTRY(name, path, least, trust) cmocka_unit_test(test_##name),

FILES(FILE_TEST)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { FILES(FILE_ENTRY) };

	if (argc > 1)
		return run_named(argc - 1, argv + 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
