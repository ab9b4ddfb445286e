// SPDX-License-Identifier: GPL-2.0-or-later
/* The rules' file: what it takes, what it refuses, and which frames the shipped rules know. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profile/category_rules.h"
#include "profile/frame_pattern.h"

static struct category_rules *rules_of(const char *text)
{
	struct category_rules *rules = NULL;
	struct so_error err = { "" };
	int r = category_rules__new(text, text ? strlen(text) : 0, "own.conf", &rules, &err);

	if (r)
		fail_msg("%s", err.text);
	assert_non_null(rules);
	return rules;
}

static const char *name_of(const struct category_rules *rules, uint32_t rank)
{
	return rank == CATEGORY_NO_RANK ? "-" : category_rules__name(rules, category_rules__of_rank(rules, rank));
}

enum which { ACTIVITY, MEANS, HELD, NO_GIL, LEAF };

static const char *match(const struct category_rules *rules, const struct profile_line *line, enum which which)
{
	struct category_ranks ranks;

	category_rules__match(rules, line, &ranks);
	return name_of(rules, which == ACTIVITY ? ranks.activity
			      : which == MEANS  ? ranks.mechanism[CATEGORY_GIL_RELEASED]
			      : which == HELD   ? ranks.mechanism[CATEGORY_GIL_HELD]
			      : which == NO_GIL ? ranks.mechanism[CATEGORY_GIL_DISABLED]
						: ranks.leaf[CATEGORY_GIL_RELEASED]);
}

static const char *python(const struct category_rules *rules, const char *function, const char *file)
{
	const struct profile_line line = { .function = function, .filename = file, .mapping = "", .python = true };

	return match(rules, &line, ACTIVITY);
}

static const char *native(const struct category_rules *rules, const char *function, const char *library,
			  enum which which)
{
	const struct profile_line line = { .function = function, .filename = "", .mapping = library };

	return match(rules, &line, which);
}

static void python_frames_of_the_shipped_rules(void **state)
{
	static const char site[] = "/usr/lib/python3/dist-packages";
	static const struct {
		const char *category, *function, *file;
	} cases[] = {
		{ "logging", "Logger.info", "/usr/lib/python3.11/logging/__init__.py" },
		{ "logging", "RotatingFileHandler.emit", "/usr/lib/python3.11/logging/handlers.py" },
		{ "logging", "SummaryWriter.add_scalar", "+/torch/utils/tensorboard/writer.py" },
		{ "logging", "Run.log", "+/wandb/sdk/wandb_run.py" },
		{ "logging", "Logger.record", "+/stable_baselines3/common/logger.py" },
		{ "logging", "Trainer.log_metrics", "/home/u/train.py" },
		{ "data loading", "_MultiProcessingDataLoaderIter._next_data", "+/torch/utils/data/dataloader.py" },
		{ "data loading", "FrameDataset.__getitem__", "/home/u/frames.py" },
		{ "replay buffer", "ReplayBuffer.sample", "/home/u/agent.py" },
		{ "communication", "all_reduce", "+/torch/distributed/distributed_c10d.py" },
		{ "optimizer", "Adam.step", "+/torch/optim/adam.py" },
		{ "optimizer", "step", "+/torch/optim/sgd.py" },
		{ "optimizer", "clip_grad_norm_", "+/torch/nn/utils/clip_grad.py" },
		{ "optimizer", "GradScaler.step", "+/torch/cuda/amp/grad_scaler.py" },
		{ "autograd", "backward", "+/torch/autograd/__init__.py" },
		{ "autograd", "Tensor.backward", "+/torch/_tensor.py" },
		{ "observation encoding", "CartEnv._get_obs", "/home/u/cart.py" },
		{ "observation encoding", "encode_observations", "/home/u/train.py" },
		{ "observation encoding", "GridObsEncoder.encode", "/home/u/grid.py" },
		{ "observation encoding", "FrameStackObservation.observation",
		  "+/gymnasium/wrappers/stateful_observation.py" },
		{ "simulator step", "VectorEnv.step", "/home/u/train.py" },
		{ "simulator step", "step", "/home/u/cart_env.py" },
		{ "simulator step", "OrderEnforcing.step", "+/gymnasium/wrappers/common.py" },
		{ "simulator step", "SubprocVecEnv.step_wait",
		  "+/stable_baselines3/common/vec_env/subproc_vec_env.py" },
		{ "inference", "Module._call_impl", "+/torch/nn/modules/module.py" },
		{ "inference", "Net.forward", "/home/u/net.py" },
		{ "inference", "Agent.get_action_and_value", "/home/u/ppo.py" },
		{ "compilation", "_compile", "+/torch/_dynamo/convert_frame.py" },
		{ "imports", "_find_and_load", "<frozen importlib._bootstrap>" },
		/* These look like it, and are something else. */
		{ "-", "main", "/home/rich/train.py" },
		{ "-", "Normal.log_prob", "/home/u/math.py" },
		{ "-", "Trainer.step", "/home/u/train.py" },
		{ "-", "main", "/home/u/logging_training.py" },
		{ "-", "<module>", "/home/carla/gym/run.py" },
		{ "-", "", "" },
	};
	struct category_rules *rules = rules_of(NULL);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *file = cases[i].file, *got;
		char path[256];

		snprintf(path, sizeof(path), "%s%s", *file == '+' ? site : "", *file == '+' ? file + 1 : file);
		got = python(rules, cases[i].function, path);
		if (strcmp(got, cases[i].category))
			fail_msg("%s (%s) is '%s', not '%s'", cases[i].function, path, got, cases[i].category);
	}
	category_rules__free(rules);
}

