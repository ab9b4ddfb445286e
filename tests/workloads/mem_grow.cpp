// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Grows by a known rate, or allocates as much and keeps nothing:
 * `mem_grow leak|churn|both|large|steady|populate MB_A_SECOND`.
 * Says "ready", then what it has kept, in bytes, whenever it is asked by a line on standard input.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#define NOINLINE __attribute__((noinline))

static std::vector<std::unique_ptr<char[]>> kept;
static unsigned long kept_bytes;
static volatile char sink;

static double now()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Blocks of some KB, as records of a log would be. */
NOINLINE static void leak_record(size_t bytes)
{
	kept.emplace_back(new char[bytes]);
	memset(kept.back().get(), 1, bytes);
	kept_bytes += bytes;
}

/* So large that each is mapped anew, and given back at once. */
NOINLINE static void churn_buffer(size_t bytes)
{
	void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	memset(p, 1, bytes);
	sink = static_cast<char *>(p)[bytes / 2];
	munmap(p, bytes);
}

/* 2 MiB at a time, in huge pages where the machine has them. */
NOINLINE static void leak_huge(size_t bytes)
{
	void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	madvise(p, bytes, MADV_HUGEPAGE);
	memset(p, 1, bytes);
	kept_bytes += bytes;
}

/* A cache of a fixed size: as it grows older its entries are replaced. */
NOINLINE static void replace_entry(size_t bytes)
{
	static std::vector<std::unique_ptr<char[]>> cache(256);
	static size_t next;

	cache[next].reset(new char[bytes]);
	memset(cache[next].get(), 1, bytes);
	next = (next + 1) % cache.size();
}

/* One page by a fault, which counts as kept, and then many that the call itself makes resident. */
NOINLINE static void touch_one()
{
	void *p = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	memset(p, 1, 4096);
	kept_bytes += 4096;
}

NOINLINE static void populate(size_t bytes)
{
	if (mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) ==
	    MAP_FAILED)
		abort();
}

/* behind: it cannot keep up with its rate, and does not wait. */
static bool answer(bool behind)
{
	pollfd in = { STDIN_FILENO, POLLIN, 0 };
	char line[64];

	if (poll(&in, 1, behind ? 0 : 10) <= 0)
		return true;
	if (!fgets(line, sizeof(line), stdin))
		return false;
	printf("%lu\n", kept_bytes);
	fflush(stdout);
	return true;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "leak";
	double rate = (argc > 2 ? atof(argv[2]) : 1) * 1e6, begin, round, done = 0;

	setvbuf(stdin, nullptr, _IONBF, 0);
	/* What is there from the first moment on is no growth. */
	for (int i = 0; !strcmp(mode, "steady") && i < 512; i++)
		replace_entry(65536);
	puts("ready");
	fflush(stdout);
	begin = now();
	do {
		round = now();
		while (done < (now() - begin) * rate && now() - round < 0.1) {
			size_t bytes = !strcmp(mode, "large") ? 8 << 20 : 1000 + rand() % 7000;

			if (!strcmp(mode, "leak") || !strcmp(mode, "both"))
				leak_record(bytes);
			if (!strcmp(mode, "large"))
				leak_huge(bytes);
			if (!strcmp(mode, "steady"))
				replace_entry(65536);
			if (!strcmp(mode, "churn") || !strcmp(mode, "both"))
				churn_buffer(bytes = 512 << 10);
			if (!strcmp(mode, "populate")) {
				touch_one();
				populate(bytes = 64 << 10);
			}
			done += bytes;
		}
	} while (answer(done < (now() - begin) * rate));
	return 0;
}
