/* SPDX-License-Identifier: GPL-2.0-or-later */
/* This program's own file is mapped a second time, as the loader does, but for the text: that is anonymous memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/elf/elf_file.h"
#include "daemon/os/memory_lock.h"
#include "daemon/processes/text_copies.h"

#define PAGE_BYTES 4096ul

struct image {
	int fd;
	struct elf_file elf;
	uint8_t *base;
	size_t size;
	const struct elf_segment *text;
	uint64_t text_start, text_end;
};

static uint64_t page_down(uint64_t address)
{
	return address & ~(PAGE_BYTES - 1);
}

static uint64_t page_up(uint64_t address)
{
	return page_down(address + PAGE_BYTES - 1);
}

static void map_segment(struct image *image, const struct elf_segment *s)
{
	uint64_t start = page_down(s->vaddr);

	assert_ptr_equal(mmap(image->base + start, s->vaddr + s->filesz - start, PROT_READ, MAP_PRIVATE | MAP_FIXED,
			      image->fd, (off_t)page_down(s->offset)),
			 image->base + start);
}

/* Over the text from `skipped` pages on; with the file's bytes there, or others. */
static void copy_text(struct image *image, size_t skipped, bool same)
{
	uint64_t start = image->text_start + skipped * PAGE_BYTES;
	size_t size = image->text_end - start;
	uint8_t *text =
		mmap((void *)start, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	off_t offset = (off_t)(page_down(image->text->offset) + skipped * PAGE_BYTES);

	assert_ptr_equal(text, (void *)start);
	assert_true(pread(image->fd, text, size, offset) > 0);
	for (size_t i = 0; !same && i < size; i++)
		text[i] ^= 0x5a;
	assert_int_equal(mprotect(text, size, PROT_READ | PROT_EXEC), 0);
}

static int set_up(void **state)
{
	static struct image image;
	const struct elf_segment *last;

	memory_lock__check(getpid());
	image = (struct image){ .fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC) };
	assert_true(image.fd >= 0);
	assert_int_equal(elf_file__read(image.fd, &image.elf, NULL), 0);
	last = &image.elf.segments[image.elf.n_segments - 1];
	image.size = page_up(last->vaddr + last->memsz);
	image.base = mmap(NULL, image.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(image.base != MAP_FAILED);
	for (unsigned i = 0; i < image.elf.n_segments; i++) {
		map_segment(&image, &image.elf.segments[i]);
		if (image.elf.segments[i].flags & PF_X)
			image.text = &image.elf.segments[i];
	}
	assert_non_null(image.text);
	image.text_start = (uintptr_t)image.base + page_down(image.text->vaddr);
	image.text_end = (uintptr_t)image.base + page_up(image.text->vaddr + image.text->filesz);
	assert_true(image.text_end - image.text_start >= 8 * PAGE_BYTES);
	*state = &image;
	return 0;
}

static int tear_down(void **state)
{
	struct image *image = *state;

	munmap(image->base, image->size);
	close(image->fd);
	return 0;
}

static struct proc_map map_at(uint64_t address, struct proc_maps *maps)
{
	assert_int_equal(proc_maps__read(getpid(), false, maps, NULL), 0);
	text_copies__find(getpid(), maps);
	proc_maps__keep_executable(maps);
	assert_non_null(proc_maps__find(maps, address));
	return *proc_maps__find(maps, address);
}

static void expect_copy(const struct image *image, size_t skipped)
{
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };
	struct proc_map map = map_at(image->text_end - 1, &maps);
	_cleanup_close_ int fd = -1;
	struct stat own, opened;
	uint64_t bias;

	assert_int_equal(map.start, image->text_start + skipped * PAGE_BYTES);
	assert_int_equal(map.end, image->text_end);
	assert_int_equal(elf_file__bias(&image->elf, map.start, map.end - map.start, map.offset, &bias), 0);
	assert_int_equal(bias, (uintptr_t)image->base);
	fd = proc_maps__open_file(getpid(), &map);
	assert_true(fd >= 0);
	assert_int_equal(fstat(image->fd, &own), 0);
	assert_int_equal(fstat(fd, &opened), 0);
	assert_int_equal(opened.st_ino, own.st_ino);
	for (size_t i = 0; i < maps.n; i++)
		assert_true(maps.maps[i].executable);
}

static void test_whole_text(void **state)
{
	copy_text(*state, 0, true);
	expect_copy(*state, 0);
}

static void test_part_of_the_text(void **state)
{
	copy_text(*state, 3, true);
	expect_copy(*state, 3);
}

/* Two pieces that do not merge: they have different rights. */
static void test_two_pieces(void **state)
{
	struct image *image = *state;
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };
	struct proc_map map;

	copy_text(image, 0, true);
	assert_int_equal(mprotect((void *)image->text_start, 4 * PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	expect_copy(image, 4);
	map = map_at(image->text_start, &maps);
	assert_true(map.inode && map.writable && map.end == image->text_start + 4 * PAGE_BYTES);
}

/* What a compiler writes where text was, or would be, is not the file's. */
static void test_other_code(void **state)
{
	struct image *image = *state;
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };
	struct proc_map map;

	copy_text(image, 0, false);
	map = map_at(image->text_end - 1, &maps);
	assert_int_equal(map.inode, 0);
	assert_int_equal(map.file_end, 0);
}

/* Padding that is the same is no evidence. */
static void test_empty_pages(void **state)
{
	struct image *image = *state;
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };

	copy_text(image, 0, true);
	assert_int_equal(mprotect((void *)image->text_start, image->text_end - image->text_start,
				  PROT_READ | PROT_WRITE | PROT_EXEC),
			 0);
	memset((void *)image->text_start, 0, image->text_end - image->text_start);
	assert_int_equal(map_at(image->text_start, &maps).inode, 0);
}

/* The piece reaches beyond the text, where the file has none: only the text becomes the file's. */
static void test_beyond_the_text(void **state)
{
	struct image *image = *state;
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };
	struct proc_map map;
	void *behind = (void *)image->text_end;

	copy_text(image, 0, true);
	assert_ptr_equal(
		mmap(behind, PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
		behind);
	expect_copy(image, 0);
	map = map_at(image->text_end, &maps);
	assert_int_equal(map.inode, 0);
	assert_int_equal(map.start, image->text_end);
	assert_int_equal(map.end, image->text_end + PAGE_BYTES);
}

/* Code right before and behind a library's mappings, with its bytes or not, is no part of it. */
static void test_beside_the_file(void **state)
{
	struct image *image = *state;
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };
	uint8_t *last = image->base + image->size - PAGE_BYTES;

	assert_ptr_equal(mmap(last, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 last);
	assert_true(pread(image->fd, last, PAGE_BYTES, (off_t)page_down(image->text->offset)) > 0);
	assert_int_equal(mprotect(last, PAGE_BYTES, PROT_READ | PROT_EXEC), 0);
	assert_int_equal(map_at((uintptr_t)last, &maps).inode, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(whole_text),  TEST(part_of_the_text), TEST(two_pieces),      TEST(other_code),
		TEST(empty_pages), TEST(beyond_the_text),  TEST(beside_the_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
