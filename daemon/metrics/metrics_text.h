/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lines of the Prometheus text format 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats). A family is its two
 * comment lines, then all its samples in one group.
 */
#ifndef STAKEOUT_METRICS_TEXT_H
#define STAKEOUT_METRICS_TEXT_H

#include <stddef.h>
#include <stdio.h>

struct metrics_label {
	const char *name;  /* NULL: not there; the others follow */
	const char *value; /* any bytes: what is not UTF-8 and what would steer a terminal becomes '?' */
};

/* type: "counter", "gauge" or "histogram". help: one line of plain ASCII without a backslash. */
void metrics_text__family(FILE *out, const char *name, const char *type, const char *help);
/* labels: n of them, in this order. */
void metrics_text__sample(FILE *out, const char *name, const struct metrics_label *labels, size_t n, double value);

#endif
