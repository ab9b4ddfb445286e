/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The running program's build-id (NT_GNU_BUILD_ID), from its memory: right even if its file was replaced. */
#ifndef STAKEOUT_BUILD_ID_H
#define STAKEOUT_BUILD_ID_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define BUILD_ID_MAX_BYTES 64
#define BUILD_ID_TEXT      (2 * BUILD_ID_MAX_BYTES + 1)

/* In notes (elf(5)): a header, then name and descriptor, each padded to 4 bytes. */
static inline bool build_id__of_notes(const uint8_t *notes, size_t n, char out[BUILD_ID_TEXT])
{
	ElfW(Nhdr) note;

	while (n >= sizeof(note)) {
		size_t name, bytes;

		memcpy(&note, notes, sizeof(note));
		name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
		bytes = ((size_t)note.n_descsz + 3) & ~(size_t)3;
		notes += sizeof(note);
		n -= sizeof(note);
		if (name > n || bytes > n - name)
			return false;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp(notes, "GNU", 4) && note.n_descsz &&
		    note.n_descsz <= BUILD_ID_MAX_BYTES) {
			for (size_t i = 0; i < note.n_descsz; i++)
				snprintf(out + 2 * i, 3, "%02x", notes[name + i]);
			return true;
		}
		notes += name + bytes;
		n -= name + bytes;
	}
	return false;
}

static inline int build_id__of_object(struct dl_phdr_info *info, size_t size, void *out)
{
	for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_NOTE &&
		    build_id__of_notes((const uint8_t *)(info->dlpi_addr + p->p_vaddr), p->p_memsz, out))
			break;
	}
	return 1; /* the first object is the program (dl_iterate_phdr(3)) */
}

/* In hexadecimal; "none" for a program that was linked without. */
static inline void build_id__self(char out[BUILD_ID_TEXT])
{
	strcpy(out, "none");
	dl_iterate_phdr(build_id__of_object, out);
}

#endif
