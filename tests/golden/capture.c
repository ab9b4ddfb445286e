// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Writes a golden stack: runs a program, stops it at a place, and keeps what is needed to unwind its stack again on any
 * machine (registers, stack memory, the call-frame information of the functions on it), with the frames that libdwfl
 * and libdw find. tests/golden/snapshot.h describes the file. tests/golden/regenerate calls this for each stack.
 */
#include <errno.h>
#include <gelf.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <elfutils/libdw.h>
#include <dwarf.h>

#include "daemon/os/proc_maps.h"
#include "stakeout/abi.h"
#include "tests/golden/referee.h"

#define MAX_FILES  64
#define MAX_FDES   4096
#define MAX_CHUNKS 16
#define MAX_CHUNK  (512u << 10)
#define RED_ZONE   128 /* below rsp; hand-written code keeps its caller's stack pointer there */
#define SIGNAL_TAIL \
	2048 /* above a signal handler's frame on an alternate stack: the frame that the kernel made */

struct fde {
	unsigned file;
	uint64_t start, length;
	Dwarf_CIE cie;
	const uint8_t *code, *code_end;
};

struct chunk {
	uint64_t start, end;
};

struct options {
	const char *title, *symbol, *module, *env[4];
	unsigned hits, steps, ms, n_env;
	uint64_t offset;
	int plt_from;  /* step until in .plt at this byte of an entry or behind; -1: no */
	bool red_zone; /* step until the CFA is to be read below rsp */
};

struct capture {
	struct options options;
	pid_t pid, tid;
	struct referee *referee;
	uint64_t regs[TRACEE_REGS];
	struct referee_frame frames[REFEREE_MAX_FRAMES];
	size_t n_frames;
	Dwfl_Module *files[MAX_FILES];
	unsigned n_files;
	struct fde fdes[MAX_FDES];
	unsigned n_fdes;
	struct chunk chunks[MAX_CHUNKS];
	unsigned n_chunks;
};

static struct capture c;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("capture: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	if (c.pid)
		tracee__kill(c.pid);
	exit(1);
}

static bool read_word(void *context, uint64_t address, uint64_t *word)
{
	return tracee__read(c.pid, word, sizeof(*word), address);
}

static int find_symbol(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base, void *arg)
{
	const char *wanted = c.options.symbol;
	uint64_t *address = arg;
	int n = dwfl_module_getsymtab(mod);

	for (int i = 0; i < n; i++) {
		GElf_Sym sym;
		GElf_Addr at;
		const char *found = dwfl_module_getsym_info(mod, i, &sym, &at, NULL, NULL, NULL);

		if (found && !strcmp(found, wanted) && sym.st_shndx != SHN_UNDEF &&
		    GELF_ST_TYPE(sym.st_info) == STT_FUNC) {
			*address = at;
			return DWARF_CB_ABORT;
		}
	}
	return DWARF_CB_OK;
}

static struct referee *look_at_modules(void)
{
	referee__free(c.referee);
	c.referee = referee__new(c.pid);
	if (!c.referee)
		die("no modules: %s", dwfl_errmsg(-1));
	return c.referee;
}

/* Whether an address is in a section of that name, in its `from`th byte of 16 or behind. */
static bool in_plt(uint64_t pc, int from)
{
	Dwfl_Module *mod = dwfl_addrmodule(referee__dwfl(c.referee), pc);
	GElf_Addr bias;
	Elf *elf = mod ? dwfl_module_getelf(mod, &bias) : NULL;
	Elf_Scn *scn = NULL;
	size_t names;

	if (!elf || elf_getshdrstrndx(elf, &names))
		return false;
	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr sh;

		if (gelf_getshdr(scn, &sh) && !strcmp(elf_strptr(elf, names, sh.sh_name) ?: "", ".plt") &&
		    pc - bias - sh.sh_addr >= 16 && pc - bias - sh.sh_addr < sh.sh_size)
			return (int)(pc & 15) >= from;
	}
	return false;
}

static uint64_t pc_now(void)
{
	if (tracee__regs(c.tid, c.regs))
		die("no registers");
	return c.regs[TRACEE_PC];
}

static void step(void)
{
	if (tracee__step(c.tid))
		die("the process ended");
}

