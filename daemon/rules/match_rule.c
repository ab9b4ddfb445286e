// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon/rules/match_rule.h"

#include <errno.h>
#include <pwd.h>
#include <regex.h>
#include <string.h>

#include "daemon/engine/engine.h"

/*
 * A compiled pattern keeps each state that it met, up to one a byte: it is compiled anew after so many bytes, which a
 * handful of command lines have.
 */
#define PATTERN_FRESH_BYTES 4096
#define USER_BUFFER_BYTES   16384 /* for getpwnam_r(), more than _SC_GETPW_R_SIZE_MAX of any C library */
#define BLANKS              " \t"

struct pattern {
	char *text; /* anchored(); NULL: none */
	regex_t compiled;
	bool usable; /* `compiled` is to be freed */
	size_t matched_bytes;
};

struct match_rule {
	char *text;
	struct pattern command, cgroup;
	bool has_user;
	uid_t user, owner;
	unsigned rate_hz;
	bool cuda;
};

static void forget_compiled(struct pattern *p)
{
	if (p->usable)
		regfree(&p->compiled);
	p->usable = false;
	p->matched_bytes = 0;
}

/* 0, or what regerror() explains. */
static int compile(struct pattern *p)
{
	int r = regcomp(&p->compiled, p->text, REG_EXTENDED | REG_NOSUB);

	p->usable = !r;
	return r;
}

/* The number at *at, which moves behind it; MATCH_PATTERN_MAX_COUNTS + 1 stands for any that is too large. */
static unsigned read_count(const char **at)
{
	unsigned value = 0;

	for (; **at >= '0' && **at <= '9'; ++*at) {
		if (value <= MATCH_PATTERN_MAX_COUNTS)
			value = value * 10 + (unsigned)(**at - '0');
	}
	return value > MATCH_PATTERN_MAX_COUNTS ? MATCH_PATTERN_MAX_COUNTS + 1 : value;
}

/*
 * What regcomp() copies: a count its operand so often, '+' once, so that each one around another doubles all within. By the
 * text alone, so that no disagreement about brackets and backslashes lets anything through; a few harmless patterns, like
 * "[*+]", are refused as well.
 */
static int check_repetition(const char *text, size_t i, unsigned *counts, unsigned *groups,
			    struct so_error *err)
{
	char before = i ? text[i - 1] : '\0';

	if (before && strchr("*+?}", before))
		return so_err(err, -EINVAL, "a repetition of a repetition: '%.40s'", text + i - 1);
	if (text[i] == '+') {
		*groups += before == ')';
		return 0;
	}
	if (before == ')')
		return so_err(err, -EINVAL,
			      "a count in braces may follow a single character or a bracket expression, "
			      "not a group: '%.40s'",
			      text + i);
	for (const char *at = text + i + 1; *at && *at != '}' && *counts <= MATCH_PATTERN_MAX_COUNTS;) {
		if (*at >= '0' && *at <= '9')
			*counts += read_count(&at);
		else
			at++;
	}
	return 0;
}

static int check_pattern(const char *text, struct so_error *err)
{
	unsigned counts = 0, groups = 0;
	int r = 0;

	for (size_t i = 0; !r && text[i]; i++) {
		if (text[i] == '\\' && text[i + 1] >= '1' && text[i + 1] <= '9')
			return so_err(err, -EINVAL, "patterns have no back-references: '\\%c'", text[i + 1]);
		if (text[i] == '+' || text[i] == '{')
			r = check_repetition(text, i, &counts, &groups, err);
	}
	if (r)
		return r;
	if (counts > MATCH_PATTERN_MAX_COUNTS)
		return so_err(err, -EINVAL, "the numbers in a pattern's braces may add up to %d at most",
			      MATCH_PATTERN_MAX_COUNTS);
	if (groups > MATCH_PATTERN_MAX_GROUPS)
		return so_err(err, -EINVAL, "a pattern may have '+' behind a group %d times at most",
			      MATCH_PATTERN_MAX_GROUPS);
	return 0;
}

/* Behind the '[' of a bracket expression (POSIX.1, 9.3.5): the place of the ']' that ends it, or of the end. */
static const char *skip_bracket(const char *at)
{
	at += *at == '^';
	at += *at == ']';
	for (; *at && *at != ']'; at++) {
		const char *end;

		if (*at != '[' || !at[1] || !strchr(".:=", at[1]))
			continue;
		end = strstr(at + 2, (char[]){ at[1], ']', '\0' });
		at = end ? end + 1 : at + strlen(at) - 1;
	}
	return at;
}

/* The C library takes a ')' that closes nothing for itself; in parentheses it would close these. */
static int check_parentheses(const char *text, struct so_error *err)
{
	unsigned open = 0;

	for (const char *at = text; *at; at++) {
		if (*at == '\\' && at[1])
			at++;
		else if (*at == '[')
			at = skip_bracket(at + 1);
		else if (*at == '(')
			open++;
		else if (*at == ')' && !open--)
			return so_err(err, -EINVAL, "a ')' without a '(': '%.40s' (itself is written \\))", at);
		if (!*at)
			break;
	}
	return 0;
}

/*
 * The pattern, to be found from the text's begin on: without, glibc begins anew at each character, with states of its own that
 * it never drops, so that a short pattern takes seconds and hundreds of MB for one command line.
 */
static int take_anchored(struct pattern *p, const char *value)
{
	return asprintf(&p->text, "^.*(%s)", value) < 0 ? (p->text = NULL, -ENOMEM) : 0;
}

