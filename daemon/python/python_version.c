// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two texts, each with a NUL behind it, but perhaps not at the beginning of what is there: linkers let a text be the
 * end of another one, such as of a path.
 *   "cpython-38"  the tag of its byte code files, sys.implementation.cache_tag (_PySys_ImplCacheTag in
 *   Python/sysmodule.c),
 *                 since 3.3
 *   "3.8.18"      PY_VERSION (Include/patchlevel.h), for Py_GetVersion(); other libraries in the same file may have
 *   texts
 *                 of that form too, so it counts only for the minor version that the tag, or else the name, tells
 */
#include "daemon/python/python_version.h"

#include <elf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stakeout/cleanup.h"

#define TAG          "cpython-3"
#define TAG_BEFORE   8 /* of it, before the digits */
#define MAX_MINOR    63u
#define MAX_TEXTS    16u
#define WINDOW_BYTES (256u << 10)
#define OVERLAP      64u          /* the longest text, and more */
#define MAX_BYTES    (256u << 20) /* of one file */

struct texts {
	uint64_t minors; /* bit 8: a tag "cpython-38" */
	uint32_t versions[MAX_TEXTS];
	unsigned n;
};

/* At most three digits; false when there is none. */
static bool take_number(const char **at, const char *end, unsigned *out)
{
	unsigned value = 0, digits = 0;

	for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
		value = value * 10 + (unsigned)(**at - '0');
		if (++digits > 3)
			return false;
	}
	*out = value;
	return digits > 0;
}

static bool take_text(const char **at, const char *end, const char *text)
{
	size_t length = strlen(text);

	if ((size_t)(end - *at) < length || memcmp(*at, text, length) != 0)
		return false;
	*at += length;
	return true;
}

/* "3.8.18", "3.9.0rc1", with a "+" behind it when built from a checkout. */
static uint32_t parse_version(const char *at, const char *end)
{
	unsigned major, minor, micro, level = 0xf, serial = 0;

	if (!take_number(&at, end, &major) || !take_text(&at, end, ".") || !take_number(&at, end, &minor) ||
	    !take_text(&at, end, ".") || !take_number(&at, end, &micro))
		return 0;
	if (take_text(&at, end, "a"))
		level = 0xa;
	else if (take_text(&at, end, "b"))
		level = 0xb;
	else if (take_text(&at, end, "rc"))
		level = 0xc;
	if (level != 0xf && !take_number(&at, end, &serial))
		return 0;
	take_text(&at, end, "+");
	if (at != end || (major != 2 && major != 3) || minor > MAX_MINOR || micro > 0xff || serial > 0xf)
		return 0;
	return major << 24 | minor << 16 | micro << 8 | level << 4 | serial;
}

static void add_version(struct texts *texts, uint32_t version)
{
	for (unsigned i = 0; i < texts->n; i++) {
		if (texts->versions[i] == version)
			return;
	}
	if (texts->n < MAX_TEXTS)
		texts->versions[texts->n++] = version;
}

/* What ends at a NUL. A text that the window cuts off is whole in the next one, which overlaps this one. */
static void look_at(struct texts *texts, const char *bytes, size_t n)
{
	static const char in_version[] = "0123456789.abrc+";
	const char *end = bytes;

	for (; (end = memchr(end, '\0', (size_t)(bytes + n - end))); end++) {
		const char *at = end;
		uint32_t version;
		unsigned minor;

		while (at > bytes && end - at < 16 && memchr(in_version, at[-1], sizeof(in_version) - 1))
			at--;
		version = parse_version(at, end);
		if (version)
			add_version(texts, version);
		else if (at - bytes >= TAG_BEFORE && (at -= TAG_BEFORE, take_text(&at, end, TAG)) &&
			 take_number(&at, end, &minor) && at == end && minor <= MAX_MINOR)
			texts->minors |= 1ull << minor;
	}
}

static void look_through(const struct elf_image *image, const struct elf_segment *segment, char *window,
			 uint64_t *budget, struct texts *texts)
{
	uint64_t size = segment->filesz < *budget ? segment->filesz : *budget;

	for (uint64_t at = 0; at < size; at += WINDOW_BYTES - OVERLAP) {
		size_t n = size - at < WINDOW_BYTES ? (size_t)(size - at) : WINDOW_BYTES;

		if (elf_image__read(image, segment->offset + at, window, n) < 0)
			return;
		look_at(texts, window, n);
	}
	*budget -= size;
}

/* The minor version that "libpython3.8.so.1.0" or "python3.8" names, as in Py_Version; 0: none. */
static uint32_t version_of_name(const char *path)
{
	const char *name = strrchr(path, '/'), *end;
	unsigned major, minor;

	name = name ? name + 1 : path;
	end = name + strlen(name);
	take_text(&name, end, "lib");
	if (!take_text(&name, end, "python") || !take_number(&name, end, &major) ||
	    !take_text(&name, end, ".") || !take_number(&name, end, &minor) || (major != 2 && major != 3) ||
	    minor > MAX_MINOR)
		return 0;
	return major << 24 | minor << 16;
}

uint32_t python_version__by_text(const struct elf_image *image, const struct elf_file *elf, const char *path)
{
	_cleanup_free_ char *window = malloc(WINDOW_BYTES);
	uint32_t version = version_of_name(path), exact = 0;
	struct texts texts = { 0 };
	uint64_t budget = MAX_BYTES;

	for (unsigned i = 0; window && i < elf->n_segments; i++) {
		if (!(elf->segments[i].flags & PF_W))
			look_through(image, &elf->segments[i], window, &budget, &texts);
	}
	/* One tag: that is what it is, whatever the file is called. */
	if (texts.minors && !(texts.minors & (texts.minors - 1)))
		version = 3u << 24 | (uint32_t)__builtin_ctzll(texts.minors) << 16;
	for (unsigned i = 0; version && i < texts.n; i++) {
		if (texts.versions[i] >> 16 != version >> 16)
			continue;
		if (exact)
			return version;
		exact = texts.versions[i];
	}
	return exact ? exact : version;
}