/* Whether the CFA at the pc is *(rsp - n) + m. */
static bool cfa_in_red_zone(uint64_t pc)
{
	Dwfl_Module *mod = dwfl_addrmodule(referee__dwfl(c.referee), pc);
	Dwarf_Addr bias;
	Dwarf_CFI *cfi = mod ? dwfl_module_eh_cfi(mod, &bias) : NULL;
	_cleanup_free_ Dwarf_Frame *frame = NULL;
	Dwarf_Op *ops;
	size_t n;

	return cfi && !dwarf_cfi_addrframe(cfi, pc - bias, &frame) && !dwarf_frame_cfa(frame, &ops, &n) &&
	       n > 1 && ops[0].atom == DW_OP_breg7 && (int64_t)ops[0].number < 0 && ops[1].atom == DW_OP_deref;
}

/* Brings the process to the place that the options describe. */
static void run_to_place(void)
{
	const struct options *o = &c.options;
	uint64_t address = 0;

	look_at_modules();
	c.tid = c.pid;
	if (o->symbol) {
		dwfl_getmodules(referee__dwfl(c.referee), find_symbol, &address, 0);
		if (!address)
			die("no symbol %s", o->symbol);
		if (tracee__run_to(c.pid, address + o->offset, o->hits, &c.tid))
			die("%s was not reached", o->symbol);
	}
	if (o->ms && tracee__run_for(c.pid, o->ms))
		die("the process ended");
	if (o->plt_from >= 0)
		while (!in_plt(pc_now(), o->plt_from))
			step();
	for (unsigned i = 0; i < o->steps; i++)
		step();
	look_at_modules();
	/* On to the library wanted, when the clock stopped it elsewhere. */
	for (;;) {
		Dwfl_Module *mod = dwfl_addrmodule(referee__dwfl(c.referee), pc_now());
		const char *name = mod ? dwfl_module_info(mod, NULL, NULL, NULL, NULL, NULL, NULL, NULL) : "";

		if ((!o->module || strstr(name, o->module)) &&
		    (!o->red_zone || cfa_in_red_zone(c.regs[TRACEE_PC])))
			return;
		step();
	}
}

static uint64_t attributed(const struct referee_frame *f)
{
	return f->pc - (!f->exact && !f->signal);
}

/* The address by which unwind information is looked up. */
static uint64_t looked_up(const struct referee_frame *f)
{
	return f->pc - !f->exact;
}

static unsigned file_of(uint64_t address)
{
	Dwfl_Module *mod = dwfl_addrmodule(referee__dwfl(c.referee), address);

	if (!mod)
		die("no module at %#" PRIx64, address);
	for (unsigned i = 0; i < c.n_files; i++) {
		if (c.files[i] == mod)
			return i;
	}
	if (c.n_files == MAX_FILES)
		die("too many files");
	c.files[c.n_files] = mod;
	return c.n_files++;
}

static uint64_t bias_of(unsigned file)
{
	GElf_Addr bias;

	if (!dwfl_module_getelf(c.files[file], &bias))
		die("no ELF file");
	return bias;
}

static Elf_Data *eh_frame_of(Elf *elf, uint64_t *vaddr)
{
	Elf_Scn *scn = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf, &names))
		die("no section names");
	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr sh;

		if (gelf_getshdr(scn, &sh) && !strcmp(elf_strptr(elf, names, sh.sh_name) ?: "", ".eh_frame")) {
			*vaddr = sh.sh_addr;
			return elf_rawdata(scn, NULL);
		}
	}
	die("no .eh_frame");
}

/* The kind of pointer that compilers for x86-64 use: four bytes relative to their own place. Others are refused. */
static void check_encoding(const Dwarf_CIE *cie)
{
	const uint8_t *data = cie->augmentation_data;

	if (cie->augmentation[0] != 'z')
		die("augmentation %s", cie->augmentation);
	for (const char *letter = cie->augmentation + 1; *letter; letter++) {
		if (*letter == 'R' && *data != (DW_EH_PE_pcrel | DW_EH_PE_sdata4))
			die("pointer encoding %#x", *data);
		if (*letter == 'P') {
			if ((*data & 7) != DW_EH_PE_udata4 && (*data & 7) != (DW_EH_PE_sdata4 & 7))
				die("personality encoding %#x", *data);
			data += 5;
		} else if (*letter != 'S') {
			data++;
		}
	}
}

static bool decode_fde(const Dwarf_FDE *raw, const Elf_Data *data, uint64_t vaddr, uint64_t wanted,
		       struct fde *fde)
{
	int32_t start;
	uint32_t length;

	memcpy(&start, raw->start, 4);
	memcpy(&length, raw->start + 4, 4);
	fde->start = vaddr + (uint64_t)(raw->start - (const uint8_t *)data->d_buf) + (uint64_t)(int64_t)start;
	fde->length = length;
	if (wanted - fde->start >= length)
		return false;
	if (raw->start[8] >= 0x80)
		die("a long augmentation");
	fde->code = raw->start + 9 + raw->start[8];
	fde->code_end = raw->end;
	return true;
}

