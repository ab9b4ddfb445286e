// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/render/format.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *word;
	enum format format;
} words[] = {
	{ "folded", FORMAT_FOLDED },
	{ "raw", FORMAT_FOLDED }, /* py-spy's word for it */
	{ "pprof", FORMAT_PPROF },
	{ "html", FORMAT_HTML },
};

/* FORMATS: a form that stakeout does not write. The longer ending comes first. */
static const struct {
	const char *ending;
	enum format format;
} endings[] = {
	{ ".pb.gz", FORMAT_PPROF }, { ".pprof.gz", FORMAT_PPROF }, { ".pprof", FORMAT_PPROF },
	{ ".pb", FORMAT_PPROF },    { ".folded", FORMAT_FOLDED },  { ".txt", FORMAT_FOLDED },
	{ ".html", FORMAT_HTML },   { ".htm", FORMAT_HTML },       { ".gz", FORMATS },
	{ ".svg", FORMATS },        { ".json", FORMATS },          { ".zst", FORMATS },
};

int format__parse(const char *word, enum format *out, struct so_error *err)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(words[i].word, word)) {
			*out = words[i].format;
			return 0;
		}
	return so_err(err, -EINVAL, "unknown format '%s': folded, html or pprof", word);
}

int format__from_path(const char *path, enum format *out, struct so_error *err)
{
	size_t length = strlen(path);

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		size_t n = strlen(endings[i].ending);

		if (length <= n || strcasecmp(path + length - n, endings[i].ending))
			continue;
		if (endings[i].format == FORMATS)
			return so_err(err, -EINVAL,
				      "stakeout writes no %s file; say what shall be in '%s': -f folded, html or pprof",
				      endings[i].ending, path);
		*out = endings[i].format;
		return 0;
	}
	*out = FORMAT_FOLDED;
	return 0;
}

int format__check_terminal(enum format format, const char *path, struct so_error *err)
{
	if (format == FORMAT_FOLDED || strcmp(path, "-") != 0 || !isatty(STDOUT_FILENO))
		return 0;
	return so_err(err, -EINVAL, "%s is not for a terminal: use -o FILE",
		      format == FORMAT_HTML ? "a flame graph" : "a pprof file");
}

const char *format__ending(enum format format)
{
	static const char *const texts[FORMATS] = { ".folded", ".pb.gz", ".html" };

	return texts[format];
}

int format__write(enum format format, const struct format_source *source, const struct render_options *options,
		  FILE *out, struct so_error *err)
{
	if (format == FORMAT_FOLDED)
		return render__folded(source->profile, options, out, err);
	if (format == FORMAT_HTML)
		return render__html(source->profile, options, out, err);
	if (fwrite(source->bytes, 1, source->length, out) != source->length)
		return so_err(err, -EIO, "cannot write the profile: %s", strerror(errno));
	return 0;
}
