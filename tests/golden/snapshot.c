// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/golden/snapshot.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "stakeout/array.h"

#define PAGE      4096u
#define MAX_BYTES 4096 /* of one program of call-frame information */
#define UNKNOWN   0xdb /* memory that the file does not have */

struct reader {
	struct snapshot *s;
	struct so_error *err;
	unsigned line;
	size_t cap_fdes, cap_maps, cap_stacks, cap_frames, cap_words;
	unsigned file;
	bool ended;
};

static int bad(struct reader *r, const char *what)
{
	return so_err(r->err, -EBADMSG, "line %u: %s", r->line, what);
}

static int read_regs(struct reader *r, const char *text)
{
	for (unsigned i = 0; i < SNAPSHOT_REGS; i++) {
		char *end;

		r->s->regs[i] = strtoull(text, &end, 16);
		if (end == text)
			return bad(r, "too few registers");
		text = end;
	}
	return 0;
}

static int read_bytes(const char *hex, uint8_t **out, size_t *n)
{
	uint8_t *bytes = calloc(1, strlen(hex) / 2 + 1);

	if (!bytes)
		return -ENOMEM;
	for (*n = 0; sscanf(hex + *n * 2, "%2hhx", &bytes[*n]) == 1; ++*n)
		;
	*out = bytes;
	return 0;
}

static int read_fde(struct reader *r, const char *text)
{
	char augmentation[8], initial[MAX_BYTES * 2], program[MAX_BYTES * 2];
	struct snapshot_fde fde = { .file = r->file };
	int ret;

	if (sscanf(text, "%" SCNx64 " %" SCNx64 " %7s %" SCNu64 " %" SCNd64 " %" SCNu64 " %8191s %8191s",
		   &fde.start, &fde.length, augmentation, &fde.code_align, &fde.data_align, &fde.ra_column,
		   initial, program) != 8)
		return bad(r, "not an fde");
	fde.signal_frame = strchr(augmentation, 'S') != NULL;
	if (ARRAY_RESERVE(r->s->fdes, r->cap_fdes, r->s->n_fdes + 1))
		return -ENOMEM;
	ret = read_bytes(initial, &fde.initial, &fde.initial_bytes);
	ret = ret ?: read_bytes(program, &fde.program, &fde.program_bytes);
	r->s->fdes[r->s->n_fdes++] = fde;
	return ret;
}

static int read_map(struct reader *r, const char *text)
{
	struct snapshot_map map;

	if (sscanf(text, "%" SCNx64 " %" SCNx64 " %" SCNx64 " %u", &map.start, &map.end, &map.bias,
		   &map.file) != 4 ||
	    !map.file || map.file > r->s->n_files)
		return bad(r, "not a map");
	if (ARRAY_RESERVE(r->s->maps, r->cap_maps, r->s->n_maps + 1))
		return -ENOMEM;
	r->s->maps[r->s->n_maps++] = map;
	return 0;
}

static int read_stack(struct reader *r, const char *text)
{
	struct snapshot_stack stack = { 0 };

	if (sscanf(text, "%" SCNx64, &stack.address) != 1)
		return bad(r, "not a stack");
	if (ARRAY_RESERVE(r->s->stacks, r->cap_stacks, r->s->n_stacks + 1))
		return -ENOMEM;
	r->s->stacks[r->s->n_stacks++] = stack;
	r->cap_words = 0;
	return 0;
}

static int read_words(struct reader *r, const char *text)
{
	struct snapshot_stack *stack;

	if (!r->s->n_stacks)
		return bad(r, "words without a stack");
	stack = &r->s->stacks[r->s->n_stacks - 1];
	for (;;) {
		char *end;
		uint64_t word = strtoull(text, &end, 16);

		if (end == text)
			return 0;
		if (ARRAY_RESERVE(stack->words, r->cap_words, stack->n + 1))
			return -ENOMEM;
		stack->words[stack->n++] = word;
		text = end;
	}
}

static int read_frame(struct reader *r, const char *text)
{
	struct snapshot_frame f = { 0 };

	if (sscanf(text, "%u %" SCNx64 " %" SCNx64 " %63s", &f.file, &f.address, &f.sp, f.name) != 4 ||
	    !f.file || f.file > r->s->n_files)
		return bad(r, "not a frame");
	if (ARRAY_RESERVE(r->s->frames, r->cap_frames, r->s->n_frames + 1))
		return -ENOMEM;
	r->s->frames[r->s->n_frames++] = f;
	return 0;
}

