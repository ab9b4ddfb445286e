// SPDX-License-Identifier: GPL-2.0-or-later
/* `stakeout cuda --probes`: which instruction is probed for which call, how the kernel runs it, and why there. */
#include <inttypes.h>
#include <string.h>

#include "client/cuda/cuda_table.h"
#include "client/cuda/cuda_column.h"
#include "cuda/cuda_text.h"
#include "client/render/render.h"

/* Widest names of a library's probes, so that columns stand below one another. */
struct widths {
	unsigned symbol, instruction;
};

static unsigned columns_of(const char *text)
{
	return cuda_column__width(text, strlen(text));
}

static struct widths measure(const struct cuda_library *library)
{
	struct widths widths = { strlen("Symbol"), strlen("Instruction") };

	for (size_t i = 0; i < library->n_probes; i++) {
		unsigned symbol = columns_of(library->probes[i].symbol);
		unsigned instruction = columns_of(library->probes[i].instruction);

		widths.symbol = symbol > widths.symbol ? symbol : widths.symbol;
		widths.instruction = instruction > widths.instruction ? instruction : widths.instruction;
	}
	/* One absurd name does not push all others out of sight. */
	widths.symbol = widths.symbol < 48 ? widths.symbol : 48;
	widths.instruction = widths.instruction < 40 ? widths.instruction : 40;
	return widths;
}

static void left_cell(const char *text, unsigned columns, FILE *out)
{
	unsigned own = columns_of(text);

	cuda_column__name(text, columns, out);
	fprintf(out, "%*s", own < columns ? (int)(columns - own) : 0, "");
}

static void print_probe(const struct so_cuda_probe_row *probe, const struct widths *widths, FILE *out)
{
	char offset[CUDA_TEXT_BYTES];

	snprintf(offset, sizeof(offset), "+%" PRIu64, probe->offset);
	fprintf(out, "  ");
	left_cell(probe->symbol, widths->symbol, out);
	fprintf(out, "%8s  0x%-12" PRIx64 "  ", offset, probe->address);
	left_cell(probe->instruction, widths->instruction, out);
	fprintf(out, "  %-14s  %s", probe->emulated ? "emulated" : "single-stepped", *probe->why ? probe->why : "-");
	if (strcmp(probe->api, probe->symbol))
		fprintf(out, " (counts as %s)", probe->api);
	fputc('\n', out);
}

static void print_library(const struct cuda_library *library, const struct cuda_view *view, FILE *out)
{
	struct widths widths = measure(library);

	fprintf(out, "\n%s", *library->path ? library->path : "(no path)");
	fprintf(out, " (%s%s, process %" PRId64 "): %zu probe%s\n", *library->kind ? library->kind : "unknown",
		library->is_static ? ", linked in" : "", library->pid, library->n_probes,
		plural((int64_t)library->n_probes));
	if (!library->n_probes)
		return;
	fprintf(out, "  ");
	left_cell("Symbol", widths.symbol, out);
	fprintf(out, "  Offset  %-14s  ", "Address");
	left_cell("Instruction", widths.instruction, out);
	fprintf(out, "  %-14s  Why there\n", "Kind");
	for (size_t i = 0; i < library->n_probes; i++)
		print_probe(&library->probes[i], &widths, out);
}

void cuda_table__probes(const struct cuda_report *report, const struct cuda_view *view, FILE *out)
{
	size_t n = 0, emulated = 0;

	for (size_t i = 0; i < report->n_libraries; i++)
		for (size_t k = 0; k < report->libraries[i].n_probes; k++) {
			n++;
			emulated += report->libraries[i].probes[k].emulated;
		}
	fprintf(out, "Process %" PRId64 ": %zu probe%s in %zu librar%s: %zu emulated, %zu single-stepped (slower)",
		report->pid, n, plural((int64_t)n), report->n_libraries, report->n_libraries == 1 ? "y" : "ies",
		emulated, n - emulated);
	if (*report->watching.kind)
		fprintf(out, "; mechanism %s", report->watching.kind);
	fputc('\n', out);
	for (size_t i = 0; i < report->n_problems; i++) {
		fprintf(out, "problem: ");
		cuda_column__paragraph(*report->problems[i] ? report->problems[i] : "-", 9, view->width, out);
	}
	for (size_t i = 0; i < report->n_libraries; i++)
		print_library(&report->libraries[i], view, out);
}
