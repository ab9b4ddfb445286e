// SPDX-License-Identifier: GPL-2.0-or-later
#include "stakeout/cuda_names.h"

#include <pthread.h>
#include <string.h>

struct function {
	const char *base;
	uint8_t length;
	uint8_t library; /* enum cuda_name_library */
	uint8_t kind;    /* enum so_cuda_kind; of an API */
};

static const struct function apis[] = {
#define X(name, library, kind, args) { #name, sizeof(#name) - 1, CUDA_NAME_##library, SO_CUDA_##kind },
	SO_CUDA_APIS(X)
#undef X
};

static const struct function namers[] = {
#define X(name, library, ...) { #name, sizeof(#name) - 1, CUDA_NAME_##library, 0 },
	SO_CUDA_NAMERS(X)
#undef X
};

#define X(name, ...)                                                                  \
	_Static_assert(sizeof(#name) - 1 + sizeof("_v2_ptsz") <= CUDA_NAME_MAX_BYTES, \
		       #name " is longer than CUDA_NAME_MAX_BYTES allows");
SO_CUDA_APIS(X)
SO_CUDA_NAMERS(X)
#undef X

#define N_APIS  (sizeof(apis) / sizeof(apis[0]))
#define N_NAMES (N_APIS + sizeof(namers) / sizeof(namers[0]))
#define SLOTS   512u /* a power of two, at most a half of them filled */

_Static_assert(N_NAMES <= SLOTS / 2, "the table of names is too full");
_Static_assert(N_NAMES < UINT8_MAX, "a slot holds a byte");

static uint8_t slots[SLOTS]; /* 1 + place in apis and, behind them, namers; 0: empty */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct function *function_at(unsigned i)
{
	return i < N_APIS ? &apis[i] : &namers[i - N_APIS];
}

static uint32_t hash_of(const char *name, size_t length)
{
	uint32_t hash = 5381;

	for (size_t i = 0; i < length; i++)
		hash = hash * 33 + (unsigned char)name[i];
	return hash ^ hash >> 15;
}

static void fill(void)
{
	for (unsigned i = 0; i < N_NAMES; i++) {
		uint32_t at = hash_of(function_at(i)->base, function_at(i)->length) % SLOTS;

		while (slots[at])
			at = (at + 1) % SLOTS;
		slots[at] = (uint8_t)(i + 1);
	}
}

static bool find_base(const char *name, size_t length, struct cuda_name *out)
{
	pthread_once(&once, fill);
	for (uint32_t at = hash_of(name, length) % SLOTS; slots[at]; at = (at + 1) % SLOTS) {
		unsigned i = slots[at] - 1u;

		if (function_at(i)->length != length || memcmp(function_at(i)->base, name, length) != 0)
			continue;
		*out = i < N_APIS ? (struct cuda_name){ .type = CUDA_NAME_API, .number = (uint16_t)i }
				  : (struct cuda_name){ .type = CUDA_NAME_NAMER, .number = (uint16_t)(i - N_APIS) };
		return true;
	}
	return false;
}

static bool ends_with(const char *name, size_t length, const char *end, size_t end_length)
{
	return length > end_length && memcmp(name + length - end_length, end, end_length) == 0;
}

bool cuda_names__find(const char *symbol, size_t length, struct cuda_name *out)
{
	bool per_thread;

	if (length < 3 || length >= CUDA_NAME_MAX_BYTES || (symbol[0] != 'c' && symbol[0] != '_'))
		return false;
	per_thread = ends_with(symbol, length, "_ptsz", 5) || ends_with(symbol, length, "_ptds", 5);
	if (per_thread)
		length -= 5;
	if (length > 3 && symbol[length - 3] == '_' && symbol[length - 2] == 'v' && symbol[length - 1] >= '2' &&
	    symbol[length - 1] <= '9')
		length -= 3;
	if (!find_base(symbol, length, out))
		return false;
	out->per_thread = per_thread;
	return true;
}

static const struct function *function_of(struct cuda_name name)
{
	return name.type == CUDA_NAME_API ? &apis[name.number] : &namers[name.number];
}

const char *cuda_names__base(struct cuda_name name)
{
	return function_of(name)->base;
}

enum cuda_name_library cuda_names__library(struct cuda_name name)
{
	return function_of(name)->library;
}

unsigned cuda_names__api_of(const char *name)
{
	struct cuda_name found;

	return cuda_names__find(name, strlen(name), &found) && found.type == CUDA_NAME_API ? found.number
											   : SO_CUDA_API_COUNT;
}

const char *cuda_names__api(unsigned api)
{
	return api < N_APIS ? apis[api].base : "unknown";
}

enum so_cuda_kind cuda_names__kind(enum so_cuda_api api)
{
	return apis[api].kind;
}

unsigned cuda_names__unit(enum so_cuda_api api)
{
	bool driver = apis[api].library == CUDA_NAME_DRIVER;

	return SO_CUDA_UNIT(driver ? SO_CUDA_OF_DRIVER : SO_CUDA_OF_RUNTIME, apis[api].kind);
}

const char *cuda_names__kind_word(unsigned kind)
{
	static const char *const words[] = {
#define X(name, word, does, does_word) word,
		SO_CUDA_KINDS(X)
#undef X
	};

	return kind < SO_CUDA_KIND_COUNT ? words[kind] : "other";
}

const char *cuda_names__does_word(unsigned kind)
{
	static const char *const words[] = {
#define X(name, word, does, does_word) does_word,
		SO_CUDA_KINDS(X)
#undef X
	};

	return kind < SO_CUDA_KIND_COUNT ? words[kind] : "other";
}

const char *cuda_names__does(unsigned api)
{
	return api < N_APIS ? cuda_names__does_word(apis[api].kind) : "unknown";
}
