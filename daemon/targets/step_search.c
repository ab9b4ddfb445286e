// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds native functions by their names in the files that a process maps. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/elf/elf_file.h"
#include "daemon/os/bounded_call.h"
#include "daemon/os/proc_maps.h"
#include "daemon/symbols/demangle.h"
#include "daemon/symbols/elf_symbols.h"
#include "daemon/targets/steps.h"
#include "stakeout/short_path.h"

#define PATIENCE_MS 30000
#define MAX_NAME    4096
#define CHUNK       1024 /* functions at a time */

struct wanted {
	struct step_place place; /* its name is given */
	unsigned found;
};

/* What a bounded call works on. */
struct search {
	pid_t pid;
	struct wanted list[SO_MARKS];
	size_t n;
	int ret;
};

/* "Engine::execute" and "execute(int)" both have to hold "execute". */
static const char *last_part(const char *name)
{
	const char *part = name;

	for (const char *c = name; *c && *c != '<' && *c != '('; c++)
		if (!strncmp(c, "::", 2))
			part = c + 2;
	return part;
}

/* readable: raw demangled, when that was first needed. */
static bool is_called(const char *raw, char **readable, const char *name)
{
	if (!strcmp(raw, name))
		return true;
	if (strncmp(raw, "_Z", 2) || !strstr(raw, last_part(name)))
		return false;
	if (!*readable)
		*readable = demangle(raw);
	return *readable && !strcmp(*readable, name);
}

static void take(struct wanted *w, int fd, const struct proc_map *map, const struct elf_file *elf, uint64_t start)
{
	uint64_t offset;

	if (elf_file__offset(elf, start, &offset) || w->found++)
		return;
	w->place.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	w->place.offset = offset;
	snprintf(w->place.file, sizeof(w->place.file), "%s", short_path(map->path));
}

static void take_if_wanted(struct search *s, const char *raw, int fd, const struct proc_map *map,
			   const struct elf_file *elf, uint64_t start)
{
	_cleanup_free_ char *readable = NULL;

	for (size_t i = 0; i < s->n; i++)
		if (is_called(raw, &readable, s->list[i].place.name))
			take(&s->list[i], fd, map, elf, start);
}

static void search_symbols(struct search *s, int fd, const struct proc_map *map)
{
	_cleanup_(elf_symbols) struct elf_symbols *symbols = NULL;
	_cleanup_free_ struct elf_symbol *functions = calloc(CHUNK, sizeof(*functions));
	struct elf_file elf;
	uint64_t low = 0;
	size_t n;

	if (!functions || elf_file__read(fd, &elf, NULL) || elf_symbols__open(fd, map->path, NULL, &symbols, NULL))
		return;
	while ((n = elf_symbols__functions(symbols, low, UINT64_MAX, functions, CHUNK))) {
		for (size_t i = 0; i < n; i++) {
			struct elf_symbol symbol;
			char raw[MAX_NAME];

			if (!elf_symbols__lookup(symbols, functions[i].start, &symbol, raw, sizeof(raw)))
				take_if_wanted(s, raw, fd, map, &elf, functions[i].start);
		}
		low = functions[n - 1].start + 1;
	}
}

static bool is_first_of_file(const struct proc_maps *maps, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (maps->maps[i].inode == maps->maps[at].inode &&
		    maps->maps[i].dev_major == maps->maps[at].dev_major &&
		    maps->maps[i].dev_minor == maps->maps[at].dev_minor)
			return false;
	return true;
}

static void run_search(void *context)
{
	struct search *s = context;
	struct proc_maps maps = { 0 };

	s->ret = proc_maps__read(s->pid, true, &maps, NULL);
	for (size_t i = 0; !s->ret && i < maps.n; i++) {
		int fd = maps.maps[i].inode && is_first_of_file(&maps, i) ? proc_maps__open_file(s->pid, &maps.maps[i])
									  : -1;

		if (fd < 0)
			continue;
		search_symbols(s, fd, &maps.maps[i]);
		close(fd);
	}
	proc_maps__release(&maps);
}

static void forget_search(void *context)
{
	struct search *s = context;

	for (size_t i = 0; i < s->n; i++)
		if (s->list[i].place.fd >= 0)
			close(s->list[i].place.fd);
	free(s);
}

static int judge(const struct search *s, const struct wanted *w, struct so_error *err)
{
	if (!w->found)
		return so_err(err, -ENOENT,
			      "no file that process %d maps has a function '%s': give its name as stakeout shows it, "
			      "without parameters",
			      s->pid, w->place.name);
	if (w->found > 1)
		return so_err(err, -EEXIST, "there are %u functions called '%s' in process %d: it must be one",
			      w->found, w->place.name, s->pid);
	return w->place.fd < 0 ? so_err(err, -EMFILE, "cannot keep the file open") : 0;
}

static bool is_wanted(const struct step_place *place)
{
	return place->name[0] && !place->python.file[0];
}

int steps__find(pid_t pid, struct step_place *places, size_t n, struct so_error *err)
{
	struct search *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return so_err(err, -ENOMEM, "out of memory");
	s->pid = pid;
	for (size_t i = 0; i < n; i++)
		if (is_wanted(&places[i]))
			s->list[s->n++].place = places[i];
	if (!s->n) {
		free(s);
		return 0;
	}
	ret = bounded_call__make(&(struct bounded_call){ .kind = BOUNDED_CALL_FILES,
							 .pid = pid,
							 .patience_ms = PATIENCE_MS,
							 .run = run_search,
							 .forget = forget_search,
							 .context = s });
	if (ret)
		return so_err(err, ret, "the files of process %d take too long to read", pid);
	if (s->ret)
		ret = so_err(err, s->ret, "cannot read the mappings of process %d: %s", pid, strerror(-s->ret));
	for (size_t i = 0; !ret && i < s->n; i++)
		ret = judge(s, &s->list[i], err);
	for (size_t i = 0, at = 0; !ret && i < n; i++) {
		if (!is_wanted(&places[i]))
			continue;
		places[i] = s->list[at].place;
		s->list[at++].place.fd = -1;
	}
	forget_search(s);
	return ret;
}
