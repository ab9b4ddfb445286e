/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The profile's reader and everything that is rendered from it, in the parts that the options choose. With libFuzzer,
 * after
 * `make`:
 *
 *   clang -std=gnu11 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined -I. -Iinclude -Ibuild/gen \
 *     -o fuzz_profile tests/fuzz/fuzz_profile.c $(ls client/?*.c profile/?*.c | grep -v client/main.c) \
 *     build/gen/stakeout/profile.pb-c.c -lcurl -ljansson -lprotobuf-c -lz -lm
 *   ./fuzz_profile -max_len=4096 tests/fuzz/corpus/profile
 *
 * Beyond not crashing: the folded text must be what it promises, lines of the form "STACK COUNT", sorted, unique,
 * without control characters, whose counts add up to those of the samples that the options take. A dump shows all its
 * threads, also as JSON. A flame graph has its size, and JSON in it;
 * files for speedscope and the Firefox Profiler are JSON.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/render/dump_many.h"
#include "client/render/dump_text.h"
#include "profile/profile.h"
#include "client/render/render.h"
#include "client/render/selection.h"
#include "client/steps/steps.h"
#include "tests/fuzz/few_categories.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)        \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

static void check_folded(const char *text, size_t length, int64_t expected)
{
	const char *previous = NULL, *end;
	size_t previous_length = 0;
	int64_t total = 0;

	for (const char *line = text; line < text + length; line = end + 1) {
		const char *blank;
		size_t n;

		end = memchr(line, '\n', length - (size_t)(line - text));
		REQUIRE(end);
		n = (size_t)(end - line);
		blank = memrchr(line, ' ', n);
		REQUIRE(blank && blank > line && strspn(blank + 1, "0123456789") == (size_t)(end - blank - 1));
		for (const char *c = line; c < end; c++)
			REQUIRE((unsigned char)*c >= 0x20);
		if (previous) {
			int r = memcmp(previous, line, previous_length < n ? previous_length : n);

			REQUIRE(r < 0 || (r == 0 && previous_length < n));
		}
		total += atoll(blank + 1);
		previous = line;
		previous_length = n;
	}
	REQUIRE(total == expected);
}

struct memory {
	char *text;
	size_t length;
};

static FILE *open_memory(struct memory *memory)
{
	FILE *out = open_memstream(&memory->text, &memory->length);

	REQUIRE(out);
	return out;
}

static void fold(const struct profile *profile, const struct render_options *options)
{
	struct memory memory;
	FILE *out = open_memory(&memory);
	int64_t expected = 0;

	for (size_t i = 0; i < profile->n_samples; i++)
		expected += selection__takes(options, &profile->samples[i]) ? profile->samples[i].count : 0;
	REQUIRE(render__folded(profile, options, out, NULL) == 0);
	fclose(out);
	check_folded(memory.text, memory.length, expected);
	free(memory.text);
}

/* What is written into the page's script is its JSON, whatever the names. */
static void check_page(const struct profile *profile, const struct render_options *options)
{
	static const char begin[] = "id=\"profile\">";
	struct memory memory;
	FILE *out = open_memory(&memory);
	const char *text, *end;
	json_t *json;

	REQUIRE(render__html(profile, options, out, NULL) == 0);
	fclose(out);
	REQUIRE(memory.length <= RENDER_HTML_BYTES);
	text = strstr(memory.text, begin) + sizeof(begin) - 1;
	end = strstr(text, "</script>");
	json = json_loadb(text, (size_t)(end - text), JSON_REJECT_DUPLICATES, NULL);
	REQUIRE(json_is_object(json));
	json_decref(json);
	free(memory.text);
}

typedef int render_fn(const struct profile *profile, const struct render_options *options, FILE *out,
		      struct so_error *err);

static void check_json(const struct profile *profile, const struct render_options *options, render_fn *render)
{
	struct memory memory;
	FILE *out = open_memory(&memory);
	json_t *json;

	REQUIRE(render(profile, options, out, NULL) == 0);
	fclose(out);
	json = json_loadb(memory.text, memory.length, JSON_REJECT_DUPLICATES, NULL);
	REQUIRE(json_is_object(json));
	json_decref(json);
	free(memory.text);
}

/* Of a profile that keeps times. */
static void trace(const struct profile *profile, const struct render_options *options)
{
	struct memory memory;
	FILE *out = open_memory(&memory);
	struct so_error err = { "" };
	int ret = render__trace(profile, options, out, &err);
	json_t *json;

	fclose(out);
	REQUIRE(!ret || ret == -ENODATA);
	json = ret ? NULL : json_loadb(memory.text, memory.length, 0, NULL);
	REQUIRE(ret || json_is_object(json));
	json_decref(json);
	free(memory.text);
}

