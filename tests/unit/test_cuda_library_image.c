// SPDX-License-Identifier: GPL-2.0-or-later
/* CUDA functions in images made by hand: names and symbols that no compiler writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cuda/cuda_library.h"

#define _cleanup_library_ __attribute__((cleanup(cleanup__cuda_library)))

static void check_order(const struct cuda_library *library)
{
	for (size_t i = 1; i < library->n_functions; i++)
		assert_true(library->functions[i - 1].vaddr < library->functions[i].vaddr);
}

/* An image of an executable segment with code and the same again as data, a .symtab and its names. */
#define IMAGE_VADDR 0x10000u
#define DATA_VADDR  0x30000u
#define CODE_AT     0x200u
#define CODE_BYTES  0x1000u

struct image {
	Elf64_Ehdr header;
	Elf64_Phdr text, data;
	Elf64_Shdr sections[3];
};

static uint8_t *make_image(const Elf64_Sym *symbols, size_t n_symbols, const char *names, size_t names_size,
			   size_t *size)
{
	size_t symbols_at = CODE_AT + CODE_BYTES, names_at = symbols_at + n_symbols * sizeof(*symbols);
	struct image image = {
		.header = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
					 EV_CURRENT },
			    .e_type = ET_DYN,
			    .e_machine = EM_X86_64,
			    .e_phoff = offsetof(struct image, text),
			    .e_phentsize = sizeof(Elf64_Phdr),
			    .e_phnum = 2,
			    .e_shoff = offsetof(struct image, sections),
			    .e_shentsize = sizeof(Elf64_Shdr),
			    .e_shnum = 3 },
		.text = { .p_type = PT_LOAD,
			  .p_flags = PF_R | PF_X,
			  .p_vaddr = IMAGE_VADDR,
			  .p_filesz = CODE_AT + CODE_BYTES,
			  .p_memsz = CODE_AT + CODE_BYTES },
		.data = { .p_type = PT_LOAD,
			  .p_flags = PF_R | PF_W,
			  .p_vaddr = DATA_VADDR,
			  .p_filesz = CODE_AT + CODE_BYTES,
			  .p_memsz = CODE_AT + CODE_BYTES },
		.sections = { { 0 },
			      { .sh_type = SHT_SYMTAB,
				.sh_offset = symbols_at,
				.sh_size = n_symbols * sizeof(*symbols),
				.sh_entsize = sizeof(*symbols),
				.sh_link = 2 },
			      { .sh_type = SHT_STRTAB, .sh_offset = names_at, .sh_size = names_size } },
	};
	uint8_t *bytes;

	*size = names_at + names_size;
	bytes = calloc(1, *size);
	assert_non_null(bytes);
	memcpy(bytes, &image, sizeof(image));
	memset(bytes + CODE_AT, 0x55, CODE_BYTES);
	memcpy(bytes + symbols_at, symbols, n_symbols * sizeof(*symbols));
	memcpy(bytes + names_at, names, names_size);
	return bytes;
}

static Elf64_Sym symbol_at(uint32_t name, uint64_t vaddr)
{
	return (Elf64_Sym){ .st_name = name,
			    .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			    .st_shndx = 1,
			    .st_value = vaddr,
			    .st_size = 16 };
}

static size_t count_in_image(const Elf64_Sym *symbols, size_t n_symbols, const char *names, size_t names_size,
			     struct cuda_library *out)
{
	size_t size;
	_cleanup_free_ uint8_t *bytes = make_image(symbols, n_symbols, names, names_size, &size);
	struct so_error err = { "" };

	if (cuda_library__read_memory(bytes, size, out, &err) < 0)
		fail_msg("%s", err.text);
	return out->n_functions;
}

/* The names are read in pieces: wherever the pieces meet, a name is found, and found once. */
static void test_a_name_anywhere(void **state)
{
	static const char *const wanted[] = { "__cudaRegisterFunction", "cuMemsetD8" };
	size_t names_size = 3 * 65536;
	_cleanup_free_ char *names = malloc(names_size);

	for (size_t w = 0; w < 2; w++) {
		for (size_t at = 65536 - 200; at < 65536 + 20; at++) {
			_cleanup_library_ struct cuda_library library = { 0 };
			Elf64_Sym symbol = symbol_at((uint32_t)at, IMAGE_VADDR + CODE_AT);

			memset(names, 'x', names_size);
			names[names_size - 1] = '\0';
			strcpy(names + at, wanted[w]);
			if (count_in_image(&symbol, 1, names, names_size, &library) != 1)
				fail_msg("%s at %zu: %zu", wanted[w], at, library.n_functions);
			assert_string_equal(library.functions[0].symbol, wanted[w]);
			assert_string_equal(library.functions[0].aliases, "");
		}
	}
}

