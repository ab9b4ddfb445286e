/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/symbols/kernel_symbols.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "daemon/symbols/kernel_modules.h"
#include "daemon/symbols/module_places.h"

struct kernel_symbols {
	const char *kallsyms, *modules; /* paths; NULL: the kernel's own */
	pthread_mutex_t lock;           /* of all below */
	struct kallsyms *table;         /* NULL: never read, or there is none */
	uint64_t modules_hash;          /* of those with which it was read */
	uint64_t tried_ns;              /* when it was last read, or could not be; 0: never */
	uint64_t read_ns;               /* when it was last read */
	struct module_places places;
	uint64_t looked_ns; /* at the modules */
};

int kernel_symbols__new(const char *kallsyms, const char *modules, struct kernel_symbols **out)
{
	struct kernel_symbols *symbols = calloc(1, sizeof(*symbols));

	if (!symbols)
		return -ENOMEM;
	symbols->kallsyms = kallsyms;
	symbols->modules = modules;
	pthread_mutex_init(&symbols->lock, NULL);
	*out = symbols;
	return 0;
}

static void list_modules(struct kernel_symbols *symbols, struct kernel_modules *modules, uint64_t now_ns)
{
	symbols->looked_ns = now_ns;
	if (!kernel_modules__read(symbols->modules, modules))
		module_places__look(&symbols->places, modules, now_ns);
}

/*
 * The modules are listed before the symbols are read: one that comes between the two makes the next list differ, and
 * the table is read once more. Where it cannot be read, the one that is there stays.
 */
static void read_table(struct kernel_symbols *symbols, const struct kernel_modules *modules, uint64_t now_ns)
{
	struct kallsyms *table;

	symbols->tried_ns = now_ns;
	if (kallsyms__load(symbols->kallsyms, modules, &table, NULL))
		return;
	kallsyms__unref(symbols->table);
	symbols->table = table;
	symbols->modules_hash = modules->hash;
	symbols->read_ns = now_ns;
}

static bool is_old(const struct kernel_symbols *symbols, uint64_t now_ns, uint64_t age_ns)
{
	return !symbols->tried_ns || now_ns >= symbols->tried_ns + age_ns;
}

struct kallsyms *kernel_symbols__get(struct kernel_symbols *symbols, uint64_t now_ns)
{
	_cleanup_(kernel_modules) struct kernel_modules modules = { 0 };
	struct kallsyms *table;

	pthread_mutex_lock(&symbols->lock);
	list_modules(symbols, &modules, now_ns);
	if (is_old(symbols, now_ns, KERNEL_SYMBOLS_AGAIN_NS) &&
	    (!symbols->table || modules.hash != symbols->modules_hash))
		read_table(symbols, &modules, now_ns);
	table = kallsyms__ref(symbols->table);
	pthread_mutex_unlock(&symbols->lock);
	return table;
}

void kernel_symbols__look(struct kernel_symbols *symbols, uint64_t now_ns)
{
	_cleanup_(kernel_modules) struct kernel_modules modules = { 0 };

	/* Who holds it looks, too. */
	if (pthread_mutex_trylock(&symbols->lock))
		return;
	if (!symbols->looked_ns || now_ns >= symbols->looked_ns + KERNEL_SYMBOLS_LOOK_NS)
		list_modules(symbols, &modules, now_ns);
	pthread_mutex_unlock(&symbols->lock);
}

static bool is_kernels_own(const char *name)
{
	return name && !strchr(name, ' ');
}

/* Functions of listed modules stay what they are while the modules do. */
static bool is_lasting(const char *name)
{
	const char *owner = name ? strchr(name, ' ') : NULL;

	return name && (!owner || (strcmp(owner, " [bpf]") && strncmp(owner, " [__builtin__", 13)));
}

static void read_when_old(struct kernel_symbols *symbols, uint64_t now_ns)
{
	_cleanup_(kernel_modules) struct kernel_modules modules = { 0 };

	if (!is_old(symbols, now_ns, KERNEL_SYMBOLS_DOUBT_NS))
		return;
	list_modules(symbols, &modules, now_ns);
	read_table(symbols, &modules, now_ns);
}

const char *kernel_symbols__lookup(struct kernel_symbols *symbols, struct kallsyms **table, uint64_t address,
				   uint64_t since_ns, uint64_t now_ns)
{
	const char *name = *table ? kallsyms__lookup(*table, address) : NULL;

	if (!*table || is_kernels_own(name))
		return name;
	pthread_mutex_lock(&symbols->lock);
	if (!is_lasting(name))
		read_when_old(symbols, now_ns);
	if (*table != symbols->table) {
		kallsyms__unref(*table);
		*table = kallsyms__ref(symbols->table);
	}
	name = kallsyms__lookup(*table, address);
	/* The table itself may be of before. */
	if (name && !module_places__hold(&symbols->places, name, address,
					 since_ns < symbols->read_ns ? since_ns : symbols->read_ns))
		name = NULL;
	pthread_mutex_unlock(&symbols->lock);
	return name;
}

void kernel_symbols__free(struct kernel_symbols *symbols)
{
	if (!symbols)
		return;
	kallsyms__unref(symbols->table);
	module_places__release(&symbols->places);
	pthread_mutex_destroy(&symbols->lock);
	free(symbols);
}
