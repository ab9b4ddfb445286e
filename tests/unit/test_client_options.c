// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stakeout/options.h"
#include "client/commands/record_options.h"

#define MAX_WORDS 16

/* Splits at blanks; "_" stands for an empty word. */
static int parse(const char *line, struct record_options *out, struct so_error *err)
{
	static char copy[256];
	char *argv[MAX_WORDS + 1], *save = NULL;
	int argc = 0;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		assert_true(argc < MAX_WORDS);
		argv[argc++] = strcmp(word, "_") ? word : word + 1;
	}
	argv[argc] = NULL;
	return record_options__parse(argc, argv, out, err);
}

static struct record_options good(const char *line)
{
	struct record_options options;
	struct so_error err = { .text = "" };

	if (parse(line, &options, &err))
		fail_msg("%s: %s", line, err.text);
	return options;
}

static void defaults(void **state)
{
	struct record_options o = good("record -p 1");

	assert_int_equal(o.pid, 1);
	assert_true(o.duration_s == 10);
	assert_int_equal(o.rate_hz, 99);
	assert_null(o.output);
	assert_null(o.stats);
	assert_int_equal(o.format, FORMAT_PPROF);
	assert_true(!o.render.gil && !o.render.functions && !o.render.python_only);
	assert_true(o.children && o.kernel && !o.render.threads && !o.quiet);
}

static void all_options(void **state)
{
	struct record_options o =
		good("record --pid=2 --duration 0.5 --rate=10000 --output x.txt --format pprof "
		     "--threads --no-children --no-kernel --stats s.json --quiet");

	assert_int_equal(o.pid, 2);
	assert_true(o.duration_s == 0.5);
	assert_int_equal(o.rate_hz, 10000);
	assert_string_equal(o.output, "x.txt");
	assert_int_equal(o.format, FORMAT_PPROF);
	assert_string_equal(o.stats, "s.json");
	assert_true(!o.children && !o.kernel && o.render.threads && o.quiet);
	o = good("record -tqp3 -d unlimited -r1 -o- -fraw -s -n");
	assert_int_equal(o.pid, 3);
	assert_true(o.duration_s == 0);
	assert_int_equal(o.rate_hz, 1);
	assert_string_equal(o.output, "-");
	assert_true(o.render.threads && o.quiet);
}

/* As py-spy's users type them: --function is the beginning of one name only. */
static void parts_of_a_profile(void **state)
{
	struct record_options o = good("record -p 1 -gF");

	assert_true(o.render.gil && o.render.functions && !o.render.python_only);
	o = good("record -p 1 --gil -o x.txt");
	assert_true(o.render.gil && !o.render.functions);
	o = good("record -p 1 --function --python-only -f folded -o x.pb.gz");
	assert_true(!o.render.gil && o.render.functions && o.render.python_only);
}

static void events_and_their_weights(void **state)
{
	struct record_options o = good("record -p 1");

	assert_int_equal(o.event, SO_CUDA_EVENT_COUNT);
	o = good("record -p 1 --event cuda-launch");
	assert_int_equal(o.event, SO_CUDA_EVENT_LAUNCH);
	assert_int_equal(o.weight, SO_CUDA_WEIGHT_CALLS);
	o = good("record -p 1 --event=cuda-sync -o x.pb.gz");
	assert_int_equal(o.event, SO_CUDA_EVENT_SYNC);
	assert_int_equal(o.weight, SO_CUDA_WEIGHT_TIME);
	assert_string_equal(o.render.value, "host_time");
	assert_int_equal(o.format, FORMAT_PPROF);
	assert_int_equal(good("record -p 1 --event cuda-copy").weight, SO_CUDA_WEIGHT_TIME);
	assert_int_equal(good("record -p 1 --event cuda-alloc").weight, SO_CUDA_WEIGHT_BYTES);
	assert_int_equal(good("record -p 1 --event cuda-free").weight, SO_CUDA_WEIGHT_CALLS);
	assert_int_equal(good("record -p 1 --event cuda-set --weight bytes").weight, SO_CUDA_WEIGHT_BYTES);
	o = good("record -p 1 --weight time --event cuda-launch -t --python-only -F");
	assert_int_equal(o.weight, SO_CUDA_WEIGHT_TIME);
	assert_true(o.render.threads && o.render.python_only && o.render.functions);
}

static void a_process_without_its_option(void **state)
{
	struct record_options o = good("record 12 -d 5m");

	assert_int_equal(o.pid, 12);
	assert_true(o.duration_s == 300);
	assert_true(good("record -d 1.5h 12").duration_s == 5400);
	assert_true(good("record 12 -d 90s").duration_s == 90);
	assert_true(good("record 12").duration_s == RECORD_DEFAULT_DURATION_S);
}

static void a_command(void **state)
{
	struct record_options o = good("record -r 49 -- prog -r 1 --help");

	assert_int_equal(o.rate_hz, 49);
	assert_int_equal(o.pid, 0);
	assert_true(o.duration_s == 0);
	assert_string_equal(o.command[0], "prog");
	assert_string_equal(o.command[3], "--help");
	assert_null(o.command[4]);
	assert_true(good("record -d 3 -- prog").duration_s == 3);
}

