// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/symbols/cuda_registered.h"

#include <stdlib.h>

#include "daemon/symbols/call_arguments.h"
#include "daemon/unwind/cfi_entries.h"
#include "daemon/elf/elf_relocations.h"
#include "daemon/symbols/import_calls.h"
#include "stakeout/array.h"

#define MAX_CALLS        (1u << 18) /* of each kind; libtorch_cuda 2.6 has 19,392 registrations */
#define MAX_INSTRUCTIONS (4u << 20) /* decoded: bounds the time on a hostile file to seconds */
#define READ_NAMES       (64u << 10)

enum { REGISTER_FUNCTION, GET_KERNEL, LAUNCH_KERNEL, LAUNCH_KERNEL_PTSZ, N_IMPORTS };

static const char *const imports[N_IMPORTS] = {
	[REGISTER_FUNCTION] = "__cudaRegisterFunction",
	[GET_KERNEL] = "__cudaGetKernel",
	[LAUNCH_KERNEL] = "__cudaLaunchKernel",
	[LAUNCH_KERNEL_PTSZ] = "__cudaLaunchKernel_ptsz",
};

struct registration {
	uint64_t function;
	uint64_t name; /* ELF virtual address; once it is checked, the offset in the file */
	uint64_t hash; /* of the name */
	bool bad;
};

struct handle {
	uint64_t variable;
	uint64_t function; /* before handles are resolved, of one in a slot of the GOT that slot's address */
	bool in_slot, bad;
};

struct launch {
	uint64_t return_address, variable;
};

struct reader {
	const struct elf_image *image;
	const struct elf_file *elf;
	const struct elf_symtab_location *dynsym;
	struct call_arguments *arguments;
	bool names_wanted;
	struct registration *registrations;
	size_t n_registrations, registrations_room, n_calls;
	struct handle *handles;
	size_t n_handles, handles_room;
	struct launch *launches;
	size_t n_launches, launches_room;
};

static void cleanup__reader(struct reader *r)
{
	call_arguments__free(r->arguments);
	free(r->registrations);
	free(r->handles);
	free(r->launches);
}

static bool is_code(const struct elf_file *elf, uint64_t vaddr)
{
	for (unsigned i = 0; i < elf->n_segments; i++) {
		const struct elf_segment *segment = &elf->segments[i];

		if ((segment->flags & PF_X) && vaddr - segment->vaddr < segment->filesz)
			return true;
	}
	return false;
}

/* The calls. */

/*
 * Where a host function's address is taken from the GOT, the loader found it by a symbol, which names it: nothing is to
 * be added.
 */
static int add_registration(struct reader *r, const struct call_value values[SO_NREGS])
{
	const struct call_value *function = &values[SO_REG_RSI], *name = &values[SO_REG_RCX];

	if (name->kind != CALL_VALUE_ADDRESS || r->n_registrations == MAX_CALLS)
		return 0;
	r->n_calls++;
	if (function->kind != CALL_VALUE_ADDRESS || !is_code(r->elf, function->address))
		return 0;
	if (ARRAY_RESERVE(r->registrations, r->registrations_room, r->n_registrations + 1))
		return -ENOMEM;
	r->registrations[r->n_registrations++] =
		(struct registration){ .function = function->address, .name = name->address };
	return 0;
}

static int add_handle(struct reader *r, const struct call_value values[SO_NREGS])
{
	const struct call_value *variable = &values[SO_REG_RDI], *function = &values[SO_REG_RSI];
	bool in_slot = function->kind == CALL_VALUE_LOADED;

	if (variable->kind != CALL_VALUE_ADDRESS || r->n_handles == MAX_CALLS)
		return 0;
	if (ARRAY_RESERVE(r->handles, r->handles_room, r->n_handles + 1))
		return -ENOMEM;
	r->handles[r->n_handles++] = (struct handle){ .variable = variable->address,
						      .function = function->address,
						      .in_slot = in_slot,
						      .bad = !in_slot && (function->kind == CALL_VALUE_UNKNOWN ||
									  !is_code(r->elf, function->address)) };
	return 0;
}

