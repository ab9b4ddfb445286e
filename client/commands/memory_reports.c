// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/commands/memory_reports.h"

int memory_reports__check(enum memory_kind kind, const uint8_t *bytes, size_t length, struct so_error *err)
{
	if (kind == MEMORY_GPU)
		return gpu_report__check(bytes, length, err);
	return kind == MEMORY_ALLOCATIONS ? alloc_report__check(bytes, length, err) : 0;
}

int memory_reports__read(enum memory_kind kind, const uint8_t *bytes, size_t length, struct memory_reports *out,
			 struct so_error *err)
{
	out->kind = kind;
	if (kind == MEMORY_GPU)
		return gpu_report__read(bytes, length, &out->gpu, err);
	if (kind == MEMORY_ALLOCATIONS)
		return alloc_report__read(bytes, length, &out->allocations, err);
	return memory_report__read(bytes, length, &out->pages, err);
}

void memory_reports__clear(struct memory_reports *reports)
{
	memory_report__clear(&reports->pages);
	gpu_report__clear(&reports->gpu);
	alloc_report__clear(&reports->allocations);
}

const struct profile *memory_reports__in_use(const struct memory_reports *reports)
{
	if (reports->kind == MEMORY_GPU)
		return reports->gpu.in_use;
	return reports->kind == MEMORY_ALLOCATIONS ? reports->allocations.memory.in_use : reports->pages.in_use;
}

void memory_reports__print(const struct memory_reports *reports, unsigned top, FILE *out)
{
	if (reports->kind == MEMORY_GPU)
		gpu_report__print(&reports->gpu, top, out);
	else if (reports->kind == MEMORY_ALLOCATIONS)
		alloc_report__print(&reports->allocations, top, out);
	else
		memory_report__print(&reports->pages, top, out);
}

json_t *memory_reports__json(const struct memory_reports *reports)
{
	if (reports->kind == MEMORY_GPU)
		return gpu_report__json(&reports->gpu);
	if (reports->kind == MEMORY_ALLOCATIONS)
		return alloc_report__json(&reports->allocations);
	return memory_report__json(&reports->pages);
}

/* *sample_bytes: what a page, or a call, that was chosen is worth at most; 0: nothing is chosen. */
static const struct memory_lines *lines_of(const struct memory_reports *reports, double *sample_bytes)
{
	if (reports->kind == MEMORY_GPU) {
		*sample_bytes = 0;
		return reports->gpu.lines;
	}
	if (reports->kind == MEMORY_ALLOCATIONS) {
		*sample_bytes = reports->allocations.sample_bytes;
		return reports->allocations.memory.lines;
	}
	*sample_bytes = reports->pages.page_bytes;
	return reports->pages.lines;
}

int memory_reports__compare(const struct memory_reports *before, const struct memory_reports *now,
			    struct memory_moments *out)
{
	double before_bytes, now_bytes;
	const struct memory_lines *first = lines_of(before, &before_bytes), *second = lines_of(now, &now_bytes);

	return memory_moments__compare(first, before_bytes, second, now_bytes, out);
}