/* place: NULL, or where steps begin by samples. */
static void tell_steps(const struct profile *profile, const char *place)
{
	_cleanup_(steps) struct steps *steps = NULL;
	struct so_error err = { "" };
	struct memory memory;
	FILE *out;
	json_t *json;

	if (steps__of(profile, place, &steps, &err)) {
		REQUIRE(*err.text && !strchr(err.text, '\n'));
		return;
	}
	out = open_memory(&memory);
	steps__print(steps, out);
	fclose(out);
	free(memory.text);
	json = steps__json(steps);
	REQUIRE(json_is_object(json));
	json_decref(json);
}

static void summarise(const struct profile *profile, const struct render_options *options)
{
	struct memory memory;
	FILE *out = open_memory(&memory);
	struct so_error err = { "" };

	REQUIRE(render__summary_of(profile, NULL, options, out, &err) == 0);
	fclose(out);
	free(memory.text);
}

static size_t threads_of(const struct profile *profile, const struct dump_part *part)
{
	size_t n = 0;

	for (size_t i = 0; i < profile->n_samples; i++)
		n += !part->gil || profile->samples[i].gil == PROFILE_GIL_HELD;
	return n;
}

/* An empty line before each thread, and no other one; nothing that steers a terminal. */
static void check_dump(const struct memory *memory, size_t threads)
{
	size_t n = 0;

	for (size_t i = 0; i < memory->length; i++) {
		unsigned char c = (unsigned char)memory->text[i];

		REQUIRE(c == '\n' || (c >= 0x20 && c != 0x7f));
		n += c == '\n' && memory->text[i + 1] == '\n';
	}
	REQUIRE(n == threads && memory->length && memory->text[memory->length - 1] == '\n');
}

static void check_dump_json(const struct memory *memory, size_t threads)
{
	json_t *json = json_loadb(memory->text, memory->length, 0, NULL);

	REQUIRE(json_is_array(json) && json_array_size(json) == threads);
	json_decref(json);
}

static void dump(const struct profile *profile, const struct dump_part *part)
{
	const struct dump all = { .pid = 7,
				  .command = profile->n_comments ? profile->comments[0] : "x",
				  .profile = profile };
	size_t threads = threads_of(profile, part);
	struct dump_left_out left_out = { 0 };
	struct so_error err = { "" };
	struct memory memory;
	char note[160] = "";
	FILE *out = open_memory(&memory);

	REQUIRE(dump_text__print(&all, part, out, &err) == 0);
	fclose(out);
	check_dump(&memory, threads);
	free(memory.text);
	out = open_memory(&memory);
	REQUIRE(dump_text__json(&all, part, out, &err) == 0);
	fclose(out);
	check_dump_json(&memory, threads);
	free(memory.text);
	dump_text__count(profile, part, &left_out);
	REQUIRE(dump_text__note(&left_out, note, sizeof(note)) == (threads < profile->n_samples) &&
		!!*note == (threads < profile->n_samples));
}

/* The same process twice, as one that forked. */
static void dump_two(const struct profile *profile, const struct dump_part *part)
{
	const struct dump_part merged = {
		.kernel = part->kernel, .gil = part->gil, .python_only = part->python_only, .merge = true
	};
	const struct dump two[] = { { .pid = 7, .command = "x", .profile = profile },
				    { .pid = 8, .command = "x", .profile = profile } };
	struct so_error err = { "" };
	struct memory memory;
	FILE *out = open_memory(&memory);

	REQUIRE(dump_many__print(two, 2, &merged, out, &err) == 0);
	fclose(out);
	for (size_t i = 0; i < memory.length; i++) {
		unsigned char c = (unsigned char)memory.text[i];

		REQUIRE(c == '\n' || (c >= 0x20 && c != 0x7f));
	}
	free(memory.text);
	out = open_memory(&memory);
	REQUIRE(dump_many__json(two, 2, &merged, out, &err) == 0);
	fclose(out);
	check_dump_json(&memory, 2);
	free(memory.text);
}

/* Bits of `which` turn the options on; -F has no meaning in a summary. */
static void render(const struct profile *profile, unsigned which)
{
	const struct render_options options = {
		.threads = which & 1, .gil = which & 2, .python_only = which & 4, .functions = which & 8
	};
	const struct dump_part part = { .kernel = which & 1, .gil = which & 2, .python_only = which & 4 };
	struct so_error err = { "" };
	char note[160] = "";

	REQUIRE((selection__check(profile, &options, &err) == 0) == !*err.text);
	REQUIRE(selection__note(profile, &options, note, sizeof(note)) == !!*note);
	fold(profile, &options);
	check_page(profile, &options);
	check_json(profile, &options, render__speedscope);
	check_json(profile, &options, render__firefox);
	trace(profile, &options);
	tell_steps(profile, NULL);
	tell_steps(profile, "a.py:f");
	tell_steps(profile, "main");
	if (!options.functions) {
		summarise(profile, &options);
		dump(profile, &part);
		dump_two(profile, &part);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(profile) struct profile *profile = NULL;
	struct so_error err = { "" };
	int r = profile__read(data, size, &profile, &err);

	REQUIRE((r == 0) == !*err.text && (r == 0) == !!profile);
	for (unsigned which = 0; !r && which < 16; which++)
		render(profile, which);
	return 0;
}
