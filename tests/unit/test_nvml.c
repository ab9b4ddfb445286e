/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "daemon/os/clock.h"
#include "daemon/nvml/nvml.h"
#include "daemon/nvml/nvml_library.h"
#include "tests/unit/nvml_fake.h"

#define S 1000000000ull

static const pid_t pids[] = { 100, 101 };

/* A file beside this program. */
static const char *beside(const char *name)
{
	static char path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);

	assert_true(n > 0);
	path[n] = '\0';
	strcpy(strrchr(path, '/') + 1, name);
	return path;
}

/* The stand-in, loaded, with one device at work for the processes 100 and 7. */
static struct nvml_fake *fake_of(const char *name)
{
	void *library = dlopen(beside(name), RTLD_NOW | RTLD_LOCAL);
	struct nvml_fake *fake;

	assert_non_null(library);
	fake = dlsym(library, "nvml_fake");
	assert_non_null(fake);
	*fake = (struct nvml_fake){ .devices = 1, .info_bytes = 24, .name = "NVIDIA H100" };
	fake->device[0] = (struct fake_device){
		.gpu_percent = 40,
		.memory_percent = 10,
		.process = { { 100, 5000, 0xffffffff }, { 7, 900, 0xffffffff } },
		.n_processes = 2,
		.sample = { { 100, 0, 30 }, { 7, 0, 10 } },
		.n_samples = 2,
	};
	return fake;
}

static struct nvml_refusals refusals;

static struct nvml *open_fake(const char *name)
{
	struct nvml *nvml = NULL;
	struct so_error err;
	int r = nvml__open(beside(name), NULL, &refusals, &nvml, &err);

	if (r < 0)
		fail_msg("%d: %s", r, err.text);
	return nvml;
}

static void expect_refusal(const char *name, int wanted, const char *text)
{
	struct nvml *nvml = NULL;
	struct so_error err = { "" };

	assert_int_equal(nvml__open(beside(name), NULL, &refusals, &nvml, &err), wanted);
	assert_null(nvml);
	if (!strstr(err.text, text) || strchr(err.text, '\n'))
		fail_msg("\"%s\" in place of \"%s\"", err.text, text);
}

static json_t *device_of(json_t *report, size_t index)
{
	json_t *device = json_array_get(json_object_get(report, "devices"), index);

	assert_non_null(device);
	return device;
}

static void expect_real(json_t *object, const char *key, double wanted)
{
	json_t *value = json_object_get(object, key);

	assert_true(json_is_real(value));
	assert_float_equal(json_real_value(value), wanted, 1e-9);
}

static void expect_integer(json_t *object, const char *key, json_int_t wanted)
{
	assert_true(json_is_integer(json_object_get(object, key)));
	assert_int_equal(json_integer_value(json_object_get(object, key)), wanted);
}

static void expect_text(json_t *object, const char *key, const char *wanted)
{
	assert_true(json_is_string(json_object_get(object, key)));
	assert_string_equal(json_string_value(json_object_get(object, key)), wanted);
}

static void expect_null(json_t *object, const char *key)
{
	assert_true(json_is_null(json_object_get(object, key)));
}

static json_t *report(const struct nvml *nvml, uint64_t since_ns)
{
	json_t *value = nvml__report(nvml, pids, 2, since_ns);

	assert_non_null(value);
	return value;
}

static void test_library_is_absent(void **state)
{
	struct nvml *nvml = NULL;
	struct so_error err = { "" };

	expect_refusal("no-such-library.so.1", -ENOENT, "no-such-library.so.1 is not there");
	expect_refusal("nvml_broken.so", -ELIBBAD, "nvml_broken.so cannot be loaded");
	/* The driver's own, where this machine has none. */
	if (!dlopen(NVML_LIBRARY, RTLD_LAZY)) {
		assert_int_equal(nvml__open(NULL, NULL, &refusals, &nvml, &err), -ENOENT);
		assert_string_equal(err.text, "libnvidia-ml.so.1 is not there: it comes with NVIDIA's driver");
	}
	assert_int_equal(nvml__open(beside("none"), NULL, &refusals, &nvml, NULL), -ENOENT);
	assert_null(nvml);
}

