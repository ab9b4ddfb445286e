// SPDX-License-Identifier: GPL-2.0-or-later
/* Documents about CUDA calls added up; and differences of counters that, added up, are the counters again. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "daemon/history/cuda_merge.h"
#include "daemon/cuda/cuda_rows.h"
#include "tests/unit/cuda_answers.h"

/* ' stands for ". */
static json_t *parse(const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	json_error_t error;
	json_t *json;

	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	json = json_loads(copy, 0, &error);
	if (!json)
		fail_msg("%s: %s", error.text, copy);
	return json;
}

static void add(struct cuda_merge *m, const char *text)
{
	_cleanup_(json) json_t *document = parse(text);

	assert_int_equal(cuda_merge__add(m, document), 0);
}

/* The sum of the texts, NULL behind the last. */
static json_t *sum_of(const char *const *texts)
{
	_cleanup_(cuda_merge) struct cuda_merge *m = cuda_merge__new();
	json_t *sum;

	for (; *texts; texts++)
		add(m, *texts);
	sum = cuda_merge__finish(m, false);
	assert_non_null(sum);
	return sum;
}

#define SUM(...) sum_of((const char *const[]){ __VA_ARGS__, NULL })

/* The member of `list`[i], or with list NULL of the whole, is the JSON `value`. */
static void expect(const json_t *sum, const char *list, size_t i, const char *key, const char *value)
{
	const json_t *row = list ? json_array_get(json_object_get(sum, list), i) : sum;
	_cleanup_free_ char *seen =
		json_dumps(json_object_get(row, key), JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
	char *expected = strdup(value);

	for (char *p = expected; *p; p++)
		if (*p == '\'')
			*p = '"';
	if (!seen || strcmp(seen, expected))
		fail_msg("%s[%zu].%s is %s, not %s", list ? list : "", i, key, seen ? seen : "absent",
			 expected);
	free(expected);
}

static size_t rows(const json_t *sum, const char *list)
{
	return json_array_size(json_object_get(sum, list));
}

static void one_document_stays_as_it_is(void **state)
{
	_cleanup_(json) json_t *sum = SUM(CUDA_TRAINING), *again = NULL, *stored = NULL;
	_cleanup_(cuda_merge) struct cuda_merge *m = cuda_merge__new();
	_cleanup_(cuda_report) struct cuda_report *from = cuda_read(CUDA_TRAINING), *to = NULL;
	struct so_error err;

	assert_int_equal(cuda_report__read(sum, &to, &err), 0);
	assert_int_equal(to->n_calls, from->n_calls);
	assert_int_equal(to->n_lines, from->n_lines);
	assert_int_equal(to->n_errors, from->n_errors);
	assert_int_equal(to->n_devices, from->n_devices);
	assert_int_equal(to->n_allocations, from->n_allocations);
	assert_true(to->duration_s == from->duration_s && to->cpu_s == from->cpu_s);
	assert_true(to->devices[0].utilisation_percent == from->devices[0].utilisation_percent);
	assert_true(to->watching.overhead_percent == from->watching.overhead_percent);
	assert_string_equal(to->watching.state, from->watching.state);
	for (size_t i = 0; i < from->n_calls; i++) {
		const struct cuda_call *a = &from->calls[i], *b = NULL;

		for (size_t j = 0; !b && j < to->n_calls; j++)
			if (to->calls[j].total_ns == a->total_ns && to->calls[j].calls == a->calls &&
			    to->calls[j].tid == a->tid)
				b = &to->calls[j];
		assert_non_null(b);
		assert_string_equal(a->api, b->api);
		assert_int_equal(a->n_buckets, b->n_buckets);
		assert_memory_equal(a->buckets, b->buckets, a->n_buckets * sizeof(*a->buckets));
		assert_true(a->squares_ns2 == b->squares_ns2 && a->min_ns == b->min_ns &&
			    a->max_ns == b->max_ns);
		assert_true(!a->library == !b->library);
	}
	/* Through the stored form, and once more. */
	assert_int_equal(cuda_merge__add(m, sum), 0);
	stored = cuda_merge__finish(m, true);
	assert_true(json_array_size(json_object_get(stored, "frames")) > 5);
	cuda_merge__free(m);
	m = cuda_merge__new();
	assert_int_equal(cuda_merge__add(m, stored), 0);
	again = cuda_merge__finish(m, false);
	assert_true(json_equal(again, sum));
}

static void calls_add_up(void **state)
{
#define CALL(library, kernel, address, calls, min, max, histogram)                                            \
	"{'duration_s':1,'libraries':[{'id':" library ",'pid':7,'path':'/lib/libcudart.so','kind':'runtime'," \
	"'static':false}],'calls':[{'api':'cudaLaunchKernel','kind':'launch','library':" library              \
	",'pid':7,'tid':8,'comm':'c" library "','kernel':" kernel ",'kernel_address':" address                \
	",'direction':'','calls':" calls ",'errors':1,'total_ns':1000,'min_ns':" min ",'max_ns':" max         \
	",'squares_ns2':2.5e5,'bytes':3,'blocks':4,'threads':5,'grid':[" library ",1,1],'block':[1,1,1],"     \
	"'stream':'0x" library "','histogram':" histogram "}]}"
	_cleanup_(json) json_t *sum =
		SUM(CALL("3", "'add'", "'0x10'", "4", "10", "40", "[[10,1,1],[40,1,3]]"),
		    CALL("9", "'add'", "'0x20'", "6", "20", "500", "[[20,1,1],[40,1,2],[496,8,3]]"),
		    CALL("9", "null", "'0x30'", "1", "1", "1", "[[1,1,1]]"),
		    CALL("9", "null", "'0x40'", "1", "1", "1", "[[1,1,1]]"),
		    CALL("9", "'add'", "'0x10'", "5", "5", "9", "[[5,1,2],[9,1,3]]"));

	assert_int_equal(rows(sum, "calls"), 3);
	assert_int_equal(rows(sum, "libraries"), 1);
	expect(sum, "calls", 0, "calls", "15");
	expect(sum, "calls", 0, "errors", "3");
	expect(sum, "calls", 0, "total_ns", "3000");
	expect(sum, "calls", 0, "min_ns", "5");
	expect(sum, "calls", 0, "max_ns", "500");
	expect(sum, "calls", 0, "squares_ns2", "750000.0");
	expect(sum, "calls", 0, "bytes", "9");
	expect(sum, "calls", 0, "blocks", "12");
	expect(sum, "calls", 0, "threads", "15");
	expect(sum, "calls", 0, "comm", "'c9'");
	expect(sum, "calls", 0, "stream", "'0x9'");
	expect(sum, "calls", 0, "grid", "[9,1,1]");
	expect(sum, "calls", 0, "kernel_address", "'0x10'");
	expect(sum, "calls", 0, "library", "1");
	expect(sum, "calls", 0, "histogram", "[[5,1,2],[9,1,3],[10,1,1],[20,1,1],[40,1,5],[496,8,3]]");
	expect(sum, "calls", 1, "kernel_address", "'0x30'");
	expect(sum, "calls", 2, "kernel_address", "'0x40'");
	expect(sum, NULL, 0, "duration_s", "5.0");
}

static void libraries_are_known_by_their_path(void **state)
{
#define AT(id, pid, path)                                                                              \
	"{'libraries':[{'id':" id ",'pid':" pid ",'path':'" path "','kind':'driver','static':false}]," \
	"'calls':[{'api':'cuInit','kind':'other','library':" id ",'pid':" pid ",'tid':1,'calls':1,"    \
	"'min_ns':1,'max_ns':1}],'errors':[{'api':'cuInit','library':" id ",'pid':" pid                \
	",'code':2,'count':3}]}"
	_cleanup_(json) json_t *sum = SUM(AT("1", "7", "/a"), AT("2", "7", "/b"), AT("1", "7", "/b"),
					  AT("1", "8", "/a"), AT("5", "7", "/a"));

	assert_int_equal(rows(sum, "libraries"), 3);
	expect(sum, "libraries", 0, "path", "'/a'");
	expect(sum, "libraries", 0, "probes", "[]");
	assert_int_equal(rows(sum, "calls"), 3);
	assert_int_equal(rows(sum, "errors"), 3);
	expect(sum, "errors", 0, "count", "6");
	expect(sum, "errors", 0, "library", "1");
	expect(sum, "errors", 1, "library", "2");
	expect(sum, "errors", 2, "count", "3");
	/* One that is not in the list stays unknown. */
	json_decref(sum);
	sum = SUM("{'errors':[{'api':'cuInit','library':4,'pid':7,'code':2,'count':3}]}");
	expect(sum, "errors", 0, "library", "0");
}

static void lines_are_known_by_their_stacks(void **state)
{
#define LINE(stack, frames, calls, sampled)                                                           \
	"{" frames                                                                                    \
	"'lines':[{'event':'sync','api':'cuCtxSynchronize','pid':1,'tid':2,'line':'b','stack':" stack \
	",'calls':" calls                                                                             \
	",'total_ns':10,'bytes':1,'stacks':3,'stacks_ns':2,'stacks_bytes':1,'needless':1,'needless_ns':2," \
	"'sampled':" sampled "}]}"
	_cleanup_(json) json_t *sum = SUM(LINE("['a','b']", "", "1", "false"), LINE("['b']", "", "1", "false"),
					  LINE("[1,0]", "'frames':['b','a'],", "5", "true"));

	assert_int_equal(rows(sum, "lines"), 2);
	expect(sum, "lines", 0, "stack", "['a','b']");
	expect(sum, "lines", 0, "calls", "6");
	expect(sum, "lines", 0, "total_ns", "20");
	expect(sum, "lines", 0, "stacks", "6");
	expect(sum, "lines", 0, "needless", "2");
	expect(sum, "lines", 0, "needless_ns", "4");
	expect(sum, "lines", 0, "sampled", "true");
	expect(sum, "lines", 1, "stack", "['b']");
	expect(sum, "lines", 1, "sampled", "false");
}

/* A range over a daemon's upgrade: of what an older one estimated no interval is known. */
static void older_daemons_have_fewer_kinds(void **state)
{
#define COPIED(kind, kinds, estimate)                                                                        \
	"{'estimated':true,'estimate':{'windows':2,'calls':4.0,'weight':1.0,'" kinds "':"                    \
	"{"                                                                                                  \
	"'" estimate "':{'windows':2,'calls':4.0,'weight':1.0}}},"                                           \
	"'calls':[{'api':'cudaMemcpy','kind':'" kind "','library':0,'pid':7,'tid':8,"                        \
	"'comm':'c','kernel':null,'kernel_address':null,'direction':'','calls':10,'errors':0,'total_ns':"    \
	"100,'min_ns':10,'max_ns':10,'squares_ns2':1.0,'bytes':0,'blocks':0,'threads':0,'grid':[0,0,0],"     \
	"'block':[0,0,0],'stream':null,'histogram':[[10,1,10]]}],'lines':[{'event':'" kind                   \
	"','api':'cudaMemcpy','pid':7,'tid':8,'line':'a','stack':['a'],'calls':10,'total_ns':100,'bytes':0," \
	"'stacks':10,'sampled':false,'stacks_ns':100,'stacks_bytes':0}]}"
	static const char older[] = COPIED("copy", "by_kind", "copy"),
			  newer[] = COPIED("blocking-copy", "by_api", "cudaMemcpy");
	_cleanup_(json) json_t *both = SUM(older, newer), *new = SUM(newer);
	const char *parts[] = { "calls", "lines" };

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(json_array_size(json_object_get(both, parts[i])), 1);
		expect(both, parts[i], 0, "calls", "20");
		expect(both, parts[i], 0, i ? "event" : "kind", "'blocking-copy'");
	}
	assert_null(json_object_get(json_object_get(both, "estimate"), "by_api"));
	expect(both, NULL, 0, "estimated", "true");
	assert_true(json_is_null(json_object_get(json_object_get(both, "estimate"), "interval")));
	assert_non_null(json_object_get(json_object_get(new, "estimate"), "by_api"));
}