static int add_launch(struct reader *r, const struct call_value values[SO_NREGS], uint64_t return_address)
{
	const struct call_value *handle = &values[SO_REG_RDI];

	if (handle->kind != CALL_VALUE_LOADED || r->n_launches == MAX_CALLS)
		return 0;
	if (ARRAY_RESERVE(r->launches, r->launches_room, r->n_launches + 1))
		return -ENOMEM;
	r->launches[r->n_launches++] = (struct launch){ return_address, handle->address };
	return 0;
}

static bool find_arguments(const struct reader *r, const struct import_call *call, uint16_t wanted,
			   struct call_value values[SO_NREGS])
{
	return call_arguments__find(r->arguments, call->code, call->code_bytes, call->vaddr, wanted, values);
}

static int on_call(void *context, const struct import_call *call)
{
	static const uint16_t wanted[N_IMPORTS] = {
		[REGISTER_FUNCTION] = 1u << SO_REG_RSI | 1u << SO_REG_RCX,
		[GET_KERNEL] = 1u << SO_REG_RDI | 1u << SO_REG_RSI,
		[LAUNCH_KERNEL] = 1u << SO_REG_RDI,
		[LAUNCH_KERNEL_PTSZ] = 1u << SO_REG_RDI,
	};
	struct call_value values[SO_NREGS];
	struct reader *r = context;

	if (call->name == REGISTER_FUNCTION && !r->names_wanted)
		return 0;
	if (!find_arguments(r, call, wanted[call->name], values) &&
	    /* A variable that gets another kernel's handle, too, is nobody's. */
	    (call->name != GET_KERNEL || !find_arguments(r, call, 1u << SO_REG_RDI, values)))
		return 0;
	if (call->name == REGISTER_FUNCTION)
		return add_registration(r, values);
	if (call->name == GET_KERNEL)
		return add_handle(r, values);
	return add_launch(r, values, call->return_address);
}

/* Names. */

static int compare_names(const void *a, const void *b)
{
	const struct registration *x = a, *y = b;

	return x->name < y->name ? -1 : x->name > y->name;
}

/* Its length, or 0: it is none, or too long. */
static size_t name_length(const char *text, size_t size)
{
	for (size_t n = 0; n < size && n <= CUDA_REGISTERED_NAME_MAX; n++) {
		if (text[n] == '\0')
			return n;
		if (text[n] < ' ' || text[n] > '~')
			return 0;
	}
	return 0;
}

/* FNV-1a */
static uint64_t hash_of(const char *text, size_t length)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (uint8_t)text[i]) * 0x100000001b3ull;
	return hash;
}

/* By rising address, so that what is read once serves many: names lie together. */
static int check_names(struct reader *r)
{
	_cleanup_free_ char *bytes = NULL;
	uint64_t at = 0;
	size_t size = 0;

	if (r->n_registrations == 0)
		return 0;
	bytes = malloc(READ_NAMES);
	if (!bytes)
		return -ENOMEM;
	qsort(r->registrations, r->n_registrations, sizeof(*r->registrations), compare_names);
	for (size_t i = 0; i < r->n_registrations; i++) {
		struct registration *entry = &r->registrations[i];
		size_t length;

		if (elf_file__offset(r->elf, entry->name, &entry->name) < 0 || entry->name >= r->image->size) {
			entry->bad = true;
			continue;
		}
		if (entry->name < at || entry->name - at >= size ||
		    (size - (entry->name - at) <= CUDA_REGISTERED_NAME_MAX && size == READ_NAMES)) {
			uint64_t left = r->image->size - entry->name;
			int err;

			at = entry->name;
			size = left < READ_NAMES ? (size_t)left : READ_NAMES;
			err = elf_image__read(r->image, at, bytes, size);
			if (err < 0)
				return err;
		}
		length = name_length(bytes + (entry->name - at), size - (size_t)(entry->name - at));
		entry->bad = length == 0;
		entry->hash = hash_of(bytes + (entry->name - at), length);
	}
	return 0;
}

static int compare_registrations(const void *a, const void *b)
{
	const struct registration *x = a, *y = b;

	if (x->function != y->function)
		return x->function < y->function ? -1 : 1;
	if (x->bad != y->bad)
		return x->bad ? 1 : -1;
	return x->name < y->name ? -1 : x->name > y->name;
}

