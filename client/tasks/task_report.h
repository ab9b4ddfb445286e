/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The daemon's answer about the tasks of event loops, for people: tasks with the same frames are one group. */
#ifndef STAKEOUT_CLIENT_TASK_REPORT_H
#define STAKEOUT_CLIENT_TASK_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "stakeout/error.h"

/* answer: of GET /v1/targets/ID/tasks. most: groups that are shown. -ENOMEM. */
int task_report__print(const json_t *answer, unsigned most, FILE *out, struct so_error *err);

#endif
