// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/symbols/module_places.h"

#include <stdlib.h>
#include <string.h>

#include "stakeout/array.h"

/* Of whatever size: while a module is being loaded, that of the code which it runs once is counted as well. */
static bool is_same(const struct kernel_module *a, const struct kernel_module *b)
{
	return a->address == b->address && !strcmp(a->name, b->name);
}

static void remove_place(struct module_places *places, size_t i)
{
	places->n--;
	memmove(&places->list[i], &places->list[i + 1], (places->n - i) * sizeof(*places->list));
}

static void forget_oldest(struct module_places *places)
{
	struct module_place *oldest = NULL;

	for (size_t i = 0; i < places->n; i++) {
		struct module_place *p = &places->list[i];

		if (p->gone_ns && (!oldest || p->gone_ns < oldest->gone_ns))
			oldest = p;
	}
	if (!oldest)
		return;
	remove_place(places, (size_t)(oldest - places->list));
	places->n_gone--;
}

static void miss_module(struct module_places *places, struct module_place *p, uint64_t now_ns)
{
	p->gone_ns = now_ns;
	places->n_gone++;
}

/* Another one may have been there before it came back. */
static void note_module(struct module_places *places, const struct kernel_module *m, uint64_t now_ns)
{
	for (size_t i = 0; i < places->n; i++) {
		struct module_place *p = &places->list[i];

		if (!is_same(&p->module, m))
			continue;
		p->module.bytes = m->bytes;
		if (p->gone_ns) {
			p->came_ns = now_ns;
			p->gone_ns = 0;
			places->n_gone--;
		}
		return;
	}
	/* 0: hidden from this process. */
	if (m->address && !ARRAY_RESERVE(places->list, places->room, places->n + 1))
		places->list[places->n++] = (struct module_place){ *m, places->looked ? now_ns : 0, 0 };
}

void module_places__look(struct module_places *places, const struct kernel_modules *modules, uint64_t now_ns)
{
	for (size_t i = 0; i < places->n; i++) {
		struct module_place *p = &places->list[i];
		const struct kernel_module *m;

		if (p->gone_ns)
			continue;
		m = kernel_modules__find(modules, p->module.name, strlen(p->module.name));
		if (!m || !is_same(m, &p->module))
			miss_module(places, p, now_ns);
	}
	for (size_t i = 0; i < modules->n; i++)
		note_module(places, &modules->list[i], now_ns);
	places->looked = true;
	while (places->n_gone > MODULE_PLACES_MAX_GONE)
		forget_oldest(places);
}

/* Its place now; NULL: it is not there, or it is no module's. */
static const struct module_place *owner_of(const struct module_places *places, const char *name)
{
	const char *owner = strstr(name, " [");
	size_t length = owner ? strcspn(owner + 2, "]") : 0;

	for (size_t i = 0; length && i < places->n; i++) {
		const struct module_place *p = &places->list[i];

		if (!p->gone_ns && !strncmp(p->module.name, owner + 2, length) && !p->module.name[length])
			return p;
	}
	return NULL;
}

/*
 * Who was there all the time settles it: from Linux 6.4 on a module's size may reach into what lies behind, so an
 * address may seem to have been in two.
 */
bool module_places__hold(const struct module_places *places, const char *name, uint64_t address,
			 uint64_t since_ns)
{
	const struct module_place *owner = places->n_gone ? owner_of(places, name) : NULL;

	if (!places->n_gone || (owner && owner->came_ns <= since_ns))
		return true;
	for (size_t i = 0; i < places->n; i++) {
		const struct module_place *p = &places->list[i];

		if (p->gone_ns > since_ns && address - p->module.address < p->module.bytes)
			return false;
	}
	return true;
}

void module_places__release(struct module_places *places)
{
	free(places->list);
	*places = (struct module_places){ 0 };
}