/*
 * Windows have lines as they were sampled; their sum has them as they add up to the calls, whatever it was made of. Of
 * 245 copies by stacks 45 are too many: 160 of 4 stacks vary as 160 x 156 / 4 = 6240, 80 of 2 as 3120, and 5 of 5 not
 * at all.
 */
static void lines_add_up_to_the_calls(void **state)
{
#define SAMPLED(line, calls, stacks, told)                                                            \
	"{'event':'copy','api':'cudaMemcpyAsync','pid':7,'tid':8,'line':" line ",'stack':[" line "]," \
	"'calls':" calls ",'total_ns':1000,'bytes':0,'stacks':" stacks ",'sampled':true" told "}"
#define TOLD ",'stacks_ns':1000,'stacks_bytes':0,'needless':5"
#define WINDOW(losses, more)                                                                               \
	"{'lost':" losses ",'calls':[{'api':'cudaMemcpyAsync','kind':'copy','library':0,'pid':7,'tid':8,"  \
	"'comm':'c','kernel':null,'kernel_address':null,'direction':'','calls':100,'errors':0,'total_ns':" \
	"9000,"                                                                                            \
	"'min_ns':10,'max_ns':90,'squares_ns2':1.0,'bytes':0,'blocks':0,'threads':0,'grid':[0,0,0],"       \
	"'block':[0,0,0],'stream':null,'histogram':[[40,1,100]]}],'lines':[" more "]}"
	static const char first[] =
		WINDOW("{}", SAMPLED("'a'", "80", "2", TOLD) "," SAMPLED("'b'", "40", "1", TOLD)),
			  second[] = WINDOW("{'stack-busy':3}",
					    SAMPLED("'a'", "80", "2", TOLD) "," SAMPLED(
						    "'b'", "40", "1", TOLD) "," SAMPLED("'c'", "5", "5", TOLD)),
			  lossy[] = WINDOW("{'stack-full':1}", SAMPLED("'a'", "80", "2", TOLD)),
			  older[] =
				  WINDOW("{}", SAMPLED("'a'", "80", "2", "") "," SAMPLED("'b'", "40", "1", ""));
	_cleanup_(json) json_t *sum = SUM(first, second), *stored = NULL, *again = NULL, *with_loss = NULL,
			       *of_older = SUM(older), *of_both = SUM(older, first);
	_cleanup_(cuda_merge) struct cuda_merge *m = cuda_merge__new();

	expect(sum, "lines", 0, "calls", "130");
	/* 10 of 160 are 8.1 of 130. */
	expect(sum, "lines", 0, "needless", "8");
	expect(sum, "lines", 1, "calls", "65");
	expect(sum, "lines", 2, "calls", "5");
	expect(sum, "lines", 0, "stacks", "4");
	assert_null(json_object_get(json_array_get(json_object_get(sum, "lines"), 0), "stacks_ns"));
	add(m, first);
	stored = cuda_merge__finish(m, true);
	expect(stored, "lines", 0, "calls", "80");
	expect(stored, "lines", 0, "needless", "5");
	expect(stored, "lines", 0, "stacks_ns", "1000");
	cuda_merge__free(m);
	m = cuda_merge__new();
	assert_int_equal(cuda_merge__add(m, stored), 0);
	add(m, second);
	again = cuda_merge__finish(m, false);
	assert_true(json_equal(json_object_get(again, "lines"), json_object_get(sum, "lines")));
	/* Of lines that were lost nobody knows whose their calls are. */
	add(m, lossy);
	with_loss = cuda_merge__finish(m, false);
	expect(with_loss, "lines", 0, "calls", "240");
	expect(with_loss, "lines", 1, "calls", "80");
	/* Nor of which calls an older daemon took the stacks. */
	expect(of_older, "lines", 0, "calls", "80");
	expect(of_older, "lines", 1, "calls", "40");
	expect(of_both, "lines", 0, "calls", "160");
	expect(of_both, "lines", 1, "calls", "80");
	cuda_merge__free(m);
	m = cuda_merge__new();
	add(m, older);
	add(m, first);
	json_decref(stored);
	stored = cuda_merge__finish(m, true);
	assert_null(json_object_get(json_array_get(json_object_get(stored, "lines"), 0), "stacks_ns"));
}

