// SPDX-License-Identifier: GPL-2.0-or-later
#include "stakeout/time_range.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#define SECOND_NS ((int64_t)1000000000)
#define DAYS_BACK 3 /* a time of day that two days running leave out does not exist */

enum side { FIRST, SECOND }; /* of a time that the clock shows twice */

struct text {
	const char *option, *whole, *at; /* at: what is not read yet */
};

static int not_a_time(const struct text *text, struct so_error *err)
{
	return so_err(err, -EINVAL, "--%s needs a time such as 5m, 2h, 03:12 or '2026-11-20 03:12', not '%.100s'",
		      text->option, text->whole);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Exactly so many digits. */
static bool take_digits(struct text *text, unsigned n, int *out)
{
	int value = 0;

	for (unsigned i = 0; i < n; i++) {
		if (!is_digit(text->at[i]))
			return false;
		value = value * 10 + text->at[i] - '0';
	}
	text->at += n;
	*out = value;
	return true;
}

static bool take_char(struct text *text, char c)
{
	if (*text->at != c)
		return false;
	text->at++;
	return true;
}

/* "1h30m": 1, and the seconds; 0: something else; -EINVAL: too long. */
static int take_ago(struct text *text, int64_t *seconds, struct so_error *err)
{
	static const struct {
		char letter;
		int64_t seconds;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 }, { 'w', 7 * 86400 } };
	const char *at = text->at;
	int64_t sum = 0;

	do {
		int64_t value = 0, unit = 0;

		if (!is_digit(*at))
			return 0;
		for (; is_digit(*at); at++)
			if (value <= TIME_RANGE_MAX_AGO_S)
				value = value * 10 + *at - '0';
		for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
			if (*at && *at == units[i].letter)
				unit = units[i].seconds;
		if (!unit)
			return 0;
		at++;
		if (value > TIME_RANGE_MAX_AGO_S / unit || sum + value * unit > TIME_RANGE_MAX_AGO_S)
			return so_err(err, -EINVAL, "--%s goes back ten years at most, not '%.100s'", text->option,
				      text->whole);
		sum += value * unit;
	} while (*at);
	text->at = at;
	*seconds = sum;
	return 1;
}

/* "03:12" or "03:12:30" */
static bool take_clock(struct text *text, struct tm *tm)
{
	tm->tm_sec = 0;
	if (!take_digits(text, 2, &tm->tm_hour) || !take_char(text, ':') || !take_digits(text, 2, &tm->tm_min))
		return false;
	if (take_char(text, ':') && !take_digits(text, 2, &tm->tm_sec))
		return false;
	return tm->tm_hour < 24 && tm->tm_min < 60 && tm->tm_sec < 60;
}

static bool take_date(struct text *text, struct tm *tm)
{
	if (!take_digits(text, 4, &tm->tm_year) || !take_char(text, '-') || !take_digits(text, 2, &tm->tm_mon) ||
	    !take_char(text, '-') || !take_digits(text, 2, &tm->tm_mday))
		return false;
	tm->tm_year -= 1900;
	tm->tm_mon--;
	return tm->tm_year >= 70;
}

static bool same_time(const struct tm *a, const struct tm *b)
{
	return a->tm_year == b->tm_year && a->tm_mon == b->tm_mon && a->tm_mday == b->tm_mday &&
	       a->tm_hour == b->tm_hour && a->tm_min == b->tm_min && a->tm_sec == b->tm_sec;
}

/* All moments when the local clock shows this, in order: those of mktime(3), with summer time and without, that do. */
static unsigned local_moments(const struct tm *wanted, time_t moments[2])
{
	unsigned n = 0;

	for (int summer = 1; summer >= 0; summer--) {
		struct tm tm = *wanted, shown;
		time_t moment;

		tm.tm_isdst = summer;
		moment = mktime(&tm);
		if (moment == (time_t)-1 || !localtime_r(&moment, &shown) || !same_time(&shown, wanted))
			continue;
		if (!n || moments[0] != moment)
			moments[n++] = moment;
	}
	if (n == 2 && moments[0] > moments[1]) {
		time_t later = moments[0];

		moments[0] = moments[1];
		moments[1] = later;
	}
	return n;
}

/* The one that counts, of those not in the future; of a time wholly in the future, its first. */
static time_t choose(const time_t moments[2], unsigned n, enum side side, time_t now)
{
	return (side == SECOND && n == 2 && moments[1] <= now) ? moments[1] : moments[0];
}

/* The given day, or the `days_back`th before today where there was none. */
static bool nearest_clock(const struct tm *clock, enum side side, time_t now, time_t *out)
{
	for (int back = 0; back < DAYS_BACK; back++) {
		struct tm day;
		time_t moments[2], moment;
		unsigned n;

		localtime_r(&now, &day);
		/* At noon every day has one, whatever the clock does at night. */
		day.tm_mday -= back;
		day.tm_hour = 12;
		day.tm_min = day.tm_sec = 0;
		day.tm_isdst = -1;
		mktime(&day);
		day.tm_hour = clock->tm_hour;
		day.tm_min = clock->tm_min;
		day.tm_sec = clock->tm_sec;
		n = local_moments(&day, moments);
		if (!n)
			continue;
		moment = choose(moments, n, side, now);
		if (moment <= now) {
			*out = moment;
			return true;
		}
	}
	return false;
}