/* Functions of equal code may have been made one: of several names for one address, none is right. */
static int make_functions(struct reader *r, struct cuda_registered *out)
{
	const struct registration *all = r->registrations;

	if (r->n_registrations == 0)
		return 0;
	qsort(r->registrations, r->n_registrations, sizeof(*all), compare_registrations);
	out->functions = calloc(r->n_registrations, sizeof(*out->functions));
	if (!out->functions)
		return -ENOMEM;
	for (size_t i = 0, end; i < r->n_registrations; i = end) {
		bool one = !all[i].bad;

		for (end = i + 1; end < r->n_registrations && all[end].function == all[i].function; end++)
			one &= all[end].bad || all[end].hash == all[i].hash;
		if (one)
			out->functions[out->n_functions++] =
				(struct cuda_registered_function){ all[i].function, all[i].name, 1 };
	}
	return 0;
}

static int read_fdes(const struct elf_image *image, struct eh_frame *eh, struct cfi_entries *entries)
{
	int ret = image->fd >= 0 ? eh_frame__read(image->fd, eh, NULL)
				 : eh_frame__read_memory(image->memory, image->size, eh, NULL);

	if (ret == 0 && eh->data)
		ret = cfi_entries__read(eh, entries);
	return ret;
}

/* Both are sorted. */
static void set_extents(const struct cfi_entries *entries, struct cuda_registered *out)
{
	size_t at = 0;

	for (size_t i = 0; i < out->n_functions; i++) {
		struct cuda_registered_function *f = &out->functions[i];

		while (at < entries->n_fdes && entries->fdes[at].start < f->start)
			at++;
		if (at < entries->n_fdes && entries->fdes[at].start == f->start)
			f->extent = entries->fdes[at].length;
	}
}

/* Without FDEs that can be read, functions have their first address. */
static int measure_functions(const struct reader *r, struct cuda_registered *out)
{
	__attribute__((cleanup(cleanup__eh_frame))) struct eh_frame eh = { 0 };
	__attribute__((cleanup(cleanup__cfi_entries))) struct cfi_entries entries = { 0 };
	int err;

	if (out->n_functions == 0)
		return 0;
	err = read_fdes(r->image, &eh, &entries);
	if (err == 0)
		set_extents(&entries, out);
	return err == -ENOMEM ? err : 0;
}

/* Launches. */

/* A slot of the GOT, and the function of this file that the loader puts there; 0: it is another's, or not known. */
struct slot {
	uint64_t at, function;
};

struct slots {
	const struct reader *reader;
	struct slot *slots; /* by rising place */
	size_t n;
};

