// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/cuda/kernel_names.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/symbols/demangle.h"
#include "daemon/os/u64_table.h"
#include "stakeout/array.h"

/* A name is shared by the processes that inherited it, and by what they have for several handles. */
struct text {
	uint32_t references;
	bool cut;
	char name[];
};

struct known {
	uint64_t handle;
	struct text *text; /* NULL: none of its own */
	uint64_t other;    /* then: the handle of the same kernel; 0: none, the handle is forgotten */
};

/*
 * ring[] holds the handles in the order of being told, at places from 0 on, and when it is full a new one takes the
 * place of the oldest. Nothing is removed from by_handle: an entry that leads to a place with another handle is void,
 * and when void ones are many the table is built anew.
 */
struct process {
	uint32_t tgid;
	struct known *ring;
	size_t n, capacity;
	size_t next; /* the place that is taken next, once the ring is full */
	struct u64_table by_handle;
};

struct kernel_names {
	struct process **processes;
	size_t n, capacity;
	struct u64_table by_tgid; /* index of processes[] + 1; 0: gone */
	uint64_t generation;
};

int kernel_names__new(struct kernel_names **out)
{
	struct kernel_names *names = calloc(1, sizeof(*names));

	if (!names)
		return -ENOMEM;
	*out = names;
	return 0;
}

static struct text *text__new(const char *name, size_t length)
{
	struct text *text = malloc(sizeof(*text) + length + 1);

	if (!text)
		return NULL;
	*text = (struct text){ .references = 1, .cut = length >= SO_CUDA_NAME_BYTES - 1 };
	memcpy(text->name, name, length);
	text->name[length] = '\0';
	return text;
}

static void text__drop(struct text *text)
{
	if (text && --text->references == 0)
		free(text);
}

static void process__free(struct process *process)
{
	if (!process)
		return;
	for (size_t i = 0; i < process->n; i++)
		text__drop(process->ring[i].text);
	free(process->ring);
	u64_table__release(&process->by_handle);
	free(process);
}

CLEANUP_DEFINE(struct process *, process, process__free)

void kernel_names__free(struct kernel_names *names)
{
	if (!names)
		return;
	for (size_t i = 0; i < names->n; i++)
		process__free(names->processes[i]);
	free(names->processes);
	u64_table__release(&names->by_tgid);
	free(names);
}

static struct process *find_process(const struct kernel_names *names, uint32_t tgid)
{
	uint32_t at;

	return u64_table__get(&names->by_tgid, tgid, &at) && at ? names->processes[at - 1] : NULL;
}

static struct known *process__find(const struct process *process, uint64_t handle)
{
	uint32_t at;

	if (!u64_table__get(&process->by_handle, handle, &at) || process->ring[at].handle != handle)
		return NULL;
	return &process->ring[at];
}

/* Leaves out the processes that are gone. */
static int rebuild_processes(struct kernel_names *names)
{
	struct u64_table table = { 0 };

	for (size_t i = 0; i < names->n; i++) {
		if (u64_table__set(&table, names->processes[i]->tgid, (uint32_t)i + 1)) {
			u64_table__release(&table);
			return -ENOMEM;
		}
	}
	u64_table__release(&names->by_tgid);
	names->by_tgid = table;
	return 0;
}

/* Takes over `process` unless it fails. */
static int put_process(struct kernel_names *names, struct process *process)
{
	uint32_t at;

	if (names->by_tgid.n > 2 * names->n + 1024 && rebuild_processes(names))
		return -ENOMEM;
	if (u64_table__get(&names->by_tgid, process->tgid, &at) && at) {
		process__free(names->processes[at - 1]);
		names->processes[at - 1] = process;
		return 0;
	}
	if (ARRAY_RESERVE(names->processes, names->capacity, names->n + 1) ||
	    u64_table__set(&names->by_tgid, process->tgid, (uint32_t)names->n + 1))
		return -ENOMEM;
	names->processes[names->n++] = process;
	return 0;
}

static int get_process(struct kernel_names *names, uint32_t tgid, struct process **out)
{
	_cleanup_(process) struct process *process = NULL;
	int r;

	*out = find_process(names, tgid);
	if (*out)
		return 0;
	process = calloc(1, sizeof(*process));
	if (!process)
		return -ENOMEM;
	process->tgid = tgid;
	r = put_process(names, process);
	if (!r)
		*out = TAKE_PTR(process);
	return r;
}

static int rebuild(struct process *process)
{
	struct u64_table table = { 0 };

	for (size_t i = 0; i < process->n; i++) {
		if (u64_table__set(&table, process->ring[i].handle, (uint32_t)i)) {
			u64_table__release(&table);
			return -ENOMEM;
		}
	}
	u64_table__release(&process->by_handle);
	process->by_handle = table;
	return 0;
}