static void native_frames_of_the_shipped_rules(void **state)
{
	static const struct {
		enum which which;
		const char *category, *function, *library;
	} cases[] = {
		{ ACTIVITY, "autograd", "torch::autograd::Engine::thread_main", "/x/libtorch_cpu.so" },
		{ ACTIVITY, "autograd", "torch::autograd::generated::AddmmBackward0::apply", "/x/libtorch_cpu.so" },
		{ ACTIVITY, "garbage collection", "gc_collect_main", "/usr/bin/python3.11" },
		{ ACTIVITY, "garbage collection", "collect", "/opt/lib/libpython3.9.so.1.0" },
		{ ACTIVITY, "logging", "builtin_print", "/usr/bin/python3.11" },
		{ ACTIVITY, "logging", "spdlog::logger::log_it_", "/x/libsim.so" },
		{ ACTIVITY, "simulator step", "mj_step", "/x/libmujoco.so.3.1.0" },
		{ ACTIVITY, "simulator step", "sim::World::step", "/x/cpp_sim" },
		{ ACTIVITY, "observation encoding", "sim::World::observe", "/x/cpp_sim" },
		{ ACTIVITY, "inference", "sim::Layer<float, 32ul, 32ul, sim::Tanh>::forward", "/x/cpp_sim" },
		/* Of the forward pass; not autograd's, in spite of their names. */
		{ ACTIVITY, "-", "torch::autograd::THPVariable_add", "/x/libtorch_python.so" },
		{ ACTIVITY, "-", "torch::autograd::VariableType::(anonymous namespace)::mul", "/x/libtorch_cpu.so" },
		{ ACTIVITY, "-", "collect", "/x/libgarden.so" },
		{ MEANS, "memory allocation", "std::__new_allocator<int>::allocate", "/x/sim" },
		{ MEANS, "memory allocation", "std::allocator_traits<std::allocator<int> >::deallocate", "/x/sim" },
		{ MEANS, "memory allocation", "std::pmr::monotonic_buffer_resource::do_allocate", "/x/sim" },
		/* What is made in the memory. */
		{ MEANS, "-", "std::allocator_traits<std::allocator<Body> >::construct<Body, int>", "/x/sim" },
		{ MEANS, "CUDA wait", "cudaStreamSynchronize", "/x/libcudart.so.12" },
		{ MEANS, "CUDA wait", "cuCtxSynchronize", "/x/libcuda.so.1" },
		{ MEANS, "CUDA copies", "cudaMemcpyAsync", "/x/libcudart-9335f6a2.so.12" },
		{ MEANS, "CUDA memory", "cudaMalloc", "/x/libcudart.so.12" },
		{ MEANS, "CUDA memory", "cuMemAlloc_v2", "/x/libcuda.so.1" },
		{ MEANS, "CUDA launch", "cudaLaunchKernel", "/x/libcudart.so.12" },
		{ MEANS, "CUDA launch", "cuLaunchKernel", "/x/libcuda.so.1" },
		{ MEANS, "CUDA, other", "cudaGetDevice", "/x/libcudart.so.12" },
		{ MEANS, "memory allocation", "PyObject_Malloc", "/usr/bin/python3.11" },
		{ MEANS, "memory allocation", "_int_malloc", "/x/libc.so.6" },
		{ MEANS, "memory allocation", "c10::alloc_cpu", "/x/libc10.so" },
		{ MEANS, "memory allocation", "operator new", "/x/libstdc++.so.6" },
		{ MEANS, "memory copies", "__memmove_avx_unaligned_erms", "/x/libc.so.6" },
		{ MEANS, "locks", "pthread_mutex_lock", "/x/libc.so.6" },
		{ MEANS, "linear algebra", "sgemm_kernel_HASWELL", "/x/openblas-pthread/libopenblasp-r0.3.21.so" },
		{ MEANS, "linear algebra", "", "/x/numpy.libs/libopenblas64_p-r0-0cf96a72.3.23.dev.so" },
		{ MEANS, "tensor framework", "at::native::add_kernel", "/x/libtorch_cpu.so.1.13.0" },
		{ MEANS, "tensor framework", "", "/p/numpy/core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so" },
		{ MEANS, "serialization", "", "/x/lib-dynload/_pickle.cpython-311-x86_64-linux-gnu.so" },
		/* Waiting for the lock, unless it was just taken. */
		{ MEANS, "GIL wait", "take_gil", "/usr/bin/python3.11" },
		{ MEANS, "GIL wait", "PyEval_RestoreThread", "/usr/bin/python3.11" },
		{ HELD, "-", "PyEval_RestoreThread", "/usr/bin/python3.11" },
		{ NO_GIL, "-", "PyEval_RestoreThread", "/usr/bin/python3.13t" },
		{ NO_GIL, "stop-the-world", "tstate_wait_attach", "/usr/bin/python3.13t" },
		{ NO_GIL, "object locks", "_PyCriticalSection_BeginSlow", "/usr/bin/python3.13t" },
		/* The interpreter is on every stack: only as the leaf it says something. */
		{ MEANS, "-", "PyObject_Vectorcall", "/usr/bin/python3.11" },
		{ LEAF, "interpreter", "PyObject_Vectorcall", "/usr/bin/python3.11" },
		{ LEAF, "interpreter", "", "/opt/lib/libpython3.12.so.1.0" },
		{ MEANS, "-", "GOMP_parallel", "/x/libgomp.so.1.0.0" },
		{ LEAF, "locks", "", "/x/libgomp.so.1.0.0" },
		{ LEAF, "-", "main", "/home/u/simulator" },
	};
	struct category_rules *rules = rules_of(NULL);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *got = native(rules, cases[i].function, cases[i].library, cases[i].which);

		if (strcmp(got, cases[i].category))
			fail_msg("%s (%s) is '%s', not '%s'", cases[i].function, cases[i].library, got,
				 cases[i].category);
	}
	category_rules__free(rules);
}