static void test_functions_are_missing(void **state)
{
	expect_refusal("nvml_other.so", -ENOSYS, "nvml_other.so has no function nvmlInit_v2");
}

static void test_program_is_static(void **state)
{
	char command[2 * PATH_MAX], line[1024] = "", wanted[64];
	FILE *output;

	snprintf(command, sizeof(command), "%s", beside("nvml_static"));
	snprintf(command + strlen(command), PATH_MAX, " %s", beside("nvml_fake.so"));
	output = popen(command, "r");
	assert_non_null(output);
	assert_non_null(fgets(line, sizeof(line), output));
	assert_int_equal(pclose(output), 0);
	snprintf(wanted, sizeof(wanted), "%d this stakeoutd is linked statically and cannot load ", -ENOTSUP);
	assert_int_equal(strncmp(line, wanted, strlen(wanted)), 0);
}

static void test_nvml_refuses(void **state)
{
	struct nvml_fake *fake = fake_of("nvml_fake.so");

	fake->init = 9;
	expect_refusal("nvml_fake.so", -ENODEV, "NVML does not start: Driver Not Loaded");
	fake->init = 18;
	expect_refusal("nvml_fake.so", -EIO, "NVML does not start: Driver/library version mismatch");
	fake->init = 4;
	expect_refusal("nvml_fake.so", -EACCES, "NVML does not start: Insufficient Permissions");
	fake->init = 999;
	expect_refusal("nvml_fake.so", -EIO, "NVML does not start: error 999");
	assert_int_equal(fake->shutdowns, 0);
	fake->init = 0;
	fake->count = 4;
	expect_refusal("nvml_fake.so", -EACCES, "NVML does not list the GPUs: Insufficient Permissions");
	fake->count = 0;
	fake->devices = 0;
	expect_refusal("nvml_fake.so", -ENODEV, "NVML lists no GPU");
	fake->devices = 1;
	fake->device[0].handle = 4;
	expect_refusal("nvml_fake.so", -EACCES, "NVML gives access to no GPU: Insufficient Permissions");
	assert_int_equal(fake->starts, 3);
	assert_int_equal(fake->shutdowns, 3);
}

static void test_report(void **state)
{
	struct nvml_fake *fake = fake_of("nvml_fake.so");
	struct nvml *nvml = open_fake("nvml_fake.so");
	json_t *all, *late, *device;

	nvml__sample(nvml, 10 * S);
	fake->device[0].gpu_percent = 61;
	fake->device[0].memory_percent = 20;
	fake->device[0].sample[0].sm = 50;
	fake->device[0].sample[1] = (struct fake_sample){ 101, 0, 5 };
	nvml__sample(nvml, 11 * S);
	all = report(nvml, 10 * S);
	expect_text(all, "driver", "550.54");
	expect_integer(all, "devices_left_out", 0);
	assert_int_equal(json_array_size(json_object_get(all, "devices")), 1);
	device = device_of(all, 0);
	expect_integer(device, "index", 0);
	expect_text(device, "name", "NVIDIA H100");
	expect_text(device, "uuid", "GPU-0");
	expect_real(device, "utilisation_percent", 50.5);
	expect_real(device, "memory_utilisation_percent", 15);
	expect_integer(device, "memory_used_bytes", 300);
	expect_integer(device, "memory_total_bytes", 1000);
	expect_real(device, "process_utilisation_percent", 42.5); /* (30 + 50 + 5) / 2 */
	expect_integer(device, "process_memory_bytes", 5000);
	expect_integer(device, "samples", 2);
	expect_null(device, "problem");
	assert_int_equal(json_object_size(device), 11);
	json_decref(all);

	late = report(nvml, 10 * S + 1);
	expect_real(device_of(late, 0), "utilisation_percent", 61);
	expect_real(device_of(late, 0), "process_utilisation_percent", 55);
	expect_integer(device_of(late, 0), "samples", 1);
	json_decref(late);

	late = report(nvml, 12 * S);
	expect_null(device_of(late, 0), "utilisation_percent");
	expect_null(device_of(late, 0), "process_utilisation_percent");
	expect_integer(device_of(late, 0), "samples", 0);
	json_decref(late);

	late = nvml__report(nvml, NULL, 0, 0);
	expect_real(device_of(late, 0), "process_utilisation_percent", 0);
	expect_integer(device_of(late, 0), "process_memory_bytes", 0);
	json_decref(late);
	nvml__close(nvml);
	assert_int_equal(fake->shutdowns, 1);
}