static void memory_is_that_of_the_last(void **state)
{
#define SITE(line, allocations, current, peak)                                        \
	"{'pid':1,'line':" line ",'stack':[],'host':false,'allocations':" allocations \
	",'frees':1,'bytes':100,'current_bytes':" current ",'peak_bytes':" peak "}"
#define SITES(...) "{'allocations':[" __VA_ARGS__ "]}"
	_cleanup_(json) json_t *sum = SUM(SITES(SITE("'a'", "2", "50", "80") "," SITE("'a'", "1", "5", "6")),
					  SITES(SITE("'a'", "3", "10", "70") "," SITE("null", "1", "-4", "-1")),
					  SITES(SITE("'c'", "1", "1", "1")));

	assert_int_equal(rows(sum, "allocations"), 3);
	expect(sum, "allocations", 0, "line", "'a'");
	expect(sum, "allocations", 0, "allocations", "6");
	expect(sum, "allocations", 0, "frees", "3");
	expect(sum, "allocations", 0, "bytes", "300");
	expect(sum, "allocations", 0, "current_bytes", "10");
	expect(sum, "allocations", 0, "peak_bytes", "86");
	expect(sum, "allocations", 1, "line", "'c'");
	expect(sum, "allocations", 2, "line", "null");
	expect(sum, "allocations", 2, "peak_bytes", "-1");
}