/* Finds the entry that covers an address of a file; there may be none. */
static bool find_fde(unsigned file, uint64_t wanted, struct fde *fde)
{
	Elf *elf = dwfl_module_getelf(c.files[file], &(GElf_Addr){ 0 });
	const unsigned char *ident = (const unsigned char *)elf_getident(elf, NULL);
	Dwarf_Off offset = 0, next;
	Dwarf_CFI_Entry entry, cie;
	uint64_t vaddr;
	Elf_Data *data = eh_frame_of(elf, &vaddr);

	for (; !dwarf_next_cfi(ident, data, true, offset, &next, &entry); offset = next) {
		if (dwarf_cfi_cie_p(&entry) || !decode_fde(&entry.fde, data, vaddr, wanted, fde))
			continue;
		if (dwarf_next_cfi(ident, data, true, entry.fde.CIE_pointer, &(Dwarf_Off){ 0 }, &cie))
			die("no CIE");
		check_encoding(&cie.cie);
		fde->cie = cie.cie;
		fde->file = file;
		return true;
	}
	return false;
}

static void collect_fdes(void)
{
	for (size_t i = 0; i < c.n_frames; i++) {
		uint64_t at = looked_up(&c.frames[i]);
		unsigned file = file_of(at), j = 0;

		at -= bias_of(file);
		while (j < c.n_fdes && (c.fdes[j].file != file || at - c.fdes[j].start >= c.fdes[j].length))
			j++;
		if (j < c.n_fdes)
			continue;
		if (c.n_fdes == MAX_FDES)
			die("too many functions");
		c.n_fdes += find_fde(file, at, &c.fdes[c.n_fdes]);
	}
}

/* The memory between the frames' stack pointers. A step down is a step to another stack. */
static void collect_chunks(void)
{
	struct chunk *now = c.chunks;

	*now = (struct chunk){ (c.regs[SO_REG_RSP] & ~7ull) - RED_ZONE, c.regs[SO_REG_RSP] & ~7ull };
	for (size_t i = 1; i < c.n_frames; i++) {
		uint64_t sp = c.frames[i].sp;

		if (sp >= now->end && sp - now->start <= MAX_CHUNK) {
			now->end = (sp + 7) & ~7ull;
			continue;
		}
		if (now + 1 == c.chunks + MAX_CHUNKS)
			die("too many stacks");
		now->end += SIGNAL_TAIL;
		*++now = (struct chunk){ (sp & ~7ull) - RED_ZONE, sp & ~7ull };
	}
	c.n_chunks = (unsigned)(now + 1 - c.chunks);
}

static int compare_fdes(const void *a, const void *b)
{
	const struct fde *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

static void put_hex(FILE *out, const uint8_t *from, const uint8_t *end)
{
	fputc(' ', out);
	if (from == end)
		fputc('-', out);
	for (; from < end; from++)
		fprintf(out, "%02x", *from);
}

static void put_files(FILE *out)
{
	qsort(c.fdes, c.n_fdes, sizeof(c.fdes[0]), compare_fdes);
	for (unsigned f = 0; f < c.n_files; f++) {
		const char *name = dwfl_module_info(c.files[f], NULL, NULL, NULL, NULL, NULL, NULL, NULL);
		const char *slash = strrchr(name, '/');

		fprintf(out, "file %u %s\n", f + 1, strstr(name, "vdso") ? "[vdso]" : slash ? slash + 1 : name);
		for (unsigned i = 0; i < c.n_fdes; i++) {
			const struct fde *fde = &c.fdes[i];

			if (fde->file != f)
				continue;
			fprintf(out, "fde %" PRIx64 " %" PRIx64 " %s %" PRIu64 " %" PRId64 " %" PRIu64,
				fde->start, fde->length, strchr(fde->cie.augmentation, 'S') ? "zRS" : "zR",
				(uint64_t)fde->cie.code_alignment_factor,
				(int64_t)fde->cie.data_alignment_factor,
				(uint64_t)fde->cie.return_address_register);
			put_hex(out, fde->cie.initial_instructions, fde->cie.initial_instructions_end);
			put_hex(out, fde->code, fde->code_end);
			fputc('\n', out);
		}
	}
}

/* Executable mappings that a frame lies in. */
static void put_mappings(FILE *out)
{
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };

	if (proc_maps__read(c.pid, true, &maps, NULL))
		die("no memory map");
	for (size_t i = 0; i < maps.n; i++) {
		const struct proc_map *m = &maps.maps[i];

		for (size_t f = 0; f < c.n_frames; f++) {
			uint64_t at = looked_up(&c.frames[f]);

			if (at < m->start || at >= m->end)
				continue;
			fprintf(out, "map %" PRIx64 " %" PRIx64 " %" PRIx64 " %u\n", m->start, m->end,
				bias_of(file_of(at)), file_of(at) + 1);
			break;
		}
	}
}

