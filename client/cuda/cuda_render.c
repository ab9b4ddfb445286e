// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/cuda/cuda_view.h"

#include <errno.h>
#include <string.h>

#include "client/cuda/cuda_table.h"
#include "cuda/cuda_json.h"

/* 15 digits are what a double keeps of a decimal number; with 17, 0.1 would be written as 0.10000000000000001. */
#define JSON_STYLE (JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15))

static int print_json(json_t *answer, const struct cuda_report *report, const struct cuda_summary *summary,
		      const struct cuda_findings *findings, FILE *out)
{
	json_t *both = json_copy(answer);
	int ret = 0;

	/* A NULL is refused. */
	if (!both || json_object_set_new(both, "summary", cuda_json__summary(report, summary, findings)))
		ret = -ENOMEM;
	else if (json_dumpf(both, out, JSON_STYLE) && !ferror(out))
		ret = -ENOMEM;
	if (!ret)
		fputc('\n', out);
	json_decref(both);
	return ret;
}

static void print_tables(const struct cuda_report *report, const struct cuda_summary *summary,
			 const struct cuda_findings *findings, const struct cuda_view *view, FILE *out)
{
	cuda_table__header(report, summary, view, out);
	if (!report->available || !summary->calls)
		return;
	cuda_table__apis(summary, view, out);
	cuda_table__kernels(summary, view, out);
	cuda_table__waits(summary, view, out);
	cuda_table__stream_waits(summary, view, out);
	cuda_table__graphs(summary, out);
	cuda_table__copies(summary, view, out);
	cuda_table__sites(summary, view, out);
	cuda_table__findings(findings, view, out);
}

static int print_all(json_t *answer, const struct cuda_report *report, const struct cuda_view *view, FILE *out)
{
	_cleanup_(cuda_summary) struct cuda_summary *summary = NULL;
	_cleanup_(cuda_findings) struct cuda_findings *findings = NULL;
	int ret;

	if (view->probes && !view->json) {
		cuda_table__probes(report, view, out);
		return 0;
	}
	ret = cuda_summary__new(report, view->python_only, &summary);
	ret = ret ?: cuda_findings__new(report, summary, &findings);
	if (ret)
		return ret;
	if (view->json)
		return print_json(answer, report, summary, findings, out);
	print_tables(report, summary, findings, view, out);
	return 0;
}

int cuda_report__render(json_t *answer, const struct cuda_view *view, FILE *out, struct so_error *err)
{
	_cleanup_(cuda_report) struct cuda_report *report = NULL;
	int ret = cuda_report__read(answer, &report, err);

	if (ret)
		return ret;
	errno = 0;
	if (print_all(answer, report, view, out))
		return so_err(err, -ENOMEM, "out of memory");
	if (fflush(out) || ferror(out))
		return so_err(err, -EIO, "cannot write: %s", strerror(errno ? errno : EIO));
	return 0;
}