/* A place for a handle that has none. */
static int process__place(struct process *process, uint64_t handle, struct known **out)
{
	bool full = process->n == KERNEL_NAMES_MAX;
	size_t at = full ? process->next : process->n;

	if (process->by_handle.n >= 2 * KERNEL_NAMES_MAX && rebuild(process))
		return -ENOMEM;
	if (ARRAY_RESERVE(process->ring, process->capacity, at + 1) ||
	    u64_table__set(&process->by_handle, handle, (uint32_t)at))
		return -ENOMEM;
	if (full) {
		text__drop(process->ring[at].text);
		process->next = (at + 1) % KERNEL_NAMES_MAX;
		limits__hit(LIMIT_KERNEL_NAMES, 1);
	} else {
		process->n++;
	}
	process->ring[at] = (struct known){ .handle = handle };
	*out = &process->ring[at];
	return 0;
}

uint64_t kernel_names__generation(const struct kernel_names *names)
{
	return names->generation;
}

int kernel_names__add(struct kernel_names *names, const struct so_cuda_name *record)
{
	size_t length = strnlen(record->name, sizeof(record->name));
	uint64_t other = length || record->other == record->handle ? 0 : record->other;
	struct text *text = NULL;
	struct process *process;
	struct known *known;
	int r;

	names->generation++;
	r = get_process(names, record->tgid, &process);
	if (r < 0)
		return r;
	known = process__find(process, record->handle);
	if (!known && !length && !other)
		return 0;
	/* Some programs ask for a kernel before each launch. */
	if (known && known->text && length && !strncmp(known->text->name, record->name, sizeof(record->name)))
		return 0;
	if (length) {
		text = text__new(record->name, length);
		if (!text)
			return -ENOMEM;
	}
	if (!known) {
		r = process__place(process, record->handle, &known);
		if (r < 0) {
			text__drop(text);
			return r;
		}
	}
	text__drop(known->text);
	known->text = text;
	known->other = other;
	return 0;
}

int kernel_names__fork(struct kernel_names *names, uint32_t parent, uint32_t child)
{
	const struct process *from = find_process(names, parent);
	_cleanup_(process) struct process *process = NULL;
	int r;

	names->generation++;
	if (parent == child)
		return 0;
	kernel_names__forget(names, child);
	if (!from)
		return 0;
	process = calloc(1, sizeof(*process));
	if (!process)
		return -ENOMEM;
	process->tgid = child;
	process->next = from->next;
	if (ARRAY_RESERVE(process->ring, process->capacity, from->n + 1))
		return -ENOMEM;
	for (; process->n < from->n; process->n++) {
		process->ring[process->n] = from->ring[process->n];
		if (process->ring[process->n].text)
			process->ring[process->n].text->references++;
	}
	r = rebuild(process);
	r = r ?: put_process(names, process);
	if (!r)
		TAKE_PTR(process);
	return r;
}

void kernel_names__forget(struct kernel_names *names, uint32_t tgid)
{
	struct process *last;
	uint32_t at;

	names->generation++;
	if (!u64_table__get(&names->by_tgid, tgid, &at) || !at)
		return;
	process__free(names->processes[at - 1]);
	last = names->processes[--names->n];
	/* In place: u64_table__set() may want to grow first, and this must not fail. */
	names->by_tgid.entries[u64_table__place(&names->by_tgid, tgid)].value = 0;
	if (at - 1 < names->n) {
		names->processes[at - 1] = last;
		names->by_tgid.entries[u64_table__place(&names->by_tgid, last->tgid)].value = at;
	}
}

void kernel_names__find(const struct kernel_names *names, uint32_t tgid, uint64_t handle, struct kernel_name *out)
{
	const struct process *process = find_process(names, tgid);

	*out = (struct kernel_name){ .address = handle };
	for (unsigned i = 0; process && i <= KERNEL_NAMES_MAX_CHAIN; i++) {
		const struct known *known = process__find(process, out->address);

		if (known && known->text) {
			out->name = known->text->name;
			out->cut = known->text->cut;
		}
		if (!known || known->text || !known->other || i == KERNEL_NAMES_MAX_CHAIN)
			return;
		out->address = known->other;
	}
}

