// SPDX-License-Identifier: GPL-2.0-or-later
/* Ranks, PIDs and TIDs in few words. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/dump_internal.h"

#define COLUMNS    80
#define EACH_MAX   4  /* processes that are named one by one in a group */
#define RANGES_MAX 16 /* more of a group's PIDs and TIDs are counted only */

#define GLUE '\x01' /* a blank at which no line ends */

/* Wraps at blanks. */
static void print_lines(char *text, FILE *out)
{
	size_t column = 0;
	char *save = NULL;

	for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		size_t n = strlen(word);

		for (char *at = word; (at = strchr(at, GLUE));)
			*at = ' ';
		if (column && column + 1 + n > COLUMNS) {
			fputc('\n', out);
			column = 0;
		}
		column += (size_t)fprintf(out, "%s%s", column ? " " : "  ", word);
	}
	fputc('\n', out);
}

static int compare_numbers(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* "0-2, 4, 6-9"; sorts the numbers. */
static void print_ranges(int64_t *numbers, size_t n, size_t max, FILE *out)
{
	size_t ranges = 0, last;

	qsort(numbers, n, sizeof(*numbers), compare_numbers);
	for (size_t first = 0; first < n; first = last + 1) {
		if (ranges++ == max) {
			fprintf(out, ", …%c(%zu%cmore)", GLUE, n - first, GLUE);
			return;
		}
		for (last = first; last + 1 < n && numbers[last + 1] <= numbers[last] + 1;)
			last++;
		fprintf(out, "%s%" PRId64, first ? ", " : "", numbers[first]);
		if (numbers[last] != numbers[first])
			fprintf(out, "%s%" PRId64, numbers[last] == numbers[first] + 1 ? ", " : "-", numbers[last]);
	}
}

struct place {
	int64_t rank; /* -1: none is known */
	int64_t pid;
};

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank) ?: (x->pid > y->pid) - (x->pid < y->pid);
}

static struct place place_of(const struct dump *dump)
{
	const char *rank = dump_rank(dump);
	char *end;
	int64_t number = strtoll(rank, &end, 10);

	return (struct place){ .rank = *rank && !*end && number >= 0 ? number : -1, .pid = dump->pid };
}

static void print_each(const struct place *places, size_t n, FILE *out)
{
	for (size_t i = 0; i < n; i++) {
		const char *comma = i ? ", " : "";

		if (places[i].rank < 0)
			fprintf(out, "%sPID%c%" PRId64, comma, GLUE, places[i].pid);
		else
			fprintf(out, "%srank%c%" PRId64 "%c(PID%c%" PRId64 ")", comma, GLUE, places[i].rank, GLUE, GLUE,
				places[i].pid);
	}
}

/* Up to each_max of them with the rank beside the PID, where they have one. Sorts the places. */
static int print_places(struct place *places, size_t n, size_t each_max, FILE *out)
{
	_cleanup_free_ int64_t *numbers = calloc(n + 1, sizeof(*numbers));
	bool ranked;

	if (!numbers)
		return -ENOMEM;
	qsort(places, n, sizeof(*places), compare_places);
	ranked = n && places[0].rank >= 0;
	if (n == 1 || (n <= each_max && n && places[n - 1].rank >= 0)) {
		print_each(places, n, out);
		return 0;
	}
	for (size_t i = 0; ranked && i < n; i++)
		numbers[i] = places[i].rank;
	if (ranked) {
		bool one = places[0].rank == places[n - 1].rank;

		fprintf(out, "rank%s%c", one ? "" : "s", GLUE);
		print_ranges(numbers, n, n, out);
		if (n > RANGES_MAX)
			return 0; /* the head has their PIDs */
		fprintf(out, " (");
	}
	for (size_t i = 0; i < n; i++)
		numbers[i] = places[i].pid;
	fprintf(out, "PIDs%c", GLUE);
	print_ranges(numbers, n, RANGES_MAX, out);
	if (ranked)
		fputc(')', out);
	return 0;
}

/* The processes of a group, each once. */
static int print_group_processes(const struct dump_group *group, FILE *out)
{
	_cleanup_free_ struct place *places = calloc(group->n + 1, sizeof(*places));
	const struct dump *before = NULL;
	size_t n = 0;

	if (!places)
		return -ENOMEM;
	for (size_t i = 0; i < group->n; i++) {
		if (group->threads[i]->dump == before)
			continue;
		before = group->threads[i]->dump;
		places[n++] = place_of(before);
	}
	return print_places(places, n, EACH_MAX, out);
}

static int print_tids(const struct dump_group *group, FILE *out)
{
	_cleanup_free_ int64_t *numbers = calloc(group->n + 1, sizeof(*numbers));

	if (!numbers)
		return -ENOMEM;
	for (size_t i = 0; i < group->n; i++)
		numbers[i] = group->threads[i]->sample->tid;
	fprintf(out, "threads%c", GLUE);
	print_ranges(numbers, group->n, RANGES_MAX, out);
	return 0;
}

static int print_where(const struct dump_group *group, bool one_process, FILE *out)
{
	int ret = 0;

	if (!group->main && group->n > 1)
		ret = print_tids(group, out);
	if (!ret && !group->main && !one_process)
		fprintf(out, "%sof%c", group->n > 1 ? " " : "", GLUE);
	return !ret && !one_process ? print_group_processes(group, out) : ret;
}

/* Takes the file, and the text that it has written. */
static int print_stream(int ret, FILE *stream, char **text, FILE *out)
{
	ret = fclose(stream) ? -ENOMEM : ret;
	if (!ret && **text)
		print_lines(*text, out);
	free(*text);
	return ret;
}

int dump_print_where(const struct dump_group *group, bool one_process, FILE *out)
{
	char *text = NULL;
	size_t length;
	FILE *stream = open_memstream(&text, &length);

	return stream ? print_stream(print_where(group, one_process, stream), stream, &text, out) : -ENOMEM;
}

int dump_print_processes(const struct dump *const *dumps, size_t n, FILE *out)
{
	_cleanup_free_ struct place *places = calloc(n + 1, sizeof(*places));
	char *text = NULL;
	size_t length;
	FILE *stream = places ? open_memstream(&text, &length) : NULL;

	if (!stream)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		places[i] = place_of(dumps[i]);
	return print_stream(print_places(places, n, SIZE_MAX, stream), stream, &text, out);
}
