// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/unwind/eh_frame.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/unwind/cfi_reader.h"
#include "stakeout/array.h"

/* The kernel itself refuses more bytes of program headers (fs/binfmt_elf.c, load_elf_phdrs). */
#define MAX_PHDR_BYTES 65536u
/* Enough for a file built with one section a function; beyond it the section headers count as unreadable. */
#define MAX_SECTIONS (1u << 17)
#define USER_END     (1ull << 47)

#define SECTION_NAME ".eh_frame"

/* The file's bytes, either behind an fd or in memory. */
struct source {
	int fd;
	const uint8_t *image;
	uint64_t size;
};

static bool source__holds(const struct source *src, uint64_t offset, uint64_t length)
{
	return offset <= src->size && length <= src->size - offset;
}

static int source__read(const struct source *src, uint64_t offset, void *buf, size_t length)
{
	uint8_t *at = buf;

	if (!source__holds(src, offset, length))
		return -EINVAL;
	if (src->image) {
		memcpy(buf, src->image + offset, length);
		return 0;
	}
	while (length) {
		ssize_t n = pread(src->fd, at, length, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO; /* it shrank under us */
		at += n;
		offset += (uint64_t)n;
		length -= (size_t)n;
	}
	return 0;
}

static int read_header(const struct source *src, Elf64_Ehdr *ehdr, struct so_error *err)
{
	int ret;

	if (src->size < sizeof(*ehdr))
		return so_err(err, -EINVAL, "too short for an ELF file");
	ret = source__read(src, 0, ehdr, sizeof(*ehdr));
	if (ret)
		return so_err(err, ret, "cannot read the ELF header: %s", strerror(-ret));
	if (memcmp(ehdr->e_ident, ELFMAG, SELFMAG))
		return so_err(err, -EINVAL, "not an ELF file");
	if (ehdr->e_ident[EI_CLASS] != ELFCLASS64 || ehdr->e_ident[EI_DATA] != ELFDATA2LSB ||
	    ehdr->e_machine != EM_X86_64)
		return so_err(err, -EINVAL, "not an ELF file for 64-bit x86");
	if (ehdr->e_type != ET_EXEC && ehdr->e_type != ET_DYN)
		return so_err(err, -EINVAL, "neither a program nor a shared library (ELF type %u)", ehdr->e_type);
	if (ehdr->e_phentsize != sizeof(Elf64_Phdr) || !ehdr->e_phnum ||
	    ehdr->e_phnum > MAX_PHDR_BYTES / sizeof(Elf64_Phdr))
		return so_err(err, -EINVAL, "program headers that Linux would not load");
	return 0;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct eh_frame_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Sorts and joins, so that a lookup can search. */
static size_t join_ranges(struct eh_frame_range *ranges, size_t n)
{
	size_t last = 0;

	if (!n)
		return 0;
	qsort(ranges, n, sizeof(*ranges), compare_ranges);
	for (size_t i = 1; i < n; i++) {
		if (ranges[i].start > ranges[last].end)
			ranges[++last] = ranges[i];
		else if (ranges[i].end > ranges[last].end)
			ranges[last].end = ranges[i].end;
	}
	return last + 1;
}

static int read_segments(const struct source *src, const Elf64_Ehdr *ehdr, Elf64_Phdr **phdrs_out, struct eh_frame *eh,
			 struct so_error *err)
{
	size_t n = ehdr->e_phnum;
	_cleanup_free_ Elf64_Phdr *phdrs = malloc(n * sizeof(*phdrs));
	_cleanup_free_ struct eh_frame_range *text = malloc(n * sizeof(*text));
	_cleanup_free_ struct eh_frame_range *segments = malloc(n * sizeof(*segments));
	int ret;

	if (!phdrs || !text || !segments)
		return so_err(err, -ENOMEM, "out of memory");
	ret = source__read(src, ehdr->e_phoff, phdrs, n * sizeof(*phdrs));
	if (ret)
		return so_err(err, ret, "cannot read the program headers: %s", strerror(-ret));

	eh->n_text = 0;
	for (size_t i = 0; i < n; i++) {
		const Elf64_Phdr *ph = &phdrs[i];

		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X) || !ph->p_filesz)
			continue;
		if (!source__holds(src, ph->p_offset, ph->p_filesz))
			return so_err(err, -EINVAL, "a segment reaches beyond the end of the file");
		if (ph->p_vaddr >= USER_END || ph->p_filesz > USER_END - ph->p_vaddr)
			return so_err(err, -EINVAL, "a segment reaches beyond the user address space");
		text[eh->n_text++] = (struct eh_frame_range){ ph->p_vaddr, ph->p_vaddr + ph->p_filesz, ph->p_offset };
	}
	memcpy(segments, text, eh->n_text * sizeof(*text));
	eh->n_segments = eh->n_text;
	eh->segments = TAKE_PTR(segments);
	eh->n_text = join_ranges(text, eh->n_text);
	eh->text = TAKE_PTR(text);
	*phdrs_out = TAKE_PTR(phdrs);
	return 0;
}

