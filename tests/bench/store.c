// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hours of history, simulated at speed: what writing, merging and asking cost. Prints JSON lines: one an hour, with the
 * most that the store's files took at any time of it, and at the end the times of ranges of ten minutes all over the
 * history, of one target and of all.
 * Usage: store DIR [HOURS 24] [TARGETS 4] [STACKS 600] [RETAIN_MIB 1024]; DIR must be empty.
 *
 * Each target's windows come round from a few made-up profiles of MADE_PROFILE_TRAINING's depth and variety, one half
 * of whose stacks they share.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/os/clock.h"
#include "daemon/history/store.h"
#include "tests/unit/made_profile.h"

#define WINDOW_NS   (10 * STORE_SECOND_NS)
#define HOUR_NS     (3600 * STORE_SECOND_NS)
#define BEGIN_NS    ((int64_t)1700000400 * STORE_SECOND_NS)
#define PROFILES    24
#define MAX_TARGETS 64
#define QUESTIONS   100

static int64_t now_ns = BEGIN_NS;

static int64_t simulated_clock(void)
{
	return now_ns;
}

static double ms_since(uint64_t began_ns)
{
	return (double)(clock__now_ns() - began_ns) / 1e6;
}

struct material {
	uint8_t *bytes[PROFILES];
	size_t lengths[PROFILES];
	uint64_t samples[PROFILES];
};

static int make_material(struct material *m, unsigned stacks)
{
	for (unsigned i = 0; i < PROFILES; i++) {
		struct made_profile made = MADE_PROFILE_TRAINING;

		made.stacks = stacks;
		made.seed = i;
		m->samples[i] = made_profile__make(&made, &m->bytes[i], &m->lengths[i]);
		if (!m->samples[i])
			return -1;
	}
	return 0;
}

static long resident_kib(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/statm", "re");
	long pages = 0;

	return f && fscanf(f, "%*s %ld", &pages) == 1 ? pages * (sysconf(_SC_PAGESIZE) / 1024) : -1;
}

/* What the store takes of the disk: database, write-ahead log and its index. */
static double files_mib(const char *dir)
{
	static const char *const endings[] = { "", "-wal", "-shm" };
	char path[4096];
	struct stat st;
	double sum = 0;

	for (unsigned i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		snprintf(path, sizeof(path), "%s/history.sqlite%s", dir, endings[i]);
		sum += stat(path, &st) ? 0 : (double)st.st_size / (1 << 20);
	}
	return sum;
}

struct costs {
	const char *dir;
	double add_ms, maintain_ms, worst_add_ms, worst_maintain_ms, most_mib;
};

static void note_size(struct costs *costs)
{
	double mib = files_mib(costs->dir);

	costs->most_mib = mib > costs->most_mib ? mib : costs->most_mib;
}

static int write_round(struct store *store, const struct material *m, const uint32_t *targets, unsigned n,
		       unsigned long round, struct costs *costs)
{
	for (unsigned t = 0; t < n; t++) {
		unsigned which = (unsigned)(round * 7 + t * 5) % PROFILES;
		const struct store_window window = { now_ns,
						     now_ns + WINDOW_NS,
						     m->samples[which],
						     0,
						     m->bytes[which],
						     m->lengths[which],
						     NULL,
						     false,
						     { .known = false } };
		uint64_t began_ns = clock__now_ns();
		int r = store__add(store, targets[t], &window);
		double ms = ms_since(began_ns);

		if (r)
			return r;
		costs->add_ms += ms;
		costs->worst_add_ms = ms > costs->worst_add_ms ? ms : costs->worst_add_ms;
		note_size(costs);
	}
	return 0;
}

static int maintain(struct store *store, struct costs *costs)
{
	uint64_t began_ns = clock__now_ns();
	int r = store__maintain(store, 1000);
	double ms = ms_since(began_ns);

	costs->maintain_ms += ms;
	costs->worst_maintain_ms = ms > costs->worst_maintain_ms ? ms : costs->worst_maintain_ms;
	note_size(costs);
	return r < 0 ? r : 0;
}