/* The driver has no new sample, or nothing ran: only the device tells. */
static void test_process_samples_not_found(void **state)
{
	struct nvml_fake *fake = fake_of("nvml_fake.so");
	struct nvml *nvml = open_fake("nvml_fake.so");
	json_t *all;

	nvml__sample(nvml, 1 * S); /* 30 % */
	fake->device[0].n_samples = 0;
	nvml__sample(nvml, 2 * S); /* unknown */
	all = report(nvml, 0);
	expect_real(device_of(all, 0), "process_utilisation_percent", 30);
	expect_null(device_of(all, 0), "problem");
	json_decref(all);
	fake->device[0].gpu_percent = 0;
	nvml__sample(nvml, 3 * S); /* nothing ran */
	all = report(nvml, 0);
	expect_real(device_of(all, 0), "process_utilisation_percent", 15);
	json_decref(all);
	/* Others ran, these did not. */
	fake->device[0].gpu_percent = 90;
	fake->device[0].n_samples = 1;
	fake->device[0].sample[0] = (struct fake_sample){ 7, 0, 90 };
	nvml__sample(nvml, 4 * S);
	all = report(nvml, 0);
	expect_real(device_of(all, 0), "process_utilisation_percent", 10);
	json_decref(all);
	nvml__close(nvml);
}

static void test_implausible_process_samples(void **state)
{
	struct nvml_fake *fake = fake_of("nvml_fake.so");
	struct nvml *nvml = open_fake("nvml_fake.so");
	unsigned long long since_us;
	json_t *all;

	fake->device[0].n_samples = 5;
	fake->device[0].sample[0] = (struct fake_sample){ 100, 0, 4000000 };
	fake->device[0].sample[1] = (struct fake_sample){ 100, 3600000000ll, 50 };  /* was not asked for */
	fake->device[0].sample[2] = (struct fake_sample){ 100, -3600000000ll, 50 }; /* in the future */
	fake->device[0].sample[3] = (struct fake_sample){ 0, 0, 50 };
	fake->device[0].sample[4] = (struct fake_sample){ 101, 0, 20 };
	nvml__sample(nvml, 1 * S);
	all = report(nvml, 0);
	expect_real(device_of(all, 0), "process_utilisation_percent", 20);
	json_decref(all);
	since_us = fake->device[0].asked_since_us;
	fake->device[0].reported_samples = 1u << 30;
	nvml__sample(nvml, 2 * S);
	assert_true(fake->device[0].asked_since_us > since_us);
	assert_true(fake->device[0].asked_since_us <= clock__read_ns(CLOCK_REALTIME) / 1000 + 1);
	all = report(nvml, 0);
	expect_real(device_of(all, 0), "process_utilisation_percent", 20);
	expect_text(device_of(all, 0), "problem", "processes' utilisation: error 7");
	json_decref(all);
	nvml__close(nvml);
}

