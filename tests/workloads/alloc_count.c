// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Allocates, and counts what it does itself, by function: alloc_count MODE [ARGUMENT].
 *
 * script: a round for each line of input, then says what each function has done since the begin, in JSON.
 * fork: the same in a child. late LIBRARY: the same with mi_malloc() and mi_free() of what is loaded with the first
 * line.
 * busy BYTES WORK: as many calls as it can, and says at each line how many there were.
 * steady MB: allocates as much a second, and keeps 10 MB of it. leak MB: keeps all.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define MOST     200000

/* Of one function; only what the program asked for and gave back counts. */
struct account {
	const char *name;
	uint64_t bytes, calls, freed;
};

static struct account accounts[16];
static int n_accounts;
static void *kept[MOST];
static int n_kept;
static void *(*volatile late_malloc)(size_t);
static void (*volatile late_free)(void *);
static uint64_t seed = 88172645463325252u;

/* Not to be known by the compiler. */
static void *volatile sink;

static uint64_t random_number(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static struct account *account_of(const char *name)
{
	for (int i = 0; i < n_accounts; i++)
		if (!strcmp(accounts[i].name, name))
			return &accounts[i];
	accounts[n_accounts].name = name;
	return &accounts[n_accounts++];
}

static void add(struct account *a, uint64_t bytes, uint64_t freed)
{
	a->bytes += bytes;
	a->calls++;
	a->freed += freed;
}

NOINLINE static void small_ones(void)
{
	struct account *a = account_of(__func__);

	for (int i = 0; i < 2000; i++) {
		size_t bytes = 1000 + random_number() % 8000;

		sink = malloc(bytes);
		add(a, bytes, bytes);
		free(sink);
	}
}

NOINLINE static void zeroed(void)
{
	struct account *a = account_of(__func__);

	for (int i = 0; i < 1000; i++) {
		size_t n = 1 + random_number() % 200;

		sink = calloc(n, 100);
		add(a, n * 100, n * 100);
		free(sink);
	}
}

NOINLINE static void grow_chain(void)
{
	struct account *a = account_of(__func__);
	void *block = NULL;
	size_t before = 0;

	for (size_t bytes = 500; bytes < 200000; bytes += 500) {
		block = realloc(block, bytes);
		sink = block;
		add(a, bytes, before);
		before = bytes;
	}
	free(block);
	a->freed += before;
}

NOINLINE static void aligned(void)
{
	struct account *a = account_of(__func__);

	for (int i = 0; i < 300; i++) {
		size_t bytes = 64 * (1 + random_number() % 300);
		void *block = NULL;

		if (posix_memalign(&block, 64, bytes))
			abort();
		sink = block;
		free(sink);
		sink = aligned_alloc(8, bytes);
		free(sink);
		sink = memalign(256, bytes);
		free(sink);
		a->calls += 2;
		add(a, 3 * bytes, 3 * bytes);
	}
}

NOINLINE static void large(void)
{
	struct account *a = account_of(__func__);

	for (int i = 0; i < 30; i++) {
		size_t bytes = 100000 + random_number() % 3000000;

		sink = malloc(bytes);
		add(a, bytes, bytes);
		free(sink);
	}
}

NOINLINE static void copies(void)
{
	static char text[4000];
	struct account *a = account_of(__func__);

	memset(text, 'x', sizeof(text) - 1);
	for (int i = 0; i < 1000; i++) {
		sink = strndup(text, sizeof(text) - 1);
		free(sink);
		add(a, sizeof(text), sizeof(text));
	}
}

NOINLINE static void keep(void)
{
	struct account *a = account_of(__func__);

	for (int i = 0; i < 500 && n_kept < MOST; i++) {
		kept[n_kept++] = malloc(20000);
		add(a, 20000, 0);
	}
}

NOINLINE static void by_library(void)
{
	struct account *a = account_of(__func__);

	for (int i = 0; i < 4000; i++) {
		sink = late_malloc(1000);
		add(a, 1000, i % 2 ? 1000 : 0);
		if (i % 2)
			late_free(sink);
	}
}

static void say(void)
{
	printf("{");
	for (int i = 0; i < n_accounts; i++)
		printf("%s\"%s\": {\"bytes\": %" PRIu64 ", \"calls\": %" PRIu64 ", \"freed\": %" PRIu64 "}",
		       i ? ", " : "", accounts[i].name, accounts[i].bytes, accounts[i].calls, accounts[i].freed);
	printf("}\n");
	fflush(stdout);
}

static void play(const char *library)
{
	char line[64];

	while (fgets(line, sizeof(line), stdin)) {
#ifndef NO_LIBRARY
		if (library && !late_malloc) {
			void *loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);

			if (!loaded)
				abort();
			late_malloc = (void *(*)(size_t))dlsym(loaded, "mi_malloc");
			late_free = (void (*)(void *))dlsym(loaded, "mi_free");
			say();
			continue;
		}
#endif
		if (library) {
			by_library();
		} else {
			small_ones();
			zeroed();
			grow_chain();
			aligned();
			large();
			copies();
			keep();
		}
		say();
	}
}

static struct account busy_account = { .name = "busy" };

/* So many rounds of work between two calls. */
static unsigned busy_work;
static volatile unsigned work;

NOINLINE static void busy(size_t bytes)
{
	for (;;) {
		for (unsigned i = 0; i < busy_work; i++)
			work = work * 3 + i;
		sink = malloc(bytes);
		free(sink);
		__atomic_fetch_add(&busy_account.calls, 1, __ATOMIC_RELAXED);
	}
}

static void *be_busy(void *bytes)
{
	busy((size_t)(uintptr_t)bytes);
	return NULL;
}

static void play_busy(size_t bytes, unsigned work_rounds)
{
	pthread_t thread;
	char line[64];

	busy_work = work_rounds;
	if (pthread_create(&thread, NULL, be_busy, (void *)(uintptr_t)bytes))
		abort();
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t calls = __atomic_load_n(&busy_account.calls, __ATOMIC_RELAXED);

		accounts[0] = (struct account){ "busy", calls * bytes, calls, calls * bytes };
		n_accounts = 1;
		say();
	}
}

NOINLINE static void *keep_block(size_t bytes)
{
	char *block = malloc(bytes);

	memset(block, 1, bytes);
	return block;
}

/* In steps of 10 ms, by the clock: after a step that came late the next one compensates. */
static void play_for(double mb_a_second, size_t most)
{
	const size_t bytes = 4000;
	struct timespec begin, now;
	uint64_t made = 0;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (;;) {
		double seconds;

		clock_gettime(CLOCK_MONOTONIC, &now);
		seconds = (double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) / 1e9;
		for (; (double)(made * bytes) < seconds * mb_a_second * 1e6; made++) {
			if (most) {
				free(kept[made % most]);
				kept[made % most] = keep_block(bytes);
			} else {
				sink = keep_block(bytes);
			}
		}
		usleep(10000);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "script", *argument = argc > 2 ? argv[2] : NULL;

	if (!strcmp(mode, "fork") && fork())
		pause();
	puts("ready");
	fflush(stdout);
	if (!strcmp(mode, "busy"))
		play_busy((size_t)atoi(argument), argc > 3 ? (unsigned)atoi(argv[3]) : 0);
	else if (!strcmp(mode, "steady"))
		play_for(atof(argument), 2500);
	else if (!strcmp(mode, "leak"))
		play_for(atof(argument), 0);
	else
		play(!strcmp(mode, "late") ? argument : NULL);
	return 0;
}
