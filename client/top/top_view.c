// SPDX-License-Identifier: GPL-2.0-or-later
#include "client/top/top_view.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "stakeout/utf8.h"

#define ESCAPE 0x1b
#define DELETE 0x7f
#define CTRL_L 0x0c

/* ECMA-48 control sequences, as xterm and those like it send them. */
static unsigned key_of(const char *parameters, size_t n, char final)
{
	static const struct {
		char final;
		const char *parameters;
		enum top_key key;
	} keys[] = {
		{ 'A', "", TOP_KEY_UP },       { 'B', "", TOP_KEY_DOWN },       { 'H', "", TOP_KEY_HOME },
		{ 'F', "", TOP_KEY_END },      { '~', "1", TOP_KEY_HOME },      { '~', "4", TOP_KEY_END },
		{ '~', "5", TOP_KEY_PAGE_UP }, { '~', "6", TOP_KEY_PAGE_DOWN }, { '~', "7", TOP_KEY_HOME },
		{ '~', "8", TOP_KEY_END },
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].final == final && strlen(keys[i].parameters) == n &&
		    !memcmp(keys[i].parameters, parameters, n))
			return keys[i].key;
	return TOP_KEY_NONE;
}

/* "ESC [ parameters final", "ESC O final"; ESC alone is the key. */
static unsigned read_sequence(const char *bytes, size_t n, size_t *used)
{
	size_t end = 2;

	*used = 1;
	if (n < 2 || (bytes[1] != '[' && bytes[1] != 'O'))
		return TOP_KEY_ESCAPE;
	while (end < n && bytes[1] == '[' && bytes[end] >= 0x20 && bytes[end] < 0x40)
		end++;
	*used = end < n ? end + 1 : n;
	return end < n ? key_of(bytes + 2, end - 2, bytes[end]) : TOP_KEY_NONE;
}

unsigned top_key__read(const char *bytes, size_t n, size_t *used)
{
	const unsigned char *u = (const unsigned char *)bytes;
	size_t length = utf8__sequence(bytes, n);
	unsigned code;

	if (*bytes == ESCAPE)
		return read_sequence(bytes, n, used);
	*used = length ? length : 1;
	if (length == 1)
		return u[0];
	if (!length)
		return TOP_KEY_NONE;
	code = u[0] & (0x7f >> length);
	for (size_t i = 1; i < length; i++)
		code = code << 6 | (u[i] & 0x3f);
	return code;
}

static size_t put_utf8(unsigned code, char out[4])
{
	if (code < 0x80) {
		out[0] = (char)code;
		return 1;
	}
	for (size_t n = 2; n <= 4; n++) {
		if (n < 4 && code >= 1u << (5 * n + 1))
			continue;
		for (size_t i = n; i-- > 1; code >>= 6)
			out[i] = (char)(0x80 | (code & 0x3f));
		out[0] = (char)(0xf00 >> n | code);
		return n;
	}
	return 0;
}

static void forget_last(char *text)
{
	size_t n = strlen(text);

	while (n && (text[n - 1] & 0xc0) == 0x80)
		n--;
	text[n ? n - 1 : 0] = '\0';
}

static void type(struct top_view *view, unsigned key)
{
	size_t n = strlen(view->filter), more;
	char bytes[4];

	if (key == '\r' || key == '\n') {
		view->typing = false;
	} else if (key == TOP_KEY_ESCAPE) {
		view->typing = false;
		view->filter[0] = '\0';
	} else if (key == DELETE || key == '\b') {
		forget_last(view->filter);
	} else if (key >= ' ' && key < TOP_KEY_NONE && (key < 0x80 || key >= 0xa0)) {
		more = put_utf8(key, bytes);
		if (n + more >= sizeof(view->filter))
			return;
		memcpy(view->filter + n, bytes, more);
		view->filter[n + more] = '\0';
	}
	view->scroll[view->table] = 0;
}

static void move(struct top_view *view, unsigned key, size_t page)
{
	size_t *scroll = &view->scroll[view->table], step = page > 1 ? page - 1 : 1;

	switch (key) {
	case TOP_KEY_UP:
		*scroll -= *scroll > 0;
		break;
	case TOP_KEY_PAGE_UP:
		*scroll -= *scroll < step ? *scroll : step;
		break;
	case TOP_KEY_HOME:
		*scroll = 0;
		break;
	case TOP_KEY_DOWN:
		*scroll += 1;
		break;
	case TOP_KEY_PAGE_DOWN:
		*scroll += step;
		break;
	case TOP_KEY_END:
		*scroll = SIZE_MAX / 2; /* clamped when it is drawn */
		break;
	default:
		break;
	}
}

static void sort_by_memory(struct top_view *view)
{
	unsigned *sort = &view->sort[TOP_THREADS];

	*sort = view->table == TOP_THREADS && *sort == TOP_BY_MEMORY ? TOP_BY_GROWTH : TOP_BY_MEMORY;
	view->table = TOP_THREADS;
}

bool top_view__take(struct top_view *view, unsigned key, size_t page)
{
	static const char tables[] = "tfl";
	const char *table = key && key < 0x80 ? strchr(tables, (int)key) : NULL;

	if (view->typing) {
		type(view, key);
		return true;
	}
	if (key == 'q' || key == 'Q')
		return false;
	if (view->help && key != TOP_KEY_NONE) {
		view->help = false;
		return true;
	}
	if (table)
		view->table = (enum top_table)(table - tables);
	else if (key == 's')
		view->sort[view->table] = view->sort[view->table] < TOP_SORTS - 1 ? view->sort[view->table] + 1 : 0;
	else if (key == 'm')
		sort_by_memory(view);
	else if (key == '/')
		view->typing = true;
	else if (key == TOP_KEY_ESCAPE)
		view->filter[0] = '\0';
	else if (key == ' ')
		view->frozen = !view->frozen;
	else if (key == '?' || key == 'h')
		view->help = true;
	else
		move(view, key, page);
	return true;
}

void top_view__clamp(struct top_view *view, size_t rows, size_t page)
{
	size_t most = rows > page ? rows - page : 0;

	if (view->scroll[view->table] > most)
		view->scroll[view->table] = most;
}

bool top_view__shows(const struct top_view *view, const char *text, size_t length)
{
	size_t n = strlen(view->filter);

	for (size_t i = 0; i + n <= length; i++)
		if (!strncasecmp(text + i, view->filter, n))
			return true;
	return false;
}