static int read_line(struct reader *r, char *line)
{
	line[strcspn(line, "\n")] = '\0';
	if (r->line == 1)
		return strcmp(line, "stakeout-stack 1") ? bad(r, "not a golden stack") : 0;
	if (line[0] == ' ')
		return read_words(r, line);
	if (!strncmp(line, "title ", 6)) {
		snprintf(r->s->title, sizeof(r->s->title), "%s", line + 6);
		return 0;
	}
	if (!strncmp(line, "regs ", 5))
		return read_regs(r, line + 5);
	if (!strncmp(line, "file ", 5)) {
		r->file = (unsigned)atoi(line + 5);
		return r->file == ++r->s->n_files ? 0 : bad(r, "files are numbered from 1");
	}
	if (!strncmp(line, "fde ", 4))
		return read_fde(r, line + 4);
	if (!strncmp(line, "map ", 4))
		return read_map(r, line + 4);
	if (!strncmp(line, "stack ", 6))
		return read_stack(r, line + 6);
	if (!strncmp(line, "frame ", 6))
		return read_frame(r, line + 6);
	if (strncmp(line, "end ", 4))
		return bad(r, "what is this?");
	r->ended = true;
	r->s->complete = !strcmp(line + 4, "complete");
	return 0;
}

int snapshot__read(const char *path, struct snapshot *out, struct so_error *err)
{
	_cleanup_fclose_ FILE *file = fopen(path, "r");
	_cleanup_(snapshot) struct snapshot s = { 0 };
	struct reader r = { .s = &s, .err = err };
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	int ret = 0;

	if (!file)
		return so_err(err, -errno, "%s: %s", path, strerror(errno));
	while (!ret && getline(&line, &size, file) > 0) {
		r.line++;
		ret = read_line(&r, line);
	}
	if (!ret && (!r.ended || !s.n_frames || !s.n_stacks))
		ret = bad(&r, "the end is missing");
	if (ret)
		return ret;
	*out = s;
	s = (struct snapshot){ 0 };
	return 0;
}

void snapshot__release(struct snapshot *s)
{
	for (size_t i = 0; i < s->n_fdes; i++) {
		free(s->fdes[i].initial);
		free(s->fdes[i].program);
	}
	for (size_t i = 0; i < s->n_stacks; i++)
		free(s->stacks[i].words);
	free(s->fdes);
	free(s->maps);
	free(s->stacks);
	free(s->frames);
	*s = (struct snapshot){ 0 };
}

/* Appends to an image that was made large enough. */
struct writer {
	uint8_t *at;
};

static void put(struct writer *w, const void *bytes, size_t n)
{
	memcpy(w->at, bytes, n);
	w->at += n;
}

static void put_u32(struct writer *w, uint32_t v)
{
	put(w, &v, sizeof(v));
}

static void put_u64(struct writer *w, uint64_t v)
{
	put(w, &v, sizeof(v));
}

static void put_u8(struct writer *w, uint8_t v)
{
	put(w, &v, sizeof(v));
}

/* Ends an entry: padding to eight bytes, and its length into its first four. */
static void end_entry(struct writer *w, uint8_t *entry)
{
	uint32_t length;

	while ((w->at - entry) % 8 != 4)
		put_u8(w, 0);
	length = (uint32_t)(w->at - entry - 4);
	memcpy(entry, &length, 4);
}

/* A CIE of its own and the FDE, with absolute addresses. The factors and columns that occur fit in one LEB128 byte. */
static void put_fde(struct writer *w, const struct snapshot_fde *fde)
{
	uint8_t *cie = w->at, *entry;

	put_u32(w, 0);
	put_u32(w, 0);
	put_u8(w, 1);
	put(w, fde->signal_frame ? "zRS" : "zR", fde->signal_frame ? 4 : 3);
	put_u8(w, fde->code_align & 0x7f);
	put_u8(w, (uint8_t)fde->data_align & 0x7f);
	put_u8(w, (uint8_t)fde->ra_column);
	put_u8(w, 1); /* bytes of augmentation data */
	put_u8(w, 0); /* DW_EH_PE_absptr */
	put(w, fde->initial, fde->initial_bytes);
	end_entry(w, cie);
	entry = w->at;
	put_u32(w, 0);
	put_u32(w, (uint32_t)(w->at - cie));
	put_u64(w, fde->start);
	put_u64(w, fde->length);
	put_u8(w, 0);
	put(w, fde->program, fde->program_bytes);
	end_entry(w, entry);
}