static int compare_slots(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static int resolve_slot(void *context, const Elf64_Rela *relocation)
{
	const struct slots *all = context;
	const struct reader *r = all->reader;
	struct slot key = { .at = relocation->r_offset }, *slot;
	uint32_t symbol = ELF64_R_SYM(relocation->r_info);
	Elf64_Sym found;

	if (ELF64_R_TYPE(relocation->r_info) != R_X86_64_GLOB_DAT || symbol >= r->dynsym->n_symbols)
		return 0;
	slot = bsearch(&key, all->slots, all->n, sizeof(*slot), compare_slots);
	if (!slot || slot->function ||
	    elf_image__read(r->image, r->dynsym->symbols_at + symbol * sizeof(found), &found, sizeof(found)) < 0)
		return 0;
	if (found.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(found.st_info) == STT_FUNC && is_code(r->elf, found.st_value))
		slot->function = found.st_value;
	return 0;
}

static int resolve_handles(struct reader *r)
{
	_cleanup_free_ struct slot *found = calloc(r->n_handles + 1, sizeof(*found));
	struct slots slots = { r, found, 0 };
	size_t unique = 0;
	int err;

	if (!found)
		return -ENOMEM;
	for (size_t i = 0; i < r->n_handles; i++) {
		if (r->handles[i].in_slot)
			found[slots.n++].at = r->handles[i].function;
	}
	if (slots.n == 0)
		return 0;
	qsort(found, slots.n, sizeof(*found), compare_slots);
	for (size_t i = 1; i < slots.n; i++) {
		if (found[i].at != found[unique].at)
			found[++unique] = found[i];
	}
	slots.n = unique + 1;
	err = elf_relocations__each(r->image, r->elf, resolve_slot, &slots);
	for (size_t i = 0; err == 0 && i < r->n_handles; i++) {
		struct slot key = { .at = r->handles[i].function };

		if (!r->handles[i].in_slot)
			continue;
		r->handles[i].function =
			((struct slot *)bsearch(&key, found, slots.n, sizeof(key), compare_slots))->function;
		r->handles[i].bad = !r->handles[i].function;
	}
	return err;
}

static int compare_handles(const void *a, const void *b)
{
	const struct handle *x = a, *y = b;

	return x->variable < y->variable ? -1 : x->variable > y->variable;
}

/* Leaves one of each variable; of one that is given several kernels' handles, a bad one. */
static void join_handles(struct reader *r)
{
	struct handle *all = r->handles;
	size_t kept = 0;

	if (r->n_handles == 0)
		return;
	qsort(all, r->n_handles, sizeof(*all), compare_handles);
	for (size_t i = 1; i < r->n_handles; i++) {
		if (all[i].variable != all[kept].variable)
			all[++kept] = all[i];
		else
			all[kept].bad |= all[i].bad || all[i].function != all[kept].function;
	}
	r->n_handles = kept + 1;
}

static int compare_launches(const void *a, const void *b)
{
	const struct launch *x = a, *y = b;

	return x->return_address < y->return_address ? -1 : x->return_address > y->return_address;
}

static int make_launches(struct reader *r, struct cuda_registered *out)
{
	int err = resolve_handles(r);

	if (err < 0 || r->n_launches == 0 || r->n_handles == 0)
		return err;
	join_handles(r);
	qsort(r->launches, r->n_launches, sizeof(*r->launches), compare_launches);
	out->launches = calloc(r->n_launches, sizeof(*out->launches));
	if (!out->launches)
		return -ENOMEM;
	for (size_t i = 0; i < r->n_launches; i++) {
		struct handle key = { .variable = r->launches[i].variable };
		const struct handle *handle = bsearch(&key, r->handles, r->n_handles, sizeof(key), compare_handles);

		if (handle && !handle->bad)
			out->launches[out->n_launches++] =
				(struct cuda_registered_launch){ r->launches[i].return_address, handle->function };
	}
	return 0;
}

static void trim(struct cuda_registered *out)
{
	void *functions = reallocarray(out->functions, out->n_functions + 1, sizeof(*out->functions)),
	     *launches = reallocarray(out->launches, out->n_launches + 1, sizeof(*out->launches));

	out->functions = functions ?: out->functions;
	out->launches = launches ?: out->launches;
}

int cuda_registered__read(const struct elf_image *image, const struct elf_file *elf,
			  const struct elf_sections *sections, const struct elf_symtab_location *dynsym,
			  bool names_wanted, struct cuda_registered *out)
{
	__attribute__((cleanup(cleanup__cuda_registered))) struct cuda_registered found = { 0 };
	__attribute__((cleanup(cleanup__reader))) struct reader r = {
		.image = image, .elf = elf, .dynsym = dynsym, .names_wanted = names_wanted
	};
	struct import_names names = { imports, N_IMPORTS, { 0 } };
	int err = import_names__find(image, dynsym, &names);

	/* All registered kernels have a host function; handles are asked for by it. */
	if (err < 0 || !names.symbols[REGISTER_FUNCTION] || (!names_wanted && !names.symbols[GET_KERNEL])) {
		if (err == 0)
			*out = (struct cuda_registered){ 0 };
		return err;
	}
	err = call_arguments__new(elf, MAX_INSTRUCTIONS, &r.arguments);
	err = err ?: import_calls__each(image, elf, sections, &names, on_call, &r);
	err = err ?: check_names(&r);
	err = err ?: make_functions(&r, &found);
	err = err ?: measure_functions(&r, &found);
	err = err ?: make_launches(&r, &found);
	if (err < 0)
		return err;
	found.n_calls = r.n_calls;
	trim(&found);
	*out = found;
	found = (struct cuda_registered){ 0 };
	return 0;
}

void cuda_registered__release(struct cuda_registered *registered)
{
	free(registered->functions);
	free(registered->launches);
	*registered = (struct cuda_registered){ 0 };
}
