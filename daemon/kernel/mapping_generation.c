// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/kernel/mapping_generation.h"

#include <bpf/btf.h>
#include <stdbool.h>
#include <string.h>

/* In the struct itself or in structs without name in it, which have others in turn. */
static bool has_member(const struct btf *btf, __u32 id, const char *name, unsigned depth)
{
	const struct btf_type *type = btf__type_by_id(btf, id);
	const struct btf_member *members;

	if (!type || !depth || !btf_is_composite(type))
		return false;
	members = btf_members(type);
	for (unsigned i = 0; i < btf_vlen(type); i++) {
		const char *member = btf__name_by_offset(btf, members[i].name_off);

		if (member && *member ? !strcmp(member, name) : has_member(btf, members[i].type, name, depth - 1))
			return true;
	}
	return false;
}

const char *mapping_generation__mechanism(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	__s32 id = btf ? btf__find_by_name_kind(btf, "mm_struct", BTF_KIND_STRUCT) : -1;
	const char *found = "each sample looks its mappings up";

	if (id > 0 && has_member(btf, id, "mm_lock_seq", 4))
		found = "samples compare mm_lock_seq";
	else if (id > 0 && has_member(btf, id, "vmacache_seqnum", 4))
		found = "samples compare vmacache_seqnum";
	btf__free(btf);
	return found;
}
