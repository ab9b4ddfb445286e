// SPDX-License-Identifier: GPL-2.0-or-later
/* Files are read, and found again. */
#include "tests/unit/registry_world.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/auxv.h>

static void test_vdso(void **state)
{
	struct world *w = *state;
	const struct proc_map map = { .path = "[vdso]" };
	const struct file_entry *file = expect_known(w, &map, true);
	void *handle = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void *function = handle ? dlsym(handle, "__vdso_clock_gettime") : NULL;
	char name[64];
	uint64_t start;

	if (!getauxval(AT_SYSINFO_EHDR) || !function)
		skip();
	assert_non_null(file);
	assert_int_equal(file->number, 1);
	assert_int_equal(file->state, SO_MAPPING_TABLE);
	assert_true(file->rows > 0 && file->table.n == 1);
	assert_int_equal(file_registry__symbol(w->files, 1,
					       (uintptr_t)function - getauxval(AT_SYSINFO_EHDR) + 1, name,
					       sizeof(name), &start),
			 0);
	/* The name or an alias of it at the same address. */
	assert_non_null(strstr(name, "clock_gettime"));
	assert_int_equal(start, (uintptr_t)function - getauxval(AT_SYSINFO_EHDR));
	assert_int_equal(file_registry__stats(w->files).files, 0);
	dlclose(handle);
}

static void test_add(void **state)
{
	struct world *w = *state;
	struct proc_map map = map_of((const void *)l64a);
	const struct file_entry *file;
	struct file_registry_stats stats;
	char name[64];
	uint64_t vaddr, start;

	assert_null(expect_known(w, &map, false));
	assert_int_equal(prepare_and_add(w, &map), 0);
	file = expect_known(w, &map, true);
	assert_non_null(file);
	assert_ptr_equal(file_registry__get(w->files, file->number), file);
	assert_string_equal(file->path, map.path);
	assert_int_equal(file->state, SO_MAPPING_TABLE);
	assert_true(file->rows > 1000);
	assert_int_equal(file->elf.type, ET_DYN);
	stats = file_registry__stats(w->files);
	assert_int_equal(stats.files, 1);
	assert_int_equal(stats.compiled, 1);
	assert_int_equal(stats.from_cache, 0);

	vaddr = own_vaddr(&map, file, (const void *)l64a);
	assert_int_equal(file_registry__symbol(w->files, file->number, vaddr + 3, name, sizeof(name), &start),
			 0);
	assert_string_equal(name, "l64a");
	assert_int_equal(start, vaddr);
	drop_symbols(w->files);
	assert_int_equal(file_registry__symbol(w->files, file->number, vaddr, name, sizeof(name), &start), 0);
	assert_string_equal(name, "l64a");

	/* Prepared by two at once, added by both: one file. */
	assert_int_equal(prepare_and_add(w, &map), 0);
	assert_int_equal(file_registry__stats(w->files).files, 1);
	assert_ptr_equal(expect_known(w, &map, true), file);
	release_map(&map);
}

static void test_unknown_numbers(void **state)
{
	struct world *w = *state;
	uint64_t start = 77;
	char name[64];

	assert_null(file_registry__get(w->files, 0));
	assert_null(file_registry__get(w->files, 1000));
	assert_null(file_registry__get(w->files, UINT32_MAX));
	assert_int_equal(file_registry__symbol(w->files, 0, 1, name, sizeof(name), &start), -ENOENT);
	assert_int_equal(file_registry__symbol(w->files, 1000, 1, name, sizeof(name), &start), -ENOENT);
	assert_int_equal(start, 77);
}

static void test_anonymous(void **state)
{
	struct world *w = *state;
	const struct proc_map map = { .path = "", .start = PAGE, .end = 2 * PAGE, .executable = true };

	assert_null(expect_known(w, &map, true));
}

static void test_no_elf_file(void **state)
{
	struct world *w = *state;
	void *at = map_bytes(w, "text", "#!/bin/sh\n", 10);
	struct proc_map map = map_of(at);

	assert_null(expect_known(w, &map, false));
	assert_int_equal(prepare_and_add(w, &map), 0);
	assert_null(expect_known(w, &map, true));
	assert_int_equal(file_registry__stats(w->files).files, 0);
	munmap(at, PAGE);
	release_map(&map);
}