static size_t image_bytes(const struct snapshot *s, unsigned file, unsigned *n_fdes)
{
	size_t bytes = 1024, longest = 0;

	*n_fdes = 0;
	for (size_t i = 0; i < s->n_fdes; i++) {
		const struct snapshot_fde *fde = &s->fdes[i];

		if (fde->file != file)
			continue;
		++*n_fdes;
		bytes += sizeof(Elf64_Phdr) + 128 + fde->initial_bytes + fde->program_bytes;
		if (fde->length > longest)
			longest = fde->length;
	}
	return bytes + longest; /* a segment's bytes must be in the file */
}

void *snapshot__elf_image(const struct snapshot *s, unsigned file, size_t *size)
{
	static const char names[] = "\0.eh_frame\0.shstrtab";
	unsigned n_fdes;
	size_t bytes = image_bytes(s, file, &n_fdes);
	uint8_t *image = calloc(1, bytes), *eh_frame;
	Elf64_Ehdr ehdr = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
					 EV_CURRENT },
			    .e_type = ET_DYN,
			    .e_machine = EM_X86_64,
			    .e_version = EV_CURRENT,
			    .e_phoff = sizeof(ehdr),
			    .e_ehsize = sizeof(ehdr),
			    .e_phentsize = sizeof(Elf64_Phdr),
			    .e_phnum = (uint16_t)n_fdes,
			    .e_shentsize = sizeof(Elf64_Shdr),
			    .e_shnum = 3,
			    .e_shstrndx = 2 };
	Elf64_Shdr sections[3] = { { 0 },
				   { .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC },
				   { .sh_name = 11, .sh_type = SHT_STRTAB, .sh_size = sizeof(names) } };
	struct writer w = { image + sizeof(ehdr) };

	if (!image)
		return NULL;
	for (size_t i = 0; i < s->n_fdes; i++) {
		const struct snapshot_fde *fde = &s->fdes[i];
		const Elf64_Phdr ph = { .p_type = PT_LOAD,
					.p_flags = PF_R | PF_X,
					.p_vaddr = fde->start,
					.p_filesz = fde->length,
					.p_memsz = fde->length };

		if (fde->file == file)
			put(&w, &ph, sizeof(ph));
	}
	sections[2].sh_offset = (uint64_t)(w.at - image);
	put(&w, names, sizeof(names));
	while ((w.at - image) % 8)
		put_u8(&w, 0);
	eh_frame = w.at;
	for (size_t i = 0; i < s->n_fdes; i++) {
		if (s->fdes[i].file == file)
			put_fde(&w, &s->fdes[i]);
	}
	sections[1].sh_offset = (uint64_t)(eh_frame - image);
	sections[1].sh_size = (uint64_t)(w.at - eh_frame);
	ehdr.e_shoff = (uint64_t)(w.at - image);
	put(&w, sections, sizeof(sections));
	memcpy(image, &ehdr, sizeof(ehdr));
	*size = bytes;
	return image;
}

uint64_t *snapshot__word(struct snapshot *s, uint64_t address)
{
	for (size_t i = 0; i < s->n_stacks; i++) {
		uint64_t at = (address - s->stacks[i].address) / 8;

		if (address >= s->stacks[i].address && at < s->stacks[i].n && address % 8 == 0)
			return &s->stacks[i].words[at];
	}
	return NULL;
}

static bool read_byte(const struct snapshot *s, uint64_t address, uint8_t *byte)
{
	bool in_page = false;

	*byte = UNKNOWN;
	for (size_t i = 0; i < s->n_stacks; i++) {
		const struct snapshot_stack *stack = &s->stacks[i];
		uint64_t off = address - stack->address, bytes = stack->n * 8;

		in_page |= address / PAGE >= stack->address / PAGE &&
			   address / PAGE <= (stack->address + bytes - 1) / PAGE && bytes;
		if (off < bytes)
			*byte = ((const uint8_t *)stack->words)[off];
	}
	return in_page;
}

bool snapshot__read_memory(const struct snapshot *s, void *dst, size_t bytes, uint64_t address)
{
	for (size_t i = 0; i < bytes; i++) {
		if (!read_byte(s, address + i, (uint8_t *)dst + i))
			return false;
	}
	return true;
}
