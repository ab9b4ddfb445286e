/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <inttypes.h>

#include "standin_state.h"

static uint64_t get(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void add_slot(struct standin_slot *to, const struct standin_slot *from)
{
	uint64_t timed = get(&from->timed), min_ns = get(&from->min_ns), max_ns = get(&from->max_ns);

	if (timed && (!to->timed || min_ns < to->min_ns))
		to->min_ns = min_ns;
	if (max_ns > to->max_ns)
		to->max_ns = max_ns;
	to->calls += get(&from->calls);
	to->errors += get(&from->errors);
	to->not_ready += get(&from->not_ready);
	to->nested += get(&from->nested);
	to->bytes += get(&from->bytes);
	to->bytes_failed += get(&from->bytes_failed);
	for (unsigned i = 0; i < SO_CUDA_DIRECTION_COUNT; i++)
		to->directions[i] += get(&from->directions[i]);
	to->timed += timed;
	to->sum_ns += get(&from->sum_ns);
	for (unsigned i = 0; timed && i < STANDIN_BUCKETS; i++)
		to->times[i] += __atomic_load_n(&from->times[i], __ATOMIC_RELAXED);
}

void totals__add_local(struct standin_totals *totals, const struct standin_local *local)
{
	for (unsigned i = 0; i < SO_CUDA_API_COUNT; i++)
		add_slot(&totals->slots[local->image][i], &local->slots[i]);
}

static void add_memory(struct standin_memory *to, const struct standin_memory *from)
{
	to->allocations += get(&from->allocations);
	to->frees += get(&from->frees);
	to->allocated_bytes += get(&from->allocated_bytes);
	to->freed_bytes += get(&from->freed_bytes);
}

void totals__add_thread(struct standin_totals *totals, const struct standin_thread *thread)
{
	for (unsigned i = 0; i < STANDIN_KERNELS; i++)
		totals->threads.launches[i] += get(&thread->launches[i]);
	add_memory(&totals->threads.device, &thread->device);
	add_memory(&totals->threads.host, &thread->host);
}

static void print_string(const char *s, FILE *f)
{
	putc('"', f);
	for (; *s; s++)
		if (*s == '"' || *s == '\\' || (unsigned char)*s < ' ')
			fprintf(f, "\\u%04x", (unsigned char)*s);
		else
			putc(*s, f);
	putc('"', f);
}

static void print_slot(const struct standin_slot *slot, FILE *f)
{
	static const char *const words[] = {
#define X(name, word) word,
		SO_CUDA_DIRECTIONS(X)
#undef X
	};
	const char *comma = "";

	fprintf(f,
		"{\"calls\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"not_ready\":%" PRIu64 ",\"nested\":%" PRIu64
		",\"bytes\":%" PRIu64 ",\"bytes_failed\":%" PRIu64 ",\"directions\":{",
		slot->calls, slot->errors, slot->not_ready, slot->nested, slot->bytes, slot->bytes_failed);
	for (unsigned i = 0; i < SO_CUDA_DIRECTION_COUNT; i++)
		if (slot->directions[i]) {
			fprintf(f, "%s\"%s\":%" PRIu64, comma, words[i], slot->directions[i]);
			comma = ",";
		}
	fprintf(f,
		"},\"timed\":%" PRIu64 ",\"sum_ns\":%" PRIu64 ",\"min_ns\":%" PRIu64 ",\"max_ns\":%" PRIu64
		",\"times\":[",
		slot->timed, slot->sum_ns, slot->min_ns, slot->max_ns);
	comma = "";
	for (unsigned i = 0; i < STANDIN_BUCKETS; i++)
		if (slot->times[i]) {
			fprintf(f, "%s[%" PRIu64 ",%" PRIu64 ",%" PRIu32 "]", comma, standin_bucket__low(i),
				standin_bucket__low(i + 1) - standin_bucket__low(i), slot->times[i]);
			comma = ",";
		}
	fputs("]}", f);
}

static void print_image(const struct standin_slot *slots, FILE *f)
{
	const char *comma = "";

	putc('{', f);
	for (unsigned i = 0; i < SO_CUDA_API_COUNT; i++)
		if (slots[i].calls) {
			fprintf(f, "%s\"%s\":", comma, script__api_name(i));
			print_slot(&slots[i], f);
			comma = ",";
		}
	putc('}', f);
}

static void print_memory(const char *name, const struct standin_memory *memory, FILE *f)
{
	fprintf(f,
		"\"%s\":{\"allocations\":%" PRIu64 ",\"frees\":%" PRIu64 ",\"allocated_bytes\":%" PRIu64
		",\"freed_bytes\":%" PRIu64 "}",
		name, memory->allocations, memory->frees, memory->allocated_bytes, memory->freed_bytes);
}

void totals__print(const struct standin_totals *totals, const char *const *images, unsigned image_count,
		   FILE *f)
{
	const char *comma = "";

	fputs("{\"images\":{", f);
	for (unsigned i = 0; i < image_count; i++) {
		fputs(i ? "," : "", f);
		print_string(images[i], f);
		putc(':', f);
		print_image(totals->slots[i], f);
	}
	fputs("},\"kernels\":{", f);
	for (unsigned i = 0; i < STANDIN_KERNELS; i++)
		if (totals->threads.launches[i]) {
			fputs(comma, f);
			print_string(kernels__name(i), f);
			fprintf(f, ":%" PRIu64, totals->threads.launches[i]);
			comma = ",";
		}
	fputs("},\"memory\":{", f);
	print_memory("device", &totals->threads.device, f);
	putc(',', f);
	print_memory("host", &totals->threads.host, f);
	fputs("}}\n", f);
	fflush(f);
}