static void means_are_weighted_by_time(void **state)
{
#define GPU(seconds, busy, own, memory, samples)                                                           \
	"{'duration_s':" seconds ",'gpu':{'driver':'550','devices':[{'index':0,'name':'H','uuid':'GPU-1'," \
	"'utilisation_percent':" busy ",'process_utilisation_percent':" own ",'memory_used_bytes':" memory \
	",'samples':" samples "}]},'probes':{'overhead_percent':" busy                                     \
	",'rungs':{'set':'counted'},'hits':4,'state':"                                                     \
	"'fewer-stacks','stack_period':{'launch':" samples "},'stack_time_ns':{'copy':" busy "}}}"
	static const char first[] = GPU("10", "90", "null", "5", "20"),
			  second[] = GPU("30", "10", "8", "7", "6"),
			  third[] = "{'duration_s':60,'gpu':null,'gpu_problem':'gone','probes':{'state':'full',"
				    "'rungs':{'set':'full'}}}";
	_cleanup_(json) json_t *sum = SUM(first, second, third), *direct = NULL, *stored = NULL;
	_cleanup_(cuda_merge) struct cuda_merge *m = cuda_merge__new();
	const json_t *gpu = json_object_get(sum, "gpu"), *probes = json_object_get(sum, "probes");

	expect(gpu, "devices", 0, "utilisation_percent", "30.0");
	expect(gpu, "devices", 0, "process_utilisation_percent", "8.0");
	expect(gpu, "devices", 0, "memory_used_bytes", "7.0");
	expect(gpu, "devices", 0, "memory_utilisation_percent", "null");
	expect(gpu, "devices", 0, "samples", "26");
	expect(probes, NULL, 0, "overhead_percent", "30.0");
	expect(probes, NULL, 0, "hits", "8");
	expect(probes, NULL, 0, "state", "'fewer-stacks'");
	expect(probes, NULL, 0, "stack_period", "{'launch':20}");
	expect(probes, NULL, 0, "stack_time_ns", "{'copy':90}");
	expect(sum, NULL, 0, "duration_s", "100.0");
	expect(sum, NULL, 0, "gpu_problem", "null");
	/* A stored sum of the first and the third weighs as the first alone. */
	add(m, first);
	add(m, third);
	stored = cuda_merge__finish(m, true);
	cuda_merge__free(m);
	m = cuda_merge__new();
	assert_int_equal(cuda_merge__add(m, stored), 0);
	add(m, second);
	direct = cuda_merge__finish(m, false);
	expect(json_object_get(direct, "gpu"), "devices", 0, "utilisation_percent", "30.0");
	expect(json_object_get(direct, "gpu"), "devices", 0, "process_utilisation_percent", "8.0");
}

