// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/api/api_history.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/os/clock.h"

#define MAX_AGO_S 1e9 /* some 30 years */

int api_history__check(const struct history *history, struct so_error *err)
{
	return history ? 0
		       : so_err(err, -ENODATA,
				"the daemon keeps no history: start it with --store DIR, and attach processes");
}

bool api_history__wants_range(const struct http_request *request)
{
	return http_request__argument(request, "since") || http_request__argument(request, "until");
}

static int64_t now_ns(void)
{
	return (int64_t)clock__read_ns(CLOCK_REALTIME);
}

static int check_order(const struct history_range *range, struct history_range *out, struct so_error *err)
{
	if (range->from_ns >= range->to_ns)
		return so_err(err, -EINVAL, "the range of time is empty");
	*out = *range;
	return 0;
}

static int take_ago(const struct http_request *request, const char *name, int64_t at_ns, int64_t *out,
		    struct so_error *err)
{
	const char *text = http_request__argument(request, name);
	double seconds;
	char *end;

	if (!text)
		return 0;
	seconds = strtod(text, &end);
	if (end == text || *end || !(seconds >= 0 && seconds <= MAX_AGO_S))
		return so_err(err, -EINVAL, "%s must be a number of seconds ago, up to %.0f", name, MAX_AGO_S);
	*out = at_ns - (int64_t)(seconds * 1e9);
	return 0;
}

int api_history__ago(const struct http_request *request, struct history_range *out, struct so_error *err)
{
	int64_t at_ns = now_ns();
	struct history_range range = { 0, at_ns };
	int ret = take_ago(request, "since", at_ns, &range.from_ns, err);

	ret = ret ?: take_ago(request, "until", at_ns, &range.to_ns, err);
	return ret ?: check_order(&range, out, err);
}

static int take_ns(const struct http_request *request, const char *name, int64_t *out, struct so_error *err)
{
	const char *text = http_request__argument(request, name);
	long long value;
	char *end;

	if (!text)
		return 0;
	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno || text[0] < '0' || text[0] > '9' || *end)
		return so_err(err, -EINVAL, "%s must be a whole number of ns since 1970-01-01 UTC", name);
	*out = value;
	return 0;
}

int api_history__range(const struct http_request *request, struct history_range *out, struct so_error *err)
{
	struct history_range range = { 0, now_ns() };
	int ret = take_ns(request, "from_ns", &range.from_ns, err);

	ret = ret ?: take_ns(request, "to_ns", &range.to_ns, err);
	return ret ?: check_order(&range, out, err);
}
