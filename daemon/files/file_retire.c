// SPDX-License-Identifier: GPL-2.0-or-later
/* How files leave the registry: idle, retired, collected (file_registry.h). */

#include "daemon/os/clock.h"
#include "daemon/files/file_registry_internal.h"

struct dead_files {
	struct slot *first;
};

struct file_use file_registry__use(struct file_registry *r, const struct proc_map *map)
{
	struct slot *slot = registry_find(r, map);
	struct file_use use = { 0 };

	if (!slot)
		return use;
	r->stats.idle -= !slot->uses++;
	use.place = slot->place;
	use.learned = slot->learned.table;
	if (use.learned)
		use.learned->refs++;
	return use;
}

struct file_use file_registry__use_again(struct file_registry *r, struct file_use use)
{
	struct slot *slot = registry_slot(r, use.place);

	if (slot)
		slot->uses++;
	if (use.learned)
		use.learned->refs++;
	return use;
}

void file_registry__unuse(struct file_registry *r, struct file_use use)
{
	struct slot *slot = registry_slot(r, use.place);

	learned_table__unref(use.learned, r->pool);
	if (!slot || --slot->uses)
		return;
	slot->idle_ns = clock__now_ns();
	r->stats.idle += !slot->retired;
}

/* Entries of the table cannot be removed one by one; it is made anew when most of them are empty. */
static void tidy_keys(struct file_registry *r)
{
	struct u64_table fresh = { 0 };

	if (r->by_key.n < 1024 || r->by_key.n / 2 < r->stats.places)
		return;
	for (size_t i = 0; i < r->by_key.capacity; i++) {
		const struct u64_entry *entry = &r->by_key.entries[i];

		if (!entry->used || !entry->value)
			continue;
		if (u64_table__set(&fresh, entry->key, entry->value)) {
			u64_table__release(&fresh);
			return;
		}
	}
	u64_table__release(&r->by_key);
	r->by_key = fresh;
}

/* -ENOMEM: it is found still. */
static int unlink_key(struct file_registry *r, const struct slot *slot)
{
	uint64_t key = registry_key(slot->dev, slot->inode);
	uint32_t at = 0;

	u64_table__get(&r->by_key, key, &at);
	if (at == slot->place)
		return u64_table__set(&r->by_key, key, slot->next_same_key);
	while (at) {
		struct slot *before = r->slots[at - 1];

		at = before->next_same_key;
		if (at == slot->place)
			before->next_same_key = slot->next_same_key;
	}
	return 0;
}

/* Somebody may be reading symbols just now, which can take long; they go with the file then. */
static void try_drop_symbols(struct file_registry *r, struct slot *slot)
{
	if (pthread_mutex_trylock(&r->symbols_lock))
		return;
	elf_symbols__free(TAKE_PTR(slot->symbols));
	slot->symbols_tried = false;
	pthread_mutex_unlock(&r->symbols_lock);
}

static void retire(struct file_registry *r, struct slot *slot, uint64_t moment)
{
	if (unlink_key(r, slot))
		return;
	registry_keep_learned(r, slot);
	registry_release_tables(r, slot);
	try_drop_symbols(r, slot);
	r->stats.files -= slot->entry.number != 0;
	r->stats.bad_fdes -= slot->bad_fdes;
	r->stats.unsupported_rows -= slot->unsupported_rows;
	r->stats.full -= slot->entry.state == SO_MAPPING_FULL;
	r->stats.retired++;
	r->stats.idle -= !slot->uses;
	if (slot->entry.state == SO_MAPPING_TABLE)
		slot->entry.state = SO_MAPPING_NO_TABLE;
	slot->retired = true;
	slot->retired_moment = moment;
}

bool file_registry__retire_idle(struct file_registry *r, uint64_t idle_ns, uint64_t moment, uint64_t until_ns)
{
	uint64_t now = clock__now_ns();

	for (uint32_t i = 0; i < r->n; i++) {
		struct slot *slot = r->slots[i];

		if (!slot || slot->retired || slot->uses || now - slot->idle_ns < idle_ns)
			continue;
		if (clock__now_ns() >= until_ns)
			return false;
		retire(r, slot, moment);
	}
	tidy_keys(r);
	return true;
}

/* Whether the owner may have its table, beside those that are in `wanted` by their owners. */
static bool fits_share(const struct file_registry *r, const struct slot *slot, struct u64_table *wanted)
{
	uint32_t before = 0;
	uint64_t words;

	u64_table__get(wanted, slot->owner, &before);
	words = before + slot->table_words;
	return table_pool__has_share(r->pool, slot->owner, words) &&
	       !u64_table__set(wanted, slot->owner, (uint32_t)words);
}

unsigned file_registry__retire_full(struct file_registry *r, uint64_t moment)
{
	uint64_t room = table_pool__stats(r->pool).free_bytes / sizeof(uint32_t) / 2;
	struct u64_table wanted = { 0 };
	unsigned n = 0;

	for (uint32_t i = 0; i < r->n && r->stats.full; i++) {
		struct slot *slot = r->slots[i];

		if (!slot || slot->retired || slot->place == r->vdso || slot->entry.state != SO_MAPPING_FULL ||
		    slot->table_words > room || !fits_share(r, slot, &wanted))
			continue;
		room -= slot->table_words;
		retire(r, slot, moment);
		n++;
	}
	u64_table__release(&wanted);
	return n;
}

bool file_registry__has_refused(const struct file_registry *r)
{
	return r->n_refused;
}

bool file_registry__has_place_again(const struct file_registry *r, uid_t uid)
{
	uint32_t refused = 0;

	return u64_table__get(&r->refused, uid, &refused) && refused && user_shares__has_room(&r->place_shares, uid, 1);
}

void file_registry__forget_refused(struct file_registry *r)
{
	for (size_t i = 0; i < r->refused.capacity; i++) {
		struct u64_entry *entry = &r->refused.entries[i];

		if (!entry->used || !file_registry__has_place_again(r, (uid_t)entry->key))
			continue;
		entry->value = 0;
		r->n_refused--;
	}
}

static bool is_over(const struct slot *slot, uint64_t moment)
{
	return slot && slot->retired && !slot->uses && slot->retired_moment <= moment;
}

unsigned file_registry__count_retired(const struct file_registry *r, uint64_t moment)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < r->n && r->stats.retired; i++)
		n += is_over(r->slots[i], moment);
	return n;
}

struct dead_files *file_registry__collect(struct file_registry *r, const struct file_set *live, uint64_t moment)
{
	struct dead_files *dead = calloc(1, sizeof(*dead));

	for (uint32_t i = 0; dead && i < r->n; i++) {
		struct slot *slot = r->slots[i];

		/* A file that is no ELF file has a place, but no number that a stack could name. */
		if (!is_over(slot, moment) || (slot->entry.number && file_set__has(live, slot->entry.number)))
			continue;
		__atomic_store_n(&r->slots[i], NULL, __ATOMIC_RELEASE);
		r->free[(r->first_free + r->n_free++) % SO_MAX_FILES] = slot->place;
		user_shares__give(&r->place_shares, slot->reader.uid, 1);
		r->stats.places--;
		r->stats.retired--;
		r->stats.freed++;
		r->stats.descriptors -= slot->fd >= 0;
		slot->next_dead = dead->first;
		dead->first = slot;
	}
	if (dead && !dead->first) {
		free(dead);
		return NULL;
	}
	return dead;
}

void dead_files__free(struct dead_files *dead)
{
	while (dead && dead->first) {
		struct slot *slot = dead->first;

		dead->first = slot->next_dead;
		registry_free_slot(slot);
	}
	free(dead);
}
