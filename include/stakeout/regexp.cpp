// SPDX-License-Identifier: GPL-2.0-or-later
#include "stakeout/regexp.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include <re2/re2.h>

/* Exceptions end here: those who call are C. */
struct regexp {
	RE2 compiled;

	regexp(const re2::StringPiece &pattern, const RE2::Options &options) : compiled(pattern, options)
	{
	}
};

static int compile(const std::string &pattern, int64_t memory, struct regexp **out, struct so_error *err)
{
	RE2::Options options;

	options.set_posix_syntax(true);
	options.set_perl_classes(true);
	options.set_word_boundary(true);
	options.set_one_line(true);
	options.set_dot_nl(true);
	options.set_encoding(RE2::Options::EncodingLatin1);
	options.set_never_capture(true);
	options.set_log_errors(false);
	options.set_max_mem(memory);

	auto made = std::make_unique<struct regexp>(pattern, options);
	if (!made->compiled.ok())
		return so_err(err, -EINVAL, "not a regular expression: %s", made->compiled.error().c_str());
	*out = made.release();
	return 0;
}

int regexp__compile(const char *pattern, struct regexp **out, struct so_error *err)
{
	if (!*pattern)
		return so_err(err, -EINVAL, "the pattern is empty");
	if (strlen(pattern) > REGEXP_MAX_BYTES)
		return so_err(err, -EINVAL, "the pattern is longer than %d bytes", REGEXP_MAX_BYTES);
	try {
		return compile(pattern, REGEXP_MEMORY, out, err);
	} catch (const std::bad_alloc &) {
		return so_err(err, -ENOMEM, "out of memory");
	}
}

int regexp__compile_any(const char *const *patterns, size_t n, struct regexp **out, struct so_error *err)
{
	try {
		std::string all;

		for (size_t i = 0; i < n; i++)
			all += std::string(i ? "|(" : "(") + patterns[i] + ")";
		return compile(all, static_cast<int64_t>(n) * REGEXP_MEMORY, out, err);
	} catch (const std::bad_alloc &) {
		return so_err(err, -ENOMEM, "out of memory");
	}
}

bool regexp__matches(const struct regexp *regexp, const char *text, size_t bytes)
{
	try {
		return regexp->compiled.Match(re2::StringPiece(text, bytes), 0, bytes, RE2::UNANCHORED, nullptr, 0);
	} catch (const std::bad_alloc &) {
		return false;
	}
}

void regexp__free(struct regexp *regexp)
{
	delete regexp;
}
