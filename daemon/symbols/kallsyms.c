/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Line format, from the kernel's s_show(): "ADDRESS TYPE NAME" or "ADDRESS TYPE NAME\t[MODULE]". */
#include "daemon/symbols/kallsyms.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "stakeout/array.h"

#define READ_BYTES  (256u << 10)
#define MAX_SYMBOLS (4u << 20)   /* a large kernel with all its modules has 300,000 text symbols */
#define MAX_NAMES   (256u << 20) /* bytes */
#define MAX_BPF     (1u << 20)   /* bytes of one BPF function; stakeout's largest has 9 KiB */
#define PAGE        4096u

/* 12 bytes: alignment of 4 is enough for what is read entry by entry. */
struct entry {
	uint64_t address;
	uint32_t name; /* offset in names, one byte of type before it; 0: from here on, nothing is known */
} __attribute__((packed, aligned(4)));

struct kallsyms {
	_Atomic unsigned refs;
	struct entry *entries; /* sorted, one for each address */
	size_t n, room;
	size_t n_symbols; /* of the entries */
	char *names;      /* for each symbol its type letter, then its NUL-terminated "name" or "name [module]" */
	size_t names_size, names_room;
	size_t n_hidden; /* while loading: symbols with address 0 */
	size_t n_lines, n_parsed;
	uint64_t etext, sinittext, einittext; /* the linker's marks; 0: not listed */
};

static const struct {
	const char *name;
	size_t at;   /* in struct kallsyms */
	bool is_end; /* names nothing: what lies behind is no text */
} marks[] = {
	{ "_etext", offsetof(struct kallsyms, etext), true },
	{ "_sinittext", offsetof(struct kallsyms, sinittext), false },
	{ "_einittext", offsetof(struct kallsyms, einittext), true },
};

/* The next word of a line, which ends at a blank or tab; moves *at behind it. */
static size_t take_word(const char **at, const char *end, const char **word)
{
	while (*at < end && (**at == ' ' || **at == '\t'))
		(*at)++;
	*word = *at;
	while (*at < end && **at != ' ' && **at != '\t')
		(*at)++;
	return (size_t)(*at - *word);
}

static bool parse_address(const char *text, size_t length, uint64_t *out)
{
	uint64_t value = 0;

	if (length == 0 || length > 16)
		return false;
	for (size_t i = 0; i < length; i++) {
		char c = text[i];

		if (c >= '0' && c <= '9')
			value = value << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uint64_t)(c - 'a' + 10);
		else
			return false;
	}
	*out = value;
	return true;
}

static bool starts_with(const char *text, size_t length, const char *prefix)
{
	return length >= strlen(prefix) && memcmp(text, prefix, strlen(prefix)) == 0;
}

/* Padding in front of functions, mapping symbols and assembler labels are no functions. */
static bool is_function_name(const char *name, size_t length)
{
	return length > 0 && name[0] != '$' && !starts_with(name, length, ".L") && !starts_with(name, length, "__pfx_");
}

static int make_room(void **array, size_t *room, size_t needed, size_t limit, size_t element)
{
	size_t wanted = *room ? *room : 4096;
	void *larger;

	if (needed <= *room)
		return 0;
	while (wanted < needed)
		wanted += wanted / 2;
	if (needed > limit)
		return -EFBIG;
	larger = reallocarray(*array, wanted, element);
	if (!larger)
		return -ENOMEM;
	*array = larger;
	*room = wanted;
	return 0;
}

static int add_symbol(struct kallsyms *ks, uint64_t address, char type, const char *name, size_t name_length,
		      const char *module, size_t module_length)
{
	size_t bytes = 1 + name_length + (module_length ? 1 + module_length : 0) + 1;
	void *entries = ks->entries, *names = ks->names;
	char *to;
	int ret;

	ret = make_room(&entries, &ks->room, ks->n + 1, MAX_SYMBOLS, sizeof(*ks->entries));
	ks->entries = entries;
	if (ret < 0)
		return ret;
	ret = make_room(&names, &ks->names_room, ks->names_size + bytes, MAX_NAMES, 1);
	ks->names = names;
	if (ret < 0)
		return ret;
	to = ks->names + ks->names_size;
	*to++ = type;
	ks->entries[ks->n].address = address;
	ks->entries[ks->n++].name = (uint32_t)(ks->names_size + 1);
	memcpy(to, name, name_length);
	to += name_length;
	if (module_length) {
		*to++ = ' ';
		memcpy(to, module, module_length);
		to += module_length;
	}
	*to = '\0';
	ks->names_size += bytes;
	return 0;
}

