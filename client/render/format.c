// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/render/format.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *word;
	enum format format;
} words[] = {
	{ "folded", FORMAT_FOLDED },   { "raw", FORMAT_FOLDED }, /* py-spy's word for it */
	{ "pprof", FORMAT_PPROF },     { "html", FORMAT_HTML },   { "speedscope", FORMAT_SPEEDSCOPE },
	{ "firefox", FORMAT_FIREFOX }, { "trace", FORMAT_TRACE },
};

/* FORMATS: a form that stakeout does not write. The longer ending comes first. */
static const struct {
	const char *ending;
	enum format format;
} endings[] = {
	{ ".pb.gz", FORMAT_PPROF },
	{ ".pprof.gz", FORMAT_PPROF },
	{ ".pprof", FORMAT_PPROF },
	{ ".pb", FORMAT_PPROF },
	{ ".folded", FORMAT_FOLDED },
	{ ".txt", FORMAT_FOLDED },
	{ ".html", FORMAT_HTML },
	{ ".htm", FORMAT_HTML },
	{ ".speedscope.json", FORMAT_SPEEDSCOPE },
	{ ".firefox.json", FORMAT_FIREFOX },
	{ ".trace.json", FORMAT_TRACE },
	{ ".json.gz", FORMAT_FIREFOX_GZIP },
	{ ".gz", FORMATS },
	{ ".svg", FORMATS },
	{ ".json", FORMATS },
	{ ".zst", FORMATS },
};

static bool ends_in(const char *path, const char *ending)
{
	size_t length = strlen(path), n = strlen(ending);

	return length > n && !strcasecmp(path + length - n, ending);
}

int format__parse(const char *word, const char *path, enum format *out, struct so_error *err)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(words[i].word, word)) {
			*out = words[i].format;
			if (*out == FORMAT_FIREFOX && path && ends_in(path, ".gz"))
				*out = FORMAT_FIREFOX_GZIP;
			return 0;
		}
	return so_err(err, -EINVAL, "unknown format '%s': " FORMAT_LIST, word);
}

int format__from_path(const char *path, enum format *out, struct so_error *err)
{
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		if (!ends_in(path, endings[i].ending))
			continue;
		if (endings[i].format == FORMATS)
			return so_err(err, -EINVAL,
				      "stakeout writes no %s file; say what shall be in '%s': -f " FORMAT_LIST,
				      endings[i].ending, path);
		*out = endings[i].format;
		return 0;
	}
	*out = FORMAT_FOLDED;
	return 0;
}

int format__check_terminal(enum format format, const char *path, struct so_error *err)
{
	static const char *const whats[FORMATS] = { [FORMAT_PPROF] = "a pprof file",
						    [FORMAT_HTML] = "a flame graph",
						    [FORMAT_SPEEDSCOPE] = "a speedscope file",
						    [FORMAT_FIREFOX] = "a Firefox profile",
						    [FORMAT_FIREFOX_GZIP] = "a Firefox profile",
						    [FORMAT_TRACE] = "a trace" };

	if (format == FORMAT_FOLDED || strcmp(path, "-") != 0 || !isatty(STDOUT_FILENO))
		return 0;
	return so_err(err, -EINVAL, "%s is not for a terminal: use -o FILE", whats[format]);
}

const char *format__ending(enum format format)
{
	static const char *const texts[FORMATS] = { ".folded",          ".pb.gz",        ".html",
						    ".speedscope.json", ".firefox.json", ".firefox.json.gz",
						    ".trace.json" };

	return texts[format];
}

int format__write(enum format format, const struct format_source *source, const struct render_options *options,
		  FILE *out, struct so_error *err)
{
	static int (*const write[FORMATS])(const struct profile *, const struct render_options *, FILE *,
					   struct so_error *) = {
		[FORMAT_FOLDED] = render__folded,
		[FORMAT_HTML] = render__html,
		[FORMAT_SPEEDSCOPE] = render__speedscope,
		[FORMAT_FIREFOX] = render__firefox,
		[FORMAT_FIREFOX_GZIP] = render__firefox_gzip,
		[FORMAT_TRACE] = render__trace,
	};

	if (write[format])
		return write[format](source->profile, options, out, err);
	if (fwrite(source->bytes, 1, source->length, out) != source->length)
		return so_err(err, -EIO, "cannot write the profile: %s", strerror(errno));
	return 0;
}