static void test_damaged_elf_file(void **state)
{
	struct world *w = *state;
	Elf64_Ehdr ehdr = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			    .e_type = ET_DYN,
			    .e_machine = EM_X86_64,
			    .e_version = EV_CURRENT,
			    .e_phoff = 1ull << 40,
			    .e_phnum = 3,
			    .e_ehsize = sizeof(ehdr),
			    .e_phentsize = sizeof(Elf64_Phdr) };
	void *at = map_bytes(w, "damaged", &ehdr, sizeof(ehdr));
	struct proc_map map = map_of(at);
	const struct file_entry *file;
	uint64_t start;
	char name[64];

	assert_int_equal(prepare_and_add(w, &map), 0);
	file = expect_known(w, &map, true);
	assert_non_null(file);
	assert_int_equal(file->state, SO_MAPPING_BROKEN);
	assert_int_equal(file->table.n, 0);
	assert_int_not_equal(file_registry__symbol(w->files, file->number, 0, name, sizeof(name), &start), 0);
	munmap(at, PAGE);
	release_map(&map);
}

static void test_no_unwind_information(void **state)
{
	struct world *w = *state;
	struct {
		Elf64_Ehdr ehdr;
		Elf64_Phdr phdr;
	} file = {
		.ehdr = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			  .e_type = ET_DYN,
			  .e_machine = EM_X86_64,
			  .e_version = EV_CURRENT,
			  .e_phoff = sizeof(Elf64_Ehdr),
			  .e_phnum = 1,
			  .e_ehsize = sizeof(Elf64_Ehdr),
			  .e_phentsize = sizeof(Elf64_Phdr) },
		.phdr = { .p_type = PT_LOAD,
			  .p_flags = PF_R | PF_X,
			  .p_filesz = sizeof(file),
			  .p_memsz = sizeof(file) },
	};
	void *at = map_bytes(w, "plain", &file, sizeof(file));
	struct proc_map map = map_of(at);
	const struct file_entry *entry;

	assert_int_equal(prepare_and_add(w, &map), 0);
	entry = expect_known(w, &map, true);
	assert_non_null(entry);
	assert_int_equal(entry->state, SO_MAPPING_NO_TABLE);
	assert_int_equal(entry->elf.n_segments, 1);
	munmap(at, PAGE);
	release_map(&map);
}

static void test_pool_full(void **state)
{
	struct world *w = *state;
	struct proc_map map = map_of((const void *)l64a);
	const struct file_entry *file;

	table_pool__reset(w->pool);
	fake_sampler__limit_shards(w->sampler, 0, -ENOSPC);
	assert_int_equal(prepare_and_add(w, &map), 0);
	file = expect_known(w, &map, true);
	assert_non_null(file);
	assert_int_equal(file->state, SO_MAPPING_FULL);
	assert_int_equal(file->table.n, 0);
	release_map(&map);
}

/* The file is gone from its directory, and is read through the mapping all the same. */
static void test_deleted(void **state)
{
	struct world *w = *state;
	void *at = map_bytes(w, "soon-gone", "no ELF file", 11);
	struct proc_map map;
	char path[96];

	if (geteuid())
		skip(); /* map_files is for root */
	snprintf(path, sizeof(path), "%s/soon-gone", w->dir);
	assert_int_equal(unlink(path), 0);
	map = map_of(at);
	assert_true(map.deleted);
	assert_int_equal(prepare_and_add(w, &map), 0);
	assert_null(expect_known(w, &map, true));
	munmap(at, PAGE);
	release_map(&map);
}

static void test_cannot_open(void **state)
{
	struct world *w = *state;
	const struct proc_map map = { .path = "/nowhere", .start = PAGE, .end = 2 * PAGE, .inode = 12345 };
	struct prepared_file *p = (void *)w;

	assert_true(file_registry__prepare(w->files, getpid(), &map, &p) < 0);
	assert_ptr_equal(p, w);
	assert_null(expect_known(w, &map, false));
	prepared_file__free(NULL);
}

static void test_prepared_but_not_added(void **state)
{
	struct world *w = *state;
	struct proc_map map = map_of((const void *)l64a);
	struct prepared_file *p = NULL;

	assert_int_equal(file_registry__prepare(w->files, getpid(), &map, &p), 0);
	prepared_file__free(p);
	assert_null(expect_known(w, &map, false));
	release_map(&map);
}

