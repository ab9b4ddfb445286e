// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/processes/mapping_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stakeout/array.h"

/* The part of a mapping that one piece of its file's table serves. */
static void fill_piece(struct so_mapping *m, const struct table_piece *piece)
{
	m->state = SO_MAPPING_TABLE;
	m->shard = piece->shard;
	m->index = piece->index;
	m->first_block = piece->first_block;
	m->n_blocks = piece->n_blocks;
}

static int append(struct mapping_list *l, const struct so_mapping *m)
{
	struct so_mapping *more;

	if (l->n == SO_MAX_PROCESS_MAPPINGS)
		return -ENOSPC;
	if (l->n == l->capacity) {
		l->capacity = l->capacity ? l->capacity * 2 : 128;
		more = reallocarray(l->list, l->capacity, sizeof(*more));
		if (!more)
			return -ENOMEM;
		l->list = more;
	}
	l->list[l->n++] = *m;
	return 0;
}

/* Takes the use, also on failure. */
static int append_use(struct file_registry *registry, struct mapping_list *l, struct file_use use)
{
	if (!use.place && !use.learned)
		return 0;
	if (ARRAY_RESERVE(l->uses, l->uses_capacity, l->n_uses + 1)) {
		file_registry__unuse(registry, use);
		return -ENOMEM;
	}
	l->uses[l->n_uses++] = use;
	return 0;
}

/* A mapping is cut where one piece of the table ends and the next begins. */
static int append_pieces(struct mapping_list *l, struct so_mapping m, const struct table_pieces *table)
{
	uint64_t end = m.end;
	int ret;

	for (size_t i = 0; i < table->n; i++) {
		const struct table_piece *piece = &table->pieces[i];
		uint64_t piece_end = ((piece->first_block + piece->n_blocks) << SO_BLOCK_SHIFT) + m.bias;
		bool last = i + 1 == table->n;

		if (!last && piece_end <= m.start)
			continue;
		fill_piece(&m, piece);
		m.end = last || piece_end > end ? end : piece_end;
		ret = append(l, &m);
		if (ret)
			return ret;
		m.start = m.end;
		if (m.start >= end)
			break;
	}
	return 0;
}

/* Code in no file: what was learned of it, if anything. */
static int append_fileless(struct file_registry *registry, struct mapping_list *l, const struct process *p,
			   struct so_mapping m)
{
	const struct learned_mapping *learned;

	if (p->forgotten >= PROCESS_MAX_FORGOTTEN)
		m.flags &= (uint16_t)~SO_MAPPING_LEARN;
	for (learned = p->learned; learned; learned = learned->next) {
		struct learned_table *table = learned->code.table;
		int ret;

		if (learned->start != m.start || !table || !(m.flags & SO_MAPPING_LEARN))
			continue;
		table->refs++;
		ret = append_use(registry, l, (struct file_use){ .learned = table });
		return ret ?: append_pieces(l, m, &table->pieces);
	}
	return append(l, &m);
}

static bool was_missing(const struct process_scan *scan, const struct proc_map *map)
{
	for (size_t i = 0; i < scan->n_missing; i++) {
		if (scan->missing[i]->inode == map->inode && scan->missing[i]->dev_major == map->dev_major &&
		    scan->missing[i]->dev_minor == map->dev_minor)
			return true;
	}
	return false;
}

uint64_t mapping_list__id(const struct proc_map *map)
{
	/* Of a copy of a file's text it is not known what it lies in. */
	if (map->file_start)
		return SO_MAPPED_ANY;
	if (!map->inode)
		return SO_MAPPED_ANONYMOUS;
	return so_mapped_file(map->dev_major << 20 | map->dev_minor, map->inode, map->start - map->offset);
}

/* Addresses in these pages stand for others, which the unwinder replaces (bpf/probed.h, uw_leave_trampoline()). */
static bool is_probe_page(const struct proc_map *map)
{
	return !map->inode && (!strcmp(map->path, "[uprobes]") || !strcmp(map->path, "[uprobes-trampoline]"));
}

int mapping_list__add(struct mapping_list *l, struct file_registry *registry, const struct process *p,
		      struct process_scan *scan, const struct proc_map *map)
{
	struct so_mapping m = {
		.start = map->start,
		.end = map->end,
		.bias = map->start,
		.id = mapping_list__id(map),
		.state = SO_MAPPING_NO_TABLE,
		.flags = SO_MAPPING_LEARN | (map->writable ? SO_MAPPING_WRITABLE : 0),
	};
	const struct file_entry *file;
	uint64_t bias;
	bool known;
	int ret;

	if (is_probe_page(map))
		return 0;
	ret = append_use(registry, l, file_registry__use(registry, map));

	if (ret)
		return ret;
	file = file_registry__find(registry, map, &known);
	if (!file) {
		if (!known)
			m.state = SO_MAPPING_BROKEN;
		/* It was known when the scan began, and nobody used it. */
		scan->again |= !known && !was_missing(scan, map);
		return append_fileless(registry, l, p, m);
	}
	m.state = file->state;
	if (elf_file__bias(&file->elf, map->start, map->end - map->start, map->offset, &bias)) {
		/* Code mapped from where the file has no segment: its addresses mean nothing in the file. */
		m.state = SO_MAPPING_NO_TABLE;
		return append_fileless(registry, l, p, m);
	}
	m.bias = bias;
	m.file = file->number;
	return file->state != SO_MAPPING_TABLE ? append(l, &m) : append_pieces(l, m, &file->table);
}

/* Whatever BPF has noted in them. */
bool mapping_list__same_piece(struct so_mapping a, struct so_mapping b)
{
	a.seen = b.seen = 0;
	return !memcmp(&a, &b, sizeof(a));
}

bool mapping_list__is_run(const struct mapping_list *l, const struct so_mapping *all, const struct mapping_run *run)
{
	if (!run || run->n != l->n)
		return false;
	for (size_t i = 0; i < l->n; i++) {
		if (!mapping_list__same_piece(all[run->first + i], l->list[i]))
			return false;
	}
	return true;
}

void mapping_list__release(struct mapping_list *l, struct file_registry *registry)
{
	for (size_t i = 0; i < l->n_uses; i++)
		file_registry__unuse(registry, l->uses[i]);
	free(l->uses);
	free(l->list);
	*l = (struct mapping_list){ 0 };
}