/* Where midnight is skipped too, the day begins where mktime(3) shifts midnight from the side of the day itself. */
static int date_moment(const struct text *text, const struct tm *tm, enum side side, bool has_clock, time_t now,
		       time_t *out, struct so_error *err)
{
	struct tm shifted = *tm, noon = *tm;
	time_t moments[2];
	unsigned n = local_moments(tm, moments);

	if (n) {
		*out = choose(moments, n, side, now);
		return 0;
	}
	noon.tm_hour = 12;
	if (!local_moments(&noon, moments))
		return so_err(err, -EINVAL, "--%s: there is no such day as in '%.100s'", text->option, text->whole);
	if (has_clock)
		return so_err(err, -EINVAL, "--%s: on that day the clock leaves out '%.100s'", text->option,
			      text->whole);
	shifted.tm_isdst = -1;
	*out = mktime(&shifted);
	return 0;
}

static int utc_moment(const struct text *text, const struct tm *tm, time_t *out, struct so_error *err)
{
	struct tm copy = *tm, shown;
	time_t moment = timegm(&copy);

	if (!gmtime_r(&moment, &shown) || !same_time(&shown, tm))
		return so_err(err, -EINVAL, "--%s: there is no such day as in '%.100s'", text->option, text->whole);
	*out = moment;
	return 0;
}

static int parse_date(struct text *text, enum side side, time_t now, time_t *out, struct so_error *err)
{
	struct tm tm = { .tm_isdst = -1 };
	bool has_clock, utc;

	if (!take_date(text, &tm))
		return not_a_time(text, err);
	has_clock = *text->at != '\0';
	if (has_clock && ((!take_char(text, ' ') && !take_char(text, 'T')) || !take_clock(text, &tm)))
		return not_a_time(text, err);
	utc = has_clock && take_char(text, 'Z');
	if (*text->at)
		return not_a_time(text, err);
	return utc ? utc_moment(text, &tm, out, err) : date_moment(text, &tm, side, has_clock, now, out, err);
}

static int parse_moment(const char *option, const char *value, enum side side, int64_t now_ns, int64_t *out_ns,
			struct so_error *err)
{
	struct text text = { option, value, value };
	time_t now = (time_t)(now_ns / SECOND_NS), moment = 0;
	struct tm clock = { 0 };
	int64_t seconds = 0;
	int ret;

	if (!strcmp(value, "now")) {
		*out_ns = now_ns;
		return 0;
	}
	ret = take_ago(&text, &seconds, err);
	if (ret < 0)
		return ret;
	if (ret) {
		*out_ns = now_ns > seconds * SECOND_NS ? now_ns - seconds * SECOND_NS : 0;
		return 0;
	}
	if (take_clock(&text, &clock) && !*text.at) {
		if (!nearest_clock(&clock, side, now, &moment))
			return so_err(err, -EINVAL, "--%s: the clock has not shown '%.100s' these days", option, value);
	} else {
		text.at = value;
		ret = parse_date(&text, side, now, &moment, err);
		if (ret < 0)
			return ret;
	}
	*out_ns = (int64_t)moment * SECOND_NS;
	return 0;
}

/* A time of day without seconds is called after the minute that begins then. */
static bool is_minute(const char *at)
{
	const char *colon = strchr(at, ':');

	return colon && !strchr(colon + 1, ':');
}

static int parse_at(const char *at, int64_t now_ns, struct time_range *out, struct so_error *err)
{
	int64_t at_ns;
	int ret = parse_moment("at", at, SECOND, now_ns, &at_ns, err);

	if (ret)
		return ret;
	if (at_ns > now_ns)
		return so_err(err, -EINVAL, "--at '%.100s' is in the future", at);
	if (!is_minute(at) || at_ns == now_ns)
		at_ns -= TIME_RANGE_AT_NS / 2;
	out->from_ns = at_ns > 0 ? at_ns : 0;
	out->to_ns = at_ns + TIME_RANGE_AT_NS < now_ns ? at_ns + TIME_RANGE_AT_NS : now_ns;
	return 0;
}

int time_range__parse(const char *since, const char *until, const char *at, int64_t now_ns, struct time_range *out,
		      struct so_error *err)
{
	struct time_range range = { 0, now_ns };
	int ret = 0;

	tzset();
	if (at && (since || until))
		return so_err(err, -EINVAL, "--at does not go with --since or --until");
	if (at)
		return parse_at(at, now_ns, out, err);
	if (since)
		ret = parse_moment("since", since, FIRST, now_ns, &range.from_ns, err);
	if (!ret && until)
		ret = parse_moment("until", until, SECOND, now_ns, &range.to_ns, err);
	if (ret)
		return ret;
	if (range.from_ns >= now_ns && since)
		return so_err(err, -EINVAL, "--since '%.100s' is not in the past", since);
	if (range.to_ns > now_ns)
		range.to_ns = now_ns;
	if (range.from_ns >= range.to_ns)
		return so_err(err, -EINVAL, "the range is empty: --since is not before --until");
	*out = range;
	return 0;
}