static void the_rest_adds_up(void **state)
{
	const json_t *estimate;
	_cleanup_(json) json_t *sum = SUM(
		"{'pid':1,'comm':'a','duration_s':1.5,'cpu_s':1,'estimated':true,'available':false,"
		"'estimate':{'windows':2,'calls':10.5,'rates':6,'squares':20,'weight':4,'slowdown':1,'by_api':{"
		"'cudaFree':{'windows':2,'calls':10.5,'rates':6,'squares':20,'weight':4,'slowdown':1,'blind':0}}},"
		"'problems':['x','y'],'lost':{'unfinished':2,'names-full':0},'in_progress':[{'pid':1,'api':"
		"'cuInit'}]}",
		"{'pid':1,'comm':'b','duration_s':2,'cpu_s':0.5,'estimated':false,'available':true,"
		"'estimate':{'windows':3,'calls':1,'rates':9,'squares':27,'weight':5,'slowdown':0,'by_api':{"
		"'cudaFree':{'windows':2,'calls':0.5,'rates':6,'squares':18,'weight':1,'slowdown':0,'blind':0},"
		"'cudaMemset':{'windows':3,'calls':0.5,'rates':3,'squares':3,'weight':4,'slowdown':0,'blind':0}}},"
		"'problems':['y','z'],'lost':{'unfinished':3,'lines-lost':1},'in_progress':[]}");

	expect(sum, NULL, 0, "comm", "'b'");
	expect(sum, NULL, 0, "duration_s", "3.5");
	expect(sum, NULL, 0, "cpu_s", "1.5");
	expect(sum, NULL, 0, "estimated", "true");
	estimate = json_object_get(sum, "estimate");
	expect(estimate, NULL, 0, "windows", "5.0");
	expect(estimate, NULL, 0, "calls", "11.5");
	expect(estimate, NULL, 0, "rates", "15.0");
	expect(estimate, NULL, 0, "squares", "47.0");
	expect(estimate, NULL, 0, "weight", "9.0");
	/* t of 4 times the square root of (47 - 45) / 4 x 9, and the slowdown. */
	assert_true(fabs(json_real_value(json_object_get(estimate, "interval")) - (2.776 * 2.1213 + 1)) < 0.02);
	estimate = json_object_get(json_object_get(estimate, "by_api"), "cudaFree");
	expect(estimate, NULL, 0, "windows", "4.0");
	expect(estimate, NULL, 0, "calls", "11.0");
	assert_int_equal(json_object_size(json_object_get(json_object_get(sum, "estimate"), "by_api")), 2);
	expect(sum, NULL, 0, "available", "true");
	expect(sum, NULL, 0, "problems", "['x','y','z']");
	expect(json_object_get(sum, "lost"), NULL, 0, "unfinished", "5");
	expect(json_object_get(sum, "lost"), NULL, 0, "lines-lost", "1");
	expect(sum, NULL, 0, "in_progress", "[]");
	expect(sum, NULL, 0, "probes", "null");
}