static int run_hour(struct store *store, const char *dir, const struct material *m, const uint32_t *targets,
		    unsigned n, unsigned hour)
{
	struct costs costs = { .dir = dir };
	struct store_stats stats;
	int r = 0;

	for (unsigned long round = hour * 360ul; !r && round < (hour + 1) * 360ul; round++) {
		r = write_round(store, m, targets, n, round, &costs);
		now_ns += WINDOW_NS;
		r = r ? r : maintain(store, &costs);
	}
	r = r ? r : store__stats(store, &stats);
	if (r)
		return r;
	printf("{\"hour\": %u, \"add_ms\": %.2f, \"worst_add_ms\": %.1f, \"maintain_ms\": %.2f, "
	       "\"worst_maintain_ms\": %.1f, "
	       "\"file_mib\": %.1f, \"most_mib\": %.1f, \"windows\": [%llu, %llu, %llu], \"rss_mib\": %.1f}\n",
	       hour + 1, costs.add_ms / (360. * n), costs.worst_add_ms, costs.maintain_ms / (360. * n),
	       costs.worst_maintain_ms, (double)stats.file_bytes / (1 << 20), costs.most_mib,
	       (unsigned long long)stats.windows[0], (unsigned long long)stats.windows[1],
	       (unsigned long long)stats.windows[2], (double)resident_kib() / 1024);
	return fflush(stdout);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Ten minutes that begin anywhere; the answers' times. */
static int ask(struct store *store, int64_t target, const char *name, int64_t first_ns, int64_t last_ns)
{
	uint64_t windows = 0, began_ns, most_windows = 0;
	double ms[QUESTIONS];

	for (unsigned i = 0; i < QUESTIONS; i++) {
		/* One half of them in the last hour, where the windows are finest. */
		int64_t room = last_ns - first_ns - 600 * STORE_SECOND_NS;
		int64_t part = i % 2 && room > HOUR_NS ? HOUR_NS : room;
		int64_t from_ns = last_ns - 600 * STORE_SECOND_NS -
				  (int64_t)(made_profile__mix(i) / 4294967296. * (double)part);
		const struct store_query query = { target, from_ns, from_ns + 600 * STORE_SECOND_NS };
		_cleanup_free_ uint8_t *bytes = NULL;
		struct store_span span;
		struct so_error err;
		size_t length;

		began_ns = clock__now_ns();
		if (store__profile(store, &query, &bytes, &length, &span, &err)) {
			fprintf(stderr, "%s\n", err.text);
			return -1;
		}
		ms[i] = ms_since(began_ns);
		windows += span.windows;
		most_windows = span.windows > most_windows ? span.windows : most_windows;
	}
	qsort(ms, QUESTIONS, sizeof(ms[0]), by_size);
	printf("{\"ten_minutes_of\": \"%s\", \"median_ms\": %.1f, \"worst_ms\": %.1f, \"mean_windows\": %.1f, "
	       "\"most_windows\": %llu, "
	       "\"rss_mib\": %.1f}\n",
	       name, ms[QUESTIONS / 2], ms[QUESTIONS - 1], (double)windows / QUESTIONS,
	       (unsigned long long)most_windows, (double)resident_kib() / 1024);
	return 0;
}

static unsigned argument(int argc, char **argv, int i, unsigned otherwise)
{
	return argc > i ? (unsigned)strtoul(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
	unsigned hours = argument(argc, argv, 2, 24), n = argument(argc, argv, 3, 4);
	struct store_options options = { .dir = argc > 1 ? argv[1] : NULL,
					 .retain_size_bytes = (uint64_t)argument(argc, argv, 5, 1024) << 20,
					 .now_ns = simulated_clock,
					 .elapsed_ns = simulated_clock };
	_cleanup_(store) struct store *store = NULL;
	static struct material material;
	uint32_t targets[MAX_TARGETS];
	struct so_error err = { "" };
	int r = 0;

	if (argc < 2 || !n || n > MAX_TARGETS || make_material(&material, argument(argc, argv, 4, 600)) ||
	    store__open(&options, &store, &err)) {
		fprintf(stderr, "usage: store DIR [HOURS] [TARGETS] [STACKS] [RETAIN_MIB]  %s\n", err.text);
		return 2;
	}
	for (unsigned t = 0; t < n; t++)
		store__begin_target(store, &(struct store_target){ 100 + (pid_t)t, t, "train", NULL, 0 }, &targets[t]);
	for (unsigned hour = 0; !r && hour < hours; hour++)
		r = run_hour(store, options.dir, &material, targets, n, hour);
	r = r ? r : ask(store, 1, "one target", BEGIN_NS, now_ns);
	r = r ? r : ask(store, 0, "all targets", BEGIN_NS, now_ns);
	for (unsigned i = 0; i < PROFILES; i++)
		free(material.bytes[i]);
	return r ? 1 : 0;
}
