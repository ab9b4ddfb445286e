// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/files/file_registry.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "daemon/os/clock.h"
#include "daemon/symbols/debug_files.h"
#include "daemon/files/file_copy.h"
#include "daemon/files/file_registry_internal.h"
#include "daemon/python/python_asyncio.h"
#include "stakeout/short_path.h"

#define VDSO_PATH      "[vdso]"
#define VDSO_MAX_BYTES (64u << 10)

/* So many numbers of files that are gone are kept back as long as there are others. */
#define RESTING_PLACES 4096

/* Files that one user's processes may map in any case: a program with many libraries has some hundreds. */
#define LEAST_OF_ONE 1024

/* How much of a file is read to tell it from another of the same build-id. */
#define SAMPLES      16
#define SAMPLE_BYTES 1024

struct prepared_file {
	uint64_t dev, inode;
	int fd;
	bool elf;
	struct slot *slot; /* NULL for a file that is no ELF file */
	struct unwind_table *table;
	struct unwind_table *learned; /* by an earlier daemon; NULL: nothing */
	bool broken, compiled;
	bool copied; /* fd is a copy */
};

static uint64_t map_dev(const struct proc_map *map)
{
	return (uint64_t)map->dev_major << 32 | map->dev_minor;
}

/* Files that are no ELF files are slots too, with number 0 in their entry, so that they are looked at only once. */
static struct slot *find_slot(const struct file_registry *r, uint64_t dev, uint64_t inode)
{
	uint32_t at;

	if (!u64_table__get(&r->by_key, registry_key(dev, inode), &at))
		return NULL;
	for (; at; at = r->slots[at - 1]->next_same_key) {
		if (r->slots[at - 1]->dev == dev && r->slots[at - 1]->inode == inode)
			return r->slots[at - 1];
	}
	return NULL;
}

struct slot *registry_find(const struct file_registry *r, const struct proc_map *map)
{
	if (!strcmp(map->path, VDSO_PATH))
		return registry_slot(r, r->vdso);
	return map->inode ? find_slot(r, map_dev(map), map->inode) : NULL;
}

void registry_release_tables(struct file_registry *r, struct slot *slot)
{
	slot->entry.table = (struct table_pieces){ 0 };
	learned_code__release(&slot->learned, r->pool);
	table_pool__release(r->pool, &slot->own);
}

void registry_free_slot(struct slot *slot)
{
	if (!slot)
		return;
	if (slot->copied)
		file_copy__forget(slot->fd, slot->reader.uid);
	if (slot->fd >= 0)
		close(slot->fd);
	elf_symbols__free(slot->symbols);
	learned_code__release(&slot->learned, NULL);
	free(slot->entry.python);
	free(slot->entry.python_problem);
	free(slot->entry.path);
	free(slot);
}

CLEANUP_DEFINE(struct slot *, slot, registry_free_slot)

static struct slot *new_slot(const char *path)
{
	struct slot *slot = calloc(1, sizeof(*slot));

	if (!slot)
		return NULL;
	slot->fd = -1;
	slot->entry.path = strdup(path);
	if (!slot->entry.path) {
		free(slot);
		return NULL;
	}
	return slot;
}

void prepared_file__free(struct prepared_file *p)
{
	if (!p)
		return;
	if (p->copied && p->fd >= 0)
		file_copy__forget(p->fd, p->slot->reader.uid);
	if (p->fd >= 0)
		close(p->fd);
	registry_free_slot(p->slot);
	unwind_table__free(p->table);
	unwind_table__free(p->learned);
	free(p);
}

CLEANUP_DEFINE(struct prepared_file *, prepared_file, prepared_file__free)

const struct file_entry *file_registry__find(struct file_registry *r, const struct proc_map *map, bool *known)
{
	const struct slot *slot = registry_find(r, map);

	*known = slot || !map->inode || !strcmp(map->path, VDSO_PATH);
	return slot && slot->entry.number ? &slot->entry : NULL;
}

