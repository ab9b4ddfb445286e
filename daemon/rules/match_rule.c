// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/rules/match_rule.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>

#include "daemon/engine/engine.h"
#include "stakeout/regexp.h"

#define USER_BUFFER_BYTES 16384 /* for getpwnam_r(), more than _SC_GETPW_R_SIZE_MAX of any C library */
#define BLANKS            " \t"

struct match_rule {
	char *text;
	struct regexp *command, *cgroup; /* NULL: none */
	bool has_user;
	uid_t user, owner;
	unsigned rate_hz;
	bool cuda, wall;
};

static int take_pattern(struct regexp **pattern, const char *value, struct so_error *err)
{
	struct so_error why = { "" };
	int ret = regexp__compile(value, pattern, &why);

	return ret ? so_err(err, ret, "'%.200s': %s", value, why.text) : 0;
}

/* Digits only; false: it is no such number. */
static bool parse_whole(const char *text, unsigned long max, unsigned long *out)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*out = strtoul(text, &end, 10);
	return !errno && !*end && *out <= max;
}

static int take_command(struct match_rule *rule, const char *value, struct so_error *err)
{
	return take_pattern(&rule->command, value, err);
}

static int take_cgroup(struct match_rule *rule, const char *value, struct so_error *err)
{
	return take_pattern(&rule->cgroup, value, err);
}

static int take_user(struct match_rule *rule, const char *value, struct so_error *err)
{
	_cleanup_free_ char *buffer = malloc(USER_BUFFER_BYTES);
	struct passwd entry, *found = NULL;
	unsigned long number;
	int ret;

	if (!buffer)
		return so_err(err, -ENOMEM, "out of memory");
	/* The largest uid_t means "no user". */
	if (parse_whole(value, UINT32_MAX - 1ul, &number)) {
		rule->user = (uid_t)number;
	} else {
		ret = getpwnam_r(value, &entry, buffer, USER_BUFFER_BYTES, &found);
		if (!found)
			return so_err(err, -EINVAL, "there is no user '%.60s'%s%s", value, ret ? ": " : "",
				      ret ? strerror(ret) : "");
		rule->user = entry.pw_uid;
	}
	rule->has_user = true;
	return 0;
}

static int take_rate(struct match_rule *rule, const char *value, struct so_error *err)
{
	unsigned long hz;

	if (!parse_whole(value, ENGINE_MAX_RATE_HZ, &hz) || hz < ENGINE_MIN_RATE_HZ)
		return so_err(err, -EINVAL, "rate= is a whole number of Hz from %d to %d, not '%.60s'",
			      ENGINE_MIN_RATE_HZ, ENGINE_MAX_RATE_HZ, value);
	rule->rate_hz = (unsigned)hz;
	return 0;
}

#define TERM_LIST "cmd=, cgroup=, user=, rate=, cuda and wall"

static const struct term {
	const char *name; /* with its '=' */
	int (*take)(struct match_rule *rule, const char *value, struct so_error *err);
} terms[] = {
	{ "cmd=", take_command },
	{ "cgroup=", take_cgroup },
	{ "user=", take_user },
	{ "rate=", take_rate },
};

#define N_TERMS (sizeof(terms) / sizeof(terms[0]))

/* Number of the term with which a text begins; N_TERMS: none. */
static size_t find_term(const char *text)
{
	size_t i = 0;

	while (i < N_TERMS && strncmp(text, terms[i].name, strlen(terms[i].name)) != 0)
		i++;
	return i;
}

/* Whether it looks like a term: letters and '='. */
static bool has_term_form(const char *text)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz_-");

	return n && text[n] == '=' && text[0] != '-';
}

/* Cuts a value off: up to the next blank or, in quotes of either kind, their end; no escapes. *at moves behind it. */
static int cut_value(char **at, const char *name, char **value, struct so_error *err)
{
	char *begin = *at, *end;
	char quote = *begin;

	if (quote == '"' || quote == '\'') {
		end = strchr(++begin, quote);
		if (!end)
			return so_err(err, -EINVAL, "the value of %s has no second %c", name, quote);
		if (end[1] && !strchr(BLANKS, end[1]))
			return so_err(err, -EINVAL, "a blank must follow the quoted value of %s", name);
		*at = end[1] ? end + 2 : end + 1;
	} else {
		end = begin + strcspn(begin, BLANKS);
		*at = *end ? end + 1 : end;
	}
	if (end == begin)
		return so_err(err, -EINVAL, "%s has no value", name);
	*end = '\0';
	*value = begin;
	return 0;
}

/* A term of one word. */
static bool take_flag(struct match_rule *rule, const char *at, size_t length)
{
	bool cuda = length == 4 && !strncmp(at, "cuda", length), wall = length == 4 && !strncmp(at, "wall", length);

	rule->cuda |= cuda;
	rule->wall |= wall;
	return cuda || wall;
}