static void test_sizes_of_process_information(void **state)
{
	static const unsigned sizes[] = { 16, 24, 32 };

	for (unsigned s = 0; s < 3; s++) {
		for (unsigned n = 0; n <= 4; n++) {
			struct nvml_fake *fake = fake_of("nvml_fake.so");
			struct nvml *nvml = open_fake("nvml_fake.so");
			json_int_t wanted = 0;
			json_t *all;

			fake->info_bytes = sizes[s];
			fake->device[0].n_processes = n;
			for (unsigned i = 0; i < n; i++) {
				fake->device[0].process[i] = (struct fake_process){ 99 + i, 1000u << i, 0 };
				wanted += 99 + i == 100 || 99 + i == 101 ? 1000 << i : 0;
			}
			nvml__sample(nvml, S);
			all = report(nvml, 0);
			expect_integer(device_of(all, 0), "process_memory_bytes", wanted);
			json_decref(all);
			nvml__close(nvml);
		}
	}
}

static void test_process_memory(void **state)
{
	struct nvml_fake *fake = fake_of("nvml_fake.so");
	struct nvml *nvml = open_fake("nvml_fake.so");
	struct fake_device *device = &fake->device[0];
	json_t *all;

	/* Twice on the device: two MIG instances. */
	device->process[1] = (struct fake_process){ 100, 70, 2 };
	nvml__sample(nvml, 1 * S);
	all = report(nvml, 0);
	expect_integer(device_of(all, 0), "process_memory_bytes", 5070);
	json_decref(all);
	/* It has ended: what it had when it was last seen. */
	device->n_processes = 0;
	nvml__sample(nvml, 2 * S);
	all = report(nvml, 0);
	expect_integer(device_of(all, 0), "process_memory_bytes", 5070);
	json_decref(all);
	all = report(nvml, 2 * S);
	expect_integer(device_of(all, 0), "process_memory_bytes", 0);
	json_decref(all);
	/* The other lives on. */
	device->n_processes = 1;
	device->process[0] = (struct fake_process){ 101, 33, 0 };
	nvml__sample(nvml, 3 * S);
	all = report(nvml, 0);
	expect_integer(device_of(all, 0), "process_memory_bytes", 33);
	json_decref(all);
	device->process[0].bytes = NVML_NOT_AVAILABLE;
	nvml__sample(nvml, 4 * S);
	all = report(nvml, 0);
	expect_null(device_of(all, 0), "process_memory_bytes");
	json_decref(all);
	device->reported_processes = 1u << 31;
	nvml__sample(nvml, 5 * S);
	all = report(nvml, 5 * S);
	expect_null(device_of(all, 0), "process_memory_bytes");
	expect_text(device_of(all, 0), "problem", "processes' memory: error 7");
	json_decref(all);
	nvml__close(nvml);
}

/* As with MIG: some figures are refused, the others stay. */
static void test_figures_are_refused(void **state)
{
	struct nvml_fake *fake = fake_of("nvml_fake.so");
	struct nvml *nvml;
	json_t *all;

	fake->devices = 3;
	fake->device[1].handle = 4;
	fake->device[2].handle = 0;
	fake->device[2].gpu_percent = 5;
	nvml = open_fake("nvml_fake.so");
	fake->device[0].utilisation = fake->device[0].samples = 3;
	nvml__sample(nvml, S);
	all = report(nvml, 0);
	expect_null(device_of(all, 0), "utilisation_percent");
	expect_null(device_of(all, 0), "memory_utilisation_percent");
	expect_null(device_of(all, 0), "process_utilisation_percent");
	expect_integer(device_of(all, 0), "process_memory_bytes", 5000);
	expect_integer(device_of(all, 0), "samples", 0);
	expect_text(device_of(all, 0), "problem",
		    "utilisation: Not Supported; processes' utilisation: Not Supported");
	expect_null(device_of(all, 1), "name");
	expect_null(device_of(all, 1), "memory_used_bytes");
	expect_null(device_of(all, 1), "process_memory_bytes");
	expect_text(device_of(all, 1), "problem", "device: Insufficient Permissions");
	expect_real(device_of(all, 2), "utilisation_percent", 5);
	json_decref(all);
	/* And the reverse. */
	fake->device[0].utilisation = fake->device[0].samples = 0;
	fake->device[0].memory = fake->device[0].processes = 15;
	nvml__sample(nvml, 2 * S);
	all = report(nvml, 2 * S);
	expect_real(device_of(all, 0), "utilisation_percent", 40);
	expect_real(device_of(all, 0), "process_utilisation_percent", 30);
	expect_null(device_of(all, 0), "memory_used_bytes");
	expect_null(device_of(all, 0), "process_memory_bytes");
	expect_text(device_of(all, 0), "problem", "memory: GPU is lost; processes' memory: GPU is lost");
	json_decref(all);
	nvml__close(nvml);
}

