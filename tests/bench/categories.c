// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the categories of /metrics cost the daemon: CPU time of reading and sorting windows of a made-up training
 * process, the first one, in which the rules are asked for each function, and later ones. categories [STACKS]: distinct
 * ones a window.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/metrics/category_counters.h"
#include "daemon/os/clock.h"
#include "profile/category_rules.h"
#include "tests/unit/made_profile.h"

#define LATER 10 /* windows */

static double cpu_ms(void)
{
	return (double)clock__read_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e6;
}

static long resident_kib(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	long pages = 0;

	if (f && fscanf(f, "%*s %ld", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * 4;
}

static void add(struct category_counters *counters, struct made_profile *made)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	struct so_error err = { "" };
	size_t length;
	double before;

	if (!made_profile__make(made, &bytes, &length))
		abort();
	before = cpu_ms();
	if (category_counters__add(counters, 1, bytes, length, &err)) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	printf("window %u: %u stacks, %zu bytes: %.1f ms of CPU time, %ld KiB resident\n", made->seed,
	       made->stacks, length, cpu_ms() - before, resident_kib());
}

int main(int argc, char **argv)
{
	struct made_profile made = MADE_PROFILE_TRAINING;
	struct category_rules *rules;
	struct category_counters *counters;
	long kib = resident_kib();
	double before = cpu_ms();

	if (argc > 1)
		made.stacks = (unsigned)atoi(argv[1]);
	if (category_rules__load(NULL, &rules, NULL) || category_counters__new(NULL, rules, &counters) ||
	    category_counters__begin(counters, 1))
		return 1;
	printf("shipped rules: %.1f ms of CPU time, %ld KiB\n", cpu_ms() - before, resident_kib() - kib);
	for (made.seed = 1; made.seed <= 1 + LATER; made.seed++)
		add(counters, &made);
	category_counters__free(counters);
	category_rules__free(rules);
	return 0;
}