static void the_last_one_counts(void **state)
{
	assert_int_equal(good("record -p 1 -r 5 -r 7").rate_hz, 7);
}

/* Each of these is wrong usage, named by a word of the message; the output stays untouched. */
static void wrong_usage(void **state)
{
	static const char *const cases[][2] = {
		{ "record", "-p PID" },
		{ "record -p", "'-p' needs a value" },
		{ "record --pid", "'--pid' needs a value" },
		{ "record -p _", "'' is not a process ID" },
		{ "record -p 0", "process ID" },
		{ "record -p -5", "'-5' is not a process ID" },
		{ "record -p +5", "process ID" },
		{ "record -p 0x10", "process ID" },
		{ "record -p 12x", "process ID" },
		{ "record -p no-such-program", "'no-such-program' is not a process ID, and no process is called so" },
		{ "record -p 4194305", "process ID" },
		{ "record -p 99999999999999999999", "process ID" },
		{ "record -p 1 -r 0", "sampling rate" },
		{ "record -p 1 -r 10001", "from 1 to 10000" },
		{ "record -p 1 -r 1e9", "sampling rate" },
		{ "record -p 1 -r 9.9", "sampling rate" },
		{ "record -p 1 -r abc", "'abc'" },
		{ "record -p 1 -r -1", "sampling rate" },
		{ "record -p 1 -d 0", "duration" },
		{ "record -p 1 -d 0.0", "duration" },
		{ "record -p 1 -d -1", "duration" },
		{ "record -p 1 -d nan", "duration" },
		{ "record -p 1 -d inf", "duration" },
		{ "record -p 1 -d 1e3", "duration" },
		{ "record -p 1 -d 1.2.3", "duration" },
		{ "record -p 1 -d .", "duration" },
		{ "record -p 1 -d 2592001", "duration" },
		{ "record -p 1 -d ten", "'ten'" },
		{ "record -p 1 -o _", "--output needs a value" },
		{ "record -p 1 -f svg", "unknown format 'svg': folded, html, speedscope, firefox, trace or pprof" },
		{ "record -p 1 -o flame.svg", "no .svg file" },
		{ "record -p 1 -o x.folded.gz", "no .gz file" },
		{ "record -p 1 -o - --stats -", "cannot both" },
		{ "record -p 1 -x", "unknown option '-x'" },
		{ "record -p 1 --foo", "unknown option '--foo' (see" },
		{ "record -p 1 --treads", "unknown option '--treads'; did you mean --threads?" },
		{ "record -p 1 --outputs x", "did you mean --output?" },
		{ "record 1 -- prog", "a process ID or a command, not both" },
		{ "record -p 1 -d 5x", "'5x' is not a duration" },
		{ "record -p 1 -d 5mm", "duration" },
		{ "record -p 1 -d m", "duration" },
		{ "record -p 1 --threads=1", "takes no value" },
		{ "record -p 1 -g -f pprof", "--gil is not for a pprof file" },
		{ "record -p 1 -F -o x.pb.gz", "'stakeout render FILE --functions'" },
		{ "record -p 1 --python-only -o x.pprof", "--python-only is not for a pprof file" },
		{ "record -p 1 --gil=yes", "takes no value" },
		{ "record -p 1 --event sync", "unknown event 'sync': cuda-launch, cuda-sync" },
		{ "record -p 1 --event _", "--event needs a value" },
		{ "record -p 1 --weight calls", "needs --event" },
		{ "record -p 1 --event cuda-copy --weight size", "unknown weight 'size': calls, time" },
		{ "record -p 1 --event cuda-launch --weight bytes", "cuda-launch has no bytes" },
		{ "record -p 1 --event cuda-sync --weight bytes", "cuda-sync has no bytes" },
		{ "record -p 1 --event cuda-free --weight bytes", "cuda-free has no bytes" },
		{ "record -p 1 --event cuda-copy --weight time -f pprof",
		  "--weight chooses what stacks count; a pprof file has all" },
		{ "record -p 1 --event cuda-copy --gil", "--gil is for samples" },
		{ "record -p 1 2", "unexpected argument '2'" },
		{ "record x", "unexpected argument 'x'" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct record_options options = { .pid = 4711 };
		struct so_error err = { .text = "" };

		assert_int_equal(parse(cases[i][0], &options, &err), -EINVAL);
		if (!strstr(err.text, cases[i][1]))
			fail_msg("%s: \"%s\" does not say \"%s\"", cases[i][0], err.text, cases[i][1]);
		assert_null(strchr(err.text, '\n'));
		assert_int_equal(options.pid, 4711);
	}
}

static void the_ending_decides(void **state)
{
	static const struct {
		const char *path;
		enum format format;
	} cases[] = {
		{ "a.folded", FORMAT_FOLDED },
		{ "a.txt", FORMAT_FOLDED },
		{ "a.pb.gz", FORMAT_PPROF },
		{ "a.pb", FORMAT_PPROF },
		{ "a.pprof", FORMAT_PPROF },
		{ "a.pprof.gz", FORMAT_PPROF },
		{ "A.PB.GZ", FORMAT_PPROF },
		{ "a", FORMAT_FOLDED },
		{ "-", FORMAT_FOLDED },
		{ "/dev/stdout", FORMAT_FOLDED },
		{ "a.out", FORMAT_FOLDED },
		{ ".pb.gz", FORMATS },
		{ "a.html", FORMAT_HTML },
		{ "A.HTM", FORMAT_HTML },
		{ "a.speedscope.json", FORMAT_SPEEDSCOPE },
		{ "a.firefox.json", FORMAT_FIREFOX },
		{ "a.firefox.json.gz", FORMAT_FIREFOX_GZIP },
		{ "a.json.gz", FORMAT_FIREFOX_GZIP },
		{ "a.json", FORMATS },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum format format = FORMATS;
		struct so_error err = { .text = "" };

		/* ".pb.gz" alone is a hidden file without an ending before ".gz" */
		assert_int_equal(format__from_path(cases[i].path, &format, &err),
				 cases[i].format == FORMATS ? -EINVAL : 0);
		assert_int_equal(format, cases[i].format);
	}
}

static void the_given_format_wins(void **state)
{
	assert_int_equal(good("record -p 1 -o a.pb.gz -f folded").format, FORMAT_FOLDED);
	assert_int_equal(good("record -p 1 -o a.svg -f pprof").format, FORMAT_PPROF);
	assert_int_equal(good("record -p 1 -o a.json -f speedscope").format, FORMAT_SPEEDSCOPE);
	assert_int_equal(good("record -p 1 -o a.json -f firefox").format, FORMAT_FIREFOX);
	assert_int_equal(good("record -p 1 -o a.gz -f firefox").format, FORMAT_FIREFOX_GZIP);
}

/* What a file is for that has no name: every command reads pprof, but what shapes folded stacks asks for these. */
static void without_a_file_it_is_pprof(void **state)
{
	assert_int_equal(good("record -p 1").format, FORMAT_PPROF);
	assert_int_equal(good("record -p 1 -t --wall").format, FORMAT_PPROF);
	assert_int_equal(good("record -p 1 --event cuda-copy").format, FORMAT_PPROF);
	assert_int_equal(good("record -p 1 -f folded").format, FORMAT_FOLDED);
	assert_int_equal(good("record -p 1 -o -").format, FORMAT_FOLDED);
	assert_int_equal(good("record -p 1 --gil").format, FORMAT_FOLDED);
	assert_int_equal(good("record -p 1 --only tid=1").format, FORMAT_FOLDED);
	assert_int_equal(good("record -p 1 --event cuda-copy --weight time").format, FORMAT_FOLDED);
}

static void the_default_name(void **state)
{
	struct record_options o = good("record -p 42");
	char stem[RECORD_STEM_BYTES];
	char lengthy[300];

	setenv("TZ", "UTC", 1);
	record_options__default_stem(&o, "train.py", 1700000000, stem);
	assert_string_equal(stem, "stakeout-train.py-42-20231114T221320");
	record_options__default_stem(&o, "", 1700000000, stem);
	assert_string_equal(stem, "stakeout-42-20231114T221320");
	record_options__default_stem(&o, "a b;$(c)/\x1b\xc3\xa4", 1700000000, stem);
	assert_string_equal(stem, "stakeout-a_b___c_____-42-20231114T221320");
	memset(lengthy, 'x', sizeof(lengthy) - 1);
	lengthy[sizeof(lengthy) - 1] = '\0';
	record_options__default_stem(&o, lengthy, 1700000000, stem);
	assert_non_null(strstr(stem, "xxx-42-20231114T221320"));
}

static void a_positional_argument(void **state)
{
	const char *file = NULL;
	bool on = false;
	const struct option_entry entries[] = {
		{ OPTION_ON, 'x', "ex", NULL, &on, "x" },
		{ OPTION_END },
	};
	const struct option_table table = {
		.usage = "t", .about = "t", .entries = entries, .positional_value = &file
	};
	char *first[] = { "t", "file", "-x", NULL }, *dashes[] = { "t", "--", "-x", NULL },
	     *two[] = { "t", "a", "b", NULL };
	struct so_error err;

	assert_int_equal(options__parse(&table, 3, first, &err), OPTIONS_GO_ON);
	assert_string_equal(file, "file");
	assert_true(on);
	file = NULL;
	assert_int_equal(options__parse(&table, 3, dashes, &err), OPTIONS_GO_ON);
	assert_string_equal(file, "-x");
	file = NULL;
	assert_int_equal(options__parse(&table, 3, two, &err), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(all_options),
		cmocka_unit_test(parts_of_a_profile),
		cmocka_unit_test(events_and_their_weights),
		cmocka_unit_test(the_last_one_counts),
		cmocka_unit_test(a_process_without_its_option),
		cmocka_unit_test(a_command),
		cmocka_unit_test(wrong_usage),
		cmocka_unit_test(the_ending_decides),
		cmocka_unit_test(the_given_format_wins),
		cmocka_unit_test(without_a_file_it_is_pprof),
		cmocka_unit_test(the_default_name),
		cmocka_unit_test(a_positional_argument),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