/* Else an API of which one of them said nothing would seem exact. */
static void estimated_apis_are_all_known_or_none(void **state)
{
#define APIS(apis) "{'estimated':true,'estimate':{'windows':1,'calls':2.5,'by_api':{" apis "}}}"
#define LAUNCH     "'cudaLaunchKernel':{'windows':1,'calls':2.5}"
	static const struct {
		const char *other;
		bool known;
	} of[] = {
		{ "{'estimated':true,'estimate':null}", true },
		{ "{'estimated':false}", true },
		{ APIS(""), true },
		{ "{'estimated':true}", false }, /* as older daemons have it */
		{ "{'estimated':true,'estimate':{'times':1,'calls':2.5,'variance':0,'bias':0}}", false },
		{ APIS("'cudaNewer':{}"), false },
	};

	for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		_cleanup_(json) json_t *sum = SUM(APIS(LAUNCH), of[i].other);
		const json_t *estimate = json_object_get(sum, "estimate");

		assert_true(json_real_value(json_object_get(estimate, "calls")) >= 2.5);
		assert_int_equal(json_object_get(estimate, "by_api") != NULL, of[i].known);
	}
}

static void counts_stop_at_the_top(void **state)
{
#define MOST                                                                                \
	"{'errors':[{'api':'a','pid':1,'code':1,'count':9223372036854775807}],'lost':{'x':" \
	"9223372036854775807}}"
	_cleanup_(json) json_t *sum = SUM(MOST, MOST, MOST);

	expect(sum, "errors", 0, "count", "9223372036854775807");
	expect(json_object_get(sum, "lost"), NULL, 0, "x", "9223372036854775807");
}