static void test_old_driver(void **state)
{
	struct nvml *nvml;
	json_t *all;

	fake_of("nvml_old.so");
	nvml = open_fake("nvml_old.so");
	nvml__sample(nvml, S);
	all = report(nvml, 0);
	expect_real(device_of(all, 0), "utilisation_percent", 40);
	expect_null(device_of(all, 0), "process_utilisation_percent");
	expect_integer(device_of(all, 0), "process_memory_bytes", 5000);
	expect_text(device_of(all, 0), "problem", "processes' utilisation: error 13");
	json_decref(all);
	nvml__close(nvml);

	fake_of("nvml_bare.so")->init = 9;
	expect_refusal("nvml_bare.so", -ENODEV, "NVML does not start: error 9");
	fake_of("nvml_bare.so");
	nvml = open_fake("nvml_bare.so");
	nvml__sample(nvml, S);
	all = report(nvml, 0);
	expect_null(all, "driver");
	expect_null(device_of(all, 0), "name");
	expect_null(device_of(all, 0), "uuid");
	expect_null(device_of(all, 0), "memory_total_bytes");
	expect_real(device_of(all, 0), "utilisation_percent", 40);
	json_decref(all);
	nvml__close(nvml);
}

static void test_names(void **state)
{
	struct nvml_fake *fake = fake_of("nvml_fake.so");
	struct nvml *nvml;
	json_t *all;

	fake->name = "A\xff\n100";
	nvml = open_fake("nvml_fake.so");
	all = report(nvml, 0);
	expect_text(device_of(all, 0), "name", "A??100");
	json_decref(all);
	nvml__close(nvml);
	fake->name = NULL; /* not terminated */
	nvml = open_fake("nvml_fake.so");
	all = report(nvml, 0);
	assert_int_equal(json_string_length(json_object_get(device_of(all, 0), "name")), NVML_TEXT_BYTES - 1);
	json_decref(all);
	nvml__close(nvml);
	fake->device[0].name = 3;
	nvml = open_fake("nvml_fake.so");
	all = report(nvml, 0);
	expect_null(device_of(all, 0), "name");
	json_decref(all);
	nvml__close(nvml);
}

static void test_many_devices(void **state)
{
	struct nvml_fake *fake = fake_of("nvml_fake.so");
	struct nvml *nvml;
	json_t *all;

	fake->devices = FAKE_DEVICES;
	nvml = open_fake("nvml_fake.so");
	nvml__sample(nvml, S);
	all = report(nvml, 0);
	assert_int_equal(json_array_size(json_object_get(all, "devices")), NVML_MAX_DEVICES);
	expect_integer(all, "devices_left_out", FAKE_DEVICES - NVML_MAX_DEVICES);
	expect_integer(device_of(all, NVML_MAX_DEVICES - 1), "samples", 1);
	json_decref(all);
	nvml__close(nvml);
}

