// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/memory/cuda_memory.h"

#include <errno.h>

#define MB 1e6

static bool is_of_memory(const struct cuda_api_row *row)
{
	return so_cuda_kind__does(row->kind) == SO_CUDA_ALLOC || so_cuda_kind__does(row->kind) == SO_CUDA_FREE;
}

static void add_up(struct cuda_memory *m)
{
	double frees = (double)cuda_summary__calls(m->summary, SO_CUDA_FREE);

	for (size_t i = 0; i < m->summary->n_sites; i++) {
		const struct cuda_allocation *site = &m->summary->sites[i];

		frees -= (double)site->frees;
		m->allocated += site->host ? 0 : (double)site->bytes;
		m->in_use += site->host ? 0 : (double)site->current_bytes;
	}
	m->frees_before = frees > 0 ? frees : 0;
	m->exact = !cuda_summary__is_estimate(m->summary, SO_CUDA_ALLOC) &&
		   !cuda_summary__is_estimate(m->summary, SO_CUDA_FREE);
}

int cuda_memory__read(const json_t *answer, struct cuda_memory *out, struct so_error *err)
{
	int ret;

	*out = (struct cuda_memory){ .report = NULL };
	ret = cuda_report__read(answer, &out->report, err);
	if (ret)
		return ret;
	if (cuda_summary__new(out->report, false, &out->summary))
		return so_err(err, -ENOMEM, "out of memory");
	add_up(out);
	return 0;
}

void cuda_memory__clear(struct cuda_memory *memory)
{
	cuda_summary__free(memory->summary);
	cuda_report__free(memory->report);
}

bool cuda_memory__any(const struct cuda_memory *memory)
{
	return memory->report->n_libraries > 0;
}

static void print_totals(const struct cuda_memory *m, FILE *out)
{
	fprintf(out, "by CUDA call, %.1f s: ", m->report->duration_s);
	if (m->exact)
		fprintf(out, "%.1f MB allocated, %.1f of it in use, by line; what was there before is not known\n",
			m->allocated / MB, m->in_use / MB);
	else
		fprintf(out, "about %.1f MB allocated; not each call was seen, so what is in use is not known\n",
			m->allocated / MB);
	if (m->exact && m->frees_before > 0)
		fprintf(out, "%.0f call%s gave back what was allocated before, or nothing\n", m->frees_before,
			m->frees_before == 1 ? "" : "s");
	for (size_t i = 0; i < m->report->n_losses; i++)
		fprintf(out, "lost: %s %llu\n", m->report->losses[i].word,
			(unsigned long long)m->report->losses[i].count);
}

static void print_calls(const struct cuda_memory *m, FILE *out)
{
	bool head = false;

	for (size_t i = 0; i < m->summary->n_apis; i++) {
		const struct cuda_api_row *row = &m->summary->apis[i];

		if (!is_of_memory(row))
			continue;
		if (!head)
			fprintf(out, "%10s %10s %10s  call\n", "calls", "failed", "allocated");
		head = true;
		fprintf(out, "%10llu %10llu ", (unsigned long long)row->figures.calls,
			(unsigned long long)row->figures.errors);
		if (so_cuda_kind__does(row->kind) == SO_CUDA_ALLOC)
			fprintf(out, "%10.1f", (double)row->figures.bytes / MB);
		else
			fprintf(out, "%10s", "");
		fprintf(out, "  %s\n", row->api);
	}
	if (!head)
		fputs("no call allocated or released memory\n", out);
}

static const char *line_of(const struct cuda_allocation *site)
{
	return site->line && *site->line ? site->line : "[no stack]";
}

static void print_lines(const struct cuda_memory *m, unsigned top, FILE *out)
{
	size_t n = m->summary->n_sites, rows = n < top ? n : top;

	if (rows)
		fprintf(out, "%10s %10s %10s %12s %10s  line\n", "in use", "peak <=", "allocated", "allocations",
			"given back");
	for (size_t i = 0; i < rows; i++) {
		const struct cuda_allocation *site = &m->summary->sites[i];

		if (m->exact)
			fprintf(out, "%10.1f %10.1f", (double)site->current_bytes / MB, (double)site->peak_bytes / MB);
		else
			fprintf(out, "%10s %10s", "-", "-");
		fprintf(out, " %10.1f %12llu %10llu  %s%s\n", (double)site->bytes / MB,
			(unsigned long long)site->allocations, (unsigned long long)site->frees, line_of(site),
			site->host ? " (host memory)" : "");
	}
	if (n > rows)
		fprintf(out, "%10s and %zu more lines\n", "", n - rows);
}

void cuda_memory__print(const struct cuda_memory *m, const char *why, unsigned top, FILE *out)
{
	fprintf(out, "%s\n", why);
	print_totals(m, out);
	print_calls(m, out);
	print_lines(m, top, out);
	fputs("MB\n", out);
}

/* null: not known. */
static json_t *known(const struct cuda_memory *m, int64_t bytes)
{
	return m->exact ? json_integer(bytes) : json_null();
}

static json_t *call_json(const struct cuda_api_row *row)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:b}", "call", row->api, "calls", (json_int_t)row->figures.calls,
			 "failed", (json_int_t)row->figures.errors, "allocated_bytes", (json_int_t)row->figures.bytes,
			 "estimated", (int)row->estimated);
}

static json_t *line_json(const struct cuda_memory *m, const struct cuda_allocation *site)
{
	return json_pack("{s:s, s:b, s:I, s:I, s:I, s:o, s:o}", "line", line_of(site), "host", (int)site->host,
			 "allocations", (json_int_t)site->allocations, "frees", (json_int_t)site->frees,
			 "allocated_bytes", (json_int_t)site->bytes, "in_use_bytes", known(m, site->current_bytes),
			 "peak_bytes", known(m, site->peak_bytes));
}

json_t *cuda_memory__json(const struct cuda_memory *m, const char *why)
{
	json_t *calls = json_array(), *lines = json_array(), *lost = json_object();

	for (size_t i = 0; calls && i < m->summary->n_apis; i++)
		if (is_of_memory(&m->summary->apis[i]))
			json_array_append_new(calls, call_json(&m->summary->apis[i]));
	for (size_t i = 0; lines && i < m->summary->n_sites; i++)
		json_array_append_new(lines, line_json(m, &m->summary->sites[i]));
	for (size_t i = 0; lost && i < m->report->n_losses; i++)
		json_object_set_new(lost, m->report->losses[i].word,
				    json_integer((json_int_t)m->report->losses[i].count));
	return json_pack("{s:I, s:f, s:s, s:s, s:b, s:f, s:o, s:f, s:o, s:o, s:o}", "pid", (json_int_t)m->report->pid,
			 "duration_s", m->report->duration_s, "by", "cuda-call", "why", why, "exact", (int)m->exact,
			 "allocated_bytes", m->allocated, "in_use_bytes", known(m, (int64_t)m->in_use), "frees_before",
			 m->frees_before, "lost", lost, "calls", calls, "lines", lines);
}