static void what_is_damaged_is_refused_whole(void **state)
{
	static const char *const damaged[] = {
		"[]",
		"{'pid':'x'}",
		"{'duration_s':-1}",
		"{'estimated':1}",
		"{'estimate':[]}",
		"{'estimate':{'windows':-1}}",
		"{'estimate':{'weight':-1}}",
		"{'estimate':{'slowdown':'x'}}",
		"{'estimate':{'by_api':[]}}",
		"{'estimate':{'by_api':{'cudaFree':1}}}",
		"{'estimate':{'by_api':{'cudaFree':{'calls':-1}}}}",
		"{'comm':3}",
		"{'problems':[1]}",
		"{'lost':{'a':-1}}",
		"{'lost':[]}",
		"{'calls':{}}",
		"{'calls':[7]}",
		"{'calls':[{'calls':1}]}",
		"{'calls':[{'api':'a','calls':1,'min_ns':2,'max_ns':1}]}",
		"{'calls':[{'api':'a','calls':1,'errors':2}]}",
		"{'calls':[{'api':'a','calls':1.5}]}",
		"{'calls':[{'api':'a','stream':'7'}]}",
		"{'calls':[{'api':'a','stream':'0x'}]}",
		"{'calls':[{'api':'a','kernel_address':'0x11112222333344445'}]}",
		"{'calls':[{'api':'a','grid':[1,2,3,4]}]}",
		"{'calls':[{'api':'a','grid':[-1]}]}",
		"{'calls':[{'api':'a','histogram':[[1,1]]}]}",
		"{'calls':[{'api':'a','histogram':[[1,1,'x']]}]}",
		"{'calls':[{'api':'a','histogram':[[2,1,1],[1,1,1]]}]}",
		"{'calls':[{'api':'a','histogram':[[33,2,1]]},{'api':'a','histogram':[[64,2,1]]}]}",
		"{'errors':[{'api':'a','code':4294967296}]}",
		"{'lines':[{'api':'a','stack':[0]}]}",
		"{'frames':[0],'lines':[]}",
		"{'frames':['x'],'lines':[{'api':'a','stack':[1]}]}",
		"{'frames':['x'],'lines':[{'api':'a','stack':[-1]}]}",
		"{'allocations':[{'current_bytes':1.5}]}",
		"{'in_progress':[1]}",
		"{'probes':{'rungs':{'launch':2}}}",
		"{'gpu':{'devices':[{'utilisation_percent':101}]}}",
	};
	_cleanup_(cuda_merge) struct cuda_merge *m = cuda_merge__new();
	_cleanup_(json) json_t *empty = cuda_merge__finish(m, true), *after = NULL;

	for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		_cleanup_(json) json_t *document = parse(damaged[i]), *both = json_pack("[{}, O]", document);

		if (cuda_merge__check(document) != -EBADMSG || cuda_merge__add(m, document) != -EBADMSG)
			fail_msg("not refused: %s", damaged[i]);
		assert_null(cuda_merge__store(both));
	}
	after = cuda_merge__finish(m, true);
	assert_true(json_equal(empty, after));
	assert_int_equal(cuda_merge__documents(m), 0);
}

static void too_deep_a_stack_is_refused(void **state)
{
	_cleanup_(json) json_t *document = json_object(), *stack = json_array();

	for (unsigned i = 0; i < SO_CUDA_MAX_FRAMES; i++)
		json_array_append_new(stack, json_string("f"));
	json_object_set_new(document, "lines", json_pack("[{s:s, s:O}]", "api", "a", "stack", stack));
	assert_int_equal(cuda_merge__check(document), 0);
	json_array_append_new(stack, json_string("f"));
	assert_int_equal(cuda_merge__check(document), -EBADMSG);
}

static void too_many_rows_end_it(void **state)
{
	_cleanup_(cuda_merge) struct cuda_merge *m = cuda_merge__new();
	const unsigned each = 1u << 16;
	int r = 0;

	for (unsigned i = 0; !r && i < 5; i++) {
		_cleanup_(json) json_t *document = json_object(), *rows_of = json_array();

		for (unsigned j = 0; j < each; j++)
			json_array_append_new(rows_of, json_pack("{s:s, s:I, s:i}", "api", "a", "pid",
								 (json_int_t)i * each + j, "count", 1));
		json_object_set(document, "errors", rows_of);
		r = cuda_merge__add(m, document);
		assert_int_equal(r, i < 4 ? 0 : -EFBIG);
	}
}

/* Differences. */

#define THREADS 3
#define MOMENTS 6

struct counted {
	struct so_cuda_key key;
	struct so_cuda_calls calls;
};

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return *seed >> 33;
}

/* As the probes count, one entry for each octave. */
static void count_call(struct counted *all, size_t *n, uint32_t tid, uint64_t ns)
{
	struct so_cuda_key key = { .tgid = 7, .tid = tid, .api = 0, .library = 1 };
	struct so_cuda_calls *c = NULL;

	key.octave = (uint8_t)latency_octave(ns);
	for (size_t i = 0; !c && i < *n; i++)
		if (!memcmp(&all[i].key, &key, sizeof(key)))
			c = &all[i].calls;
	if (!c) {
		all[*n] = (struct counted){ .key = key, .calls = { .min_ns = ns } };
		c = &all[(*n)++].calls;
	}
	c->calls++;
	c->total_ns += ns;
	c->errors += ns % 3 == 0;
	c->bytes += ns;
	c->buckets[latency_bucket(ns, key.octave)]++;
	if (ns < c->min_ns)
		c->min_ns = ns;
	if (ns > c->max_ns)
		c->max_ns = ns;
}