/* True for a mark that names no function. */
static bool take_mark(struct kallsyms *ks, uint64_t address, const char *name, size_t length)
{
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		if (length != strlen(marks[i].name) || memcmp(name, marks[i].name, length) != 0)
			continue;
		*(uint64_t *)((char *)ks + marks[i].at) = address;
		return marks[i].is_end;
	}
	return false;
}

static int add_line(struct kallsyms *ks, const char *line, const char *end)
{
	const char *word, *type, *name, *module;
	size_t length, type_length, name_length, module_length;
	uint64_t address;

	ks->n_lines++;
	length = take_word(&line, end, &word);
	type_length = take_word(&line, end, &type);
	name_length = take_word(&line, end, &name);
	module_length = take_word(&line, end, &module);
	if (!parse_address(word, length, &address) || type_length != 1 || name_length == 0)
		return 0;
	ks->n_parsed++;
	if (module_length == 0 && name[0] == '_' && take_mark(ks, address, name, name_length))
		return 0;
	if (!strchr("tTwW", type[0]) || !is_function_name(name, name_length))
		return 0;
	if (address == 0) {
		ks->n_hidden++;
		return 0;
	}
	return add_symbol(ks, address, type[0], name, name_length, module, module_length);
}

/* Adds the complete lines of the buffer, and returns in *rest how many bytes of an incomplete one follow. */
static int add_lines(struct kallsyms *ks, const char *text, size_t length, size_t *rest)
{
	const char *end = text + length;

	for (;;) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		int ret;

		if (!newline)
			break;
		ret = add_line(ks, text, newline);
		if (ret < 0)
			return ret;
		text = newline + 1;
	}
	*rest = (size_t)(end - text);
	return 0;
}