static void kernel_frames_are_asked_by_kernel_rules_alone(void **state)
{
	struct category_rules *rules = rules_of(NULL);
	struct profile_line line = {
		.function = "vfs_write", .filename = "", .mapping = "[kernel.kallsyms]", .kernel = true
	};

	assert_string_equal(match(rules, &line, MEANS), "kernel I/O");
	line.function = "asm_exc_page_fault";
	assert_string_equal(match(rules, &line, MEANS), "page faults");
	line.function = "__x64_sys_munmap";
	assert_string_equal(match(rules, &line, MEANS), "memory allocation");
	line.function = "do_futex";
	assert_string_equal(match(rules, &line, MEANS), "locks");
	line.function = "take_gil";
	assert_string_equal(match(rules, &line, MEANS), "-");
	line.function = "vfs_write";
	line.kernel = false;
	assert_string_equal(match(rules, &line, MEANS), "-");
	category_rules__free(rules);
}

static void a_users_file_stands_before_the_shipped_rules(void **state)
{
	struct category_rules *rules = rules_of("# mine\r\n"
						"  [ours]  \r\n"
						"kind = activity\n"
						"\tframe =  ^Logger[.]info$ \n"
						"\n"
						"[logging]\n"
						"frame = ^say$\n"
						"[tensor framework]\n"
						"replace = yes\n"
						"kind = mechanism\n"
						"library = /libmine[.]so\n"
						"[autograd]\n"
						"replace = yes");

	assert_string_equal(python(rules, "Logger.info", "/usr/lib/python3.11/logging/__init__.py"), "ours");
	/* Adding keeps what was there. */
	assert_string_equal(python(rules, "Logger.debug", "/usr/lib/python3.11/logging/__init__.py"), "logging");
	assert_string_equal(python(rules, "say", "/a.py"), "logging");
	assert_string_equal(native(rules, "x", "/libmine.so", MEANS), "tensor framework");
	assert_string_equal(native(rules, "x", "/libtorch_cpu.so", MEANS), "-");
	/* Replaced by nothing: gone. */
	assert_string_equal(python(rules, "backward", "/p/torch/autograd/__init__.py"), "-");
	category_rules__free(rules);
}