/* A checksum over pieces from all over the file: a build-id is only what the file says of itself. */
static uint64_t sample_contents(int fd, uint64_t bytes)
{
	uint64_t sum = 0xcbf29ce484222325ull ^ bytes;
	uint8_t buf[SAMPLE_BYTES];

	for (unsigned i = 0; i < SAMPLES; i++) {
		ssize_t n = pread(fd, buf, sizeof(buf), bytes / SAMPLES * i);

		for (ssize_t j = 0; j < n; j++)
			sum = (sum ^ buf[j]) * 0x100000001b3ull;
	}
	return sum;
}

/* The file's name in the cache of tables. With its owner, so that nobody's file can stand in for another user's. */
static void cache_key(const struct prepared_file *p, char *key, size_t size)
{
	const char *build_id = p->slot->entry.elf.build_id;
	struct stat st;

	key[0] = '\0';
	/* Whose file it is, is what its file system says. */
	if (p->copied || fstat(p->fd, &st))
		return;
	if (build_id[0])
		snprintf(key, size, "%.40s-%" PRIx64 "-%x", build_id, sample_contents(p->fd, st.st_size), st.st_uid);
	else
		snprintf(key, size, "f-%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%lx", (uint64_t)st.st_dev,
			 (uint64_t)st.st_ino, (uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

static int prepare_table(struct file_registry *r, struct prepared_file *p)
{
	char *key = p->slot->key, learned[CACHE_KEY_SIZE + sizeof(LEARNED_SUFFIX)];
	int ret;

	cache_key(p, key, CACHE_KEY_SIZE);
	snprintf(learned, sizeof(learned), "%s" LEARNED_SUFFIX, key);
	if (r->cache && key[0] && !unwind_cache__load(r->cache, key, &p->table)) {
		unwind_cache__load(r->cache, learned, &p->learned);
		return 0;
	}
	ret = unwind_table__compile(p->fd, &p->table, NULL);
	if (ret == -ENOMEM)
		return ret;
	p->broken = ret != 0;
	p->compiled = !ret;
	if (!ret && r->cache && key[0])
		unwind_cache__store(r->cache, key, p->table);
	return 0;
}

static struct debug_root debug_root_of(const struct file_registry *r, const struct slot *slot)
{
	return (struct debug_root){ r->debug_root, &slot->reader, slot->owner };
}

static void look_for_python(const struct file_registry *r, struct prepared_file *p)
{
	struct file_entry *entry = &p->slot->entry;
	struct python_image image;
	struct so_error why = { "" };
	const struct debug_root root = debug_root_of(r, p->slot);
	int ret = python_image__read(p->fd, entry->path, &root, &image, &why);

	if (ret == -ENOTSUP)
		entry->python_problem = strdup(why.text);
	if (ret)
		return;
	entry->python = malloc(sizeof(image));
	if (entry->python)
		*entry->python = image;
}

/* It is in the interpreter, or in a module of its own. */
static void look_for_asyncio(struct prepared_file *p)
{
	struct file_entry *entry = &p->slot->entry;
	const char *name = strrchr(entry->path, '/');

	if (entry->python || !strncmp(name ? name + 1 : entry->path, "_asyncio.", strlen("_asyncio.")))
		entry->asyncio_table = python_asyncio__find(p->fd);
}

static struct source_file source_of(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return (struct source_file){ 0 };
	return (struct source_file){
		.dev = st.st_dev,
		.inode = st.st_ino,
		.bytes = (uint64_t)st.st_size,
		.changed_ns = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec,
	};
}

/* A copy's owner is what its file system says. */
static uid_t owner_of(const struct prepared_file *p)
{
	struct stat st;

	return p->copied || fstat(p->fd, &st) ? p->slot->reader.uid : st.st_uid;
}

int file_registry__prepare(struct file_registry *r, pid_t pid, const struct proc_map *map, struct prepared_file **out)
{
	_cleanup_(prepared_file) struct prepared_file *p = calloc(1, sizeof(*p));
	int ret;

	if (!p)
		return -ENOMEM;
	p->dev = map_dev(map);
	p->inode = map->inode;
	p->fd = proc_maps__open_file(pid, map);
	if (p->fd < 0)
		return p->fd;
	p->slot = new_slot(map->path);
	if (!p->slot)
		return -ENOMEM;
	ret = file_reader__of(pid, &p->slot->reader);
	if (ret)
		return ret;
	ret = file_copy__replace(pid, p->slot->reader.uid, &p->fd);
	if (ret < 0)
		return ret;
	p->copied = ret;
	p->slot->owner = owner_of(p);
	p->slot->learned.owner = p->slot->owner;
	p->slot->source = source_of(p->fd);
	ret = elf_file__read(p->fd, &p->slot->entry.elf, NULL);
	p->elf = ret != -ENOEXEC;
	p->broken = ret && ret != -ENOEXEC;
	if (!ret) {
		ret = prepare_table(r, p);
		if (ret)
			return ret;
		look_for_python(r, p);
		look_for_asyncio(p);
	}
	*out = TAKE_PTR(p);
	return 0;
}

static void place_table(struct file_registry *r, struct prepared_file *p, struct slot *slot)
{
	struct file_entry *entry = &slot->entry;

	if (p->broken) {
		entry->state = SO_MAPPING_BROKEN;
		return;
	}
	entry->state = SO_MAPPING_NO_TABLE;
	if (!p->table || !p->table->n_rows)
		return;
	entry->state = SO_MAPPING_FULL;
	slot->table_words = (uint64_t)p->table->n_rows + p->table->n_blocks + 2;
	if (table_pool__add_of(r->pool, slot->owner, p->table, &slot->own)) {
		r->stats.refused_tables++;
		r->stats.full++;
		return;
	}
	entry->table = slot->own;
	entry->state = SO_MAPPING_TABLE;
	entry->rows = p->table->n_rows;
	slot->bad_fdes = p->table->n_bad_fdes;
	slot->unsupported_rows = p->table->n_unsupported_rows;
	r->stats.bad_fdes += slot->bad_fdes;
	r->stats.unsupported_rows += slot->unsupported_rows;
}

/* Code after the entry point that may belong to it: C libraries' start-up code is some 30 to 90 bytes long. */
#define ENTRY_BYTES 96

/*
 * A program begins at its entry point, which nothing has called: its outermost frame. Start-up code that says so
 * itself has rules; the dynamic linker's and some C libraries' has none. (A shared library's entry point, where it has
 * one at all, is an artefact of linking.)
 */
static void add_entry_rule(struct file_registry *r, const struct prepared_file *p, struct slot *slot)
{
	const struct elf_file *elf = &slot->entry.elf;
	const char *base = short_path(slot->entry.path);
	struct effect_row row = { .address = elf->entry, .length = ENTRY_BYTES, .rule = { .cfa_kind = SO_CFA_END } };
	struct effect_rows rows = { .rows = &row, .n = 1 };
	bool program = elf->type == ET_EXEC || elf->interpreted || !strncmp(base, "ld-", 3) || !strncmp(base, "ld.", 3);

	if (!program || !elf->entry || slot->entry.state == SO_MAPPING_BROKEN || slot->entry.state == SO_MAPPING_FULL)
		return;
	if (p->table && p->table->n_rows && unwind_table__lookup(p->table, elf->entry))
		return;
	if (!learned_code__add(&slot->learned, &rows))
		file_registry__publish_learned(r, slot->entry.number);
}

static void add_known(struct file_registry *r, const struct prepared_file *p, struct slot *slot)
{
	if (p->learned && slot->entry.state != SO_MAPPING_BROKEN && slot->entry.state != SO_MAPPING_FULL &&
	    !learned_code__add_table(&slot->learned, p->learned))
		file_registry__publish_learned(r, slot->entry.number);
	slot->kept = slot->learned.n;
}

void registry_keep_learned(struct file_registry *r, struct slot *slot)
{
	_cleanup_(unwind_table) struct unwind_table *table = NULL;
	char key[CACHE_KEY_SIZE + sizeof(LEARNED_SUFFIX)];

	/* What is learned of a retired file is not all that was. */
	if (!r->cache || !slot->key[0] || slot->learned.n == slot->kept || slot->retired)
		return;
	slot->kept = slot->learned.n;
	snprintf(key, sizeof(key), "%s" LEARNED_SUFFIX, slot->key);
	if (!learned_code__to_table(&slot->learned, &table))
		unwind_cache__store(r->cache, key, table);
}

/* A free place, 0: none. A number rests as long as it can until it means another file. */
static uint32_t take_place(struct file_registry *r)
{
	uint32_t place;

	if (r->n < SO_MAX_FILES && r->n_free < RESTING_PLACES)
		return ++r->n;
	if (!r->n_free)
		return 0;
	place = r->free[r->first_free];
	r->first_free = (r->first_free + 1) % SO_MAX_FILES;
	r->n_free--;
	return place;
}

static void give_place(struct file_registry *r, uint32_t place)
{
	r->free[(r->first_free + r->n_free++) % SO_MAX_FILES] = place;
}

/* Best effort: a user who cannot be noted for want of memory is scanned again for another reason. */
static void note_refused(struct file_registry *r, uid_t uid)
{
	uint32_t refused = 0;

	r->stats.refused_shares++;
	u64_table__get(&r->refused, uid, &refused);
	r->n_refused += !refused && !u64_table__set(&r->refused, uid, 1);
}

static int insert_slot(struct file_registry *r, struct slot *slot)
{
	uint64_t key = registry_key(slot->dev, slot->inode);
	uint32_t first = 0, place;

	if (!user_shares__take(&r->place_shares, slot->reader.uid, 1)) {
		note_refused(r, slot->reader.uid);
		return -ENOSPC;
	}
	place = take_place(r);
	if (!place) {
		user_shares__give(&r->place_shares, slot->reader.uid, 1);
		r->stats.refused_files++;
		return -ENOSPC;
	}
	u64_table__get(&r->by_key, key, &first);
	if (u64_table__set(&r->by_key, key, place)) {
		give_place(r, place);
		user_shares__give(&r->place_shares, slot->reader.uid, 1);
		return -ENOMEM;
	}
	slot->next_same_key = first;
	slot->place = place;
	slot->idle_ns = clock__now_ns();
	r->stats.places++;
	r->stats.idle++;
	r->stats.descriptors += slot->fd >= 0;
	__atomic_store_n(&r->slots[place - 1], slot, __ATOMIC_RELEASE);
	return 0;
}

int file_registry__add(struct file_registry *r, struct prepared_file *prepared)
{
	_cleanup_(prepared_file) struct prepared_file *p = prepared;
	struct slot *slot;
	int ret;

	if (find_slot(r, p->dev, p->inode))
		return 0;
	slot = p->slot;
	slot->dev = p->dev;
	slot->inode = p->inode;
	slot->copied = p->copied;
	/* A file that is none of ours keeps its descriptor too: its inode must not come to mean another file. */
	slot->fd = TAKE_FD(p->fd);
	ret = insert_slot(r, slot);
	if (ret)
		return ret;
	p->slot = NULL;
	if (!p->elf)
		return 0;
	slot->entry.number = slot->place;
	place_table(r, p, slot);
	add_entry_rule(r, p, slot);
	add_known(r, p, slot);
	r->stats.files++;
	r->stats.compiled += p->compiled;
	r->stats.from_cache += p->table && !p->compiled;
	return 0;
}

const struct file_entry *file_registry__get(struct file_registry *r, uint32_t number)
{
	const struct slot *slot = registry_slot(r, number);

	return slot ? &slot->entry : NULL;
}

struct learned_code *file_registry__learned(struct file_registry *r, uint32_t number)
{
	struct slot *slot = registry_slot(r, number);

	return slot ? &slot->learned : NULL;
}

int file_registry__gap(struct file_registry *r, uint32_t number, uint64_t vaddr, uint64_t reach, uint64_t *low,
		       uint64_t *high)
{
	const struct slot *slot = registry_slot(r, number);

	return slot ? table_pool__gap(r->pool, &slot->own, vaddr, reach, low, high) : -ENOENT;
}

int file_registry__each_row(struct file_registry *r, uint32_t number, uint64_t low, uint64_t high,
			    void (*visit)(void *context, uint64_t address, const struct so_unwind_rule *rule),
			    void *context)
{
	const struct slot *slot = registry_slot(r, number);

	return slot ? table_pool__each_row(r->pool, &slot->own, low >> SO_BLOCK_SHIFT, (high >> SO_BLOCK_SHIFT) + 1,
					   visit, context)
		    : -ENOENT;
}

size_t file_registry__read_code(struct file_registry *r, uint32_t number, uint64_t vaddr, void *buf, size_t size)
{
	const struct slot *slot = registry_slot(r, number);
	ssize_t n;

	for (unsigned i = 0; slot && i < slot->entry.elf.n_segments; i++) {
		const struct elf_segment *s = &slot->entry.elf.segments[i];
		uint64_t off = vaddr - s->vaddr;

		if (!(s->flags & PF_X) || vaddr < s->vaddr || off >= s->filesz)
			continue;
		if (size > s->filesz - off)
			size = s->filesz - off;
		if (slot->fd >= 0) {
			n = pread(slot->fd, buf, size, s->offset + off);
			return n > 0 ? n : 0;
		}
		if (s->offset + off + size > r->vdso_bytes)
			return 0;
		memcpy(buf, (const char *)r->vdso_image + s->offset + off, size);
		return size;
	}
	return 0;
}

int file_registry__publish_learned(struct file_registry *r, uint32_t number)
{
	struct slot *slot = registry_slot(r, number);
	int ret;

	if (!slot || slot->retired)
		return -ENOENT;
	if (slot->learned.n == slot->learned.published)
		return 0;
	ret = learned_code__publish(&slot->learned, r->pool, &slot->own);
	if (ret)
		return ret;
	slot->entry.table = slot->learned.table->pieces;
	r->stats.full -= slot->entry.state == SO_MAPPING_FULL;
	slot->entry.state = SO_MAPPING_TABLE;
	return 0;
}

static struct elf_symbols *open_symbols(const struct file_registry *r, const struct slot *slot)
{
	const struct debug_root root = debug_root_of(r, slot);
	struct elf_symbols *symbols = NULL;

	if (slot->fd >= 0)
		elf_symbols__open(slot->fd, slot->entry.path, &root, &symbols, NULL);
	else
		elf_symbols__open_memory(r->vdso_image, r->vdso_bytes, &symbols, NULL);
	return symbols;
}

static void load_symbols(struct file_registry *r, struct slot *slot)
{
	slot->symbols_tried = true;
	slot->symbols = open_symbols(r, slot);
}

void file_registry__load_symbols(struct file_registry *r, uint32_t number)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = NULL;
	struct slot *slot = registry_slot(r, number);
	bool tried;

	if (!slot)
		return;
	pthread_mutex_lock(&r->symbols_lock);
	tried = slot->symbols_tried;
	pthread_mutex_unlock(&r->symbols_lock);
	if (tried)
		return;
	symbols = open_symbols(r, slot);
	pthread_mutex_lock(&r->symbols_lock);
	if (!slot->symbols_tried) {
		slot->symbols_tried = true;
		slot->symbols = TAKE_PTR(symbols);
	}
	pthread_mutex_unlock(&r->symbols_lock);
}

/* Whether the file has symbols; until symbols_lock is released, they stay. */
static bool lock_symbols(struct file_registry *r, struct slot *slot)
{
	pthread_mutex_lock(&r->symbols_lock);
	if (!slot->symbols_tried)
		load_symbols(r, slot);
	return slot->symbols;
}

int file_registry__symbol(struct file_registry *r, uint32_t number, uint64_t vaddr, char *name, size_t size,
			  uint64_t *start)
{
	struct slot *slot = registry_slot(r, number);
	struct elf_symbol symbol;
	int ret = -ENOENT;

	if (!slot)
		return -ENOENT;
	if (lock_symbols(r, slot))
		ret = elf_symbols__lookup(slot->symbols, vaddr, &symbol, name, size);
	pthread_mutex_unlock(&r->symbols_lock);
	if (!ret)
		*start = symbol.start;
	return ret;
}

int file_registry__unnamed(struct file_registry *r, uint32_t number, uint64_t vaddr, char *name, size_t size)
{
	struct slot *slot = registry_slot(r, number);
	uint64_t start;
	int ret = -ENOENT;

	if (!slot)
		return -ENOENT;
	if (lock_symbols(r, slot))
		ret = elf_symbols__unnamed(slot->symbols, vaddr, &start);
	pthread_mutex_unlock(&r->symbols_lock);
	if (!ret)
		snprintf(name, size, "[%s+0x%" PRIx64 "]", short_path(slot->entry.path), start);
	return ret;
}

int file_registry__launch(struct file_registry *r, uint32_t number, uint64_t vaddr, char *name, size_t size)
{
	struct slot *slot = registry_slot(r, number);
	int ret = -ENOENT;

	if (!slot)
		return -ENOENT;
	if (lock_symbols(r, slot))
		ret = elf_symbols__launch(slot->symbols, vaddr, name, size);
	pthread_mutex_unlock(&r->symbols_lock);
	return ret;
}

void file_registry__set_source_lines(struct file_registry *r, struct source_lines *lines)
{
	r->source_lines = lines;
}

/* The file that is read, and where what belongs to it is looked for. */
struct lines_of {
	const struct slot *slot;
	struct debug_root root;
};

static int open_lines(void *context, bool quick, int fds[2])
{
	const struct lines_of *of = context;

	return debug_files__open_lines(of->slot->fd, of->slot->entry.elf.build_id, of->slot->entry.path, &of->root,
				       quick, fds);
}

/* A file that could not be looked at (inode 0) cannot be distinguished from others. */
static bool may_have_lines(const struct file_registry *r, const struct slot *slot)
{
	return r->source_lines && slot && slot->fd >= 0 && slot->source.inode;
}

int file_registry__source_lines(struct file_registry *r, uint32_t number, uint64_t vaddr, uint64_t deadline_ns,
				struct source_frames *out)
{
	struct slot *slot = registry_slot(r, number);
	struct lines_of of = { slot, { NULL } };

	out->n = 0;
	if (!may_have_lines(r, slot))
		return 0;
	of.root = debug_root_of(r, slot);
	return source_lines__find(r->source_lines, &slot->source,
				  &(struct source_opener){ open_lines, &of, slot->entry.path, slot->owner }, vaddr,
				  deadline_ns, out);
}

void file_registry__prepare_lines(struct file_registry *r, uint32_t number)
{
	struct slot *slot = registry_slot(r, number);
	struct lines_of of = { slot, { NULL } };

	if (!may_have_lines(r, slot))
		return;
	of.root = debug_root_of(r, slot);
	source_lines__prepare(r->source_lines, &slot->source,
			      &(struct source_opener){ open_lines, &of, slot->entry.path, slot->owner });
}

uint64_t file_registry__lines_patience_ns(const struct file_registry *r)
{
	return r->source_lines ? source_lines__patience_ns(r->source_lines) : 0;
}

size_t file_registry__functions(struct file_registry *r, uint32_t number, uint64_t low, uint64_t high,
				struct elf_symbol *out, size_t room)
{
	struct slot *slot = registry_slot(r, number);
	size_t n = 0;

	if (!slot)
		return 0;
	if (lock_symbols(r, slot))
		n = elf_symbols__functions(slot->symbols, low, high, out, room);
	pthread_mutex_unlock(&r->symbols_lock);
	return n;
}

/* The kernel maps one image into every 64-bit process, so the daemon's own one serves. */
static int add_vdso(struct file_registry *r)
{
	_cleanup_(unwind_table) struct unwind_table *table = NULL;
	_cleanup_(slot) struct slot *slot = new_slot(VDSO_PATH);
	struct prepared_file p = { 0 };
	int ret;

	if (!slot)
		return -ENOMEM;
	if (!r->vdso_image)
		return 0;
	ret = elf_file__read_memory(r->vdso_image, r->vdso_bytes, &slot->entry.elf, NULL);
	if (ret)
		return 0;
	p.broken = unwind_table__compile_memory(r->vdso_image, r->vdso_bytes, &table, NULL) != 0;
	p.table = table;
	ret = insert_slot(r, slot);
	if (ret)
		return ret;
	r->vdso = slot->entry.number = slot->place;
	slot->uses++; /* for good */
	r->stats.idle--;
	place_table(r, &p, slot);
	TAKE_PTR(slot);
	return 0;
}

static int read_vdso(struct file_registry *r)
{
	_cleanup_(proc_maps) struct proc_maps maps = { 0 };
	uint64_t at = getauxval(AT_SYSINFO_EHDR);
	const struct proc_map *map;

	if (!at || proc_maps__read(getpid(), false, &maps, NULL))
		return 0;
	map = proc_maps__find(&maps, at);
	if (!map || map->end - at > VDSO_MAX_BYTES)
		return 0;
	r->vdso_bytes = map->end - at;
	r->vdso_image = malloc(r->vdso_bytes);
	if (!r->vdso_image)
		return -ENOMEM;
	memcpy(r->vdso_image, (const void *)at, r->vdso_bytes);
	return 0;
}

/* Each file has a descriptor, and up to two more for its symbols. */
static struct user_shares place_shares(void)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };
	struct user_shares shares;

	getrlimit(RLIMIT_NOFILE, &limit);
	shares = user_shares__of(limit.rlim_cur / 4 < SO_MAX_FILES ? (uint32_t)(limit.rlim_cur / 4) : SO_MAX_FILES);
	if (shares.of_one < LEAST_OF_ONE)
		shares.of_one = LEAST_OF_ONE;
	if (shares.of_all < 2 * LEAST_OF_ONE)
		shares.of_all = 2 * LEAST_OF_ONE;
	return shares;
}