static int read_symbols(int fd, struct kallsyms *ks)
{
	_cleanup_free_ char *buffer = malloc(READ_BYTES);
	size_t used = 0, rest;
	int ret;

	if (!buffer)
		return -ENOMEM;
	for (;;) {
		ssize_t n = read(fd, buffer + used, READ_BYTES - used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		used += (size_t)n;
		ret = add_lines(ks, buffer, used, &rest);
		if (ret < 0)
			return ret;
		/* No symbol's line fills the buffer: what does is not this format. */
		if (rest == READ_BYTES)
			return -EINVAL;
		memmove(buffer, buffer + used - rest, rest);
		used = rest;
	}
	return used > 0 ? add_line(ks, buffer, buffer + used) : 0;
}

static int binding_of(const char *name)
{
	switch (name[-1]) {
	case 'T':
		return 0;
	case 'W':
	case 'w':
		return 1;
	default:
		return 2;
	}
}

/* By address; of aliases the one a reader knows goes first: by binding, underscores, length. */
static int compare_entries(const void *a, const void *b, void *data)
{
	const struct entry *x = a, *y = b;
	const char *names = data, *s = names + x->name, *t = names + y->name;
	size_t m, n;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	if (binding_of(s) != binding_of(t))
		return binding_of(s) - binding_of(t);
	m = strspn(s, "_");
	n = strspn(t, "_");
	if (m == n) {
		m = strlen(s);
		n = strlen(t);
	}
	return m != n ? (m < n ? -1 : 1) : strcmp(s, t);
}

/* Sorts, and keeps one symbol an address. */
static void sort(struct kallsyms *ks)
{
	size_t kept = 0;

	if (ks->n)
		qsort_r(ks->entries, ks->n, sizeof(*ks->entries), compare_entries, ks->names);
	for (size_t i = 0; i < ks->n; i++) {
		if (kept == 0 || ks->entries[kept - 1].address != ks->entries[i].address)
			ks->entries[kept++] = ks->entries[i];
	}
	ks->n = ks->n_symbols = kept;
}

static uint64_t end_in_kernel(const struct kallsyms *ks, uint64_t address)
{
	if (!ks->etext)
		return UINT64_MAX;
	if (address < ks->etext)
		return ks->etext;
	return address >= ks->sinittext && address < ks->einittext ? ks->einittext : address + PAGE;
}

/* *m: where the owner of the symbol before was found, which is mostly this one's as well. */
static uint64_t end_in_module(const struct kernel_modules *modules, const char *owner, uint64_t address,
			      const struct kernel_module **m)
{
	size_t length = strcspn(owner, "]");

	if (*m && (strncmp((*m)->name, owner, length) || (*m)->name[length]))
		*m = NULL;
	*m = *m ?: kernel_modules__find(modules, owner, length);
	if (!*m || !(*m)->address)
		return UINT64_MAX;
	/* Before Linux 6.4 what a module runs once, at its start, lies elsewhere. */
	return address - (*m)->address < (*m)->bytes ? (*m)->address + (*m)->bytes : address + PAGE;
}

/* How far the symbol may reach, were there no other; UINT64_MAX: not known. */
static uint64_t end_of(const struct kallsyms *ks, const struct entry *e, const struct kernel_modules *modules,
		       const struct kernel_module **m)
{
	const char *owner = strstr(ks->names + e->name, " [");

	if (!owner)
		return end_in_kernel(ks, e->address);
	owner += 2;
	if (!strcmp(owner, "bpf]"))
		return e->address + MAX_BPF;
	if (starts_with(owner, strlen(owner), "__builtin__"))
		return e->address + PAGE;
	return end_in_module(modules, owner, e->address, m);
}

/* Where a symbol ends before the next one, an entry without a name follows it. */
static int add_gaps(struct kallsyms *ks, const struct kernel_modules *modules)
{
	_cleanup_free_ struct entry *all = NULL;
	const struct kernel_module *m = NULL;
	size_t n = 0, room = 0;

	for (size_t i = 0; i < ks->n; i++) {
		uint64_t end = end_of(ks, &ks->entries[i], modules, &m);

		if (ARRAY_RESERVE(all, room, n + 2))
			return -ENOMEM;
		all[n++] = ks->entries[i];
		if (end < (i + 1 < ks->n ? ks->entries[i + 1].address : UINT64_MAX))
			all[n++] = (struct entry){ end, 0 };
	}
	free(ks->entries);
	ks->entries = TAKE_PTR(all);
	ks->n = n;
	ks->room = room;
	return 0;
}

/* Gives back the memory that growing took in advance. */
static void trim(struct kallsyms *ks)
{
	void *exact = ks->n ? reallocarray(ks->entries, ks->n, sizeof(*ks->entries)) : NULL;

	if (exact) {
		ks->entries = exact;
		ks->room = ks->n;
	}
	exact = ks->names_size ? realloc(ks->names, ks->names_size) : NULL;
	if (exact) {
		ks->names = exact;
		ks->names_room = ks->names_size;
	}
}

int kallsyms__load(const char *path, const struct kernel_modules *modules, struct kallsyms **out, struct so_error *err)
{
	_cleanup_(kallsyms) struct kallsyms *ks = calloc(1, sizeof(*ks));
	_cleanup_close_ int fd = -1;
	int ret;

	if (!path)
		path = "/proc/kallsyms";
	if (!ks)
		return so_err(err, -ENOMEM, "out of memory");
	ks->refs = 1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return so_err(err, -errno, "cannot open %s: %s", path, strerror(errno));
	ret = read_symbols(fd, ks);
	if (ret < 0)
		return so_err(err, ret, "cannot read %s: %s", path, strerror(-ret));
	if (ks->n_lines > 0 && ks->n_parsed == 0)
		return so_err(err, -EINVAL, "%s does not list symbols", path);
	if (ks->n == 0 && ks->n_hidden > 0)
		return so_err(err, -EPERM,
			      "%s hides the kernel's addresses: run with CAP_SYSLOG, or set "
			      "kernel.kptr_restrict to 0",
			      path);
	sort(ks);
	ret = add_gaps(ks, modules);
	if (ret < 0)
		return so_err(err, ret, "out of memory");
	trim(ks);
	*out = TAKE_PTR(ks);
	return 0;
}

const char *kallsyms__lookup(const struct kallsyms *ks, uint64_t address)
{
	size_t low = ARRAY_BEFORE(i, ks->n, ks->entries[i].address <= address);

	return low > 0 && ks->entries[low - 1].name ? ks->names + ks->entries[low - 1].name : NULL;
}

struct kallsyms *kallsyms__ref(struct kallsyms *ks)
{
	if (ks)
		ks->refs++;
	return ks;
}

void kallsyms__unref(struct kallsyms *ks)
{
	if (!ks || --ks->refs)
		return;
	free(ks->entries);
	free(ks->names);
	free(ks);
}