/* Patterns of one category that are joined into one expression stay what they were. */
static void alternatives_do_not_touch_each_other(void **state)
{
	struct category_rules *rules = rules_of("[x]\nframe = ^a$|^b$\nframe = c$\nframe = ^d\n"
						"[y]\nkind = mechanism\nleaf-frame = ^leaf$\nframe = ^all$\n");

	assert_string_equal(native(rules, "a", "", ACTIVITY), "x");
	assert_string_equal(native(rules, "b", "", ACTIVITY), "x");
	assert_string_equal(native(rules, "xc", "", ACTIVITY), "x");
	assert_string_equal(native(rules, "dx", "", ACTIVITY), "x");
	assert_string_equal(native(rules, "ax", "", ACTIVITY), "-");
	assert_string_equal(native(rules, "leaf", "", MEANS), "-");
	assert_string_equal(native(rules, "leaf", "", LEAF), "y");
	assert_string_equal(native(rules, "all", "", MEANS), "y");
	assert_string_equal(native(rules, "all", "", LEAF), "y");
	category_rules__free(rules);
}

static void functions_with_their_files(void **state)
{
	struct profile_line sourced = {
		.function = "step", .filename = "/s/step.cpp", .line = 3, .mapping = "/lib/libx.so"
	};
	struct category_rules *rules = rules_of("[x]\nframe = ^step [(]/a/.*[.]py[)]$\n"
						"[y]\nframe = ^step [(]/lib/lib.*[.]so[)]$\n");

	assert_string_equal(python(rules, "step", "/a/b.py"), "x");
	assert_string_equal(python(rules, "step", "/b/b.py"), "-");
	assert_string_equal(native(rules, "step", "/lib/libx.so", ACTIVITY), "y");
	/* With debug information native frames have both. */
	assert_string_equal(match(rules, &sourced, ACTIVITY), "y");
	sourced.mapping = "/opt/x";
	assert_string_equal(match(rules, &sourced, ACTIVITY), "-");
	sourced.filename = "/a/generated.py";
	assert_string_equal(match(rules, &sourced, ACTIVITY), "x");
	category_rules__free(rules);
}

