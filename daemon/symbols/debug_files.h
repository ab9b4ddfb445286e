/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Separate debug files: where a stripped ELF file's symbols were put, and whether a candidate is the right one. */
#ifndef STAKEOUT_DEBUG_FILES_H
#define STAKEOUT_DEBUG_FILES_H

#include "daemon/elf/elf_image.h"
#include "daemon/elf/elf_sections.h"
#include "daemon/os/file_reader.h"

#define DEBUG_FILES_MAX_CRC_BYTES (1ull << 30) /* a larger file is not taken by its checksum */

/*
 * Where debug files are looked up, and for whom: what the reader could not read is not found, nor what is of neither
 * the file's owner, nor root, nor the caller: nobody else says what is in it.
 */
struct debug_root {
	const char *path;                 /* "/" or "/proc/PID/root" */
	const struct file_reader *reader; /* NULL: root */
	uid_t owner;                      /* of the file whose debug file it is */
};

/*
 * Looks below the root, in this order:
 *	/usr/lib/debug/.build-id/xx/yyyy.debug		and the file carries the same build-id
 *	DIR/LINK, DIR/.debug/LINK, /usr/lib/debug/DIR/LINK	and the file's CRC-32 is the one in .gnu_debuglink
 * build_id: lower-case hex, "" when there is none. path: what a process with that root calls the file; DIR is
 * its folder. Returns an fd, or -ENOENT.
 */
int debug_files__open(const struct elf_image *image, const struct elf_sections *sections, const char *build_id,
		      const char *path, const struct debug_root *root);

/*
 * Opens what has the file's DWARF information with line numbers: fds[0] is the file itself, a duplicate, or its
 * separate debug file (as above; build_id, path, root: likewise), fds[1] the file that this one's .gnu_debugaltlink
 * names by an absolute path (dwz's common parts; the build-id must be the link's), or -1. -ENOENT: there is none;
 * -EAGAIN: `quick`, and a checksum would have to be made.
 */
int debug_files__open_lines(int fd, const char *build_id, const char *path, const struct debug_root *root, bool quick,
			    int fds[2]);

#endif
