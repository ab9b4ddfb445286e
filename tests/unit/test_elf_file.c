/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The loader's own view of this process (dl_iterate_phdr) is the referee. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/elf/elf_file.h"
#include "daemon/os/proc_maps.h"

struct referee {
	const struct proc_maps *maps;
	unsigned compared;
};

static void note_build_id(const struct dl_phdr_info *info, char hex[65])
{
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const char *at = (const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
		const char *end = at + info->dlpi_phdr[i].p_memsz;

		if (info->dlpi_phdr[i].p_type != PT_NOTE || info->dlpi_phdr[i].p_align != 4)
			continue;
		while (at < end) {
			const Elf64_Nhdr *note = (const Elf64_Nhdr *)at;
			const char *name = at + sizeof(*note), *bytes = name + ((note->n_namesz + 3) & ~3u);

			if (note->n_type == NT_GNU_BUILD_ID && memcmp(name, "GNU", 4) == 0) {
				for (unsigned b = 0; b < note->n_descsz; b++)
					sprintf(hex + 2 * b, "%02x", (unsigned char)bytes[b]);
			}
			at = bytes + ((note->n_descsz + 3) & ~3u);
		}
	}
}

static int compare(struct dl_phdr_info *info, size_t size, void *data)
{
	struct referee *referee = data;

	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *segment = &info->dlpi_phdr[i];
		const struct proc_map *map = proc_maps__find(referee->maps, info->dlpi_addr + segment->p_vaddr);
		char build_id[65] = "";
		_cleanup_close_ int fd = -1;
		struct elf_file elf;
		uint64_t bias;

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || !map || map->inode == 0)
			continue;
		fd = proc_maps__open_file(getpid(), map);
		assert_true(fd >= 0);
		assert_int_equal(elf_file__read(fd, &elf, NULL), 0);
		assert_int_equal(elf_file__bias(&elf, map->start, map->end - map->start, map->offset, &bias),
				 0);
		assert_int_equal(bias, info->dlpi_addr);
		note_build_id(info, build_id);
		assert_string_equal(elf.build_id, build_id);
		assert_int_equal(elf.type, ET_DYN);
		referee->compared++;
	}
	return 0;
}

static void test_agrees_with_the_loader(void **state)
{
	__attribute__((cleanup(cleanup__proc_maps))) struct proc_maps maps = { 0 };
	struct referee referee = { .maps = &maps };

	assert_int_equal(proc_maps__read(getpid(), false, &maps, NULL), 0);
	dl_iterate_phdr(compare, &referee);
	assert_true(referee.compared >= 3);
}

/* An image with two program headers at most, its notes behind them. */
struct image {
	Elf64_Ehdr header;
	Elf64_Phdr segments[2];
	Elf64_Nhdr note;
	char name[4];
	unsigned char id[20];
};

static struct image valid_image(void)
{
	struct image image = {
		.header = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
					 EV_CURRENT },
			    .e_type = ET_DYN,
			    .e_machine = EM_X86_64,
			    .e_phoff = offsetof(struct image, segments),
			    .e_phentsize = sizeof(Elf64_Phdr),
			    .e_phnum = 2 },
		.segments = { { .p_type = PT_LOAD,
				.p_flags = PF_R | PF_X,
				.p_filesz = 0x2000,
				.p_memsz = 0x2000 },
			      { .p_type = PT_NOTE,
				.p_offset = offsetof(struct image, note),
				.p_filesz = 36,
				.p_align = 4 } },
		.note = { 4, 20, NT_GNU_BUILD_ID },
		.name = "GNU",
		.id = { 0xab, 0x01 },
	};

	return image;
}

static void test_valid_image(void **state)
{
	struct image image = valid_image();
	struct elf_file elf;

	assert_int_equal(elf_file__read_memory(&image, sizeof(image), &elf, NULL), 0);
	assert_string_equal(elf.build_id, "ab01000000000000000000000000000000000000");
	assert_int_equal(elf.n_segments, 1);
	assert_int_equal(elf.segments[0].filesz, 0x2000);
}

static void expect_error(const struct image *image, size_t size, int wanted)
{
	struct elf_file elf = { .type = 77 };
	struct so_error err = { "" };

	assert_int_equal(elf_file__read_memory(image, size, &elf, &err), wanted);
	assert_true(err.text[0] != '\0');
	assert_int_equal(elf.type, 77);
}