static struct cuda_snapshot *snapshot_of(const struct counted *all, size_t n)
{
	struct cuda_snapshot *snapshot;

	assert_int_equal(cuda_snapshot__new(&snapshot), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(cuda_snapshot__add_calls(snapshot, &all[i].key, &all[i].calls) < 0, 0);
	return snapshot;
}

static json_t *document_of(const struct cuda_snapshot *calls)
{
	static const struct cuda_rows_world world;

	return json_pack("{s:o}", "calls", cuda_rows__calls(calls, &world));
}

static const json_t *row_of(const json_t *sum, json_int_t tid)
{
	const json_t *row;
	size_t i;

	json_array_foreach (json_object_get(sum, "calls"), i, row)
		if (json_integer_value(json_object_get(row, "tid")) == tid)
			return row;
	fail_msg("no row of thread %lld", (long long)tid);
	return NULL;
}

static json_int_t member(const json_t *row, const char *key)
{
	return json_integer_value(json_object_get(row, key));
}

static void differences_add_up(void **state)
{
	_cleanup_(cuda_merge) struct cuda_merge *m = cuda_merge__new();
	_cleanup_(json) json_t *whole = NULL, *sum = NULL;
	struct counted *all = calloc(THREADS * LATENCY_OCTAVES, sizeof(*all));
	struct cuda_snapshot *base = snapshot_of(all, 0), *now = NULL;
	uint64_t seed = 7;
	size_t n = 0;

	for (unsigned moment = 0; moment < MOMENTS; moment++) {
		struct cuda_snapshot *since;
		json_t *document;

		/* A thread rests in some windows. */
		for (unsigned i = 0; i < 500; i++) {
			uint32_t tid = 1 + (uint32_t)(next_random(&seed) % THREADS);

			if (tid != 1 + moment % THREADS)
				count_call(all, &n, tid, 1 + next_random(&seed) % 5000);
		}
		now = snapshot_of(all, n);
		assert_int_equal(cuda_snapshot__subtract(now, base, &since), 0);
		document = document_of(since);
		assert_int_equal(cuda_merge__add(m, document), 0);
		json_decref(document);
		cuda_snapshot__free(since);
		cuda_snapshot__free(base);
		base = now;
	}
	whole = document_of(now);
	sum = cuda_merge__finish(m, false);
	assert_int_equal(rows(sum, "calls"), THREADS);
	for (json_int_t tid = 1; tid <= THREADS; tid++) {
		const json_t *a = row_of(whole, tid), *b = row_of(sum, tid);

		for (const char *const *key =
			     (const char *const[]){ "calls", "errors", "total_ns", "bytes", NULL };
		     *key; key++)
			assert_int_equal(member(a, *key), member(b, *key));
		assert_true(json_equal(json_object_get(a, "histogram"), json_object_get(b, "histogram")));
		/* Never inside the true extremes, and in their buckets. */
		assert_true(member(b, "min_ns") <= member(a, "min_ns"));
		assert_true(member(b, "min_ns") + 1 >= member(a, "min_ns") * 31 / 32);
		assert_true(member(b, "max_ns") >= member(a, "max_ns"));
		assert_true(member(b, "max_ns") <= member(a, "max_ns") * 33 / 32 + 1);
	}
	cuda_snapshot__free(base);
	free(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_document_stays_as_it_is),
		cmocka_unit_test(older_daemons_have_fewer_kinds),
		cmocka_unit_test(calls_add_up),
		cmocka_unit_test(libraries_are_known_by_their_path),
		cmocka_unit_test(lines_are_known_by_their_stacks),
		cmocka_unit_test(lines_add_up_to_the_calls),
		cmocka_unit_test(memory_is_that_of_the_last),
		cmocka_unit_test(means_are_weighted_by_time),
		cmocka_unit_test(the_rest_adds_up),
		cmocka_unit_test(estimated_apis_are_all_known_or_none),
		cmocka_unit_test(counts_stop_at_the_top),
		cmocka_unit_test(what_is_damaged_is_refused_whole),
		cmocka_unit_test(too_deep_a_stack_is_refused),
		cmocka_unit_test(too_many_rows_end_it),
		cmocka_unit_test(differences_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