/* Reads the section's bytes, with some zero bytes behind for a reader that looks a word too far. */
static int load(const struct source *src, uint64_t offset, uint64_t size, uint64_t vaddr, struct eh_frame *eh,
		struct so_error *err)
{
	const size_t slack = 32;
	_cleanup_free_ uint8_t *data = NULL;
	int ret;

	if (size > EH_FRAME_MAX_BYTES)
		return so_err(err, -EINVAL, ".eh_frame has %llu bytes, more than stakeout reads",
			      (unsigned long long)size);
	if (!source__holds(src, offset, size))
		return so_err(err, -EINVAL, ".eh_frame reaches beyond the end of the file");
	data = malloc(size + slack);
	if (!data)
		return so_err(err, -ENOMEM, "out of memory");
	ret = source__read(src, offset, data, size);
	if (ret)
		return so_err(err, ret, "cannot read .eh_frame: %s", strerror(-ret));
	memset(data + size, 0, slack);
	eh->data = TAKE_PTR(data);
	eh->size = size;
	eh->vaddr = vaddr;
	return 0;
}

/* -ENOENT when the file has no section headers that can be used. */
static int read_sections(const struct source *src, const Elf64_Ehdr *ehdr, Elf64_Shdr **out, uint64_t *n_out,
			 Elf64_Shdr *names)
{
	_cleanup_free_ Elf64_Shdr *sections = NULL;
	uint64_t n = ehdr->e_shnum, names_index = ehdr->e_shstrndx;
	Elf64_Shdr first;
	int ret;

	if (!ehdr->e_shoff || ehdr->e_shentsize != sizeof(first) ||
	    source__read(src, ehdr->e_shoff, &first, sizeof(first)))
		return -ENOENT;
	if (!n)
		n = first.sh_size; /* 65280 sections or more (gABI, "Section header table") */
	if (names_index == SHN_XINDEX)
		names_index = first.sh_link;
	if (n > MAX_SECTIONS || names_index >= n || !source__holds(src, ehdr->e_shoff, n * sizeof(first)))
		return -ENOENT;
	sections = malloc(n * sizeof(*sections));
	if (!sections)
		return -ENOMEM;
	ret = source__read(src, ehdr->e_shoff, sections, n * sizeof(*sections));
	if (ret)
		return ret;
	*names = sections[names_index];
	*n_out = n;
	*out = TAKE_PTR(sections);
	return 0;
}

static bool is_named_eh_frame(const struct source *src, const Elf64_Shdr *names, const Elf64_Shdr *section)
{
	char name[sizeof(SECTION_NAME)];

	return names->sh_offset <= src->size && section->sh_name < names->sh_size &&
	       !source__read(src, names->sh_offset + section->sh_name, name, sizeof(name)) &&
	       !memcmp(name, SECTION_NAME, sizeof(name));
}

/* Of the bytes at the beginning; false: of another form. */
static bool plt_form(const uint8_t bytes[32], struct eh_frame_plt *plt)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	const uint8_t *entry = bytes;
	size_t at = 0;

	plt->header = bytes[0] == 0xff && bytes[1] == 0x35; /* push *…(%rip) */
	if (plt->header)
		entry += 16;
	if (!memcmp(entry, endbr64, sizeof(endbr64)))
		at = sizeof(endbr64);
	if (at && entry[at] == 0x68) { /* endbr64; push $…; jmp */
		plt->pushed_from = (uint8_t)(at + 5);
		return true;
	}
	at += entry[at] == 0xf2;
	if (entry[at] != 0xff || entry[at + 1] != 0x25) /* jmp *…(%rip) */
		return false;
	plt->pushed_from = entry[at + 6] == 0x68 ? (uint8_t)(at + 11) : 16;
	return true;
}