static void the_shipped_text_is_a_users_file(void **state)
{
	struct category_rules *shipped = rules_of(NULL), *both = rules_of(category_shipped_text);

	assert_int_equal(category_rules__count(shipped), category_rules__count(both));
	assert_string_equal(python(both, "Logger.info", "/usr/lib/python3.11/logging/__init__.py"), "logging");
	category_rules__free(shipped);
	category_rules__free(both);
}

static void mistakes_are_told_with_their_line(void **state)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{ "frame = x", "own.conf:1: 'frame' before the first [category]" },
		{ "[a]\nframe = x\n\nnonsense", "own.conf:4: neither [category], 'word = value' nor # comment" },
		{ "[a]\nfrom = x", "own.conf:2: unknown word 'from'" },
		{ "[a]\nframe =", "own.conf:2: the pattern is empty" },
		{ "[a]\nframe = (", "own.conf:2: not a regular expression" },
		{ "[a]\nframe = )", "own.conf:2: not a regular expression: unexpected )" },
		{ "[a]\nframe = [", "own.conf:2: not a regular expression: missing ]" },
		{ "[a]\nframe = [[:alpha:", "own.conf:2: not a regular expression: missing ]" },
		{ "[a]\nframe = (x)\\1", "own.conf:2: not a regular expression: invalid escape sequence: \\1" },
		{ "[a]\nframe = ((a{16}){16}){16}", "own.conf:2: not a regular expression: invalid repetition size" },
		{ "[a]\nframe = a{1001}", "own.conf:2: not a regular expression: invalid repetition size" },
		{ "[a]\nframe = (((((((((((((((((((((x", "own.conf:2: not a regular expression: missing )" },
		{ "[a\nframe = x", "own.conf:1: '[' without ']'" },
		{ "[]\nframe = x", "own.conf:1: a category's name has 1 to 60 bytes" },
		{ "[a\x1b]\nframe = x", "own.conf:1: a category's name is UTF-8" },
		{ "[a\xff]\nframe = x", "own.conf:1: a category's name is UTF-8" },
		{ "[other Python]\nframe = x", "own.conf:1: 'other Python' is what no rule matches" },
		{ "[a]\nframe = x\n[b]\nframe = y\n[a]\nframe = z", "own.conf:5: category 'a' begins in line 1" },
		{ "[logging]\nframe = x\n[logging]\nframe = y", "own.conf:3: category 'logging' begins in line 1" },
		{ "[a]\n[b]\nframe = x", "own.conf:1: category 'a' has no pattern" },
		{ "[b]\nframe = x\n[a]\nkind = activity", "own.conf:3: category 'a' has no pattern" },
		{ "[a]\nkind = thing", "own.conf:2: kind is activity or mechanism, not 'thing'" },
		{ "[logging]\nkind = mechanism", "own.conf:2: 'logging' is of kind activity in the shipped rules" },
		{ "[a]\nreplace = yes", "own.conf:2: there is no shipped category 'a' to replace" },
		{ "[logging]\nreplace = no", "own.conf:2: replace takes 'yes' alone" },
		{ "[a]\nframe = x\ngil = held", "own.conf:1: category 'a': gil is for mechanisms" },
		{ "[a]\nkind = mechanism\ngil = maybe", "own.conf:3: gil is held or released, not 'maybe'" },
		{ "[tensor framework]\ngil = held", "own.conf:2: to change the shipped category" },
		{ "[a]\nleaf-frame = x", "own.conf:1: category 'a': leaf-frame and leaf-library are for mechanisms" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct category_rules *rules = NULL;
		struct so_error err = { "" };

		assert_int_equal(category_rules__new(cases[i].text, strlen(cases[i].text), "own.conf", &rules, &err),
				 -EINVAL);
		assert_null(rules);
		if (strncmp(err.text, cases[i].words, strlen(cases[i].words)))
			fail_msg("\"%s\" should begin with \"%s\"", err.text, cases[i].words);
	}
}