static void put_stack(FILE *out)
{
	for (unsigned i = 0; i < c.n_chunks; i++) {
		fprintf(out, "stack %" PRIx64, c.chunks[i].start);
		for (uint64_t at = c.chunks[i].start; at < c.chunks[i].end; at += 8) {
			uint64_t word;

			if (!read_word(NULL, at, &word))
				die("the stack at %#" PRIx64 " cannot be read", at);
			fprintf(out, "%s%" PRIx64, (at - c.chunks[i].start) % 64 ? " " : "\n ", word);
		}
		fputc('\n', out);
	}
}

static void put_frames(FILE *out, bool complete)
{
	for (size_t i = 0; i < c.n_frames; i++) {
		const struct referee_frame *f = &c.frames[i];
		uint64_t at = attributed(f);
		unsigned file = file_of(at);
		GElf_Off offset = 0;
		GElf_Sym sym;
		const char *name = dwfl_module_addrinfo(c.files[file], at, &offset, &sym, NULL, NULL, NULL);

		fprintf(out, "frame %u %" PRIx64 " %" PRIx64 " %s", file + 1, at - bias_of(file), f->sp,
			name ?: "?");
		fprintf(out, name ? "+%#" PRIx64 "\n" : "\n", offset);
	}
	fprintf(out, "end %s\n", complete ? "complete" : "cut");
}

static void write_snapshot(const char *path, bool complete)
{
	_cleanup_fclose_ FILE *out = fopen(path, "w");

	if (!out)
		die("%s: %s", path, strerror(errno));
	fprintf(out, "stakeout-stack 1\ntitle %s\nregs", c.options.title);
	for (unsigned i = 0; i < TRACEE_REGS; i++)
		fprintf(out, " %" PRIx64, c.regs[i]);
	fputc('\n', out);
	put_files(out);
	put_mappings(out);
	put_stack(out);
	put_frames(out, complete);
}

static void usage(void)
{
	fputs("usage: capture -o FILE -t TITLE [-a SYMBOL] [-n HITS] [-s STEPS] [-m MILLISECONDS] [-p "
	      "PLT_BYTE]\n"
	      "               [-l LIBRARY] [-r] [-e NAME=VALUE] -- PROGRAM [ARGUMENT]...\n",
	      stderr);
	exit(2);
}

static const char *parse_options(int argc, char **argv)
{
	struct options *o = &c.options;
	const char *out = NULL;
	int opt;

	*o = (struct options){ .hits = 1, .plt_from = -1 };
	while ((opt = getopt(argc, argv, "+o:t:a:n:s:m:p:l:re:")) != -1) {
		if (opt == 'o')
			out = optarg;
		else if (opt == 't')
			o->title = optarg;
		else if (opt == 'a')
			o->symbol = optarg;
		else if (opt == 'n')
			o->hits = (unsigned)atoi(optarg);
		else if (opt == 's')
			o->steps = (unsigned)atoi(optarg);
		else if (opt == 'm')
			o->ms = (unsigned)atoi(optarg);
		else if (opt == 'p')
			o->plt_from = atoi(optarg);
		else if (opt == 'l')
			o->module = optarg;
		else if (opt == 'r')
			o->red_zone = true;
		else if (opt == 'e' && o->n_env < 3)
			o->env[o->n_env++] = optarg;
		else
			usage();
	}
	if (!out || !o->title || optind == argc)
		usage();
	return out;
}

int main(int argc, char **argv)
{
	const char *out = parse_options(argc, argv);
	int ret = tracee__start(argv + optind, (char *const *)c.options.env, &c.pid);

	if (ret)
		die("%s: %s", argv[optind], strerror(-ret));
	run_to_place();
	ret = referee__frames(c.referee, c.regs, read_word, NULL, c.frames, &c.n_frames);
	if (ret == -EBADMSG)
		die("the referees do not agree");
	collect_fdes();
	collect_chunks();
	write_snapshot(out, !ret);
	printf("%s: %zu frames, %s\n", c.options.title, c.n_frames, ret ? "cut" : "complete");
	referee__free(c.referee);
	tracee__kill(c.pid);
	return 0;
}