static void test_pace(void **state)
{
	struct nvml_fake *fake = fake_of("nvml_fake.so");
	struct nvml *nvml = open_fake("nvml_fake.so");

	/* Every 100 ms for 10 s. */
	for (unsigned i = 0; i < 100; i++)
		nvml__sample(nvml, 5 * S + i * S / 10);
	assert_int_equal(fake->calls, 20);
	/* Every 500 ms, a little early and a little late. */
	fake->calls = 0;
	for (unsigned i = 0; i < 20; i++)
		nvml__sample(nvml, 100 * S + i * S / 2 + (i % 2 ? 20000000 : 0));
	assert_int_equal(fake->calls, 20);
	/* A driver that needs 50 ms and more: one call in 1 s and more, from the third on. */
	fake->calls = 0;
	fake->slow_us = 50000;
	for (unsigned i = 0; i < 60; i++)
		nvml__sample(nvml, 200 * S + i * S / 20);
	assert_in_range(fake->calls, 2, 4);
	nvml__close(nvml);
}

/* The ring of samples comes round: an hour is kept. */
static void test_history_is_bounded(void **state)
{
	struct nvml_fake *fake = fake_of("nvml_fake.so");
	struct nvml *nvml = open_fake("nvml_fake.so");
	uint64_t n = NVML_SAMPLES + 1000;
	json_t *all;

	fake->device[0].n_samples = 0;
	fake->device[0].gpu_percent = 0;
	for (uint64_t i = 0; i < n; i++) {
		if (i == n - 600)
			fake->device[0].gpu_percent = 72;
		nvml__sample(nvml, S + i * S);
	}
	all = report(nvml, 0);
	expect_integer(device_of(all, 0), "samples", NVML_SAMPLES);
	expect_real(device_of(all, 0), "utilisation_percent", 6); /* 600 × 72 / 7200 */
	expect_real(device_of(all, 0), "process_utilisation_percent", 0);
	json_decref(all);
	all = report(nvml, S + (n - 1200) * S);
	expect_real(device_of(all, 0), "utilisation_percent", 36);
	json_decref(all);
	nvml__close(nvml);
}

/* More figures of processes than are kept: the mean is over the samples that are whole. */
static void test_process_history_is_bounded(void **state)
{
	struct nvml_fake *fake = fake_of("nvml_fake.so");
	struct nvml *nvml = open_fake("nvml_fake.so");
	struct fake_device *device = &fake->device[0];
	json_t *all;

	device->n_samples = 7;
	for (unsigned i = 0; i < 7; i++)
		device->sample[i] = (struct fake_sample){ 100 + i, 0, 12 };
	for (unsigned i = 0; i < 6000; i++)
		nvml__sample(nvml, S + i * S);
	all = report(nvml, 0);
	expect_integer(device_of(all, 0), "samples", 6000);
	expect_real(device_of(all, 0), "process_utilisation_percent", 24);
	json_decref(all);
	nvml__close(nvml);
}

static void test_process_table_is_bounded(void **state)
{
	struct nvml_fake *fake = fake_of("nvml_fake.so");
	struct nvml *nvml = open_fake("nvml_fake.so");
	struct fake_device *device = &fake->device[0];
	json_t *all;

	/* 100 stays, others come and go. */
	for (unsigned i = 0; i < 2 * NVML_MAX_PROCESSES; i++) {
		device->process[1].pid = 1000 + i;
		nvml__sample(nvml, S + i * S);
	}
	all = report(nvml, 0);
	expect_integer(device_of(all, 0), "process_memory_bytes", 5000);
	json_decref(all);
	nvml__close(nvml);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_library_is_absent),
		cmocka_unit_test(test_functions_are_missing),
		cmocka_unit_test(test_program_is_static),
		cmocka_unit_test(test_nvml_refuses),
		cmocka_unit_test(test_report),
		cmocka_unit_test(test_process_samples_not_found),
		cmocka_unit_test(test_implausible_process_samples),
		cmocka_unit_test(test_sizes_of_process_information),
		cmocka_unit_test(test_process_memory),
		cmocka_unit_test(test_figures_are_refused),
		cmocka_unit_test(test_old_driver),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_many_devices),
		cmocka_unit_test(test_pace),
		cmocka_unit_test(test_history_is_bounded),
		cmocka_unit_test(test_process_history_is_bounded),
		cmocka_unit_test(test_process_table_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