/* As many as there may be, on both sides of a place where pieces meet: none of them counts twice. */
static void test_many_names_where_pieces_meet(void **state)
{
	enum { N = CUDA_LIBRARY_MAX_SYMBOLS, STEP = 20 };
	_cleanup_free_ char *names = calloc(N, STEP);
	_cleanup_free_ Elf64_Sym *symbols = calloc(N, sizeof(*symbols));
	_cleanup_library_ struct cuda_library library = { 0 };

	for (size_t i = 0; i < N; i++) {
		strcpy(names + i * STEP, "cuMemFree");
		symbols[i] = symbol_at((uint32_t)(i * STEP), IMAGE_VADDR + CODE_AT + i);
	}
	assert_int_equal(count_in_image(symbols, N, names, N * STEP, &library), N);
	assert_string_equal(library.problem, "");
	check_order(&library);
}

static void test_symbols_that_are_no_functions_of_the_file(void **state)
{
	static const char names[] = "\0cudaFree";
	Elf64_Sym symbols[] = {
		symbol_at(1, IMAGE_VADDR + CODE_AT),              /* the only one that counts */
		symbol_at(2, IMAGE_VADDR + CODE_AT),              /* "udaFree" */
		symbol_at(1, 0),                                  /* undefined: probes at 0 would be wrong */
		symbol_at(1, IMAGE_VADDR + CODE_AT + 16),         /* data */
		symbol_at(1, IMAGE_VADDR + CODE_AT + 32),         /* a label */
		symbol_at(1, IMAGE_VADDR + CODE_AT + 48),         /* absolute */
		symbol_at(1, IMAGE_VADDR - 1),                    /* outside of the text, */
		symbol_at(1, IMAGE_VADDR + CODE_AT + CODE_BYTES), /* on its other side, */
		symbol_at(1, UINT64_MAX),                         /* and far away */
		symbol_at(1, DATA_VADDR + CODE_AT),
		symbol_at(UINT32_MAX, IMAGE_VADDR + CODE_AT + 64),
	};
	_cleanup_library_ struct cuda_library library = { 0 };

	symbols[2].st_shndx = SHN_UNDEF;
	symbols[3].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
	symbols[4].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE);
	symbols[5].st_shndx = SHN_ABS;
	assert_int_equal(
		count_in_image(symbols, sizeof(symbols) / sizeof(symbols[0]), names, sizeof(names), &library),
		1);
	assert_int_equal(library.functions[0].vaddr, IMAGE_VADDR + CODE_AT);
	assert_int_equal(library.functions[0].offset, CODE_AT);
	assert_string_equal(library.functions[0].aliases, "");
}

static void test_code_that_cannot_be_probed_is_told(void **state)
{
	static const char names[] = "\0cudaFree\0cudaMalloc";
	Elf64_Sym symbols[] = { symbol_at(1, IMAGE_VADDR + CODE_AT),
				symbol_at(10, IMAGE_VADDR + CODE_AT + 16) };
	size_t size;
	_cleanup_free_ uint8_t *bytes = make_image(symbols, 2, names, sizeof(names), &size);
	_cleanup_library_ struct cuda_library library = { 0 };

	bytes[CODE_AT] = 0xcc;
	assert_int_equal(cuda_library__read_memory(bytes, size, &library, NULL), 0);
	assert_int_equal(library.n_functions, 1);
	assert_string_equal(library.functions[0].symbol, "cudaMalloc");
	assert_string_equal(library.problem, "1 begin with code that cannot be probed, such as cudaFree");
}

/* More names, and more symbols, than any library has. */
static void test_limits(void **state)
{
	enum { N = 6000 };
	_cleanup_free_ Elf64_Sym *symbols = calloc(N, sizeof(*symbols));
	_cleanup_free_ char *names = calloc(N, 9);

	for (size_t i = 0; i < N; i++) {
		memcpy(names + 9 * i, "cudaFree", 9);
		symbols[i] = symbol_at((uint32_t)(9 * i), IMAGE_VADDR + CODE_AT + i % CODE_BYTES);
	}
	for (int shared = 0; shared < 2; shared++) {
		_cleanup_library_ struct cuda_library library = { 0 };

		for (size_t i = 0; shared && i < N; i++)
			symbols[i].st_name = 0;
		assert_int_equal(count_in_image(symbols, N, names, 9 * N, &library), CODE_BYTES);
		assert_int_equal(CODE_BYTES, CUDA_LIBRARY_MAX_SYMBOLS);
		assert_non_null(strstr(library.problem, "more CUDA functions than are looked at"));
		check_order(&library);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_name_anywhere),
		cmocka_unit_test(test_many_names_where_pieces_meet),
		cmocka_unit_test(test_symbols_that_are_no_functions_of_the_file),
		cmocka_unit_test(test_code_that_cannot_be_probed_is_told),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