static void test_cache(void **state)
{
	struct world *w = *state;
	_cleanup_(unwind_cache) struct unwind_cache *cache = NULL;
	struct proc_map map = map_of((const void *)l64a);
	uint64_t rows[2];

	assert_int_equal(unwind_cache__open(w->dir, 0, &cache, NULL), 0);
	for (unsigned round = 0; round < 2; round++) {
		struct file_registry_stats stats;

		file_registry__free(w->files);
		table_pool__reset(w->pool);
		assert_int_equal(file_registry__new(w->pool, cache, "", &w->files, NULL), 0);
		assert_int_equal(prepare_and_add(w, &map), 0);
		stats = file_registry__stats(w->files);
		assert_int_equal(stats.compiled, !round);
		assert_int_equal(stats.from_cache, round);
		rows[round] = expect_known(w, &map, true)->rows;
	}
	assert_int_equal(rows[0], rows[1]);
	assert_int_equal(unwind_cache__stats(cache).hits, 1);
	release_map(&map);
}

/* What one registry has learned of a file, the next one knows; what is in the file's own table it does not touch. */
static void test_learned_is_kept(void **state)
{
	struct world *w = *state;
	_cleanup_(unwind_cache) struct unwind_cache *cache = NULL;
	struct proc_map map = map_of((const void *)l64a);
	struct effect_row row = { .address = 16,
				  .length = 4,
				  .rule = { .cfa_kind = SO_CFA_REG, .cfa_off = 4242 * 8 } };
	struct effect_rows rows = { .rows = &row, .n = 1 };

	assert_int_equal(unwind_cache__open(w->dir, 0, &cache, NULL), 0);
	for (unsigned round = 0; round < 3; round++) {
		const struct so_unwind_rule *rule;
		uint32_t number;

		file_registry__free(w->files);
		table_pool__reset(w->pool);
		assert_int_equal(file_registry__new(w->pool, cache, "", &w->files, NULL), 0);
		assert_int_equal(prepare_and_add(w, &map), 0);
		number = expect_known(w, &map, true)->number;
		rule = learned_code__find(file_registry__learned(w->files, number), row.address);
		assert_int_equal(rule ? rule->cfa_off : 0, round ? row.rule.cfa_off : 0);
		assert_int_equal(learned_code__add(file_registry__learned(w->files, number), &rows), 0);
		file_registry__reset(w->files);
		/* The table and what was learned, each once. */
		assert_int_equal(unwind_cache__stats(cache).stored, 2);
	}
	release_map(&map);
}

/* The file's bytes, not those of a process that changed its copy. */
static void test_code_of_the_file(void **state)
{
	struct world *w = *state;
	struct proc_map map = map_of((const void *)l64a);
	const struct file_entry *file;
	uint8_t read[64] = { 0 };
	uint64_t vaddr;

	assert_int_equal(prepare_and_add(w, &map), 0);
	file = expect_known(w, &map, true);
	vaddr = own_vaddr(&map, file, (const void *)l64a);
	assert_int_equal(file_registry__read_code(w->files, file->number, vaddr, read, sizeof(read)),
			 sizeof(read));
	assert_memory_equal(read, (const void *)l64a, sizeof(read));
	assert_int_equal(file_registry__read_code(w->files, file->number, 1ull << 46, read, 8), 0);
	assert_int_equal(file_registry__read_code(w->files, 999, vaddr, read, 8), 0);
	release_map(&map);
}

static void test_reset(void **state)
{
	struct world *w = *state;
	struct proc_map map = map_of((const void *)l64a);
	const struct proc_map vdso = { .path = "[vdso]" };

	assert_int_equal(prepare_and_add(w, &map), 0);
	table_pool__reset(w->pool);
	file_registry__reset(w->files);
	assert_null(expect_known(w, &map, false));
	assert_int_equal(file_registry__stats(w->files).files, 0);
	if (getauxval(AT_SYSINFO_EHDR))
		assert_int_equal(expect_known(w, &vdso, true)->state, SO_MAPPING_TABLE);
	assert_int_equal(prepare_and_add(w, &map), 0);
	assert_non_null(expect_known(w, &map, true));
	release_map(&map);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(vdso),
		TEST(add),
		TEST(unknown_numbers),
		TEST(anonymous),
		TEST(no_elf_file),
		TEST(damaged_elf_file),
		TEST(learned_is_kept),
		TEST(code_of_the_file),
		TEST(no_unwind_information),
		TEST(pool_full),
		TEST(deleted),
		TEST(cannot_open),
		TEST(prepared_but_not_added),
		TEST(cache),
		TEST(reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
