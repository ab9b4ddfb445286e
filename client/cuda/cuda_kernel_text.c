// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/cuda/cuda_kernel_text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "client/cuda/cuda_column.h"
#include "stakeout/cleanup.h"

#define ANONYMOUS "(anonymous namespace)::"
#define WRAPPER   "__nv_hdl_wrapper_t<"
#define TAG       "__nv_dl_tag<"
#define LAMBDA    "{lambda in "
#define DOTS      "…"

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static void remove_all(char *text, const char *part)
{
	size_t n = strlen(part);

	for (char *at = text; (at = strstr(at, part));)
		memmove(at, at + n, strlen(at + n) + 1);
}

/*
 * Behind the bracket that closes the one at `open`; NULL: none does. Those of "->", "<<" and "operator<" are not
 * expected.
 */
static char *behind(char *open)
{
	char opening = *open, closing = opening == '<' ? '>' : ')';
	unsigned depth = 0;

	for (char *at = open; *at; at++) {
		if (*at == opening)
			depth++;
		else if (*at == closing && --depth == 0)
			return at + 1;
	}
	return NULL;
}

/* The parameters: the last brackets, if nothing is behind them and they are no part of the template arguments. */
static void drop_parameters(char *text)
{
	size_t n = strlen(text);
	unsigned depth = 0;

	if (n == 0 || text[n - 1] != ')')
		return;
	for (char *at = text + n; at-- > text;) {
		if (*at == ')')
			depth++;
		else if (*at == '(' && --depth == 0) {
			if (at > text)
				*at = '\0';
			return;
		}
	}
}

/*
 * The last word of the function that a tag in [begin, end) names: "&at::native::relu" gives "relu". Lambdas of lambdas
 * have several tags, and the last name is that of the function which a person wrote.
 */
static bool find_function(const char *begin, const char *end, const char **name, size_t *length)
{
	bool found = false;

	for (const char *at = begin; at < end; at++) {
		const char *first = at + 1, *last;

		if (*at != '&' || first >= end || !(is_word(*first)) || isdigit((unsigned char)*first))
			continue;
		for (last = first; last < end && (is_word(*last) || *last == ':'); last++)
			if (*last == ':')
				first = last + 1;
		if (last == first || last >= end || (*last != ',' && *last != '<' && *last != '('))
			continue;
		*name = first;
		*length = (size_t)(last - first);
		found = true;
	}
	return found;
}

/* Makes of each wrapper, and of each tag that stands alone, the function that it is of. What names none stays. */
static void name_lambdas(char *text, const char *kind)
{
	size_t prefix = strlen(kind);

	for (char *at = text; (at = strstr(at, kind));) {
		char *end = behind(at + prefix - 1);
		const char *name;
		size_t n, new;

		if (!end)
			return;
		if (!find_function(at, end, &name, &n) || (new = sizeof(LAMBDA) - 1 + n + 1) > (size_t)(end - at)) {
			at += prefix;
			continue;
		}
		memmove(at + sizeof(LAMBDA) - 1, name, n);
		memcpy(at, LAMBDA, sizeof(LAMBDA) - 1);
		at[new - 1] = '}';
		memmove(at + new, end, strlen(end) + 1);
		at += new;
	}
}

/* Of template arguments: namespaces ("at::native::"), the suffixes of numbers ("3ul"), the blank in "> >". */
static void plain_arguments(char *text)
{
	unsigned depth = 0;
	char *to = text, *word = text;

	for (const char *at = text; *at; at++) {
		char c = *at;
		bool number = depth && to > text && isdigit((unsigned char)to[-1]);

		depth += c == '<';
		depth -= c == '>' && depth > 0;
		if (depth && c == ':' && at[1] == ':' && to > word) {
			to = word;
			at++;
			continue;
		}
		if (number && !is_word(c))
			number = false;
		if (number && (c == 'u' || c == 'l') && isdigit((unsigned char)word[0]))
			continue;
		if (c == ' ' && at[1] == '>' && to > text && (to[-1] == '>' || to[-1] == '}'))
			continue;
		*to++ = c;
		if (!is_word(c))
			word = to;
	}
	*to = '\0';
}

/* Replaces arguments in <> by dots, or by the lambda among them. False: that would not be shorter. */
static bool fold(char *open)
{
	char *end = behind(open), *lambda = strstr(open, LAMBDA), *at;
	const char *new = DOTS;
	size_t n = sizeof(DOTS) - 1;

	if (end && lambda && lambda < end) {
		new = lambda;
		n = strcspn(lambda, "}") + 1;
	}
	if (!end || (size_t)(end - open) <= n + 2)
		return false;
	at = open + 1;
	memmove(at, new, n);
	at[n] = '>';
	memmove(at + n + 1, end, strlen(end) + 1);
	return true;
}

/* The deepest arguments, of several the first: the outermost come last. False: nothing can be folded any more. */
static bool fold_deepest(char *text)
{
	unsigned depth = 0, deepest = 0;

	for (const char *at = text; *at; at++) {
		depth += *at == '<';
		depth -= *at == '>' && depth > 0;
		deepest = depth > deepest ? depth : deepest;
	}
	for (; deepest > 0; deepest--) {
		depth = 0;
		for (char *at = text; *at; at++) {
			depth += *at == '<';
			if (*at == '<' && depth == deepest && fold(at))
				return true;
			depth -= *at == '>' && depth > 0;
		}
	}
	return false;
}

static bool is_longer(const char *text, unsigned columns)
{
	return columns && cuda_column__width(text, strlen(text)) > columns;
}

/* The kernel's own: "at::native::fill<int>" becomes "fill<int>". */
static void drop_namespace(char *text)
{
	char *name = text;

	for (char *at = text; is_word(*at) || *at == ':'; at++)
		if (at[0] == ':' && at[1] == ':' && is_word(at[2]))
			name = at + 2;
	memmove(text, name, strlen(name) + 1);
}

char *cuda_kernel_text__of(const char *name, unsigned columns, bool *shortened)
{
	char *text = strdup(name);

	if (!text)
		return NULL;
	remove_all(text, ANONYMOUS);
	if (strncmp(text, "void ", 5) == 0)
		memmove(text, text + 5, strlen(text + 5) + 1);
	drop_parameters(text);
	name_lambdas(text, WRAPPER);
	name_lambdas(text, TAG);
	plain_arguments(text);
	if (is_longer(text, columns))
		drop_namespace(text);
	while (is_longer(text, columns) && fold_deepest(text))
		;
	if (!*text) {
		free(text);
		text = strdup(name);
	}
	*shortened = text && strcmp(text, name) != 0;
	return text;
}