static int parse_terms(struct match_rule *rule, char *at, struct so_error *err)
{
	bool seen[N_TERMS] = { false };
	char *value = NULL;
	size_t i;
	int ret = 0;

	while (!ret && *(at += strspn(at, BLANKS))) {
		size_t length = strcspn(at, BLANKS);

		i = find_term(at);
		if (i == N_TERMS && take_flag(rule, at, length)) {
			at += length;
			continue;
		}
		if (i == N_TERMS)
			return so_err(err, -EINVAL,
				      "'%.*s' is no term; there are " TERM_LIST
				      " (a pattern with blanks in it needs quotes: cmd=\"…\")",
				      (int)(length < 60 ? length : 60), at);
		if (seen[i])
			return so_err(err, -EINVAL, "%s stands there twice", terms[i].name);
		seen[i] = true;
		at += strlen(terms[i].name);
		ret = cut_value(&at, terms[i].name, &value, err);
		ret = ret ?: terms[i].take(rule, value, err);
	}
	return ret;
}

/* A text without terms is a pattern as a whole. What looks like a term in it was probably meant as one. */
static int parse_plain(struct match_rule *rule, const char *text, struct so_error *err)
{
	const char *at = text;

	if (has_term_form(text))
		return so_err(err, -EINVAL,
			      "'%.*s' is no term; there are " TERM_LIST
			      " (a pattern that begins so is written cmd=\"…\")",
			      (int)(strcspn(text, "=") < 60 ? strcspn(text, "=") + 1 : 60), text);
	for (; *at; at += strcspn(at, BLANKS)) {
		at += strspn(at, BLANKS);
		if (find_term(at) != N_TERMS)
			return so_err(err, -EINVAL,
				      "'%s' behind a pattern: with other terms the pattern is one, too, "
				      "cmd=\"…\"",
				      terms[find_term(at)].name);
	}
	return take_pattern(&rule->command, text, err);
}

/* "cuda" and "wall" are terms only before another one: by themselves, or before other words, they are patterns. */
static bool begins_with_term(const char *text)
{
	while ((!strncmp(text, "cuda", 4) || !strncmp(text, "wall", 4)) && text[4] && strchr(BLANKS, text[4]))
		text += 4 + strspn(text + 4, BLANKS);
	return find_term(text) != N_TERMS;
}

static int check_text(const char *text, size_t length, struct so_error *err)
{
	if (!length)
		return so_err(err, -EINVAL, "a rule without a word");
	if (length > MATCH_RULE_MAX_BYTES)
		return so_err(err, -EINVAL, "a rule of more than %d bytes", MATCH_RULE_MAX_BYTES);
	for (size_t i = 0; i < length; i++) {
		if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 0x7f)
			return so_err(err, -EINVAL, "a control character in a rule");
	}
	return 0;
}

static int check_rule(const struct match_rule *rule, struct so_error *err)
{
	if (!rule->command && !rule->cgroup && !rule->has_user)
		return so_err(err, -EINVAL, "a rule needs cmd=, cgroup= or user=: without, it is of all processes");
	if (rule->owner && rule->has_user && rule->user != rule->owner)
		return so_err(err, -EPERM, "only root may have a rule for another user's processes");
	return 0;
}

int match_rule__parse(const char *text, uid_t owner, struct match_rule **out, struct so_error *err)
{
	_cleanup_(match_rule) struct match_rule *rule = calloc(1, sizeof(*rule));
	_cleanup_free_ char *words = NULL;
	size_t length;
	int ret;

	text += strspn(text, BLANKS);
	length = strlen(text);
	while (length && strchr(BLANKS, text[length - 1]))
		length--;
	ret = check_text(text, length, err);
	if (ret)
		return ret;
	words = strndup(text, length);
	if (!rule || !words)
		return so_err(err, -ENOMEM, "out of memory");
	rule->owner = owner;
	rule->text = strdup(words);
	if (!rule->text)
		return so_err(err, -ENOMEM, "out of memory");
	ret = begins_with_term(words) ? parse_terms(rule, words, err) : parse_plain(rule, words, err);
	ret = ret ?: check_rule(rule, err);
	if (!ret)
		*out = TAKE_PTR(rule);
	return ret;
}

void match_rule__free(struct match_rule *rule)
{
	if (!rule)
		return;
	regexp__free(rule->command);
	regexp__free(rule->cgroup);
	free(rule->text);
	free(rule);
}

const char *match_rule__text(const struct match_rule *rule)
{
	return rule->text;
}

uid_t match_rule__owner(const struct match_rule *rule)
{
	return rule->owner;
}

unsigned match_rule__rate_hz(const struct match_rule *rule)
{
	return rule->rate_hz;
}

bool match_rule__wall(const struct match_rule *rule)
{
	return rule->wall;
}

bool match_rule__cuda(const struct match_rule *rule)
{
	return rule->cuda;
}

bool match_rule__wants_cgroup(const struct match_rule *rule)
{
	return rule->cgroup != NULL;
}

static bool cgroup_matches(const struct regexp *pattern, const char *lines)
{
	for (size_t n; *lines; lines += n + (lines[n] == '\n')) {
		n = strcspn(lines, "\n");
		if (n && n < MATCH_CGROUP_MAX_BYTES && regexp__matches(pattern, lines, n))
			return true;
	}
	return false;
}

bool match_rule__matches(const struct match_rule *rule, const struct match_process *process)
{
	if ((rule->owner && process->uid != rule->owner) || (rule->has_user && process->uid != rule->user))
		return false;
	if (rule->command &&
	    (!*process->command || !regexp__matches(rule->command, process->command, strlen(process->command))))
		return false;
	return !rule->cgroup || cgroup_matches(rule->cgroup, process->cgroups);
}
