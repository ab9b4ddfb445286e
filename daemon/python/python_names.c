/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Chains by address and checksum; a ring by last use. Not daemon/os/u64_table.h: entries leave, keys are two words. */
#include "daemon/python/python_names.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#define DEFAULT_MAX_BYTES (16u << 20)
#define FIRST_BUCKETS     64u

struct entry {
	uint64_t address, sum;
	struct python_code *code; /* NULL: could not be read, for the reason `why` */
	int why;
	struct entry *chain;
	struct entry *newer, *older;
};

struct python_names {
	size_t max_bytes;
	struct entry **buckets;
	size_t n_buckets; /* a power of two */
	size_t n;
	/* Of the hash; random, so that no target can put all its code objects into one chain. */
	uint64_t factors[2];
	/* Holds nothing: its `older` is the entry used last, its `newer` the one used longest ago. */
	struct entry ring;
	struct python_names_stats stats;
};

int python_names__new(size_t max_bytes, struct python_names **out)
{
	_cleanup_(python_names) struct python_names *names = calloc(1, sizeof(*names));

	if (!names)
		return -ENOMEM;
	names->ring.newer = names->ring.older = &names->ring;
	names->max_bytes = max_bytes ? max_bytes : DEFAULT_MAX_BYTES;
	names->n_buckets = FIRST_BUCKETS;
	if (getrandom(names->factors, sizeof(names->factors), GRND_NONBLOCK) != sizeof(names->factors))
		names->factors[0] = names->factors[1] = (uintptr_t)names;
	names->factors[0] |= 1;
	names->factors[1] |= 1;
	names->buckets = calloc(names->n_buckets, sizeof(struct entry *));
	if (!names->buckets)
		return -ENOMEM;
	names->stats.bytes = sizeof(*names) + names->n_buckets * sizeof(struct entry *);
	*out = TAKE_PTR(names);
	return 0;
}

static size_t bucket_of(const struct python_names *names, uint64_t address, uint64_t sum, size_t n_buckets)
{
	/* The upper half, which depends on all bits of both. */
	return (address * names->factors[0] + sum * names->factors[1]) >> 32 & (n_buckets - 1);
}

static struct entry *find(const struct python_names *names, uint64_t address, uint64_t sum)
{
	struct entry *entry = names->buckets[bucket_of(names, address, sum, names->n_buckets)];

	while (entry && (entry->address != address || entry->sum != sum))
		entry = entry->chain;
	return entry;
}

static void ring__remove(struct entry *entry)
{
	entry->newer->older = entry->older;
	entry->older->newer = entry->newer;
}

static void ring__add_newest(struct python_names *names, struct entry *entry)
{
	entry->newer = &names->ring;
	entry->older = names->ring.older;
	entry->older->newer = entry;
	names->ring.older = entry;
}

static size_t entry_bytes(const struct entry *entry)
{
	return sizeof(*entry) + (entry->code ? python_code__bytes(entry->code) : 0);
}

static void evict(struct python_names *names, struct entry *entry)
{
	struct entry **link = &names->buckets[bucket_of(names, entry->address, entry->sum, names->n_buckets)];

	while (*link != entry)
		link = &(*link)->chain;
	*link = entry->chain;
	ring__remove(entry);
	names->n--;
	names->stats.bytes -= entry_bytes(entry);
	names->stats.evicted++;
	python_code__free(entry->code);
	free(entry);
}

/* Without memory the chains only become longer. */
static void grow(struct python_names *names)
{
	size_t n_buckets = names->n_buckets * 2;
	struct entry **buckets = calloc(n_buckets, sizeof(struct entry *));

	if (!buckets)
		return;
	for (struct entry *entry = names->ring.newer; entry != &names->ring; entry = entry->newer) {
		struct entry **bucket = &buckets[bucket_of(names, entry->address, entry->sum, n_buckets)];

		entry->chain = *bucket;
		*bucket = entry;
	}
	free(names->buckets);
	names->stats.bytes += (n_buckets - names->n_buckets) * sizeof(struct entry *);
	names->buckets = buckets;
	names->n_buckets = n_buckets;
}

static void add(struct python_names *names, struct entry *entry)
{
	struct entry **bucket;

	if (names->n >= names->n_buckets)
		grow(names);
	bucket = &names->buckets[bucket_of(names, entry->address, entry->sum, names->n_buckets)];
	entry->chain = *bucket;
	*bucket = entry;
	ring__add_newest(names, entry);
	names->n++;
	names->stats.bytes += entry_bytes(entry);
	while (names->stats.bytes > names->max_bytes && names->ring.newer != entry)
		evict(names, names->ring.newer);
}

static void count(struct python_names_stats *stats, int r)
{
	stats->read += r == 0;
	stats->stale += r == -ESTALE;
	stats->unreadable += r == -EFAULT;
}

struct noted_memory {
	const struct foreign_memory *memory;
	bool failed;
};

static bool read_noted(void *context, uint64_t address, void *to, size_t bytes)
{
	struct noted_memory *noted = context;
	bool ok = foreign_memory__read(noted->memory, address, to, bytes);

	noted->failed |= !ok;
	return ok;
}

/* *keep: another attempt would come to the same. One for which memory could not be read may succeed. */
static int read_code(struct python_names *names, const struct foreign_memory *memory,
		     const struct python_layout *layout, uint64_t address, uint64_t sum, struct python_code **code,
		     bool *keep)
{
	struct noted_memory noted = { .memory = memory };
	const struct foreign_memory through = { read_noted, &noted };
	int ret = python_code__read(&through, layout, address, sum, code);

	count(&names->stats, ret);
	*keep = ret != -ENOMEM && !(ret == -EFAULT && noted.failed);
	return ret;
}

const struct python_code *python_names__get(struct python_names *names, const struct foreign_memory *memory,
					    const struct python_layout *layout, uint64_t address, uint64_t sum,
					    int *why)
{
	struct entry *entry = find(names, address, sum);
	struct python_code *code = NULL;
	bool keep;
	int ret;

	if (entry) {
		ring__remove(entry);
		ring__add_newest(names, entry);
	} else {
		ret = read_code(names, memory, layout, address, sum, &code, &keep);
		entry = keep ? malloc(sizeof(*entry)) : NULL;
		if (!entry) {
			python_code__free(code);
			*why = keep ? -ENOMEM : ret;
			return NULL;
		}
		*entry = (struct entry){ .address = address, .sum = sum, .code = code, .why = ret };
		add(names, entry);
	}
	if (!entry->code)
		*why = entry->why;
	return entry->code;
}

struct python_names_stats python_names__stats(const struct python_names *names)
{
	return names->stats;
}

void python_names__free(struct python_names *names)
{
	if (!names)
		return;
	for (struct entry *entry = names->ring.newer, *next; entry && entry != &names->ring; entry = next) {
		next = entry->newer;
		python_code__free(entry->code);
		free(entry);
	}
	free(names->buckets);
	free(names);
}