static void test_damage(void **state)
{
	struct image image = valid_image();

	expect_error(&image, 0, -ENOEXEC);
	expect_error(&image, 3, -ENOEXEC);
	expect_error(&image, 40, -EINVAL);
	expect_error(&image, sizeof(Elf64_Ehdr) + 60, -EINVAL);
	image.header.e_ident[0] = 'x';
	expect_error(&image, sizeof(image), -ENOEXEC);

	image = valid_image();
	image.header.e_machine = EM_386;
	expect_error(&image, sizeof(image), -EINVAL);
	image = valid_image();
	image.header.e_ident[EI_DATA] = ELFDATA2MSB;
	expect_error(&image, sizeof(image), -EINVAL);
	image = valid_image();
	image.header.e_type = ET_REL;
	expect_error(&image, sizeof(image), -EINVAL);
	image = valid_image();
	image.header.e_phoff = UINT64_MAX - 10;
	expect_error(&image, sizeof(image), -EINVAL);
	image = valid_image();
	image.header.e_phnum = 0xffff;
	expect_error(&image, sizeof(image), -EINVAL);
	image = valid_image();
	image.segments[0].p_vaddr = UINT64_MAX - 5;
	expect_error(&image, sizeof(image), -EINVAL);
	image = valid_image();
	image.segments[0].p_memsz = 1;
	expect_error(&image, sizeof(image), -EINVAL);
}

static void test_damaged_notes_mean_no_build_id(void **state)
{
	static const uint32_t sizes[] = { 0, 21, 33, 64, UINT32_MAX };
	struct elf_file elf;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct image image = valid_image();

		image.note.n_descsz = sizes[i];
		assert_int_equal(elf_file__read_memory(&image, sizeof(image), &elf, NULL), 0);
		assert_string_equal(elf.build_id, "");
		image = valid_image();
		image.note.n_namesz = sizes[i];
		assert_int_equal(elf_file__read_memory(&image, sizeof(image), &elf, NULL), 0);
		assert_string_equal(elf.build_id, "");
	}
}

static void test_too_many_segments(void **state)
{
	struct {
		Elf64_Ehdr header;
		Elf64_Phdr segments[ELF_FILE_MAX_SEGMENTS + 1];
	} image = { .header = valid_image().header };
	struct elf_file elf;

	for (unsigned i = 0; i <= ELF_FILE_MAX_SEGMENTS; i++)
		image.segments[i] = (Elf64_Phdr){ .p_type = PT_LOAD };
	image.header.e_phoff = sizeof(image.header);
	image.header.e_phnum = ELF_FILE_MAX_SEGMENTS;
	assert_int_equal(elf_file__read_memory(&image, sizeof(image), &elf, NULL), 0);
	assert_int_equal(elf.n_segments, ELF_FILE_MAX_SEGMENTS);
	image.header.e_phnum++;
	assert_int_equal(elf_file__read_memory(&image, sizeof(image), &elf, NULL), -EINVAL);
}

static void test_bias(void **state)
{
	/* As lld lays files out: the segments share pages of the file and differ in their biases. */
	const struct elf_file elf = {
		.n_segments = 3,
		.segments = { { 0, 0, 0x1234, 0x1234, PF_R },
			      { 0x1234, 0x2234, 0x3000, 0x3000, PF_R | PF_X },
			      { 0x4234, 0x6234, 0x100, 0x9000, PF_R | PF_W } },
	};
	uint64_t bias = 5;

	assert_int_equal(elf_file__bias(&elf, 0x700000, 0x2000, 0, &bias), 0);
	assert_int_equal(bias, 0x700000);
	assert_int_equal(elf_file__bias(&elf, 0x702000, 0x4000, 0x1000, &bias), 0);
	assert_int_equal(bias, 0x700000);
	/* A part of the text that was split off by mprotect(). */
	assert_int_equal(elf_file__bias(&elf, 0x704000, 0x1000, 0x3000, &bias), 0);
	assert_int_equal(bias, 0x700000);
	bias = 5;
	assert_int_equal(elf_file__bias(&elf, 0x700000, 0x1000, 0x9000, &bias), -ENOENT);
	assert_int_equal(bias, 5);
	/* A fixed executable may lie below its own addresses in theory: the bias is then negative. */
	assert_int_equal(elf_file__bias(&elf, 0x1000, 0x4000, 0x1000, &bias), 0);
	assert_int_equal(bias, (uint64_t)-0x1000);
}

static void test_not_a_file(void **state)
{
	_cleanup_close_ int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	struct elf_file elf;

	assert_int_equal(elf_file__read(fd, &elf, NULL), -ENOEXEC);
	assert_int_equal(elf_file__read(-1, &elf, NULL), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_agrees_with_the_loader),
		cmocka_unit_test(test_valid_image),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_damaged_notes_mean_no_build_id),
		cmocka_unit_test(test_too_many_segments),
		cmocka_unit_test(test_bias),
		cmocka_unit_test(test_not_a_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