/* Demangles with parameters. *out stays NULL when the name cannot be demangled. */
static int demangle_whole(const char *mangled, char **out)
{
	_cleanup_free_ char *local = NULL, *text = NULL;
	size_t length, open, depth = 0;

	if (strncmp(mangled, "_Z", 2) != 0)
		return 0;
	/* demangle() leaves out a function's parameters, but not those of a function that something is local to. */
	if (asprintf(&local, "_ZZ%sE1x", mangled + 2) < 0) {
		local = NULL;
		return -ENOMEM;
	}
	text = demangle(local);
	if (!text)
		return -ENOMEM;
	if (!strncmp(text, "_ZZ", 3))
		return 0;
	length = strlen(text);
	if (length > 3 && !strcmp(text + length - 3, "::x"))
		text[length -= 3] = '\0';
	/* A template's mangled name has the type that it returns, for a kernel void; demangle() leaves it out here. */
	for (open = length; open > 0; open--) {
		depth += text[open - 1] == ')';
		if (!depth || (text[open - 1] == '(' && --depth == 0))
			break;
	}
	if (open > 1 && text[open - 1] == '(' && text[open - 2] == '>') {
		_cleanup_free_ char *name = TAKE_PTR(text);

		if (asprintf(&text, "void %s", name) < 0) {
			text = NULL;
			return -ENOMEM;
		}
	}
	*out = TAKE_PTR(text);
	return 0;
}

#define STUB         "__device_stub_" /* nvcc: a mangled name follows, "_Z…" */
#define CLANG_STUB   "__device_stub__"
#define WRAPPER_STUB "__wrapper__device_stub_"

/* A symbol is foreign text: what is searched for stubs is bounded. */
#define MAX_STUB_SYMBOL 65536
#define MAX_STUB_TRIES  8

/* What nvcc puts behind STUB: the mangled name of a function that has a name, which clang's "Zoo" is not. */
static bool is_mangled(const char *name)
{
	return !strncmp(name, "_Z", 2) && (isdigit((unsigned char)name[2]) || name[2] == 'N' || name[2] == 'L');
}

/* The name of `length` bytes at `at`, written after its length, which begins at `digits`, may be that of a stub. */
static int try_stub(const char *symbol, const char *digits, const char *at, size_t length, char **out)
{
	bool wrapper = !strncmp(at, WRAPPER_STUB, strlen(WRAPPER_STUB));
	const char *prefix = wrapper ? WRAPPER_STUB : CLANG_STUB;
	_cleanup_free_ char *kernel = NULL;
	int r;

	if (length <= strlen(prefix) || strncmp(at, prefix, strlen(prefix)) != 0)
		return 0;
	if (!wrapper && is_mangled(at + strlen(STUB)))
		r = asprintf(&kernel, "%.*s", (int)(length - strlen(STUB)), at + strlen(STUB));
	else
		r = asprintf(&kernel, "%.*s%zu%s", (int)(digits - symbol), symbol, length - strlen(prefix),
			     at + strlen(prefix));
	if (r < 0) {
		kernel = NULL;
		return -ENOMEM;
	}
	return demangle_whole(kernel, out);
}

/* A mangled name writes each part of a name after its length; the digits before may belong to another part. */
static int demangle_stub(const char *symbol, char **out)
{
	const char *end = symbol + strlen(symbol), *found = symbol;

	if (end - symbol > MAX_STUB_SYMBOL)
		return 0;
	for (unsigned tries = 0; !*out && tries < MAX_STUB_TRIES && (found = strstr(found, STUB)); tries++) {
		size_t before = strlen(WRAPPER_STUB) - strlen(STUB);
		const char *at = found;

		if ((size_t)(at - symbol) > before && !strncmp(at - before, WRAPPER_STUB, strlen(WRAPPER_STUB)))
			at -= before;
		for (const char *digits = at; !*out && digits > symbol && isdigit((unsigned char)digits[-1]);) {
			size_t length;
			int r;

			if (at - --digits > 4)
				break;
			length = strtoul(digits, NULL, 10);
			if (length > (size_t)(end - at))
				continue;
			r = try_stub(symbol, digits, at, length, out);
			if (r < 0)
				return r;
		}
		found += strlen(STUB);
	}
	return 0;
}

char *kernel_names__readable(const char *symbol, bool cut)
{
	_cleanup_free_ char *text = NULL;
	const char *rest = symbol;
	int r = 0;

	/* Stubs in C, or as nvcc's own sources name them. */
	if (!strncmp(symbol, STUB, strlen(STUB)) && is_mangled(symbol + strlen(STUB)))
		rest = symbol + strlen(STUB);
	else if (!strncmp(symbol, CLANG_STUB, strlen(CLANG_STUB)) && symbol[strlen(CLANG_STUB)])
		rest = symbol + strlen(CLANG_STUB);
	if (!r && !text && rest == symbol)
		r = demangle_stub(symbol, &text);
	if (!r && !text)
		r = demangle_whole(rest, &text);
	if (r < 0)
		return NULL;
	if (!text)
		text = demangle(rest);
	if (text && cut && !strcmp(text, rest)) {
		_cleanup_free_ char *whole = TAKE_PTR(text);

		if (asprintf(&text, "%s...", whole) < 0)
			text = NULL;
	}
	return TAKE_PTR(text);
}