/* A value that is one pattern. */
static int take_pattern(struct pattern *p, const char *value, struct so_error *err)
{
	regex_t alone;
	char why[128];
	int r = check_pattern(value, err);

	r = r ?: check_parentheses(value, err);
	if (r)
		return r;
	/* By itself first: what is wrong is said of what was written. */
	r = regcomp(&alone, value, REG_EXTENDED | REG_NOSUB);
	if (!r) {
		regfree(&alone);
		if (take_anchored(p, value))
			return so_err(err, -ENOMEM, "out of memory");
		r = compile(p);
	}
	if (!r)
		return 0;
	regerror(r, &alone, why, sizeof(why));
	return so_err(err, r == REG_ESPACE ? -ENOMEM : -EINVAL, "'%.200s' is no regular expression: %s", value,
		      why);
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
	int r;

	if (!buffer)
		return so_err(err, -ENOMEM, "out of memory");
	/* The largest uid_t stands for "no user". */
	if (parse_whole(value, UINT32_MAX - 1ul, &number)) {
		rule->user = (uid_t)number;
	} else {
		r = getpwnam_r(value, &entry, buffer, USER_BUFFER_BYTES, &found);
		if (!found)
			return so_err(err, -EINVAL, "there is no user '%.60s'%s%s", value, r ? ": " : "",
				      r ? strerror(r) : "");
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

#define TERM_LIST "cmd=, cgroup=, user=, rate= and cuda"

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

/*
 * Cuts a value off: up to the next blank or, in quotes of either kind, up to the same one again. Nothing is escaped
 * within quotes. *at moves behind the value.
 */
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

static int parse_terms(struct match_rule *rule, char *at, struct so_error *err)
{
	bool seen[N_TERMS] = { false };
	char *value = NULL;
	size_t i;
	int r = 0;

	while (!r && *(at += strspn(at, BLANKS))) {
		size_t length = strcspn(at, BLANKS);

		i = find_term(at);
		if (i == N_TERMS && length == strlen("cuda") && !strncmp(at, "cuda", length)) {
			rule->cuda = true;
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
		r = cut_value(&at, terms[i].name, &value, err);
		r = r ?: terms[i].take(rule, value, err);
	}
	return r;
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

/* "cuda" is a term only before another one: by itself, or before other words, it is a pattern. */
static bool begins_with_term(const char *text)
{
	if (!strncmp(text, "cuda", 4) && text[4] && strchr(BLANKS, text[4]))
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
	if (!rule->command.text && !rule->cgroup.text && !rule->has_user)
		return so_err(err, -EINVAL,
			      "a rule needs cmd=, cgroup= or user=: without, it is of all processes");
	if (rule->owner && rule->has_user && rule->user != rule->owner)
		return so_err(err, -EPERM, "only root may have a rule for another user's processes");
	return 0;
}

int match_rule__parse(const char *text, uid_t owner, struct match_rule **out, struct so_error *err)
{
	_cleanup_(match_rule) struct match_rule *rule = calloc(1, sizeof(*rule));
	_cleanup_free_ char *words = NULL;
	size_t length;
	int r;

	text += strspn(text, BLANKS);
	length = strlen(text);
	while (length && strchr(BLANKS, text[length - 1]))
		length--;
	r = check_text(text, length, err);
	if (r)
		return r;
	words = strndup(text, length);
	if (!rule || !words)
		return so_err(err, -ENOMEM, "out of memory");
	rule->owner = owner;
	rule->text = strdup(words);
	if (!rule->text)
		return so_err(err, -ENOMEM, "out of memory");
	r = begins_with_term(words) ? parse_terms(rule, words, err) : parse_plain(rule, words, err);
	r = r ?: check_rule(rule, err);
	if (r)
		return r;
	*out = TAKE_PTR(rule);
	return 0;
}

static void release_pattern(struct pattern *p)
{
	forget_compiled(p);
	free(p->text);
}

void match_rule__free(struct match_rule *rule)
{
	if (!rule)
		return;
	release_pattern(&rule->command);
	release_pattern(&rule->cgroup);
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

bool match_rule__cuda(const struct match_rule *rule)
{
	return rule->cuda;
}

bool match_rule__wants_cgroup(const struct match_rule *rule)
{
	return rule->cgroup.text != NULL;
}

static bool pattern_matches(struct pattern *p, const char *text)
{
	bool matches;

	if (!*text || (!p->usable && compile(p)))
		return false;
	matches = !regexec(&p->compiled, text, 0, NULL, 0);
	p->matched_bytes += strlen(text);
	if (p->matched_bytes > PATTERN_FRESH_BYTES)
		forget_compiled(p);
	return matches;
}

static bool cgroup_matches(struct pattern *p, const char *lines)
{
	char line[MATCH_CGROUP_MAX_BYTES];

	for (size_t n; *lines; lines += n + (lines[n] == '\n')) {
		n = strcspn(lines, "\n");
		if (n >= sizeof(line))
			continue;
		memcpy(line, lines, n);
		line[n] = '\0';
		if (pattern_matches(p, line))
			return true;
	}
	return false;
}

bool match_rule__matches(struct match_rule *rule, const struct match_process *process)
{
	if (rule->owner && process->uid != rule->owner)
		return false;
	if (rule->has_user && process->uid != rule->user)
		return false;
	if (rule->command.text && !pattern_matches(&rule->command, process->command))
		return false;
	return !rule->cgroup.text || cgroup_matches(&rule->cgroup, process->cgroups);
}
