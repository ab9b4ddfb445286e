/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/symbols/debug_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "daemon/elf/elf_file.h"
#include "daemon/os/bounded_open.h"
#include "stakeout/cleanup.h"

#define READ_BYTES (64u << 10)

struct debuglink {
	char name[256];
	uint32_t crc;
};

/* A name, padding to four bytes, and the CRC-32 of the debug file (GDB manual, "Separate Debug Files"). */
static int read_debuglink(const struct elf_image *image, const struct elf_sections *sections, struct debuglink *out)
{
	const Elf64_Shdr *section = elf_sections__by_name(sections, image, ".gnu_debuglink");
	struct debuglink link;
	uint64_t crc_at;
	int length;

	if (!section)
		return -ENOENT;
	length = elf_image__read_string(image, section->sh_offset, section->sh_offset + section->sh_size, link.name,
					sizeof(link.name));
	if (length <= 0 || length == sizeof(link.name) - 1)
		return -ENOENT;
	/* A name with a folder in it would lead anywhere. */
	if (strchr(link.name, '/'))
		return -ENOENT;
	crc_at = ((uint64_t)length + 1 + 3) & ~3ull;
	if (crc_at + 4 > section->sh_size ||
	    elf_image__read(image, section->sh_offset + crc_at, &link.crc, sizeof(link.crc)) < 0)
		return -ENOENT;
	*out = link;
	return 0;
}

static bool crc_matches(int fd, uint32_t wanted)
{
	uint64_t done = 0;
	uLong crc = crc32(0, NULL, 0);
	_cleanup_free_ uint8_t *bytes = malloc(READ_BYTES);

	while (bytes && done <= DEBUG_FILES_MAX_CRC_BYTES) {
		ssize_t n = pread(fd, bytes, READ_BYTES, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		if (n == 0)
			return crc == wanted;
		crc = crc32(crc, bytes, (uInt)n);
		done += (uint64_t)n;
	}
	return false;
}

static bool same_file(int fd, const struct elf_image *image)
{
	struct stat a, b;

	return image->fd >= 0 && fstat(fd, &a) == 0 && fstat(image->fd, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

static int open_of(const struct debug_root *root, const char *path)
{
	_cleanup_close_ int fd = bounded_open(root->path, path, true, root->reader);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) || (st.st_uid && st.st_uid != root->owner && st.st_uid != geteuid())))
		return -EACCES;
	return TAKE_FD(fd);
}

static int open_by_build_id(const char *build_id, const struct debug_root *root)
{
	_cleanup_close_ int fd = -1;
	struct elf_file elf;
	char path[128];

	/* Two digits name the folder, at least one more the file. */
	if (strlen(build_id) < 3)
		return -ENOENT;
	snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", build_id, build_id + 2);
	fd = open_of(root, path);
	if (fd < 0)
		return fd;
	if (elf_file__read(fd, &elf, NULL) < 0 || strcmp(elf.build_id, build_id) != 0)
		return -ENOENT;
	return TAKE_FD(fd);
}

static int open_candidate(const char *path, const struct debuglink *link, const struct elf_image *image,
			  const char *build_id, const struct debug_root *root)
{
	_cleanup_close_ int fd = open_of(root, path);
	struct elf_file elf;

	/* A link may name the stripped file itself, where both are in one folder under one name. */
	if (fd < 0 || same_file(fd, image) || elf_file__read(fd, &elf, NULL) < 0)
		return -ENOENT;
	/* The cheap check first: the checksum needs all of the file. */
	if (build_id[0] && elf.build_id[0] && strcmp(elf.build_id, build_id) != 0)
		return -ENOENT;
	if (!crc_matches(fd, link->crc))
		return -ENOENT;
	return TAKE_FD(fd);
}

static int open_by_debuglink(const struct elf_image *image, const struct elf_sections *sections, const char *build_id,
			     const char *path, const struct debug_root *root)
{
	static const struct {
		const char *before, *after;
	} places[] = { { "", "" }, { "", "/.debug" }, { "/usr/lib/debug", "" } };
	const char *slash = path ? strrchr(path, '/') : NULL;
	struct debuglink link;

	if (!slash || path[0] != '/' || read_debuglink(image, sections, &link) < 0)
		return -ENOENT;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		_cleanup_free_ char *candidate = NULL;
		int fd;

		if (asprintf(&candidate, "%s%.*s%s/%s", places[i].before, (int)(slash - path), path, places[i].after,
			     link.name) < 0) {
			candidate = NULL;
			return -ENOENT;
		}
		fd = open_candidate(candidate, &link, image, build_id, root);
		if (fd >= 0)
			return fd;
	}
	return -ENOENT;
}