static int compare_plts(const void *a, const void *b)
{
	const struct eh_frame_plt *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static void read_plts(const struct source *src, const Elf64_Shdr *sections, uint64_t n, const Elf64_Shdr *names,
		      struct eh_frame *eh)
{
	for (uint64_t i = 1; i < n && eh->n_plts < EH_FRAME_MAX_PLTS; i++) {
		const Elf64_Shdr *s = &sections[i];
		struct eh_frame_plt plt = { s->sh_addr, s->sh_addr + s->sh_size, false, 0 };
		char name[4];
		uint8_t bytes[32] = { 0 };

		if (s->sh_type != SHT_PROGBITS || !(s->sh_flags & SHF_EXECINSTR) || s->sh_addr % 16 ||
		    s->sh_size < 16 || names->sh_offset > src->size || s->sh_name >= names->sh_size ||
		    source__read(src, names->sh_offset + s->sh_name, name, sizeof(name)) ||
		    memcmp(name, ".plt", sizeof(name)) || !eh_frame__covers(eh, plt.start, plt.end) ||
		    source__read(src, s->sh_offset, bytes, s->sh_size < 32 ? (size_t)s->sh_size : 32))
			continue;
		if (plt_form(bytes, &plt))
			eh->plts[eh->n_plts++] = plt;
	}
	qsort(eh->plts, eh->n_plts, sizeof(eh->plts[0]), compare_plts);
}

/* -ENOENT when no section header names it. */
static int load_by_section(const struct source *src, const Elf64_Ehdr *ehdr, struct eh_frame *eh, struct so_error *err)
{
	_cleanup_free_ Elf64_Shdr *sections = NULL;
	Elf64_Shdr names;
	uint64_t n;
	int ret = read_sections(src, ehdr, &sections, &n, &names);

	if (ret == -ENOENT)
		return ret;
	if (ret)
		return so_err(err, ret, "cannot read the section headers: %s", strerror(-ret));
	read_plts(src, sections, n, &names, eh);
	for (uint64_t i = 1; i < n; i++) {
		const Elf64_Shdr *s = &sections[i];

		if (!(s->sh_flags & SHF_ALLOC) ||
		    (s->sh_type != SHT_PROGBITS && s->sh_type != SHT_X86_64_UNWIND && s->sh_type != SHT_NOBITS) ||
		    !is_named_eh_frame(src, &names, s))
			continue;
		if (s->sh_type == SHT_NOBITS) /* a separate debug file: its bytes are in the stripped file */
			return 0;
		return load(src, s->sh_offset, s->sh_size, s->sh_addr, eh, err);
	}
	return -ENOENT;
}

/* Cuts at the zero length that ends the section: what follows it in the segment is something else. */
static void cut_at_terminator(struct eh_frame *eh)
{
	struct cfi_reader r = { eh->data, eh->data + eh->size };
	uint64_t length;

	while (cfi_reader__fixed(&r, 4, &length)) {
		if (!length) {
			eh->size = (size_t)(r.at - eh->data);
			return;
		}
		if ((length == UINT32_MAX && !cfi_reader__fixed(&r, 8, &length)) || !cfi_reader__skip(&r, length))
			return;
	}
}

/* .eh_frame_hdr begins: version 1, encoding of the pointer to .eh_frame, two more encodings, the pointer. */
static int read_eh_frame_pointer(const struct source *src, const Elf64_Phdr *ph, uint64_t *vaddr)
{
	uint8_t bytes[4 + 8] = { 0 };
	size_t n = ph->p_filesz < sizeof(bytes) ? ph->p_filesz : sizeof(bytes);
	struct cfi_reader r = { bytes + 4, bytes + sizeof(bytes) };
	int e = source__read(src, ph->p_offset, bytes, n);

	if (e)
		return e;
	if (n < 8 || bytes[0] != 1 || !cfi_reader__pointer(&r, bytes[1], ph->p_vaddr + 4, ph->p_vaddr, vaddr))
		return -EINVAL;
	return 0;
}

static int load_by_segment(const struct source *src, const Elf64_Phdr *phdrs, size_t n, struct eh_frame *eh,
			   struct so_error *err)
{
	const Elf64_Phdr *hdr = NULL;
	uint64_t vaddr;
	int ret;

	for (size_t i = 0; i < n && !hdr; i++)
		if (phdrs[i].p_type == PT_GNU_EH_FRAME)
			hdr = &phdrs[i];
	if (!hdr)
		return 0;
	ret = read_eh_frame_pointer(src, hdr, &vaddr);
	if (ret)
		return so_err(err, ret, "cannot read .eh_frame_hdr: %s", strerror(-ret));
	for (size_t i = 0; i < n; i++) {
		const Elf64_Phdr *ph = &phdrs[i];
		uint64_t skip, left;

		if (ph->p_type != PT_LOAD || vaddr < ph->p_vaddr || vaddr - ph->p_vaddr >= ph->p_filesz)
			continue;
		if (!source__holds(src, ph->p_offset, ph->p_filesz))
			break;
		skip = vaddr - ph->p_vaddr;
		left = ph->p_filesz - skip;
		if (left > EH_FRAME_MAX_BYTES)
			left = EH_FRAME_MAX_BYTES;
		ret = load(src, ph->p_offset + skip, left, vaddr, eh, err);
		if (!ret)
			cut_at_terminator(eh);
		return ret;
	}
	return so_err(err, -EINVAL, ".eh_frame_hdr points outside the file");
}

static int read_source(const struct source *src, struct eh_frame *out, struct so_error *err)
{
	_cleanup_(eh_frame) struct eh_frame eh = { 0 };
	_cleanup_free_ Elf64_Phdr *phdrs = NULL;
	Elf64_Ehdr ehdr;
	int ret = read_header(src, &ehdr, err);

	if (ret)
		return ret;
	memcpy(eh.e_ident, ehdr.e_ident, sizeof(eh.e_ident));
	ret = read_segments(src, &ehdr, &phdrs, &eh, err);
	if (ret)
		return ret;
	ret = load_by_section(src, &ehdr, &eh, err);
	if (ret == -ENOENT)
		ret = load_by_segment(src, phdrs, ehdr.e_phnum, &eh, err);
	if (ret)
		return ret;
	*out = eh;
	eh = (struct eh_frame){ 0 };
	return 0;
}

int eh_frame__read(int elf_fd, struct eh_frame *out, struct so_error *err)
{
	struct source src = { .fd = elf_fd };
	struct stat st;
	int ret;

	if (fstat(elf_fd, &st))
		return so_err(err, -EIO, "cannot stat the file: %s", strerror(errno));
	src.size = st.st_size > 0 ? (uint64_t)st.st_size : 0;
	ret = read_source(&src, out, err);
	if (!ret)
		out->image = (struct elf_image){ .fd = elf_fd, .size = src.size };
	return ret;
}

int eh_frame__read_memory(const void *image, size_t size, struct eh_frame *out, struct so_error *err)
{
	struct source src = { .fd = -1, .image = image, .size = size };
	int ret = read_source(&src, out, err);

	if (!ret)
		out->image = elf_image__of_memory(image, size);
	return ret;
}

const struct eh_frame_range *eh_frame__text_at(const struct eh_frame *eh, uint64_t address)
{
	size_t low = ARRAY_BEFORE(i, eh->n_text, eh->text[i].start <= address);

	return low && address < eh->text[low - 1].end ? &eh->text[low - 1] : NULL;
}

bool eh_frame__covers(const struct eh_frame *eh, uint64_t start, uint64_t end)
{
	const struct eh_frame_range *text = eh_frame__text_at(eh, start);

	return text && start < end && end <= text->end;
}

size_t eh_frame__read_code(void *context, uint64_t address, void *buf, size_t size)
{
	const struct eh_frame *eh = context;

	for (size_t i = 0; i < eh->n_segments; i++) {
		const struct eh_frame_range *s = &eh->segments[i];

		if (address < s->start || address >= s->end)
			continue;
		if (size > s->end - address)
			size = s->end - address;
		return elf_image__read(&eh->image, s->offset + (address - s->start), buf, size) ? 0 : size;
	}
	return 0;
}

void eh_frame__release(struct eh_frame *eh)
{
	free(eh->data);
	free(eh->text);
	free(eh->segments);
	*eh = (struct eh_frame){ 0 };
}