static void limits(void **state)
{
	static char text[CATEGORY_MAX_FILE_BYTES + 1];
	struct category_rules *rules = NULL;
	struct so_error err = { "" };
	size_t used = 0;

	memset(text, '#', sizeof(text));
	assert_int_equal(category_rules__new(text, sizeof(text), "big", &rules, &err), -EFBIG);
	assert_int_equal(category_rules__new(text, sizeof(text) - 1, "big", &rules, &err), 0);
	category_rules__free(rules);
	rules = NULL;
	assert_int_equal(category_rules__new("[a]\0", 4, "zero", &rules, &err), -EINVAL);
	for (int i = 0; i <= CATEGORY_MAX_CATEGORIES; i++)
		used += (size_t)sprintf(text + used, "[c%d]\nframe = x\n", i);
	assert_int_equal(category_rules__new(text, used, "many", &rules, &err), -EINVAL);
	assert_non_null(strstr(err.text, "more than 200 categories"));
	used = (size_t)sprintf(text, "[c]\n");
	for (int i = 0; i <= CATEGORY_MAX_PATTERNS; i++)
		used += (size_t)sprintf(text + used, "frame = x\n");
	assert_int_equal(category_rules__new(text, used, "many", &rules, &err), -EINVAL);
	assert_non_null(strstr(err.text, "more than 4000 patterns"));
	used = (size_t)sprintf(text, "[c]\nframe = ");
	memset(text + used, 'x', REGEXP_MAX_BYTES + 1);
	assert_int_equal(category_rules__new(text, used + REGEXP_MAX_BYTES + 1, "long", &rules, &err), -EINVAL);
	assert_string_equal(err.text, "long:2: the pattern is longer than 1000 bytes");
	assert_int_equal(category_rules__new(text, used + REGEXP_MAX_BYTES, "long", &rules, &err), 0);
	category_rules__free(rules);
}

/* Names of any length are looked at as far as the limit. */
static void long_names(void **state)
{
	static char name[100000];
	struct category_rules *rules = rules_of("[x]\nframe = needle\n");
	struct profile_line line = { .function = name, .filename = name, .mapping = name };

	memset(name, 'a', sizeof(name) - 1);
	memcpy(name + FRAME_PATTERN_TEXT_BYTES - 6, "needle", 6);
	assert_string_equal(match(rules, &line, ACTIVITY), "x");
	memset(name, 'a', sizeof(name) - 1);
	memcpy(name + FRAME_PATTERN_TEXT_BYTES, "needle", 6);
	assert_string_equal(match(rules, &line, ACTIVITY), "-");
	category_rules__free(rules);
}

static void a_file_that_cannot_be_read(void **state)
{
	struct category_rules *rules = NULL;
	struct so_error err = { "" };

	assert_int_equal(category_rules__load("/nonexistent/x.conf", &rules, &err), -ENOENT);
	assert_string_equal(err.text, "cannot read /nonexistent/x.conf: No such file or directory");
	assert_int_equal(category_rules__load("/", &rules, &err), -EIO);
	assert_null(rules);
	assert_int_equal(category_rules__load(NULL, &rules, &err), 0);
	category_rules__free(rules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(python_frames_of_the_shipped_rules),
		cmocka_unit_test(native_frames_of_the_shipped_rules),
		cmocka_unit_test(kernel_frames_are_asked_by_kernel_rules_alone),
		cmocka_unit_test(a_users_file_stands_before_the_shipped_rules),
		cmocka_unit_test(alternatives_do_not_touch_each_other),
		cmocka_unit_test(functions_with_their_files),
		cmocka_unit_test(the_shipped_text_is_a_users_file),
		cmocka_unit_test(mistakes_are_told_with_their_line),
		cmocka_unit_test(limits),
		cmocka_unit_test(long_names),
		cmocka_unit_test(a_file_that_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
