/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "daemon/symbols/demangle.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "stakeout/cleanup.h"

#define MAX_RESULT     4096 /* bytes, the "..." of a cut one included */
#define MAX_SPLITS     16   /* dots tried as the begin of the clone suffixes */
#define MAX_D_LENGTH   1024 /* D's demangler recurses without a limit of its own */
#define MAX_D_BACKREFS 16   /* and each reference back can double its output */

/*
 * Collects what a demangler prints. Substitutions let a short name print without end, and the callback has no
 * way to say "enough", so it jumps out. libiberty's C++ demangler keeps everything on the stack for callers of
 * this interface; the Rust one can lose the small buffer of one Unicode identifier then.
 */
struct sink {
	char text[MAX_RESULT + 1];
	size_t length;
	jmp_buf full;
};

static void sink__put(const char *text, size_t length, void *data)
{
	struct sink *sink = data;
	size_t room = MAX_RESULT - sink->length, taken = length < room ? length : room;

	/* An empty piece may come as NULL. */
	if (taken > 0)
		memcpy(sink->text + sink->length, text, taken);
	sink->length += taken;
	if (taken < length)
		longjmp(sink->full, 1);
}

typedef int (*demangler)(const char *name, int options, demangle_callbackref callback, void *data);

/* Whether the demangler knows the name; its output, perhaps cut, is then in the sink. */
static bool run(demangler function, const char *name, int options, struct sink *sink)
{
	sink->length = 0;
	if (setjmp(sink->full) == 0) {
		if (!function(name, options, sink__put, sink))
			return false;
	} else {
		memcpy(sink->text + MAX_RESULT - 3, "...", 3);
		sink->length = MAX_RESULT;
	}
	sink->text[sink->length] = '\0';
	return sink->length > 0;
}

/* Leaves out the parameters: "mod.f(int)" to "mod.f", but not "mod.f!(int)", whose are template arguments. */
static void cut_d_parameters(char *text)
{
	size_t at = strlen(text), depth = 0;

	if (at == 0 || text[at - 1] != ')')
		return;
	while (at-- > 0) {
		depth += text[at] == ')';
		depth -= text[at] == '(';
		if (depth == 0)
			break;
	}
	if (at != (size_t)-1 && at > 0 && text[at - 1] != '!')
		text[at] = '\0';
}

static bool run_d(const char *name, struct sink *sink)
{
	_cleanup_free_ char *text = NULL;
	size_t backrefs = 0, length = strlen(name);

	for (const char *p = name; *p; p++)
		backrefs += *p == 'Q';
	if (length > MAX_D_LENGTH || backrefs > MAX_D_BACKREFS)
		return false;
	text = dlang_demangle(name, DMGL_ANSI);
	if (!text)
		return false;
	cut_d_parameters(text);
	snprintf(sink->text, sizeof(sink->text), "%.*s", MAX_RESULT, text);
	sink->length = strlen(sink->text);
	return sink->length > 0;
}

/*
 * A complete mangled name, without suffixes. Rust's older scheme looks like C++, so it goes first; it is known
 * by its hash, which is not printed. With DMGL_PARAMS the C++ demangler insists on reading all of the name,
 * without it prints no parameters: so it is asked twice.
 */
static bool demangle_whole(const char *name, struct sink *sink)
{
	if (name[0] == '_' && name[1] == 'D')
		return run_d(name, sink);
	if (run(rust_demangle_callback, name, DMGL_ANSI, sink))
		return true;
	return name[0] == '_' && name[1] == 'Z' &&
	       run(cplus_demangle_v3_callback, name, DMGL_PARAMS | DMGL_ANSI, sink) &&
	       run(cplus_demangle_v3_callback, name, DMGL_ANSI, sink);
}

/* The end of one clone suffix, as the compilers append them: ".cold", ".part.0", ".llvm.123", ".42". */
static const char *suffix_end(const char *suffix)
{
	const char *p = suffix + 1;

	while (*p && *p != '.')
		p++;
	while (*p == '.' && isdigit((unsigned char)p[1])) {
		p++;
		while (isdigit((unsigned char)*p))
			p++;
	}
	return p;
}

static void append(struct sink *sink, const char *before, const char *text, size_t length, const char *after)
{
	size_t room = MAX_RESULT + 1 - sink->length;
	int n = snprintf(sink->text + sink->length, room, "%s%.*s%s", before, (int)length, text, after);

	if (n < 0)
		return;
	if ((size_t)n >= room) {
		memcpy(sink->text + MAX_RESULT - 3, "...", 4);
		n = (int)room - 1;
	}
	sink->length += (size_t)n;
}

/*
 * Clone suffixes begin with a dot, but so may parts of a mangled name (Rust's "..", old anonymous namespaces):
 * the shortest beginning that is a complete mangled name is the name.
 */
static bool demangle_with_suffixes(char *name, struct sink *sink)
{
	char *dot = name;

	for (unsigned splits = 0; splits < MAX_SPLITS && (dot = strchr(dot, '.')); splits++, dot++) {
		bool known;

		*dot = '\0';
		known = demangle_whole(name, sink);
		*dot = '.';
		if (!known)
			continue;
		while (*dot) {
			const char *end = suffix_end(dot);

			append(sink, " [clone ", dot, (size_t)(end - dot), "]");
			dot += end - dot;
		}
		return true;
	}
	return demangle_whole(name, sink);
}

static bool looks_mangled(const char *name)
{
	return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R' || name[1] == 'D');
}

char *demangle(const char *name)
{
	_cleanup_free_ struct sink *sink = NULL;
	_cleanup_free_ char *bare = NULL;
	const char *at = strchr(name, '@');
	size_t length = strlen(name);
	bool plt = length > 4 && strcmp(name + length - 4, "@plt") == 0;

	/* A name that begins with '@' has no version: it is nothing that this function knows. */
	bare = strndup(name, at && at > name ? (size_t)(at - name) : length);
	sink = malloc(sizeof(*sink));
	if (!bare || !sink)
		return NULL;
	sink->length = 0;
	if (!looks_mangled(bare) || !demangle_with_suffixes(bare, sink)) {
		sink->length = 0;
		append(sink, "", bare, strnlen(bare, MAX_RESULT + 1), "");
	}
	if (plt && at > name)
		append(sink, "", "@plt", 4, "");
	return strdup(sink->text);
}