int file_registry__new(struct table_pool *pool, struct unwind_cache *cache, const char *debug_root,
		       struct file_registry **out, struct so_error *err)
{
	_cleanup_(file_registry) struct file_registry *r = calloc(1, sizeof(*r));
	int ret;

	if (!r)
		return so_err(err, -ENOMEM, "out of memory");
	pthread_mutex_init(&r->symbols_lock, NULL);
	r->pool = pool;
	r->cache = cache;
	r->debug_root = strdup(debug_root);
	r->place_shares = place_shares();
	r->slots = calloc(SO_MAX_FILES, sizeof(*r->slots));
	r->free = calloc(SO_MAX_FILES, sizeof(*r->free));
	ret = r->debug_root && r->slots && r->free ? read_vdso(r) : -ENOMEM;
	ret = ret ?: add_vdso(r);
	if (ret)
		return so_err(err, ret, "cannot prepare the vdso: %s", strerror(-ret));
	*out = TAKE_PTR(r);
	return 0;
}

static void clear(struct file_registry *r)
{
	for (uint32_t i = 0; i < r->n; i++) {
		if (!r->slots[i])
			continue;
		registry_keep_learned(r, r->slots[i]);
		registry_release_tables(r, r->slots[i]);
		registry_free_slot(r->slots[i]);
		r->slots[i] = NULL;
	}
	r->n = 0;
	r->first_free = r->n_free = 0;
	r->vdso = 0;
	u64_table__release(&r->by_key);
	u64_table__release(&r->refused);
	r->n_refused = 0;
	user_shares__reset(&r->place_shares);
}

void file_registry__reset(struct file_registry *r)
{
	struct file_registry_stats before = r->stats;

	clear(r);
	r->stats = (struct file_registry_stats){ .freed = before.freed + before.places - !!r->vdso,
						 .refused_files = before.refused_files,
						 .refused_shares = before.refused_shares,
						 .refused_tables = before.refused_tables };
	add_vdso(r);
}

struct file_registry_stats file_registry__stats(const struct file_registry *r)
{
	return r->stats;
}

void file_registry__free(struct file_registry *r)
{
	if (!r)
		return;
	clear(r);
	pthread_mutex_destroy(&r->symbols_lock);
	free(r->slots);
	free(r->free);
	free(r->vdso_image);
	free(r->debug_root);
	free(r);
}