/* quick: -EAGAIN where a checksum would have to be made. */
static int open_separate(const struct elf_image *image, const struct elf_sections *sections, const char *build_id,
			 const char *path, const struct debug_root *root, bool quick)
{
	int fd = open_by_build_id(build_id, root);

	if (fd < 0 && quick && elf_sections__by_name(sections, image, ".gnu_debuglink"))
		return -EAGAIN;
	if (fd < 0)
		fd = open_by_debuglink(image, sections, build_id, path, root);
	return fd < 0 ? -ENOENT : fd;
}

int debug_files__open(const struct elf_image *image, const struct elf_sections *sections, const char *build_id,
		      const char *path, const struct debug_root *root)
{
	return open_separate(image, sections, build_id, path, root, false);
}

static bool has_section(const struct elf_image *image, const struct elf_sections *sections, const char *name,
			const char *compressed)
{
	return elf_sections__by_name(sections, image, name) || elf_sections__by_name(sections, image, compressed);
}

/* The old form of compressed sections has names of its own. */
static bool has_lines(const struct elf_image *image, const struct elf_sections *sections)
{
	return has_section(image, sections, ".debug_info", ".zdebug_info") &&
	       has_section(image, sections, ".debug_line", ".zdebug_line");
}

/* Whether the file's build-id, the last bytes of its note, is this one. */
static bool has_build_id(int fd, const uint8_t *id, size_t size)
{
	__attribute__((cleanup(cleanup__elf_sections))) struct elf_sections sections = { 0 };
	const Elf64_Shdr *note;
	struct elf_image image;
	uint8_t own[64];

	if (size > sizeof(own) || elf_image__of_file(fd, &image) || elf_sections__read(&image, &sections))
		return false;
	note = elf_sections__by_name(&sections, &image, ".note.gnu.build-id");
	return note && note->sh_size == sizeof(Elf64_Nhdr) + sizeof("GNU") + size &&
	       !elf_image__read(&image, note->sh_offset + note->sh_size - size, own, size) && !memcmp(own, id, size);
}

/* A name, and the build-id of the file with that name (DWARF 5, 7.3.6; dwz(1)). */
static int open_alternative(const struct elf_image *image, const struct elf_sections *sections,
			    const struct debug_root *root)
{
	const Elf64_Shdr *section = elf_sections__by_name(sections, image, ".gnu_debugaltlink");
	_cleanup_close_ int fd = -1;
	char name[1024];
	uint8_t id[64];
	uint64_t size;
	int length;

	if (!section)
		return -ENOENT;
	length = elf_image__read_string(image, section->sh_offset, section->sh_offset + section->sh_size, name,
					sizeof(name));
	if (length <= 0 || (size_t)length + 1 >= sizeof(name) || name[0] != '/' ||
	    section->sh_size <= (uint64_t)length + 1)
		return -ENOENT;
	size = section->sh_size - (uint64_t)length - 1;
	if (size > sizeof(id) || elf_image__read(image, section->sh_offset + (uint64_t)length + 1, id, size))
		return -ENOENT;
	fd = open_of(root, name);
	return fd >= 0 && has_build_id(fd, id, size) ? TAKE_FD(fd) : -ENOENT;
}

int debug_files__open_lines(int fd, const char *build_id, const char *path, const struct debug_root *root, bool quick,
			    int fds[2])
{
	__attribute__((cleanup(cleanup__elf_sections))) struct elf_sections sections = { 0 }, others = { 0 };
	_cleanup_close_ int found = -1;
	struct elf_image image;
	int ret = elf_image__of_file(fd, &image) ?: elf_sections__read(&image, &sections);

	if (ret)
		return -ENOENT;
	if (has_lines(&image, &sections)) {
		found = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		fds[1] = found < 0 ? -1 : open_alternative(&image, &sections, root);
	} else {
		found = open_separate(&image, &sections, build_id, path, root, quick);
		if (found == -EAGAIN)
			return -EAGAIN;
		if (found < 0 || elf_image__of_file(found, &image) || elf_sections__read(&image, &others) ||
		    !has_lines(&image, &others))
			return -ENOENT;
		fds[1] = open_alternative(&image, &others, root);
	}
	if (found < 0)
		return -ENOENT;
	fds[0] = TAKE_FD(found);
	fds[1] = fds[1] < 0 ? -1 : fds[1];
	return 0;
}
